"""Addresses that a program may listen on or ask: loopback, or a Unix socket."""

from __future__ import annotations

import ipaddress
import socket


class AddressRefused(Exception):
    """An address that is not used. Its text says why."""


def check_loopback(address: str, why: str) -> None:
    """Check that an address is HOST:PORT on loopback; `why` ends the sentence where it is another host's.

    Raises:
        AddressRefused: it is no such address.
    """
    host, _, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    number = port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= 65535
    if not host or not number or bracketed != (":" in host):
        raise AddressRefused(f"`{address}` is no address: wanted is 127.0.0.1:PORT or [::1]:PORT")
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise AddressRefused(f"`{address}` is not loopback, and is refused: {why}")


def listening(address: str) -> socket.socket:
    """Return a socket that listens on a checked address; port 0 takes a free one.

    It names its protocol: where it does not, asyncio leaves Nagle's algorithm on, and every answer waits for 40 ms.

    Raises:
        AddressRefused: it cannot be listened on.
    """
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, int(port)))
        listener.listen()
    except OSError as error:
        listener.close()
        reason = (error.strerror or "error").lower()
        raise AddressRefused(f"`{address}` cannot be listened on: {reason}") from error
    return listener
