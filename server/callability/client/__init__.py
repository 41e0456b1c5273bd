"""Asking a policy from a Python proxy, with asyncio or threads.

`Client` and `BlockingClient` ask a service, or decide in this process.
"""

from callability.client.blocking_client import BlockingClient
from callability.client.client import Client
from callability.client.credentials import Credentials
from callability.client.decision import Decision
from callability.client.failure import ClientClosed, InvalidRequest, PolicyUnavailable
from callability.client.hooks import Hooks, LoggingHooks
from callability.client.inventory import Inventory
from callability.client.listed_tool import NO_RECORD, tool_facts
from callability.request_context import request_id

__all__ = [
    "NO_RECORD",
    "BlockingClient",
    "Client",
    "ClientClosed",
    "Credentials",
    "Decision",
    "Hooks",
    "InvalidRequest",
    "Inventory",
    "LoggingHooks",
    "PolicyUnavailable",
    "request_id",
    "tool_facts",
]
