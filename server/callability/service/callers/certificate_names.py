"""What a certificate calls its holder: DNS names, URIs and IP addresses. No name stands for one of another kind."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

_DNS = re.compile(r"[A-Za-z0-9_*-]+(\.[A-Za-z0-9_*-]+)*")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
PROPERTIES = {"dns": "peer_dns", "uri": "peer_uri", "ip": "peer_ip"}
"""The property in which gRPC reports the names of a kind. Its list of all names mixes kinds and the Common Name."""


@dataclass(frozen=True, slots=True)
class CertificateName:
    """A subject alternative name, and its kind: `dns`, `uri` or `ip`."""

    kind: str
    value: str


class NotAName(Exception):
    """A text in the callers file names no certificate. Its text is what to write."""


def parse_name(text: str) -> CertificateName:
    """Return the name that an entry of the callers file stands for: `dns:`, `uri:` or `ip:` and it; or a DNS name.

    Raises:
        NotAName: it is not a name of its kind.
    """
    kind, found, value = text.partition(":")
    if not found or kind not in PROPERTIES:
        kind, value = "dns", text
    match kind:
        case "dns" if _DNS.fullmatch(value) and not _is_address(value):
            return CertificateName(kind, value.lower())
        case "uri" if _URI.fullmatch(value):
            return CertificateName(kind, value)
        case "ip" if _is_address(value):
            return CertificateName(kind, str(ipaddress.ip_address(value)))
    if _is_address(value):
        raise NotAName(f"write `ip:{value}` for an address")
    if "://" in value:
        raise NotAName(f"write `uri:{value}` for a URI")
    raise NotAName("write `dns:NAME`, `uri:URI` or `ip:ADDRESS`")


def presented_names(properties: Mapping[str, Iterable[bytes]]) -> Iterator[CertificateName]:
    """Return the names in the certificate of a connection, whose properties gRPC reports."""
    for kind, key in PROPERTIES.items():
        for name in properties.get(key, ()):
            value = name.decode(errors="replace")
            if kind == "ip":
                yield CertificateName(kind, str(ipaddress.ip_address(value)))
            else:
                yield CertificateName(kind, value.lower() if kind == "dns" else value)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
