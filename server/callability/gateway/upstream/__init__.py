"""The connections to upstream MCP servers: each has one owner, and one that fails harms no other."""

from callability.gateway.upstream.authorization import Authorization, AuthorizationFailed
from callability.gateway.upstream.connection import Connection, State
from callability.gateway.upstream.failure import NOT_SENT, Failure, UpstreamError, UpstreamRefusal
from callability.gateway.upstream.listing import UpstreamTool, Witness, witness_nothing
from callability.gateway.upstream.login_store import LockHeld, LoginStore, StoredLogin, StoreUnavailable, run_in_thread
from callability.gateway.upstream.target import (
    HttpTarget,
    StdioTarget,
    Target,
    logged_in_target,
    may_log_in,
    target_of,
)
from callability.gateway.upstream.tool_call import PassedOn
from callability.gateway.upstream.upstream import REST_SECONDS, Upstream

__all__ = [
    "NOT_SENT",
    "REST_SECONDS",
    "Authorization",
    "AuthorizationFailed",
    "Connection",
    "Failure",
    "HttpTarget",
    "LockHeld",
    "LoginStore",
    "PassedOn",
    "State",
    "StdioTarget",
    "StoreUnavailable",
    "StoredLogin",
    "Target",
    "Upstream",
    "UpstreamError",
    "UpstreamRefusal",
    "UpstreamTool",
    "Witness",
    "logged_in_target",
    "may_log_in",
    "run_in_thread",
    "target_of",
    "witness_nothing",
]
