"""How a client shows who it is, and checks whom it asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import grpc

from callability.address import DIRECT, check_loopback, check_service_address, is_loopback

_PLAIN = "what a proxy sends would not be encrypted: give `Credentials(channel=grpc.ssl_channel_credentials(...))`"
_OPTIONS = (
    # The answer about 20,000 tools may have more than the 4 MiB that gRPC accepts by default.
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    # A second attempt goes to another replica. gRPC's own would go to the same one, within the same deadline.
    ("grpc.enable_retries", 0),
    # Finds a connection that a network dropped silently. A server takes more than one ping in five minutes for abuse.
    ("grpc.keepalive_time_ms", 310_000),
    ("grpc.keepalive_timeout_ms", 10_000),
)

Options = tuple[tuple[str, int | str], ...]
"""Options of a gRPC channel."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a client. Without `channel` nothing is encrypted, and only this machine can be asked.

    Args:
        channel: TLS, from `grpc.ssl_channel_credentials`, with a client certificate for mutual TLS.
        call: credentials of each call, such as those of `grpc.metadata_call_credentials`; they need `channel`.
        token: a bearer token, or a function that returns the current one. It is called for each attempt and must not
            block.
        server_name: the name in the certificate of the service, if it is not that of its address.

    Raises:
        ValueError: `call` or `server_name` is given without `channel`.
    """

    channel: grpc.ChannelCredentials | None = None
    call: grpc.CallCredentials | None = None
    token: str | Callable[[], str] | None = None
    server_name: str = ""

    def __post_init__(self) -> None:
        if self.channel is None and (self.call is not None or self.server_name):
            raise ValueError("`call` and `server_name` go with `channel`")

    def __repr__(self) -> str:
        return f"Credentials(encrypted={self.channel is not None}, token={'given' if self.token else None})"

    def metadata(self) -> Sequence[tuple[str, str]]:
        """Return the metadata of one attempt."""
        if self.token is None:
            return ()
        token = self.token if isinstance(self.token, str) else self.token()
        return (("authorization", f"Bearer {token}"),)

    @property
    def of_channel(self) -> grpc.ChannelCredentials | None:
        """The credentials of a channel; None: it is not encrypted."""
        if self.channel is None or self.call is None:
            return self.channel
        return grpc.composite_channel_credentials(self.channel, self.call)

    def options(self, address: str) -> Options:
        """Return the options of a channel to an address.

        Raises:
            AddressRefused: the address is none, or is another machine's and nothing would be encrypted.
        """
        host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
        if self.channel is None or address.startswith("unix:"):
            check_service_address(address, _PLAIN)
        elif is_loopback(host):
            check_loopback(address, "")
        named = (("grpc.ssl_target_name_override", self.server_name),) if self.server_name else ()
        direct = (DIRECT,) if address.startswith("unix:") or is_loopback(host) else ()
        return (*_OPTIONS, *direct, *named)


PLAIN = Credentials()
"""No credentials: a service on this machine that asks for none."""
