"""Asking a policy from a Python proxy, with asyncio or threads.

`Client` and `BlockingClient` ask a service, or decide in this process.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from callability.client.hooks import ClientClosed, DecisionHook, Hooks, InvalidRequest, LoggingHooks, PolicyUnavailable
from callability.client.inventory import NO_RECORD, Decision, Inventory, tool_facts
from callability.process.address import AddressRefused
from callability.process.logs import request_id

if TYPE_CHECKING:
    from callability.client.blocking_client import BlockingClient
    from callability.client.client import Client
    from callability.client.replicas import Credentials

__all__ = [
    "NO_RECORD",
    "AddressRefused",
    "BlockingClient",
    "Client",
    "ClientClosed",
    "Credentials",
    "Decision",
    "DecisionHook",
    "Hooks",
    "InvalidRequest",
    "Inventory",
    "LoggingHooks",
    "PolicyUnavailable",
    "request_id",
    "tool_facts",
]

_LATER = {"BlockingClient": "blocking_client", "Client": "client", "Credentials": "replicas"}
"""The modules that import gRPC and what decides, which a gateway needs only after its first answer."""


def __getattr__(name: str) -> Any:
    """Import a class of a client when it is first named."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    return found
