"""The callers file: who may call, as data with findings."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from callability.contract.finding import line
from callability.service.callers import (
    METHODS,
    Authentication,
    Callers,
    CallersRefused,
    CertificateName,
    NotPermitted,
    Right,
    Unauthenticated,
    check_right,
    load_callers,
    right_of,
)
from callability.v1 import callability_service_pb2, policy_service_pb2
from support.commands import callability

NOW = datetime(2027, 1, 1, tzinfo=UTC)
LATER, BEFORE = "2027-02-01T00:00:00Z", "2026-12-01T00:00:00+02:00"


def _sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _read(tmp_path: Path, text: str) -> Callers:
    file = tmp_path / "callers.yaml"
    file.write_text(text)
    return load_callers(file, NOW)


def _findings(tmp_path: Path, text: str) -> list[str]:
    """Return the findings of a file, without its directory."""
    try:
        found = _read(tmp_path, text).warnings
    except CallersRefused as refused:
        found = refused.findings
    return [line(each).replace(f"{tmp_path}/", "") for each in found]


GOOD = f"""callers:
  gateway:
    tokens:
      - {{sha256: "{_sha256("old")}", expires: "{LATER}"}}
      - {{sha256: "{_sha256("new")}", expires: "{LATER}"}}
    certificates: [gateway.example, "uri:spiffe://example/gateway", "ip:192.0.2.7"]
    may: [check, policy, watch]
  people:
    certificates: [people.example]
    may: [explain, validate]
"""


def test_a_caller_is_known_by_two_tokens_or_by_names_of_certificates(tmp_path: Path) -> None:
    """Two tokens are valid at a time, so that one can be replaced without a gap."""
    authentication = Authentication(_read(tmp_path, GOOD))
    for token in ("old", "new"):
        assert authentication.by_token(f"Bearer {token}").name == "gateway"
    names = [CertificateName("dns", "other.example"), CertificateName("uri", "spiffe://example/gateway")]
    assert authentication.by_certificate(names).name == "gateway"
    assert authentication.by_certificate([CertificateName("ip", "192.0.2.7")]).name == "gateway"
    assert authentication.by_certificate([CertificateName("dns", "people.example")]).rights == {
        Right.EXPLAIN,
        Right.VALIDATE,
    }


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("Bearer other", "TOKEN_UNKNOWN"),
        ("Bearer ", "TOKEN_UNKNOWN"),
        (f"Bearer {_sha256('old')}", "TOKEN_UNKNOWN"),
        ("Basic old", "TOKEN_MALFORMED"),
        ("old", "TOKEN_MALFORMED"),
    ],
)
def test_a_header_without_a_known_token_is_refused(header: str, reason: str, tmp_path: Path) -> None:
    """The SHA-256 in the file is no token."""
    with pytest.raises(Unauthenticated) as error:
        Authentication(_read(tmp_path, GOOD)).by_token(header)
    assert error.value.reason == reason


def test_an_expired_token_is_a_warning_and_is_refused(tmp_path: Path) -> None:
    """By the clock at the time of the call; the other token stays valid."""
    callers = _read(tmp_path, GOOD.replace(f'"{LATER}"', f'"{BEFORE}"', 1))
    assert [each.code for each in callers.warnings] == ["expired-token"]
    end = datetime.fromisoformat(BEFORE).timestamp()
    assert Authentication(callers, lambda: end - 1).by_token("Bearer old").name == "gateway"
    authentication = Authentication(callers, lambda: end)
    with pytest.raises(Unauthenticated) as error:
        authentication.by_token("Bearer old")
    assert error.value.reason == "TOKEN_EXPIRED"
    assert authentication.by_token("Bearer new").name == "gateway"


def test_a_caller_calls_what_it_has_the_right_to(tmp_path: Path) -> None:
    """And nothing else; None is what every known caller may call."""
    gateway = Authentication(_read(tmp_path, GOOD)).by_token("Bearer new")
    check_right(gateway, Right.CHECK)
    check_right(gateway, None)
    with pytest.raises(NotPermitted):
        check_right(gateway, Right.VALIDATE)


def test_each_method_of_the_contract_needs_a_right() -> None:
    """A method that is added without one would be open to every caller."""
    for module in (callability_service_pb2, policy_service_pb2):
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                assert right_of(f"/{service.full_name}/{method.name}") is METHODS[method.name]
    assert right_of("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo") is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[]", "callers.yaml:1:1: the file is not a mapping with `callers` [wrong-type]"),
        ("{}", "callers.yaml:1:1: the file has no `callers` (write `callers: {}` for none) [missing-key]"),
        (
            "callers:\n  a: {certificates: [a], may: [chek]}",
            "callers.yaml:2:32: `chek` in `may` of caller `a` is not a right (did you mean `check`?) [unknown-value]",
        ),
        (
            "callers:\n  a: {certificates: [a]}",
            "callers.yaml:2:6: caller `a` has no `may`"
            " (list what it may call: `check`, `explain`, `policy`, `validate`, `watch`) [missing-key]",
        ),
        (
            "callers:\n  a: {certificates: [a], may: []}",
            "callers.yaml:2:31: `may` of caller `a` is not a list with an entry [wrong-type]",
        ),
        (
            "callers:\n  a: {may: [check]}",
            "callers.yaml:2:3: caller `a` has no token and no certificate"
            " (give it `tokens` or `certificates`) [unknown-caller]",
        ),
        (
            "callers:\n  a: {certificates: [x], may: [check]}\n  b: {certificates: [x], may: [check]}",
            "callers.yaml:3:22: the certificate name is also that of caller `a`"
            " (each identifies one caller, and is listed once) [shared-identity]",
        ),
        (
            'callers:\n  a: {tokens: [{sha256: abc, expires: "2027-02-01T00:00:00Z"}], may: [check]}',
            "callers.yaml:2:25: `sha256` of a token of caller `a` is not 64 hexadecimal digits"
            " (quote it if it has digits only) [bad-digest]",
        ),
        (
            f'callers:\n  a: {{tokens: [{{sha256: "{_sha256("t")}", expires: 2027-02-01}}], may: [check]}}',
            "callers.yaml:2:102: `expires` of a token of caller `a` is not a time with its offset from UTC"
            " (write for example `2027-01-31T12:00:00Z`) [bad-time]",
        ),
        (
            f'callers:\n  a: {{tokens: [{{sha256: "{_sha256("t")}"}}], may: [check]}}',
            "callers.yaml:2:16: a token of caller `a` has no `expires` [missing-key]",
        ),
        (
            "callers:\n  a: {certificates: [a], may: [check], token: x}",
            "callers.yaml:2:40: unknown key `token` in caller `a` (did you mean `tokens`?) [unknown-key]",
        ),
        (
            "callers:\n  '': {certificates: [a], may: [check]}",
            "callers.yaml:2:3: caller `` has a name that is empty or cannot be printed [bad-caller-name]",
        ),
    ],
)
def test_a_fault_of_the_file_is_found_at_its_place(text: str, found: str, tmp_path: Path) -> None:
    """With what was wanted."""
    assert _findings(tmp_path, text) == [found]


def test_a_third_valid_token_is_refused(tmp_path: Path) -> None:
    """Expired ones do not count."""
    tokens = [f'{{sha256: "{_sha256(each)}", expires: "{LATER}"}}' for each in "abc"]
    tokens.insert(0, f'{{sha256: "{_sha256("x")}", expires: "{BEFORE}"}}')
    text = f"callers:\n  a: {{tokens: [{', '.join(tokens)}], may: [check]}}"
    codes = [each.rpartition("[")[2] for each in _findings(tmp_path, text)]
    assert codes == ["expired-token]", "too-many-tokens]"]


def test_the_command_prints_findings_and_exits_with_1(tmp_path: Path) -> None:
    """And lists the callers of a good file."""
    file = tmp_path / "callers.yaml"
    file.write_text("callers: {a: {certificates: [x], may: [chek]}}")
    done = callability("callers", "check", str(file))
    assert (done.returncode, "[unknown-value]" in done.stderr) == (1, True)
    file.write_text("callers: {a: {certificates: [x], may: [check]}}")
    done = callability("callers", "check", str(file))
    assert (done.returncode, done.stdout) == (0, "a: 0 tokens, 1 certificate name; may call check\n")


def test_a_new_token_is_known_by_its_printed_entry(tmp_path: Path) -> None:
    """The token is in the file alone, which its owner alone can read."""
    file = tmp_path / "token"
    done = callability("callers", "token", str(file))
    assert done.returncode == 0, done.stderr
    token = file.read_text().strip()
    assert file.stat().st_mode & 0o777 == 0o600
    assert token not in done.stdout + done.stderr
    callers = tmp_path / "callers.yaml"
    callers.write_text(f"callers:\n  a:\n    may: [check]\n    tokens:\n      {done.stdout}")
    assert Authentication(load_callers(callers)).by_token(f"Bearer {token}").name == "a"
    again = callability("callers", "token", str(file))
    assert (again.returncode, file.read_text().strip()) == (1, token)
