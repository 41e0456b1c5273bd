"""`callability servers add|remove|show`, `tools deny|allow` and `agents`: edits of the config by commands."""

from __future__ import annotations

import json
from pathlib import Path

import httpx2
import pytest

from callability.gateway.config.config import load_config
from support.commands import callability
from support.gateway_in_process import http_gateway
from support.gateway_requests import ACCEPT, INITIALIZE
from support.gateways import shelf, write_config
from support.waiting import eventually

SECRET = "hush-hush-0123456789"
CONFIG = f"""\
# Of this machine.
mcpServers:
  # the disk
  files:
    command: /bin/files
    args: [--token, {SECRET}, --root, /srv]
    disabled_tools: [drop]  # never
  web:
    url: "https://me:{SECRET}@example.com/mcp?key={SECRET}"
    headers: {{X-Key: {SECRET}}}
    enabled: false
    enabled_tools:
      - read
      # for the reports
      - write
agents:
  one: {{servers: [files, web]}}
  two:
    servers:
      - web
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A config that a person wrote."""
    path = tmp_path / "gateway.yaml"
    path.write_text(CONFIG)
    return path


def run(*arguments: str, config: Path, code: int = 0) -> str:
    """Run a command, and return its output; no secret is in it."""
    group, command, *rest = arguments
    done = callability(group, command, "--config", config.name, *rest, cwd=config.parent)
    assert SECRET not in done.stdout + done.stderr
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_server_is_added_and_removed_and_every_other_byte_stays(config: Path) -> None:
    """Its secret goes to `secrets.env`; the agent that sees it is named."""
    said = run(
        "servers", "add", "new", "--env", f"NEW_TOKEN={SECRET}", "--agent", "one", "--", "npx", "-y", config=config
    )
    assert "secrets in `secrets.env` beside it: NEW_TOKEN" in said
    read = load_config(config)
    assert read.servers["new"].args == ("-y",)
    assert read.servers["new"].env == {"NEW_TOKEN": "${secret:NEW_TOKEN}"}
    assert read.secrets == {"NEW_TOKEN": SECRET}
    assert read.agents["one"].servers == ("files", "web", "new")
    assert "removed from `secrets.env` beside it: NEW_TOKEN\n" in run("servers", "remove", "new", config=config)
    assert config.read_text() == CONFIG
    assert not config.with_name("secrets.env").exists()


def test_only_secrets_that_nothing_refers_to_go_with_their_server(config: Path) -> None:
    """Another server, another config in the directory, and a name that a person chose keep theirs."""
    secrets, own = config.with_name("secrets.env"), f"MINE={SECRET}"
    secrets.write_text(f"# mine\n{own}\n")
    secrets.chmod(0o600)
    for name in ("one", "two"):
        run("servers", "add", name, "--env", f"API_KEY={SECRET}1", "--", "x", config=config)
    run("servers", "add", "three", "--env", f"API_KEY={SECRET}2", "--", "x", "${secret:MINE}", config=config)
    kept = "`secrets.env` keeps `API_KEY`, which a config beside it refers to"
    assert kept in run("servers", "remove", "one", config=config)
    other = config.with_name("other.json")
    other.write_text('{"mcpServers": {"a": {"command": "x", "env": {"K": "${secret:API_KEY}"}}}}')
    assert kept in run("servers", "remove", "two", config=config)
    said = run("servers", "remove", "three", config=config)
    assert "removed from `secrets.env` beside it: THREE_API_KEY\n" in said
    assert "`secrets.env` keeps `MINE`, which nothing refers to" in said
    assert secrets.read_text() == f"# mine\n{own}\nAPI_KEY={SECRET}1\n"


def test_a_header_is_given_as_for_curl_too(config: Path) -> None:
    """The first sign after its name decides, whatever the value holds."""
    headers = (f"Authorization: Bearer {SECRET}", f"X-Key={SECRET}:1", f"X-Id:{SECRET}=1")
    given = (argument for header in headers for argument in ("--header", header))
    run("servers", "add", "new", "--url", "https://example.com/mcp", *given, config=config)
    read = load_config(config)
    assert list(read.servers["new"].headers) == ["Authorization", "X-Key", "X-Id"]
    assert [*read.secrets.values()] == [SECRET, f"{SECRET}:1", f"{SECRET}=1"]


def test_a_server_that_agents_see_is_removed_from_them_too(config: Path) -> None:
    """A list that gets empty stays a list: an agent without servers sees none."""
    run("servers", "remove", "web", config=config)
    read = load_config(config)
    assert {name: agent.servers for name, agent in read.agents.items()} == {"one": ("files",), "two": ()}
    assert config.read_text().startswith(CONFIG.partition("  web:")[0])


def test_a_server_is_shown_without_its_secrets(config: Path) -> None:
    """With the agents that see it."""
    shown = json.loads(run("servers", "show", "files", "--json", config=config))
    assert shown["arguments"] == 4
    assert shown["agents"] == ["one"]
    text = run("servers", "show", "web", config=config)
    assert "example.com\n" in text
    assert "X-Key" in text
    assert "one, two" in text


@pytest.mark.parametrize(
    ("arguments", "old", "new"),
    [
        (("deny", "files", "move", "-x-"), "[drop]", '[drop, move, "-x-"]'),
        (("allow", "files", "drop"), "    disabled_tools: [drop]  # never\n", ""),
        (("deny", "web", "read"), "      - read\n", ""),
        (("allow", "web", "list"), "      - write\n", "      - write\n      - list\n"),
        (("deny", "files", "drop"), "", ""),
        (("allow", "files", "other"), "", ""),
    ],
)
def test_tools_are_denied_and_allowed_by_the_list_that_a_server_has(
    arguments: tuple[str, ...], old: str, new: str, config: Path
) -> None:
    """One key, and nothing else."""
    command, server, *tools = arguments
    run("tools", command, server, "--", *tools, config=config)
    assert config.read_text() == (CONFIG.replace(old, new) if old else CONFIG)


def test_a_misspelt_tool_is_neither_denied_nor_allowed_in_silence(tmp_path: Path) -> None:
    """What a gateway has seen the server list is known; without that, the command says that it is not."""
    listed = shelf(tmp_path, "git", {"name": "git_commit"}, {"name": "git_log"}, disabled_tools=["git_lg"])
    only = shelf(tmp_path, "only", {"name": "read"}, {"name": "write"}, enabled_tools=["read"])
    config = write_config(tmp_path, {"git": listed, "only": only})
    said = run("tools", "deny", "git", "git_comit", config=config)
    assert "not verified: whether server `git` has `git_comit`" in said
    run("tools", "allow", "git", "git_comit", config=config)
    seen = tmp_path / "approvals.seen.json"
    with http_gateway(config):
        eventually(lambda: seen.exists() and {"git", "only"} <= json.loads(seen.read_text()).keys())
    before = config.read_text()
    for command, server, names, words in (
        ("deny", "git", ["git_comit"], "server `git` lists no tool `git_comit` (did you mean `git_commit`?)"),
        ("deny", "git", ["git_log", "git_comit"], "server `git` lists no tool `git_comit`"),
        ("allow", "git", ["git_comit"], "(did you mean `git_commit`?)"),
        ("allow", "only", ["wrte"], "server `only` lists no tool `wrte` (did you mean `write`?)"),
    ):
        assert words in run("tools", command, server, *names, config=config, code=2)
    assert config.read_text() == before
    run("tools", "allow", "git", "git_lg", config=config)
    run("tools", "deny", "git", "git_commit", config=config)
    assert load_config(config).servers["git"].disabled_tools == ("git_commit",)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("servers", "add", "files", "--", "x"), 2, "the config has a server `files` already"),
        (("servers", "add", "new"), 2, "give either `--url`, or a command behind `--`"),
        (("servers", "add", "new", "--url", "ftp://h"), 1, "nothing was changed"),
        (("servers", "add", "new", "--url", f"ftp://me:{SECRET}@h"), 1, "`url` of server `new` is invalid"),
        (("servers", "add", "new", "--url", "http://h", "--header", f"Bearer {SECRET}"), 2, "`--header` is not of"),
        (
            ("servers", "add", "new", "--url", "http://h", "--header", f"Key=a\n{SECRET}"),
            1,
            "`headers` of server `new`",
        ),
        (("servers", "add", "new", "--env", f"API_KEY: {SECRET}", "--", "x"), 2, "`--env` is not of the form"),
        (("servers", "add", "new", "--env", f"API_KEY: {SECRET}=", "--", "x"), 2, "`--env` is not of the form"),
        (("servers", "add", "new", "--env", SECRET, "--", "x"), 2, "`--env` is not of the form"),
        (("servers", "add", "new", "--agent", "onne", "--", "x"), 2, "no agent `onne` (did you mean `one`?)"),
        (("servers", "remove", "fils"), 2, "the config has no server `fils` (did you mean `files`?)"),
        (("servers", "show", "fils"), 2, "the config has no server `fils`"),
        (("tools", "deny", "web", "read", "write"), 2, "no tool would be left in `enabled_tools`"),
        (("agents", "add", "one"), 2, "the config has an agent `one` already; for other servers, edit `servers`"),
        (("agents", "add", "new", "--days", "3"), 2, "`--days` goes with `--token`"),
        (("agents", "revoke", "onne"), 2, "the config has no agent `onne` (did you mean `one`?)"),
    ],
)
def test_what_cannot_be_done_changes_nothing(arguments: tuple[str, ...], code: int, said: str, config: Path) -> None:
    """And says why."""
    assert said in run(*arguments, config=config, code=code)
    assert config.read_text() == CONFIG
    assert not config.with_name("secrets.env").exists()


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """A config without servers."""
    path = tmp_path / "gateway.yaml"
    path.write_text("mcpServers: {}\n")
    return path


def test_a_token_is_shown_once_and_counts_until_it_is_revoked(alone: Path) -> None:
    """Over HTTP; once it is revoked, the gateway still wants tokens, and renewing makes another one."""
    made = callability("agents", "add", "far", "--token", "--config", str(alone))
    token = made.stdout.splitlines()[-1]
    assert token not in alone.read_text()
    assert "valid" in run("agents", "list", config=alone)

    def status(given: str) -> int:
        headers = {**ACCEPT, "Authorization": f"Bearer {given}"}
        return httpx2.post(url, json=INITIALIZE, headers=headers).status_code

    with http_gateway(alone) as url:
        assert status(token) == 200
        assert "is revoked" in run("agents", "revoke", "far", config=alone)
        eventually(lambda: status(token) == 401)
        assert "void since" in run("agents", "list", config=alone)
        assert "give `--days` for the new one" in run("agents", "add", "far", "--renew", config=alone, code=2)
        again = callability("agents", "add", "far", "--renew", "--days", "1", "--config", str(alone))
        eventually(lambda: status(again.stdout.splitlines()[-1]) == 200)
        assert status(token) == 401


def test_a_token_that_has_expired_is_none(alone: Path) -> None:
    """The time is that of each request."""
    made = callability("agents", "add", "far", "--token", "--days", "1", "--config", str(alone))
    token = made.stdout.splitlines()[-1]
    expires = load_config(alone).agents["far"].token_expires
    assert expires is not None
    alone.write_text(alone.read_text().replace(expires, "2020-01-01T00:00:00Z"))
    with http_gateway(alone) as url:
        headers = {**ACCEPT, "Authorization": f"Bearer {token}"}
        assert httpx2.post(url, json=INITIALIZE, headers=headers).status_code == 401
    alone.write_text(alone.read_text().replace("2020-01-01T00:00:00Z", "2020-01-01"))
    done = callability("config", "check", "--config", str(alone))
    assert "`token_expires` of agent `far` is not a time with a time zone" in done.stderr + done.stdout
