"""The service over TLS: certificates that are replaced, clients with and without one, and addresses beyond loopback."""

from __future__ import annotations

import ipaddress
import socket
import stat
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from callability.v1.policy_service_pb2 import WatchPolicyRequest
from callability.v1.policy_service_pb2_grpc import PolicyServiceStub
from support.callers import bearer, tls_channel, token_entry, write_callers
from support.certificates import Authority, Pair, PrivateKey
from support.commands import callability
from support.running import serving
from support.services import SWITCHED_OFF, reason_of
from support.waiting import eventually

SECONDS = 120
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED


def _tls(pair: Pair, *more: str) -> tuple[str, ...]:
    return ("--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key), *more)


def _check(channel: grpc.Channel, **options: object) -> str:
    """Ask about a tool, and return the rule that decides, or the code of the error."""
    try:
        return CallabilityServiceStub(channel).CheckTool(SWITCHED_OFF, timeout=SECONDS, **options).verdict.rule  # type: ignore[arg-type]
    except grpc.RpcError as error:
        return str(error.code().name)


def _reason(channel: grpc.Channel) -> str:
    """Ask about a tool, and return the reason of the error; none if it is answered."""
    try:
        CallabilityServiceStub(channel).CheckTool(SWITCHED_OFF, timeout=SECONDS)
    except grpc.RpcError as error:
        return reason_of(error)
    return ""


def _answers(address: str, authority: Authority, client: Pair) -> bool:
    """Say whether a new connection with a client certificate is answered."""
    with tls_channel(address, authority.path, client) as channel:
        return _check(channel) == "user-off"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """The authority that callers know."""
    return Authority(tmp_path, "known")


def test_a_service_over_tls_answers_those_who_know_its_authority(authority: Authority, tmp_path: Path) -> None:
    """Others, and callers without TLS, reach nothing; a port scanner costs nobody an answer."""
    stranger = Authority(tmp_path, "stranger")
    with serving(*_tls(authority.pair("server"))) as address:
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port))) as scanner:
            scanner.sendall(b"GET / HTTP/1.1\r\n\r\n")
            with tls_channel(address, authority.path) as channel:
                assert _check(channel) == "user-off"
        with tls_channel(address, stranger.path) as channel:
            assert _check(channel) == "UNAVAILABLE"
        with grpc.insecure_channel(address) as plain:
            assert _check(plain) == "UNAVAILABLE"
        with tls_channel(address, authority.path) as channel:
            assert _check(channel) == "user-off"


def test_a_replaced_certificate_is_used_by_new_connections_and_cuts_no_old_one(
    authority: Authority, tmp_path: Path
) -> None:
    """A pair that does not belong together leaves the last good one in effect."""
    other = Authority(tmp_path, "other")
    pair, mismatched = authority.pair("server"), Pair(other.pair("a").certificate, other.pair("b").key)
    log = tmp_path / "log"
    with serving(*_tls(pair), log=log) as address, tls_channel(address, authority.path) as old:
        assert _check(old) == "user-off"
        pair.replace_by(mismatched)
        eventually(lambda: "the edit of the certificates is refused" in log.read_text())
        with tls_channel(address, authority.path) as channel:
            assert _check(channel) == "user-off"
        pair.replace_by(other.pair("next"))

        def answered() -> bool:
            with tls_channel(address, other.path) as channel:
                return _check(channel) == "user-off"

        eventually(answered)
        assert _check(old) == "user-off"
        with tls_channel(address, authority.path) as channel:
            assert _check(channel) == "UNAVAILABLE"
    assert "the key is not that of the certificate" in log.read_text()


def test_a_certificate_that_clients_refuse_is_reported_though_it_can_be_used(
    authority: Authority, tmp_path: Path
) -> None:
    """It lacks a name that the previous one had, or has expired since it was read; the log says so once."""
    pair, log = authority.pair("server"), tmp_path / "log"
    with serving(*_tls(pair), log=log):
        pair.replace_by(authority.pair("other", "other.example", days=15 / 86_400))
        eventually(lambda: "WARNING" in log.read_text())
        assert "the new certificate is not for `127.0.0.1`: clients that use this name fail" in log.read_text()
        eventually(lambda: f"{pair.certificate}: the certificate in effect expired at " in log.read_text())
        pair.replace_by(authority.pair("next"))
        eventually(lambda: "is not for `other.example`" in log.read_text())
    assert log.read_text().count("the certificate in effect expired") == 1


def test_mtls_accepts_clients_of_the_authority_alone(authority: Authority, tmp_path: Path) -> None:
    """Without one, of another authority, or expired: no connection. The service needs no callers file for that."""
    stranger = Authority(tmp_path, "stranger")
    with serving(*_tls(authority.pair("server"), "--tls-client-ca", str(authority.path))) as address:
        clients = {
            "user-off": authority.pair("client", "gateway.example"),
            "none": None,
            "stranger": stranger.pair("theirs", "gateway.example"),
            "expired": authority.pair("expired", "gateway.example", days=-1),
        }
        for kind, client in clients.items():
            with tls_channel(address, authority.path, client) as channel:
                assert _check(channel) == ("user-off" if kind == "user-off" else "UNAVAILABLE"), kind


def test_an_authority_that_is_written_in_two_steps_is_used_at_the_end(authority: Authority, tmp_path: Path) -> None:
    """Between them the file is empty, which leaves the last good state in effect."""
    other, log = Authority(tmp_path, "other"), tmp_path / "log"
    trusted = tmp_path / "clients.pem"
    trusted.write_bytes(authority.path.read_bytes())
    known, next_one = authority.pair("client", "gateway.example"), other.pair("next", "gateway.example")
    with serving(*_tls(authority.pair("server"), "--tls-client-ca", str(trusted)), log=log) as address:

        def answered(client: Pair) -> bool:
            with tls_channel(address, authority.path, client) as channel:
                return _check(channel) == "user-off"

        trusted.write_text("")
        eventually(lambda: "the edit of the certificates is refused" in log.read_text())
        assert answered(known)
        trusted.write_bytes(other.path.read_bytes())
        eventually(lambda: answered(next_one))
        assert not answered(known)


def test_a_caller_is_known_by_the_name_in_its_certificate(authority: Authority, tmp_path: Path) -> None:
    """A token, if there is one, comes first; a name that no caller has is not known."""
    callers = write_callers(
        tmp_path,
        gateway={"certificates": ["gateway.example"], "may": ["check"]},
        people={"certificates": ["people.example"], "may": ["explain"]},
        script={"tokens": [token_entry("secret")], "may": ["check"]},
    )
    files = ("--tls-client-ca", str(authority.path), "--callers", str(callers))
    with serving(*_tls(authority.pair("server"), *files)) as address:
        expected = {"gateway": "user-off", "people": "PERMISSION_DENIED", "nobody": "UNAUTHENTICATED"}
        for name, outcome in expected.items():
            client = authority.pair(name, f"{name}.example")
            with tls_channel(address, authority.path, client) as channel:
                assert _check(channel) == outcome
                assert _check(channel, metadata=bearer("secret")) == "user-off"
                assert _check(channel, metadata=bearer("other")) == "UNAUTHENTICATED"


_KINDS: dict[str, tuple[x509.GeneralName | None, str]] = {
    "the Common Name alone": (None, "UNAUTHENTICATED"),
    "a DNS name": (x509.DNSName("Gateway.Example"), "user-off"),
    "a URI that is written as the DNS name": (x509.UniformResourceIdentifier("gateway.example"), "UNAUTHENTICATED"),
    "an address for mail that is written as the DNS name": (x509.RFC822Name("gateway.example"), "UNAUTHENTICATED"),
    "a URI": (x509.UniformResourceIdentifier("spiffe://example/gateway"), "user-off"),
    "a DNS name that is written as the URI": (x509.DNSName("spiffe://example/gateway"), "UNAUTHENTICATED"),
    "an IP address": (x509.IPAddress(ipaddress.ip_address("2001:db8::7")), "user-off"),
    "a DNS name that is written as the address": (x509.DNSName("2001:db8::7"), "UNAUTHENTICATED"),
}


def test_a_name_of_a_certificate_counts_as_its_own_kind(authority: Authority, tmp_path: Path) -> None:
    """Another kind is another name, and the Common Name is none."""
    names = ["gateway.example", "uri:spiffe://example/gateway", "ip:2001:0db8::0:7"]
    callers = write_callers(tmp_path, gateway={"certificates": names, "may": ["check"]})
    files = ("--tls-client-ca", str(authority.path), "--callers", str(callers))
    with serving(*_tls(authority.pair("server"), *files)) as address:
        for number, (kind, (name, outcome)) in enumerate(_KINDS.items()):
            client = authority.pair(f"client-{number}", "gateway.example", names=[name] if name else [])
            with tls_channel(address, authority.path, client) as channel:
                assert _check(channel) == outcome, kind


@pytest.mark.parametrize("knows", [True, False], ids=["a caller", "anybody with a certificate"])
def test_what_a_certificate_permits_ends_when_it_expires(authority: Authority, tmp_path: Path, knows: bool) -> None:
    """On connections that were made before, too, and for a stream that is open."""
    callers = write_callers(tmp_path, gateway={"certificates": ["gateway.example"], "may": ["check", "watch"]})
    files = ("--tls-client-ca", str(authority.path), *(("--callers", str(callers)) if knows else ()))
    with serving(*_tls(authority.pair("server"), *files)) as address:
        client = authority.pair("client", "gateway.example", days=8 / 86_400)
        with tls_channel(address, authority.path, client) as channel:
            assert _check(channel) == "user-off"
            watching = PolicyServiceStub(channel).WatchPolicy(WatchPolicyRequest())
            assert next(watching).revision
            eventually(lambda: _reason(channel) == "CERTIFICATE_EXPIRED")
            with pytest.raises(grpc.RpcError) as caught:
                list(watching)
            assert (caught.value.code(), reason_of(caught.value)) == (UNAUTHENTICATED, "CERTIFICATE_EXPIRED")


@pytest.mark.parametrize("knows", [True, False], ids=["a caller", "anybody with a certificate"])
def test_connections_are_made_again_after_an_authority_was_removed(
    authority: Authority, tmp_path: Path, knows: bool
) -> None:
    """Whether they had made a call or not; the error says so, and a token is still known. One that is added costs no
    connection, and one that is removed costs those alone whose certificates it signed.
    """
    other, trusted = Authority(tmp_path, "other"), tmp_path / "clients.pem"
    trusted.write_bytes(Authority(tmp_path, "old").path.read_bytes() + authority.path.read_bytes())
    callers = write_callers(
        tmp_path,
        gateway={"certificates": ["gateway.example"], "may": ["check", "watch"]},
        script={"tokens": [token_entry("secret")], "may": ["check"]},
    )
    files = ("--tls-client-ca", str(trusted), *(("--callers", str(callers)) if knows else ()))
    client, next_one = authority.pair("client", "gateway.example"), other.pair("next", "gateway.example")
    with (
        serving(*_tls(authority.pair("server"), *files)) as address,
        tls_channel(address, authority.path, client) as used,
        tls_channel(address, authority.path, client) as idle,
        tls_channel(address, authority.path, next_one) as renewed,
    ):
        grpc.channel_ready_future(idle).result(SECONDS)
        watching = PolicyServiceStub(used).WatchPolicy(WatchPolicyRequest())
        assert next(watching).revision
        trusted.write_bytes(other.path.read_bytes() + b"The next:\r\n" + trusted.read_bytes().replace(b"\n", b"\r\n"))
        eventually(lambda: _answers(address, authority, next_one))
        assert (_check(used), _reason(idle)) == ("user-off", "")
        assert _check(renewed) == "user-off"
        trusted.write_bytes(other.path.read_bytes())
        eventually(lambda: _reason(used) == "AUTHORITIES_CHANGED")
        assert _reason(idle) == "AUTHORITIES_CHANGED"
        with pytest.raises(grpc.RpcError) as caught:
            list(watching)
        assert str(caught.value.details()).endswith("was removed after this connection was made: connect again")
        if knows:
            assert _check(used, metadata=bearer("secret")) == "user-off"
        assert _check(renewed) == "user-off"
        assert _answers(address, authority, next_one)
        assert not _answers(address, authority, client)


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        ("expired", "expired-certificate"),
        ("mismatched", "bad-certificate"),
        ("swapped", "bad-certificate"),
        ("text", "bad-certificate"),
        ("missing", "unreadable-file"),
        ("empty", "bad-certificate"),
        ("no authority", "bad-certificate"),
        ("on a curve that no client offers", "bad-certificate"),
        ("with a short key", "bad-certificate"),
    ],
)
def test_certificates_that_cannot_be_used_are_refused_at_start(
    broken: str, code: str, authority: Authority, tmp_path: Path
) -> None:
    """With the file, and exit code 1."""
    key: PrivateKey | None = None
    if broken == "on a curve that no client offers":
        key = ec.generate_private_key(ec.SECP256K1())
    if broken == "with a short key":
        key = rsa.generate_private_key(65537, 1024)
    pair = authority.pair("server", days=-1 if broken == "expired" else 1, key=key)
    if broken == "mismatched":
        pair = Pair(pair.certificate, authority.pair("other").key)
    if broken == "swapped":
        pair = Pair(pair.key, pair.certificate)
    if broken == "text":
        pair.certificate.write_text("no certificate")
    if broken == "missing":
        pair.key.unlink()
    if broken == "empty":
        pair.key.write_bytes(pair.key.read_bytes() + pair.certificate.read_bytes())
        pair.certificate.write_text("")
    nobody = tmp_path / "empty.pem"
    nobody.touch()
    clients = ("--tls-client-ca", str(nobody)) if broken == "no authority" else ()
    done = callability("serve", "--address", "127.0.0.1:0", *_tls(pair, *clients))
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert f"[{code}]" in done.stderr
    assert ("2,048 bits" in done.stderr) == (key is not None)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ((), "`--tls-certificate` and `--tls-key`, and `--callers` or `--tls-client-ca`"),
        (("tls",), "`--callers` or `--tls-client-ca`"),
        (("callers",), "`--tls-certificate` and `--tls-key`"),
    ],
)
def test_an_address_beyond_loopback_needs_tls_and_known_callers(
    options: tuple[str, ...], missing: str, authority: Authority, tmp_path: Path
) -> None:
    """Or the option that says what it means. What is given already is not asked for."""
    callers = write_callers(tmp_path, a={"tokens": [token_entry("secret")], "may": ["check"]})
    given = {"tls": _tls(authority.pair("server")), "callers": ("--callers", str(callers))}
    words = [word for option in options for word in given[option]]
    done = callability("serve", "--address", "0.0.0.0:0", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"is not loopback, and is refused: give {missing}, or `--insecure-listen`" in done.stderr
    with serving(*words, "--insecure-listen", address="0.0.0.0:0") as address:
        assert address.startswith("0.0.0.0:")


def test_tls_with_callers_or_client_certificates_is_enough_for_any_address(
    authority: Authority, tmp_path: Path
) -> None:
    """A container can be reached."""
    callers = write_callers(tmp_path, a={"tokens": [token_entry("secret")], "may": ["check"]})
    pair = authority.pair("server")
    for more in (("--callers", str(callers)), ("--tls-client-ca", str(authority.path))):
        with serving(*_tls(pair, *more), address="0.0.0.0:0") as address:
            local = address.replace("0.0.0.0", "127.0.0.1")
            client = authority.pair("client", "a")
            with tls_channel(local, authority.path, client) as channel:
                assert _check(channel, metadata=bearer("secret")) == "user-off"


def test_the_mode_of_a_socket_is_that_of_the_option(tmp_path: Path) -> None:
    """From its beginning; another address has none."""
    with serving("--socket-mode", "660", address=f"unix:{tmp_path}/s") as address:
        assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o660
        with grpc.insecure_channel(address) as channel:
            assert _check(channel) == "user-off"
    done = callability("serve", "--address", "127.0.0.1:0", "--socket-mode", "660")
    assert (done.returncode, "goes with unix:PATH" in done.stderr) == (2, True)
    done = callability("serve", "--address", f"unix:{tmp_path}/s", "--socket-mode", "9")
    assert (done.returncode, "three octal digits" in done.stderr) == (2, True)
