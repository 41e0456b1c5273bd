"""Secrets beside the config, and files with variables of a server."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import keyring
import pytest
from keyring.backends.fail import Keyring as NoKeyring

from callability.gateway.config.config import ConfigRefused, load_config
from support.commands import callability
from support.edits import edit
from support.gateway_in_process import client_of
from support.gateways import READ, retrieve, shelf
from support.waiting import becomes, eventually, load_error, names

SECRET = "hush-hush-value"
SERVER = """\
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "says", "version": "1"}}
    else:
        said = " ".join([*sys.argv[1:], *(os.environ.get(name, "-") for name in ("A", "B", "C"))])
        result = {"tools": [{"name": "says", "description": said, "inputSchema": {"type": "object"}}]}
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config with a server that says what it was given."""
    script = tmp_path / "says.py"
    script.write_text(SERVER)
    server = {
        "command": sys.executable,
        "args": [str(script), "${secret:ARGUMENT}"],
        "env": {"A": "${secret:TOKEN}"},
        "env_file": "more.env",
    }
    path = tmp_path / "gateway.json"
    path.write_text(json.dumps({"mcpServers": {"says": server}}))
    (tmp_path / "more.env").write_text("# of a project\nA=not this\nexport B='two words'\n\nC=\"tab\\there\"\n")
    _write_secrets(path, f"TOKEN={SECRET}\nARGUMENT=plain\n")
    return path


def _write_secrets(config: Path, text: str, mode: int = 0o600) -> Path:
    path = config.with_name("secrets.env")
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_server_gets_its_secrets_and_the_variables_of_its_file(config: Path) -> None:
    """What `env` has counts more than the file; what the server says of a secret is masked."""
    shown = callability("approvals", "show", "says", "says", "--config", str(config))
    assert shown.returncode == 0, shown.stderr
    assert "two words" in shown.stdout
    assert "tab" in shown.stdout
    assert "not this" not in shown.stdout


def test_a_secret_is_in_no_output(config: Path) -> None:
    """Neither of a check nor of the settings."""
    for command in (("config", "check"), ("config", "show"), ("gateway", "--check")):
        done = callability(*command, "--config", str(config))
        assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        (
            f"TOKEN={SECRET}\nARGUMENT=x\n",
            0o644,
            "holds secrets, and others than its owner may read it (run `chmod 600",
        ),
        (f"TOKEN={SECRET}\n{SECRET}\n", 0o600, "secrets.env:2:1: is no line of the form `NAME=VALUE` [no-variable]"),
        (f'TOKEN="{SECRET}\n', 0o600, "secrets.env:1:1: is no line of the form `NAME=VALUE` [no-variable]"),
    ],
)
def test_secrets_that_cannot_be_used_refuse_the_config(text: str, mode: int, said: str, config: Path) -> None:
    """With the place, and without the value."""
    _write_secrets(config, text, mode)
    done = callability("config", "check", "--config", str(config))
    assert done.returncode == 1
    assert said in done.stderr + done.stdout
    assert SECRET not in done.stderr + done.stdout


def test_a_secret_that_is_added_loads_its_server(config: Path) -> None:
    """While the gateway runs; the warning names the secret until then."""

    async def story() -> None:
        async with client_of(config) as client:
            await becomes(load_error(client, "says"), "needs what is not set: `secret:TOKEN`")
            _write_secrets(config, "TOKEN=two\nARGUMENT=x\n")
            await becomes(names("says", client), ["says:says"])

    _write_secrets(config, "ARGUMENT=x\n")
    asyncio.run(story())
    log = config.with_name("gateway.log").read_text()
    assert "needs the secret `TOKEN`, which is not in `secrets.env` beside it" in log


def test_a_keyring_that_cannot_be_used_costs_no_server_that_does_without(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it can be used, another write of the config loads the server; a command that edits files needs it."""
    broken = NoKeyring()  # type: ignore[no-untyped-call]
    monkeypatch.setattr(keyring, "get_password", broken.get_password)
    servers = json.loads(config.read_text())["mcpServers"] | {"files": shelf(config.parent, "files", READ)}
    config.write_text(json.dumps({"mcpServers": servers}))
    _write_secrets(config, "TOKEN=keyring:test-of-a-keyring\nARGUMENT=x\n")
    with pytest.raises(ConfigRefused, match="secret `TOKEN` cannot be read"):
        load_config(config)

    async def story() -> None:
        async with client_of(config) as client:
            await becomes(names("read file", client), ["files:read_file"])
            await becomes(load_error(client, "says"), "needs what is not set: `secret:TOKEN`")
            monkeypatch.setattr(keyring, "get_password", lambda service, account: f"{service}-{account}")
            edit(config)
            await becomes(names("says", client), ["says:says"])

    asyncio.run(story())
    log = config.with_name("gateway.log").read_text()
    assert "secret `TOKEN` cannot be read: the keyring cannot be used (NoKeyringError)" in log
    assert "`env` of server `says` needs the secret `TOKEN`, which is empty, or cannot be read" in log


def test_a_server_without_its_file_does_not_load(config: Path) -> None:
    """And the others do."""
    config.with_name("more.env").unlink()
    done = callability("approvals", "list", "--config", str(config))
    assert "cannot use its `env_file`" in done.stderr
    assert "more.env: cannot be read: no such file or directory" in done.stderr


def test_an_edit_of_the_secrets_is_applied_while_the_gateway_runs(config: Path) -> None:
    """The servers that have them are connected again; an edit that others may read is refused, and the last one stays.

    Values that are so short are not masked.
    """

    async def story() -> None:
        async with client_of(config) as client:

            async def said() -> list[str]:
                tools = (await retrieve(client, "says"))["tools"]
                return [tool["description"].split()[1] for tool in tools]

            await becomes(said, ["one"])
            _write_secrets(config, "TOKEN=two\nARGUMENT=x\n")
            await becomes(said, ["two"])
            _write_secrets(config, "TOKEN=three\nARGUMENT=x\n", 0o644)
            log = config.with_name("gateway.log")
            await asyncio.to_thread(eventually, lambda: "[open-secrets]" in log.read_text())
            assert await said() == ["two"]
            config.with_name("secrets.env").chmod(0o600)
            await becomes(said, ["three"])

    _write_secrets(config, "TOKEN=one\nARGUMENT=x\n")
    asyncio.run(story())
