"""What a gateway is started with."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from callability.gateway.config import Config
from callability.gateway.observability.file_status import FileStatus
from callability.gateway.observability.metrics import Metrics
from callability.gateway.policy_client.policy_client import PolicyClient
from callability.gateway.runtime.label_check import LabelCheck
from callability.gateway.upstream import REST_SECONDS


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """The config, the approvals file if it is not the config's own, and what asks the policy.

    `metrics` and `file_status` are written by the gateway, and `labels` compares the labels of the config with the
    policy.
    """

    config: Config
    approvals: Path | None
    policy: PolicyClient
    metrics: Metrics = field(default_factory=Metrics)
    file_status: FileStatus = field(default_factory=FileStatus)
    labels: LabelCheck | None = None
    only_agent: str = ""
    """The agent that alone is served: no server beyond its scope is started."""
    rest_seconds: float = REST_SECONDS
    """For how long after the start of a failed opening calls do not open the server again."""
