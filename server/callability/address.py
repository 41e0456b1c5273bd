"""Addresses that a program may listen on or ask: loopback, or a Unix socket."""

from __future__ import annotations

import ipaddress


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
