"""The operator's files: the config and the approvals, read once and checked whole."""

from callability.gateway.config.approvals import (
    NO_APPROVALS,
    UNKNOWN_APPROVAL,
    ApprovalRecord,
    Approvals,
    load_approvals,
)
from callability.gateway.config.config import (
    AgentConfig,
    CatalogEntry,
    Config,
    ConfigRefused,
    Deadlines,
    HttpConfig,
    NoConfig,
    RecordsConfig,
    ServerConfig,
    default_config,
    is_found_without_option,
    load_config,
)
from callability.gateway.config.model import OAuthConfig

__all__ = [
    "NO_APPROVALS",
    "UNKNOWN_APPROVAL",
    "AgentConfig",
    "ApprovalRecord",
    "Approvals",
    "CatalogEntry",
    "Config",
    "ConfigRefused",
    "Deadlines",
    "HttpConfig",
    "NoConfig",
    "OAuthConfig",
    "RecordsConfig",
    "ServerConfig",
    "default_config",
    "is_found_without_option",
    "load_approvals",
    "load_config",
]
