"""Environment variables in the config of a gateway: filled in, named if missing, and never disclosed."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from callability.gateway.config.model import ServerConfig
from callability.gateway.config.variables import fill, unset
from callability.gateway.upstream.target import HttpTarget, Secrets, StdioTarget, target_of
from support.commands import callability
from support.edits import edit
from support.gateway_in_process import client_of, http_gateway
from support.gateways import READ, SEND, shelf, write_config
from support.upstreams.bad_http import BadHttp
from support.waiting import becomes, file_status, load_error, names

ENVIRONMENT = {"A": "one", "EMPTY": "", "B_2": "two ${A}"}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("${A}", "one"),
        ("-${A}-${B_2}-", "-one-two ${A}-"),
        ("${NONE:-none}", "none"),
        ("${EMPTY:-none}", "none"),
        ("${A:-none}", "one"),
        ("${NONE:-}", ""),
        ("${NONE:-a $ b:-c}", "a $ b:-c"),
        ("$${A}", "${A}"),
        ("$${A} ${A}", "${A} one"),
        ("$A $$ $", "$A $$ $"),
        ("${A-x} ${} ${1}", "${A-x} ${} ${1}"),
    ],
)
def test_a_variable_stands_for_its_value_or_its_default(text: str, meant: str) -> None:
    """Once: what a value holds is text. `$${` is the text `${`, and a lone `$` is itself."""
    server = ServerConfig(command="x", args=(text,), env={"X": text})
    assert unset(server, ENVIRONMENT) == ()
    full = fill(server, ENVIRONMENT)
    assert (full.args, dict(full.env)) == ((meant,), {"X": meant})


def test_a_variable_that_is_not_set_or_empty_and_has_no_default_is_missed() -> None:
    """Each once, in the order of the entry."""
    server = ServerConfig(command="x", args=("${NONE} ${EMPTY}",), env={"X": "${OTHER}${NONE} $${TEXT} ${D:-d}"})
    assert unset(server, ENVIRONMENT) == ("NONE", "EMPTY", "OTHER")


def test_what_a_variable_stands_for_is_a_secret_of_its_server() -> None:
    """Wherever it stands, in a path of a URL and in a plain argument too."""
    environment = {"PART": "hunter2secret"}
    for server, kind in (
        (ServerConfig(command="x", args=("--root", "${PART}")), StdioTarget),
        (ServerConfig(url="http://h/${PART}/mcp"), HttpTarget),
    ):
        target = target_of(server, environment)
        assert isinstance(target, kind)
        assert Secrets.of(target).mask("at hunter2secret") == "at ***"
        assert "hunter2secret" not in repr(server)


def test_a_default_that_is_used_is_a_secret_of_its_server() -> None:
    """A default that the environment replaces is not masked: it is not filled in."""
    server = ServerConfig(command="x", args=("${KEY:-hunter2secret}", "${SET:-otherdefault}"))
    target = target_of(server, {"SET": "environment"})
    assert isinstance(target, StdioTarget)
    assert Secrets.of(target).mask("hunter2secret, environment, otherdefault") == "***, ***, otherdefault"


def test_servers_get_their_variables_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The config of an MCP client: with comments, trailing commas, defaults, and a URL that is a variable."""
    monkeypatch.setenv("TOOLS", str(tmp_path / "files-tools.json"))
    monkeypatch.setenv("WEB_TOKEN", "hunter2secret")
    server = BadHttp()

    written = json.dumps(str(tmp_path / "files-tools.json"))
    files = json.dumps(shelf(tmp_path, "files", READ)).replace(written, '"${TOOLS}"')
    (tmp_path / "mcp.jsonc").write_text(
        '{\n  // The usual file.\n  "mcpServers": {\n'
        f'    "files": {files}, /* local */\n'
        '    "web": {"type": "streamableHttp", "url": "${WEB:-http://127.0.0.1:1/mcp}",'
        ' "headers": {"Authorization": "Bearer ${WEB_TOKEN}",},},\n  },\n'
        '  "deadlines": {"open_seconds": 120},\n}\n'
    )

    async def story() -> None:
        async with server.listening():
            monkeypatch.setenv("WEB", server.url)
            with http_gateway(tmp_path / "mcp.jsonc") as url:
                async with Client(url) as client:
                    await becomes(names("read file", client), ["files:read_file"])
                    listing = (await client.call_tool("upstream_servers", {})).structured_content or {}
                    assert [each["state"] for each in listing["servers"]] == ["connected", "connected"]

    asyncio.run(story())
    assert "authorization: bearer hunter2secret" in server.head.lower()
    assert "hunter2secret" not in (tmp_path / "gateway.log").read_text()


USUAL = {
    "HTTPS_PROXY": "http://user:pr0xy-s3cret@proxy:3128",
    "no_proxy": "localhost",
    "SSL_CERT_FILE": "/etc/ca.pem",
    "NODE_EXTRA_CA_CERTS": "/etc/extra.pem",
    "LC_TIME": "de_DE.UTF-8",
    "LANG": "C.UTF-8",
    "TZ": "Europe/Vienna",
    "TMPDIR": "/var/tmp",
}


def test_a_child_gets_the_usual_variables_and_those_that_it_inherits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any other stays with the gateway; a password of a proxy is masked in what the child says."""
    written = tmp_path / "environment.json"
    for name, value in {**USUAL, "MINE": "m1ne-s3cret", "TOO": "over", "NOT_MINE": "x"}.items():
        monkeypatch.setenv(name, value)
    script = tmp_path / "server.py"
    script.write_text(
        "import json, os, runpy, sys\n"
        f"json.dump(dict(os.environ), open({str(written)!r}, 'w'))\n"
        "print(os.environ['HTTPS_PROXY'], os.environ['MINE'], file=sys.stderr, flush=True)\n"
        "sys.argv.pop(0)\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    entry = shelf(tmp_path, "it", READ, inherit=["MINE", "TOO", "NOT_SET"], env={"TOO": "own-value"})
    config = write_config(tmp_path, {"it": {**entry, "args": [str(script), *entry["args"]]}})

    async def story() -> None:
        async with client_of(config) as client:
            await becomes(names("read file", client), ["it:read_file"])

    asyncio.run(story())
    environment = json.loads(written.read_text())
    assert USUAL.items() <= environment.items()
    assert (environment["MINE"], environment["TOO"], "NOT_MINE" in environment) == ("m1ne-s3cret", "own-value", False)
    log = (tmp_path / "gateway.log").read_text()
    assert "`it` stderr: http://***@proxy:3128 ***" in log


FAULTY: dict[str, Any] = {
    "github": {"command": "x", "args": ["${NOT_SET_A}"], "env": {"TOKEN": "${NOT_SET_B}", "D": "${NOT_SET_C:-d}"}},
    "web": {"url": "https://${NOT_SET_B}/mcp", "headers": {"X": "${SET_EMPTY}"}},
    "bad": {"url": "http://h", "headers": {"X": "${LINES}"}},
    "off": {"command": "x", "args": ["${NOT_SET_D}"], "enabled": False},
}


MISSED = (
    ("6:9: warning: `args` of server `github`", "NOT_SET_A", "not set"),
    ("9:18: warning: `env` of server `github`", "NOT_SET_B", "not set"),
    ("14:14: warning: `url` of server `web`", "NOT_SET_B", "not set"),
    ("16:14: warning: `headers` of server `web`", "SET_EMPTY", "empty"),
    ("28:9: warning: `args` of server `off`", "NOT_SET_D", "not set"),
)


def test_every_variable_that_is_not_set_is_a_finding_at_the_start(tmp_path: Path) -> None:
    """With server, key, variable and place, all at once; nothing is run, and no value is printed."""
    config = write_config(tmp_path, {**FAULTY, "typo": {"comand": "x"}})
    environment = {"PATH": "/usr/bin:/bin", "SET_EMPTY": "", "LINES": "hunter2\nsecret"}
    done = callability("gateway", "--config", str(config), stdin=subprocess.DEVNULL, env=environment)
    assert done.returncode != 0
    found = [line.removeprefix(f"{config}:") for line in done.stderr.splitlines()]
    for line, (start, variable, state) in zip(found[: len(MISSED)], MISSED, strict=True):
        assert line == (
            f"{start} needs the environment variable `{variable}`, which is {state}"
            f" (set it for the gateway, or give it a default: `${{{variable}:-DEFAULT}}`) [unset-variable]"
        )
    assert "unknown key `comand`" in done.stderr


def test_a_value_that_does_not_fit_is_a_finding_without_the_value(tmp_path: Path) -> None:
    """A line break in a header, or a value that is not a URL."""
    config = write_config(tmp_path, {"bad": FAULTY["bad"], "web": {"url": "${LINES}/mcp"}})
    environment = {"PATH": "/usr/bin:/bin", "LINES": "hunter2\nsecret"}
    done = callability("config", "check", "--config", str(config), env=environment)
    hint = "(check the values of the variables in the environment of the gateway) [unfit-variable]"
    assert [line for line in done.stdout.splitlines() if line.endswith(hint)] == [
        f"{config}:5:18: warning: `headers` of server `bad` is invalid after its variables are filled in {hint}",
        f"{config}:10:14: warning: `url` of server `web` is invalid after its variables are filled in {hint}",
    ]
    assert "hunter2" not in done.stdout
    assert "secret" not in done.stdout


def test_a_server_whose_variables_cannot_be_used_does_not_load_and_the_others_do(tmp_path: Path) -> None:
    """At the start and after an edit; the log and the answer name the variable, and a default loads the server."""
    mail = shelf(tmp_path, "mail", SEND)
    faulty = {**mail, "env": {"X": "${NOT_SET_ANYWHERE}"}}
    config = write_config(tmp_path, {"files": shelf(tmp_path, "files", READ), "first": faulty})

    async def story() -> None:
        async with client_of(config) as client:
            await becomes(names("read file", client), ["files:read_file"])
            edit(config, servers={"mail": faulty})
            for name in ("first", "mail"):
                await becomes(load_error(client, name), "needs what is not set: `NOT_SET_ANYWHERE`")
            assert await names("send mail", client)() == []
            edit(config, servers={"mail": {"env": {"X": "${NOT_SET_ANYWHERE:-none}"}}})
            await becomes(names("send mail", client), ["mail:send_mail"])
            assert "config" not in await file_status(client)()

    asyncio.run(story())
    log = (tmp_path / "gateway.log").read_text()
    for name in ("first", "mail"):
        assert f"`env` of server `{name}` needs the environment variable `NOT_SET_ANYWHERE`, which is not set" in log


def test_commands_that_edit_a_config_do_not_need_its_variables(tmp_path: Path) -> None:
    """A person's shell lacks the gateway's environment, and comments stay where they are."""
    config = tmp_path / "mcp.jsonc"
    text = '{"mcpServers": {\n  "git": {"command": "git", "args": ["${NOT_SET}"], // mine\n  },\n}}\n'
    config.write_text(text)
    assert callability("servers", "disable", "git", "--config", str(config)).returncode == 0
    assert (
        config.read_text() == text.replace(", // mine", ', "enabled": false // mine') or "// mine" in config.read_text()
    )
    listed = callability("approvals", "list", "git", "--config", str(config))
    assert listed.returncode == 0, listed.stderr
    assert callability("servers", "enable", "git", "--config", str(config)).returncode == 0
    listed = callability("approvals", "list", "git", "--config", str(config))
    assert (listed.returncode, "`git` needs what is not set: `NOT_SET`" in listed.stderr) == (1, True)
    listed = callability("inventory", "--config", str(config))
    assert (listed.returncode, "`git` needs what is not set: `NOT_SET`" in listed.stderr) == (1, True)


def test_a_server_that_is_switched_on_without_its_variables_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would not load, so that its tools stay locked however often the command is repeated."""
    config = tmp_path / "mcp.yaml"
    server = {"command": "git", "env": {"TOKEN": "${NOT_SET}", "KEY": "${secret:NONE}"}, "enabled": False}
    config.write_text(json.dumps({"mcpServers": {"git": server}}))
    enable = ("servers", "enable", "git", "--config", str(config))
    for words in ("is switched on now", "is switched on already"):
        done = callability(*enable)
        assert (done.returncode, words in done.stdout) == (0, True), done.stderr
        assert done.stderr == "in the environment of this command, it needs what is not set: `NOT_SET`, `secret:NONE`\n"
    secrets = tmp_path / "secrets.env"
    secrets.write_text("NONE=some-value\n")
    secrets.chmod(0o600)
    monkeypatch.setenv("NOT_SET", "some-token")
    done = callability(*enable)
    assert (done.returncode, done.stderr) == (0, "")
