"""The certificate that a server presents to its clients."""

from __future__ import annotations

import asyncio
import os
import ssl

from callability.address import socket_path
from callability.certificates import names_of


async def presented(address: str, certificate: bytes | None, key: bytes | None) -> tuple[bytes, tuple[str, ...]]:
    """Return the certificate that a server presents, in PEM, and the names that it is for.

    Nothing is sent to the server but a client certificate, if one is given. Without it, a server that requires one
    ends the connection, but only after it has presented its own: that is the order of TLS 1.3.

    Raises:
        OSError: there is no connection, the certificate has expired, or the client certificate cannot be used.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.minimum_version = ssl.TLSVersion.TLSv1_3
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    client.set_alpn_protocols(["h2"])
    if certificate is not None and key is not None:
        with os.fdopen(os.memfd_create("certificate"), "wb") as joined:
            joined.write(key + b"\n" + certificate)
            joined.flush()
            client.load_cert_chain(f"/proc/self/fd/{joined.fileno()}", password=lambda: "")
    found = (await _connected(address, client)).getpeercert(binary_form=True)
    assert found is not None
    # The names are only known of a certificate that was verified.
    client.load_verify_locations(cadata=found)
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    client.verify_mode = ssl.CERT_REQUIRED
    names = names_of((await _connected(address, client)).getpeercert() or {})
    return ssl.DER_cert_to_PEM_cert(found).encode(), names


async def _connected(address: str, client: ssl.SSLContext) -> ssl.SSLObject:
    """Return the state of a connection after its handshake; the connection is closed."""
    if address.startswith("unix:"):
        path = socket_path(address)
        _, writer = await asyncio.open_unix_connection(path, ssl=client, server_hostname="localhost")
    else:
        host, _, port = address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        _, writer = await asyncio.open_connection(host, int(port), ssl=client)
    made: ssl.SSLObject = writer.get_extra_info("ssl_object")
    writer.transport.abort()
    return made
