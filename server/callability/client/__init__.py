"""Asking a policy from a Python proxy, with asyncio or threads.

`Client` and `BlockingClient` ask a service, or decide in this process.
"""

from callability.client.blocking_client import BlockingClient
from callability.client.client import Client
from callability.client.hooks import ClientClosed, DecisionHook, Hooks, InvalidRequest, LoggingHooks, PolicyUnavailable
from callability.client.inventory import NO_RECORD, Decision, Inventory, tool_facts
from callability.client.replicas import Credentials
from callability.process.logs import request_id

__all__ = [
    "NO_RECORD",
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
