"""The files that people write for the gateway: its config and the approvals, read once and checked whole."""

from callability.gateway.config.approvals import (
    NO_APPROVALS,
    UNKNOWN_APPROVAL,
    ApprovalRecord,
    Approvals,
    load_approvals,
)
from callability.gateway.config.config import AgentConfig, Config, ConfigRefused, Deadlines, ServerConfig, load_config

__all__ = [
    "NO_APPROVALS",
    "UNKNOWN_APPROVAL",
    "AgentConfig",
    "ApprovalRecord",
    "Approvals",
    "Config",
    "ConfigRefused",
    "Deadlines",
    "ServerConfig",
    "load_approvals",
    "load_config",
]
