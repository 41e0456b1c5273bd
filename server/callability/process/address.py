"""Addresses that a program may listen on or connect to: loopback, or a Unix socket."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from pathlib import Path
from typing import Any

MAX_SOCKET_PATH = 107
"""Bytes in the path of a Unix socket, which Linux limits."""
MAX_PORT = 65_535
DIRECT = ("grpc.enable_http_proxy", 0)
"""The option of a gRPC channel to loopback or a Unix socket: no proxy that the environment names can reach them."""


class AddressRefused(ValueError):
    """An address that is not used. Its text says why."""


def check_loopback(address: str, why: str) -> None:
    """Check that an address is HOST:PORT on loopback; `why` ends the sentence where it is another host's.

    Raises:
        AddressRefused: it is no such address.
    """
    check_listen(address, why, any_host=False)


def check_listen(address: str, why: str, *, any_host: bool) -> None:
    """Check that an address is HOST:PORT, and on loopback unless `any_host`; `why` ends the sentence otherwise.

    Raises:
        AddressRefused: it is no such address.
    """
    host, _, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    number = port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= MAX_PORT
    if not host or not number or bracketed != (":" in host):
        wanted = "HOST:PORT" if any_host else "127.0.0.1:PORT or [::1]:PORT"
        raise AddressRefused(f"`{address}` is not an address: write {wanted}, with a port from 0 to {MAX_PORT}")
    if not any_host and not is_loopback(host):
        raise AddressRefused(f"`{address}` is not loopback, and is refused: {why}")


def missing_protection(*, encrypted: bool, authenticated: bool, by: str) -> str:
    """Return what lets a server listen beyond loopback and is not given yet; an empty text if nothing is missing.

    `by` are the options that authenticate clients.
    """
    tls = () if encrypted else ("`--tls-certificate` and `--tls-key`",)
    missing = (*tls, *(() if authenticated else (by,)))
    return f"give {', and '.join(missing)}, or `--insecure-listen` to let anybody ask" if missing else ""


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, whatever its networks are."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_service_address(address: str, why: str) -> None:
    """Check that a service can be asked at an address: `unix:PATH`, or HOST:PORT on loopback.

    Raises:
        AddressRefused: it cannot.
    """
    if address.startswith("unix:"):
        check_socket_path(socket_path(address))
        return
    check_loopback(address, why)
    if int(address.rpartition(":")[2]) == 0:
        raise AddressRefused(f"`{address}` cannot be asked: port 0 only lets a server choose a free port")


def socket_path(address: str) -> Path:
    """Return the path of an address `unix:PATH`.

    Raises:
        AddressRefused: it has none.
    """
    path = address.removeprefix("unix:")
    if not path:
        raise AddressRefused(f"`{address}` names no socket: wanted is unix:PATH")
    return Path(path)


def check_socket_path(path: Path) -> None:
    """Check the length of the path of a Unix socket.

    Raises:
        AddressRefused: it is too long.
    """
    size = len(os.fsencode(path))
    if size > MAX_SOCKET_PATH:
        raise AddressRefused(f"the path of a socket has at most {MAX_SOCKET_PATH} bytes, and `{path}` has {size}")


def check_free(address: str, *, reuse_port: bool = False) -> None:
    """Check that nothing listens on any of the addresses that a checked HOST:PORT stands for.

    With `reuse_port`, what allows others to listen too does not count.

    Raises:
        AddressRefused: one of them is in use, or none can be listened on.
    """
    found = _places(address)
    errors = [error for family, *_, place in found if (error := _bind_error(family, place, reuse_port=reuse_port))]
    in_use = [error for error in errors if error.errno == errno.EADDRINUSE]
    if in_use or len(errors) == len(found):
        raise _cannot_listen(address, (in_use or errors)[0])


def reserve_port(address: str) -> socket.socket:
    """Return a socket that holds the port of a checked HOST:PORT, and does not listen; others may listen on the port.

    Raises:
        AddressRefused: it cannot be bound.
    """
    family, *_, place = _places(address)[0]
    reserved = socket.socket(family, socket.SOCK_STREAM)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        reserved.bind(place)
    except OSError as error:
        reserved.close()
        raise _cannot_listen(address, error) from error
    return reserved


def _places(address: str) -> list[tuple[Any, ...]]:
    """Return what a checked HOST:PORT stands for.

    Raises:
        AddressRefused: the host is not known.
    """
    host, _, port = address.rpartition(":")
    try:
        return [*socket.getaddrinfo(host.removeprefix("[").removesuffix("]"), int(port), type=socket.SOCK_STREAM)]
    except socket.gaierror:
        raise AddressRefused(f"`{address}` cannot be listened on: the host is not known") from None


def _bind_error(family: int, place: tuple[object, ...], *, reuse_port: bool) -> OSError | None:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(reuse_port))
            probe.bind(place)
    except OSError as error:
        return error
    return None


def _cannot_listen(address: str, error: OSError) -> AddressRefused:
    return AddressRefused(f"`{address}` cannot be listened on: {(error.strerror or 'error').lower()}")


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
        raise _cannot_listen(address, error) from error
    return listener
