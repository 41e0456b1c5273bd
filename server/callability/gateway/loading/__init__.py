"""Loading the tools of servers: the policy classifies each failure, and a load that may recover is tried again."""

from callability.gateway.loading.load_outcome import LoadOutcome, LoadResult, messages_of
from callability.gateway.loading.loader import Loader
from callability.gateway.loading.loads import Load, Loads
from callability.gateway.loading.resilience import get_tools_with_resilience
from callability.gateway.loading.signals import signals_of
from callability.gateway.loading.status_counts import LOADING, in_words, numbers_of
from callability.gateway.loading.supervisor import Supervisor
from callability.gateway.policy_client.load_policy import LoadPolicy, LoadStub

Keeper = Supervisor
"""The former name, kept for programs that import it."""

__all__ = [
    "LOADING",
    "Keeper",
    "Load",
    "LoadOutcome",
    "LoadPolicy",
    "LoadResult",
    "LoadStub",
    "Loader",
    "Loads",
    "Supervisor",
    "get_tools_with_resilience",
    "in_words",
    "messages_of",
    "numbers_of",
    "signals_of",
]
