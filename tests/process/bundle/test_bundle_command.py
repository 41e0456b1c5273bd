"""`callability bundle`: build, verify and inspect, as people and scripts call them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from callability.compiler import bundle_writing
from callability.kernel.envelope import envelop, open_bundle
from callability.kernel.policy import payload_in, read
from support.bundles import bundle_of
from support.checkout import POLICY, VECTORS
from support.commands import callability
from support.policies import needs_engine
from support.running import COMMAND

SHIPPED = VECTORS / "bundles/shipped.bundle"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A directory with two pairs of keys in PEM files, as openssl writes them, and a key of another kind."""
    for name in ("old", "new"):
        key = Ed25519PrivateKey.generate()
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (tmp_path / f"{name}.pem").write_bytes(private)
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (tmp_path / f"{name}.pub").write_bytes(public)
    other = generate_private_key(65_537, 2_048)
    (tmp_path / "rsa.pem").write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return tmp_path


def test_a_policy_is_compiled_to_the_bytes_of_the_vector(tmp_path: Path) -> None:
    """Those of the shipped policy, whatever engine confirms it: here the one that is installed."""
    file = tmp_path / "policy.bundle"
    done = callability("bundle", "build", str(POLICY), "--output", str(file))
    digest = read(file.read_bytes()).digest
    assert (done.returncode, done.stdout) == (0, f"{file}: {file.stat().st_size:,} bytes, digest {digest}\n")
    assert file.read_bytes() == SHIPPED.read_bytes() == bundle_of("shipped")
    assert [*tmp_path.iterdir()] == [file]


def test_rule_files_are_included_on_request(tmp_path: Path) -> None:
    """With their tests, under the digest, and beside what a reader decides by; `inspect` lists them."""
    file, names = tmp_path / "policy.bundle", sorted(path.name for path in POLICY.glob("*.yaml"))
    done = callability("bundle", "build", str(POLICY), "--output", str(file), "--with-rule-files")
    assert done.returncode == 0
    payload = payload_in(open_bundle(file.read_bytes()))
    assert {each.name: each.content for each in payload.rule_files} == {
        name: (POLICY / name).read_bytes() for name in names
    }
    payload.ClearField("rule_files")
    assert envelop(payload.SerializeToString(deterministic=True)) == SHIPPED.read_bytes()
    assert read(file.read_bytes()).revision == read(SHIPPED.read_bytes()).revision
    for bundle, listed in ((file, names), (SHIPPED, [])):
        text = callability("bundle", "inspect", str(bundle)).stdout
        assert f"\nrule files {', '.join(map('`{}`'.format, listed)) or 'none'}\n" in text
        assert json.loads(callability("bundle", "inspect", str(bundle), "--json").stdout)["rule_files"] == listed


def test_rule_files_that_do_not_fit_are_named_as_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here with room for the compiled policy alone."""
    monkeypatch.setattr(bundle_writing, "MAX_BYTES", 30_000)
    arguments = ("bundle", "build", "--output", "/dev/null")
    done = callability(*arguments, "--with-rule-files")
    assert done.returncode == 1
    assert "(shorten lists of names and values, or leave its rule files out) [bundle-too-large]" in done.stderr


@needs_engine
def test_the_bytes_do_not_depend_on_the_engine(tmp_path: Path) -> None:
    """Without the rules engine, the same bundle is written, and to standard output alone."""
    (tmp_path / "durable").mkdir()
    (tmp_path / "durable/__init__.py").write_text("raise ImportError('taken away')")
    without = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for environment in (os.environ, without):
        command = [*COMMAND, "bundle", "build", "--output", "-"]
        done = subprocess.run(command, capture_output=True, env=environment, check=True, timeout=600)
        assert (done.stdout, done.stderr) == (SHIPPED.read_bytes(), b"")


def test_a_bundle_is_signed_by_two_keys_and_verified_by_either(keys: Path) -> None:
    """As during a rotation; a stranger's key verifies nothing."""
    file, old, new = keys / "policy.bundle", f"2025={keys / 'old.pem'}", f"2026={keys / 'new.pem'}"
    arguments = ("--output", str(file), "--sequence", "4", "--sign", old, "--sign", new)
    assert callability("bundle", "build", *arguments).returncode == 0
    digest = read(file.read_bytes()).digest
    for key in (f"2025={keys / 'old.pub'}", f"2026={keys / 'new.pub'}"):
        done = callability("bundle", "verify", str(file), "--key", key)
        assert (done.returncode, done.stdout) == (0, f"{file}: valid, sequence 4, signature valid, digest {digest}\n")
    for key, code in ((f"2027={keys / 'old.pub'}", "unknown-key"), (f"2026={keys / 'old.pub'}", "bad-signature")):
        done = callability("bundle", "verify", str(file), "--key", key)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.endswith(f" [{code}]\n")


def test_an_older_bundle_is_refused_unless_it_is_a_rollback() -> None:
    """By its sequence number."""
    arguments = ("bundle", "verify", str(SHIPPED), "--accepted-sequence", "1")
    refused = callability(*arguments)
    sentence = f"callability: {SHIPPED}: the bundle has sequence 0, which is older than 1 [older-sequence]\n"
    assert (refused.returncode, refused.stderr) == (1, sentence)
    assert callability(*arguments, "--rollback").returncode == 0


def test_a_program_reads_whether_a_bundle_is_accepted(keys: Path) -> None:
    """And why not; what identifies the bundle is as `inspect` has it."""
    file, policy = keys / "signed.bundle", keys / "old.pub"
    signed = ("--sequence", "12", "--sign", f"old={keys / 'old.pem'}", "--output", str(file))
    assert callability("bundle", "build", str(POLICY), *signed).returncode == 0
    inspected = json.loads(callability("bundle", "inspect", str(file), "--json").stdout)
    for options, signature in (((), "not_checked"), (("--key", f"old={policy}"), "valid")):
        done = callability("bundle", "verify", str(file), *options, "--json")
        found = json.loads(done.stdout)
        assert (done.returncode, found.pop("accepted"), found.pop("signature")) == (0, True, signature)
        assert found.pop("file") == str(file)
        assert found == {name: inspected[name] for name in found}
        assert {"revision", "digest", "sequence", "key_ids"} <= found.keys()
    assert json.loads(callability("bundle", "verify", str(SHIPPED), "--json").stdout)["signature"] == "none"
    done = callability("bundle", "verify", str(file), "--accepted-sequence", "13", "--json")
    assert (done.returncode, done.stderr, json.loads(done.stdout)) == (1, "", {
        "file": str(file),
        "accepted": False,
        "code": "older-sequence",
        "reason": "the bundle has sequence 12, which is older than 13",
    })  # fmt: skip


def test_what_a_bundle_holds_is_printed() -> None:
    """For people, and as JSON for programs."""
    policy = read(SHIPPED.read_bytes())
    text = callability("bundle", "inspect", str(SHIPPED)).stdout
    assert text.startswith(f"revision   {policy.revision}\ndigest     {policy.digest}\nsequence   0 (not counted)\n")
    assert "\n  proved       756 combinations, 23 regions, 9 laws\n" in text
    data = json.loads(callability("bundle", "inspect", str(SHIPPED), "--json").stdout)
    assert (data["digest"], data["bytes"], data["key_ids"]) == (policy.digest, SHIPPED.stat().st_size, [])
    assert [each["question"] for each in data["rule_sets"]] == ["callability", "load_outcome", "enable_outcome"]
    assert data["rule_sets"][0]["rules"][0] == {"id": "server-off", "status": "server_disabled", "line": 8, "column": 5}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("build",), 2, "--output is missing"),
        (("build", "--output", "/no/such/place"), 1, "`/no/such/place` cannot be written: no such file or directory"),
        (("build", "--output", "-", "--sign", "key.pem"), 2, "`key.pem` is not KEY_ID=FILE"),
        (("build", "--output", "-", "--sign", "a=x", "--sign", "a=y"), 2, "is given twice"),
        (("build", "--output", "-", "--sign", "a=/no/key"), 1, "`/no/key` cannot be read"),
        (("build", "--output", "-", "--sign", "a={keys}/rsa.pem"), 1, "holds no ed25519 private key in PEM form"),
        (("build", "--output", "-", "--sign", "a={keys}/old.pub"), 1, "holds no ed25519 private key in PEM form"),
        (("build", "{keys}", "--output", "-"), 1, "the policy is refused"),
        (("build", "--output", "-", "--sequence", "-1"), 2, "--sequence"),
        (("verify", "/no/bundle"), 1, "`/no/bundle` cannot be read: no such file or directory"),
        (("verify", "{keys}"), 1, "cannot be read: is a directory"),
        (("verify", "{keys}/old.pem"), 1, "[not-a-bundle]"),
        (("verify", "{shipped}", "--key", "a={keys}/old.pub"), 1, "the bundle is not signed [not-signed]"),
        (("verify", "{shipped}", "--key", "a={keys}/old.pem"), 1, "holds no ed25519 public key in PEM form"),
        (("inspect", "{keys}/old.pem"), 1, "[not-a-bundle]"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(arguments: tuple[str, ...], code: int, said: str, keys: Path) -> None:
    """With the exit code that every command has for it."""
    given = [each.format(keys=keys, shipped=SHIPPED) for each in arguments]
    done = callability("bundle", *given)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
