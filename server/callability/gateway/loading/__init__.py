"""Loading the tools of servers: what fails on the way is told apart by the policy, and what mends is tried again."""

from callability.gateway.loading.loader import Loader, LoadStub
from callability.gateway.loading.outcome import LoadOutcome, LoadResult
from callability.gateway.loading.resilience import get_tools_with_resilience
from callability.gateway.loading.signals import signals_of

__all__ = ["LoadOutcome", "LoadResult", "LoadStub", "Loader", "get_tools_with_resilience", "signals_of"]
