"""`callability healthcheck`, as a container runs it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from support.callers import token_entry, write_callers
from support.certificates import Authority, Pair
from support.commands import callability
from support.running import serving, unused_port


def test_a_service_that_serves_is_exit_code_0(tmp_path: Path) -> None:
    """By TCP and by a Unix socket; an unknown service is not served."""
    for address in ("127.0.0.1:0", f"unix:{tmp_path}/s"):
        with serving(address=address) as at:
            done = callability("healthcheck", "--address", at)
            assert (done.returncode, done.stdout) == (0, "SERVING\n")
            done = callability("healthcheck", "--address", at, "--service", "callability.v1.CallabilityService")
            assert done.returncode == 0
            done = callability("healthcheck", "--address", at, "--service", "other")
            assert (done.returncode, done.stdout) == (1, "NOT_FOUND\n")


def test_no_answer_is_exit_code_1() -> None:
    """Within the time that it has; standard error says which address gave none, and why."""
    address = f"127.0.0.1:{unused_port()}"
    done = callability("healthcheck", "--address", address, "--timeout", "1")
    assert done.returncode == 1
    assert done.stderr.startswith(f"callability: `{address}`: ")
    assert done.stdout in {"UNAVAILABLE\n", "DEADLINE_EXCEEDED\n"}


@pytest.mark.parametrize("name", ["", "policy.example"])
def test_a_service_over_tls_is_reached_by_its_own_settings(name: str, tmp_path: Path) -> None:
    """It needs no authority, no token and no name; another certificate is not trusted."""
    authority, stranger = Authority(tmp_path, "known"), Authority(tmp_path, "stranger")
    pair = authority.pair("server", name)
    callers = write_callers(tmp_path, a={"tokens": [token_entry("secret")], "may": ["check"]})
    port = unused_port()
    file = tmp_path / "service.yaml"
    file.write_text(
        f"address: 0.0.0.0:{port}\ntls_certificate: {pair.certificate.name}\ntls_key: {pair.key.name}\n"
        f"callers: {callers.name}\n"
    )
    environment = os.environ | {"CALLABILITY_SERVE_CONFIG": str(file)}
    with serving("--config", str(file), address=f"0.0.0.0:{port}") as address:
        assert address == f"0.0.0.0:{port}"
        done = callability("healthcheck", env=environment)
        assert (done.returncode, done.stdout) == (0, "SERVING\n"), done.stderr
        local = ("--address", f"127.0.0.1:{port}")
        named = ("--tls-server-name", name) if name else ()
        done = callability("healthcheck", *local, "--tls-ca", str(authority.path), *named)
        assert (done.returncode, done.stdout) == (0, "SERVING\n")
        done = callability("healthcheck", *local, "--tls-ca", str(stranger.path), *named)
        assert (done.returncode, done.stdout) == (1, "UNAVAILABLE\n")
        done = callability("healthcheck", *local)
        assert (done.returncode, done.stdout) == (1, "UNAVAILABLE\n")
        why = "the service speaks TLS: give the authorities of its certificate by `--tls-ca FILE`"
        assert done.stderr == f"callability: `127.0.0.1:{port}`: {why}\n"


def _settings(directory: Path, address: str, pair: Pair) -> dict[str, str]:
    """Return the environment of a container whose service has these settings."""
    file = directory / "service.yaml"
    file.write_text(f"address: {address}\ntls_certificate: {pair.certificate.name}\ntls_key: {pair.key.name}\n")
    return os.environ | {"CALLABILITY_SERVE_CONFIG": str(file)}


@pytest.mark.parametrize("edited", ["key", "certificate"])
def test_a_service_serves_although_an_edit_of_its_certificate_is_refused(edited: str, tmp_path: Path) -> None:
    """The previous certificate stays in effect: a bad edit of a file lets no orchestrator restart the service."""
    authority = Authority(tmp_path, "known")
    pair, other = authority.pair("server", "policy.example"), authority.pair("other")
    address = f"127.0.0.1:{unused_port()}"
    environment = _settings(tmp_path, address, pair)
    with serving("--config", environment["CALLABILITY_SERVE_CONFIG"], address=address):
        if edited == "key":
            pair.key.write_bytes(other.key.read_bytes())
        else:
            pair.certificate.write_bytes(pair.certificate.read_bytes()[:100])
        done = callability("healthcheck", env=environment)
        assert (done.returncode, done.stdout) == (0, "SERVING\n"), done.stderr


@pytest.mark.parametrize("kind", ["port", "socket"])
def test_a_service_serves_by_its_certificate_until_it_notices_the_next_one(kind: str, tmp_path: Path) -> None:
    """Its settings name files here that it does not follow. It requires a client certificate."""
    authority = Authority(tmp_path, "known")
    pair, client = authority.pair("server", "policy.example"), authority.pair("client", "probe")
    stranger = Authority(tmp_path, "stranger")
    address = f"127.0.0.1:{unused_port()}" if kind == "port" else f"unix:{tmp_path}/s"
    environment = _settings(tmp_path, address, stranger.pair("next", "next.example"))
    files = ("--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key))
    with serving(*files, "--tls-client-ca", str(authority.path), address=address):
        known = ("--tls-certificate", str(client.certificate), "--tls-key", str(client.key))
        done = callability("healthcheck", *known, env=environment)
        assert (done.returncode, done.stdout) == (0, "SERVING\n"), done.stderr
        assert callability("healthcheck", env=environment).returncode == 1
        done = callability("healthcheck", *known, "--tls-ca", str(stranger.path), env=environment)
        assert (done.returncode, done.stdout) == (1, "UNAVAILABLE\n")


def test_no_answer_of_a_service_over_tls_is_exit_code_1(tmp_path: Path) -> None:
    """Whether nothing listens, or what listens does not answer."""
    address = f"127.0.0.1:{unused_port()}"
    environment = _settings(tmp_path, address, Authority(tmp_path, "known").pair("server"))
    done = callability("healthcheck", env=environment)
    assert (done.returncode, done.stdout) == (1, "UNAVAILABLE\n")
    assert done.stderr.startswith(f"callability: `{address}`: ")
    host, _, port = address.rpartition(":")
    with socket.create_server((host, int(port))):
        done = callability("healthcheck", "--timeout", "0.5", env=environment)
    assert (done.returncode, done.stdout) == (1, "DEADLINE_EXCEEDED\n")
    assert done.stderr == f"callability: `{address}`: no answer\n"
    with serving(address=address):
        assert callability("healthcheck", env=environment).returncode == 1


def test_a_service_that_requires_client_certificates_gets_one(tmp_path: Path) -> None:
    """Without one there is no answer."""
    authority = Authority(tmp_path, "known")
    pair, client = authority.pair("server"), authority.pair("client", "probe")
    tls = (
        "--tls-certificate",
        str(pair.certificate),
        "--tls-key",
        str(pair.key),
        "--tls-client-ca",
        str(authority.path),
    )
    with serving(*tls) as address:
        probe = ("healthcheck", "--address", address, "--tls-ca", str(authority.path))
        assert callability(*probe, "--timeout", "2").returncode == 1
        done = callability(*probe, "--tls-certificate", str(client.certificate), "--tls-key", str(client.key))
        assert (done.returncode, done.stdout) == (0, "SERVING\n")
