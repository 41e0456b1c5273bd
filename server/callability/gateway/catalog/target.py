"""Where a server of the catalog is reached, with its variables filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from callability.gateway.catalog.variables import filled, values
from callability.gateway.config import CatalogEntry
from callability.gateway.upstream import Authorization, HttpTarget, Target, target_of


def entry_target(
    entry: CatalogEntry, environment: Mapping[str, str], authorization: Authorization | None = None
) -> Target:
    """Return the target of an entry; what its variables stand for is masked wherever the server says it.

    Raises:
        Unfillable: a value is not allowed where it stands.
        KeyError: a variable is not set.
    """
    target = target_of(filled(entry, environment).server)
    secrets = values(entry, environment)
    if isinstance(target, HttpTarget):
        return replace(target, secrets=secrets, authorization=authorization)
    return replace(target, secrets=secrets)
