"""Asking a policy from a Python proxy, with asyncio or threads.

`Client` and `BlockingClient` ask a service, or decide in this process.
"""

from callability.client.blocking_client import BlockingClient
from callability.client.client import Client
from callability.client.credentials import Credentials
from callability.client.failure import ClientClosed, InvalidRequest, PolicyUnavailable
from callability.client.hooks import Hooks, LoggingHooks

__all__ = [
    "BlockingClient",
    "Client",
    "ClientClosed",
    "Credentials",
    "Hooks",
    "InvalidRequest",
    "LoggingHooks",
    "PolicyUnavailable",
]
