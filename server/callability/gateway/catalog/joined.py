"""A server of the catalog that is enabled."""

from __future__ import annotations

from dataclasses import dataclass

from callability.gateway.config import ServerConfig
from callability.gateway.upstream import Upstream


@dataclass(frozen=True, slots=True)
class Joined:
    """A server of the catalog that an agent enabled; its connection may have been lost since."""

    config: ServerConfig
    upstream: Upstream
