"""`callability setup`, `import`, `install`, `uninstall`: the configs of clients, there and back."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as NoKeyring

from callability.files.editing import rewrite
from callability.gateway.config.config import load_config
from callability.setup.client_file import read_client_file
from callability.setup.clients import CLIENTS, ConfigForm, McpClient
from callability.setup.translation import is_ours
from support.commands import callability
from support.gateways import call, shelf, text_of
from support.page_requests import Browser
from support.running import COMMAND
from support.upstreams.good_events import event_server
from support.user_gateways import UserHome
from support.waiting import becomes, eventually

SECRET = "hush-hush-0123456789"
SERVER = """\
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    result = {"tools": [{"name": sys.argv[1], "inputSchema": {"type": "object"}}]}
    if request["method"] == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "one", "version": "1"}}
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""
INSTALLABLE = [client for client in CLIENTS if not client.cannot_be_installed]
TEXTS = {
    ConfigForm.JSON: """\
// settings of a person
{{
  "theme": "dark", /* mine */
  "{key}": {{
    // the first
    "one": {one},
    "two": {two}
  }},
  "history": [1, 2, 3],
}}
""",
    ConfigForm.YAML: """\
THEME: dark  # mine
{key}:
  # the first
  one: {one}
  two: {two}  # the second

HISTORY: [1, 2, 3]
""",
    ConfigForm.TOML: """\
theme = "dark" # mine

# the first
[{key}.one]
command = "/bin/one"
args = ["--flag"]

[{key}.one.env]
API_TOKEN = "{secret}"

[{key}.two]
command = "/bin/two"

# of the screen
[history]
items = [1, 2, 3]
""",
}


@pytest.fixture
def home(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory of nobody else."""
    home = short_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "CALLABILITY_CONFIG", "CODEX_HOME", "OPENCODE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return home


def run(*arguments: str) -> str:
    """Run a command that succeeds, and return its output; no secret is in it."""
    done = callability(*arguments)
    assert SECRET not in done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _entry(
    client: McpClient, command: str, env: Mapping[str, str], arguments: Sequence[str] = ("--flag",)
) -> dict[str, Any]:
    given: dict[str, Any] = {"command": command, "args": [*arguments], "env": dict(env)}
    if client.name == "goose":
        return {"type": "stdio", "enabled": True, "cmd": command, "args": [*arguments], "envs": dict(env)}
    if client.name == "opencode":
        return {"type": "local", "command": [command, *arguments], "environment": dict(env)}
    return given


def _written(client: McpClient, home: Path) -> Path:
    """Write a config of a client as a person would, and return its path."""
    path = client.files(home)[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    one, two = (json.dumps(_entry(client, *each)) for each in (("/bin/one", {"API_TOKEN": SECRET}), ("/bin/two", {})))
    path.write_text(TEXTS[client.form].format(key=client.keys[0], one=one, two=two, secret=SECRET))
    path.chmod(0o640)
    return path


def _servers(client: McpClient, path: Path) -> Mapping[str, Any]:
    return read_client_file(path, client.form, tuple(client.keys)).servers


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_an_import_leaves_the_client_as_it_is(client: McpClient, home: Path) -> None:
    """The gateway gets its servers, for an agent of its name, and a secret goes to its own file."""
    path = _written(client, home)
    before = path.read_bytes()
    run("import", client.name, "--yes")
    config = load_config(home / ".config/callability/gateway.yaml", {})
    assert list(config.servers) == ["one", "two"]
    assert config.agents[client.name].servers == ("one", "two")
    assert config.secrets == {"API_TOKEN": SECRET}
    assert path.read_bytes() == before
    assert SECRET not in config.path.read_text()
    for file in config.path.parent.iterdir():
        assert file.is_dir() or stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_what_a_set_up_changes_in_a_config_with_records_is_recorded(home: Path) -> None:
    """With the command that did it, and no secret."""
    client = CLIENTS[0]
    _written(client, home)
    config = home / ".config/callability/gateway.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("mcpServers: {}\nrecords: {to: records}\n")
    run("install", client.name, "--yes")
    run("uninstall", client.name, "--yes")
    run("import", client.name, "--yes")
    run("setup", "--undo", "--yes")
    files = sorted(config.with_name("records").glob("command-*.jsonl"))
    text = "".join(path.read_text() for path in files)
    assert SECRET not in text
    changes = [each for each in map(json.loads, text.splitlines()) if each["kind"] == "change"]
    added = [("agent_added", None), ("scope_added", "one"), ("scope_added", "two")]
    gone = [("scope_removed", "one"), ("scope_removed", "two")]
    assert [(each["command"], each["change"], each.get("server")) for each in changes] == [
        *(("callability install", "server_added", name) for name in ("one", "two")),
        *(("callability install", *each) for each in added),
        *(("callability uninstall", *each) for each in [("agent_removed", None), *gone]),
        *(("callability import", *each) for each in added),
        *(("callability setup --undo", "server_removed", name) for name in ("one", "two")),
        *(("callability setup --undo", *each) for each in [("agent_removed", None), *gone]),
    ]


@pytest.mark.parametrize("client", INSTALLABLE, ids=lambda client: client.name)
def test_a_client_gets_one_entry_and_its_file_back_byte_for_byte(client: McpClient, home: Path) -> None:
    """By `uninstall`, and by `setup --undo`, which removes all that was stored."""
    path = _written(client, home)
    before = path.read_bytes()
    run("install", client.name, "--yes")
    [entry] = _servers(client, path).values()
    assert is_ours(entry)
    assert "connect" in json.dumps(entry)
    assert client.name in json.dumps(entry)
    assert b"mine" in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert SECRET.encode() not in path.read_bytes()
    assert "nothing to do" in run("install", client.name, "--yes")
    run("uninstall", client.name, "--yes")
    assert path.read_bytes() == before
    run("install", client.name, "--yes")
    run("setup", "--undo", "--yes")
    assert path.read_bytes() == before
    assert [*(home / ".config/callability").iterdir()] == []


@pytest.mark.parametrize("client", INSTALLABLE, ids=lambda client: client.name)
def test_an_undo_after_the_client_wrote_its_file_puts_back_the_servers_alone(client: McpClient, home: Path) -> None:
    """As Claude Code does at every session; an entry of ours that was edited is left to the person."""
    path = _written(client, home)
    servers = _servers(client, path)
    run("install", client.name, "--yes")
    installed = path.read_text()
    path.write_text(installed.replace("dark", "light").replace("1, 2, 3", "1, 2, 3, 4"))
    assert f"{path}: will get its servers back, and nothing else changes" in run("setup", "--undo", "--yes")
    assert _servers(client, path) == servers
    assert "light" in path.read_text()
    assert "1, 2, 3, 4" in path.read_text()
    run("install", client.name, "--yes")
    edited = path.read_text().replace("connect", "connected")
    path.write_text(edited)
    done = callability("setup", "--undo", "--yes")
    assert done.returncode == 1
    assert "the entry `callability` was edited; remove it by hand, and run this again" in done.stderr
    assert path.read_text() == edited


class _Http(BaseHTTPRequestHandler):
    """An MCP server on HTTP that wants a token."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != f"Bearer {SECRET}":
            self._answer(401, {})
        elif "id" not in request:
            self._answer(202, None)
        elif request["method"] == "initialize":
            info = {"name": "http", "version": "1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            self._answer(200, {"jsonrpc": "2.0", "id": request["id"], "result": result})
        elif request["method"] == "tools/list":
            tools = [{"name": "far", "inputSchema": {"type": "object"}}]
            self._answer(200, {"jsonrpc": "2.0", "id": request["id"], "result": {"tools": tools}})
        else:
            error = {"code": -32601, "message": "no such method"}
            self._answer(200, {"jsonrpc": "2.0", "id": request["id"], "error": error})

    def do_GET(self) -> None:
        self._answer(405, {})

    def do_DELETE(self) -> None:
        self._answer(405, {})

    def _answer(self, status: int, body: object) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    """The address of a server on HTTP."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Http)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/mcp"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def events() -> Iterator[str]:
    """The address of a server on HTTP+SSE."""
    server = event_server()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/sse"
        server.should_exit = True
        thread.join()


def _four_clients(home: Path, url: str, events: str) -> dict[str, Path]:
    """Write the configs of four clients with nine servers that start, of which two share a name, one that cannot be
    known, and one that is switched off.
    """
    script = home / "one.py"
    script.write_text(SERVER)

    def stdio(tool: str, **more: Any) -> dict[str, Any]:
        return {"command": sys.executable, "args": [str(script), tool], **more}

    files: dict[str, tuple[str, dict[str, Any]]] = {
        "claude-code": (".claude.json", {"numStartups": 3, "mcpServers": {"a": stdio("a"), "shared": stdio("shared")}}),
        "cursor": (
            ".cursor/mcp.json",
            {"mcpServers": {"b": stdio("b", env={"B_TOKEN": SECRET}), "shared": stdio("shared"), "same": stdio("c")}},
        ),
        "vscode": (
            ".config/Code/User/mcp.json",
            {
                "inputs": [],
                "servers": {
                    "same": stdio("d"),
                    "far": {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {SECRET}"}},
                    "events": {"type": "sse", "url": events},
                    "unknown": stdio("${workspaceFolder}"),
                },
            },
        ),
    }
    paths = {}
    for name, (place, content) in files.items():
        paths[name] = home / place
        paths[name].parent.mkdir(parents=True, exist_ok=True)
        paths[name].write_text(json.dumps(content, indent=2))
    paths["codex"] = home / ".codex/config.toml"
    paths["codex"].parent.mkdir()
    tables = "".join(
        f"[mcp_servers.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(script))}, '{name}']\n"
        + ("disabled_tools = ['e']\n" if name == "e" else "")
        for name in ("e", "f")
    )
    tables += "[mcp_servers.off]\ncommand = '/bin/off'\nenabled = false\n"
    paths["codex"].write_text(f"model = 'x'\n\n{tables}")
    return paths


@pytest.mark.anyio
async def test_a_setup_takes_nine_servers_of_four_clients_and_gives_each_what_it_had(
    home: Path, url: str, events: str, note: Callable[[str], None]
) -> None:
    """Without a question and without an edit by hand; afterwards, every server loads, and clients share each."""
    paths = _four_clients(home, url, events)
    before = {path: path.read_bytes() for path in paths.values()}
    started = time.perf_counter()
    dry = run("setup", "--dry-run")
    planned = time.perf_counter() - started
    assert {path: path.read_bytes() for path in paths.values()} == before
    assert not (home / ".config/callability").exists()
    assert "leaves `unknown` to the client: names `${workspaceFolder}`" in dry
    assert "takes `same` as same-vscode; another `same` has another definition" in dry
    said = run("setup", "--yes")
    note(f"dry run of nine servers {planned:.1f} s; with writing and starting {time.perf_counter() - started:.1f} s")
    assert "9 of 9 servers loaded\nswitched off, and not started: `off`\n" in said
    config = load_config(home / ".config/callability/gateway.yaml", {})
    assert {name: agent.servers for name, agent in config.agents.items()} == {
        "claude-code": ("a", "shared"),
        "cursor": ("b", "shared", "same"),
        "vscode": ("same-vscode", "far", "events"),
        "codex": ("e", "f", "off"),
    }
    assert config.servers["e"].disabled_tools == ("e",)
    assert config.secrets == {"B_TOKEN": SECRET, "FAR_AUTHORIZATION": SECRET}
    assert sorted(json.loads(paths["vscode"].read_text())["servers"]) == ["callability", "unknown"]
    assert json.loads(paths["claude-code"].read_text())["numStartups"] == 3
    again = run("setup", "--yes")
    assert again.count("  is set up already: it has the entry of the gateway\n") == 3
    assert "nothing to do" in again
    for path in (home / ".config/callability").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    gateway = UserHome(home, "gateway.yaml")
    joining = [client for client in CLIENTS if client.name in ("claude-code", "cursor", "vscode")]
    started = time.perf_counter()
    try:
        seen = await asyncio.gather(*(_connected(gateway, client, paths[client.name]) for client in joining))
        note(f"three clients at once see their servers after {time.perf_counter() - started:.1f} s")
        assert seen == [sorted(config.agents[client.name].servers) for client in joining]
        assert len(gateway.gateways) == 1
        for tool in ("a", "shared", "b", "c", "d", "e", "f"):
            assert len(gateway.processes(str(home / "one.py"), tool)) == 1, tool
    finally:
        gateway.end()
    run("setup", "--undo", "--yes")
    assert {path: path.read_bytes() for path in paths.values()} == before
    # What the gateway wrote while it ran is no part of the setup.
    assert {path.name for path in (home / ".config/callability").iterdir()} <= {"approvals.seen.json", "run"}


async def _connected(gateway: UserHome, client: McpClient, path: Path) -> list[str]:
    """Start what a client has in its config, and return the servers that its agent sees, once they are loaded."""
    [command] = [_command(entry) for entry in _servers(client, path).values() if is_ours(entry)]
    async with gateway.client_by(command) as it:

        async def statuses() -> set[str]:
            listed = (await it.call_tool("upstream_servers", {})).structured_content
            return {(each.get("load") or {}).get("status", "") for each in (listed or {})["servers"]}

        await becomes(statuses, {"available"})
        listed = (await it.call_tool("upstream_servers", {})).structured_content
        return sorted(each["name"] for each in (listed or {})["servers"])


def _command(entry: Mapping[str, Any]) -> list[str]:
    """Return the command line of an entry, as its client runs it."""
    command = entry.get("command", entry.get("cmd"))
    if isinstance(command, list):
        return command
    if isinstance(command, Mapping):
        return [command["path"], *command["args"]]
    return [str(command), *entry["args"]]


@pytest.mark.anyio
async def test_every_client_makes_the_round_trip(home: Path) -> None:
    """Its server is imported, our entry is installed and run, a call is refused, a person approves the tool on the
    page, the call is answered, and an undo restores its file. One gateway serves all of them.
    """
    entry = shelf(home, "shelf", *({"name": client.name, "description": "Greets."} for client in CLIENTS))
    paths = {client.name: _written_with(client, home, entry) for client in CLIENTS}
    before = {path: path.read_bytes() for path in paths.values()}
    said = run("setup", "--yes")
    assert "its approvals are not taken: they are in `config.db`" in said
    assert "takes `shelf` as shelf-mcpproxy-go" in said
    assert "takes `shelf`, which another client has too" in said
    # The operator wants each tool to be reviewed.
    rewrite(home / ".config/callability/gateway.yaml", {"mcpServers": {"shelf": {"trust": "manual"}}})
    gateway = UserHome(home, "gateway.yaml")
    page: Browser | None = None
    try:
        for client in CLIENTS:
            server, command = "shelf", [*COMMAND, "connect", "--agent", client.name]
            if client.cannot_be_installed:
                server = "shelf-mcpproxy-go"
                assert paths[client.name].read_bytes() == before[paths[client.name]]
            else:
                [command] = map(_command, _servers(client, paths[client.name]).values())
            async with gateway.client_by(command) as it:
                if page is None:
                    page = await asyncio.to_thread(_signed_in, gateway)
                refused = await call(it, f"{server}:{client.name}")
                assert "pending_approval" in refused.model_dump_json(), client.name
                shown = page.shown("waiting", server, client.name)
                assert page.act("approve", server, client.name, shown["sha256"]).is_success, client.name
                assert text_of(await call(it, f"{server}:{client.name}")) == f"{client.name} was called"
    finally:
        gateway.end()
    run("setup", "--undo", "--yes")
    assert {path: path.read_bytes() for path in paths.values()} == before


def _written_with(client: McpClient, home: Path, server: Mapping[str, Any]) -> Path:
    """Write a config of a client with one server, `shelf`, and return its path."""
    path: Path = client.files(home)[0]
    key = client.keys[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    entry = _entry(client, server["command"], {}, server["args"])
    match client.form:
        case ConfigForm.JSON:
            path.write_text(json.dumps({key: {"shelf": entry}}))
        case ConfigForm.YAML:
            path.write_text(f"{key}:\n  shelf: {json.dumps(entry)}\n")
        case ConfigForm.TOML:
            path.write_text(
                f"[{key}.shelf]\ncommand = {json.dumps(entry['command'])}\nargs = {json.dumps(entry['args'])}\n"
            )
    return path


def _signed_in(gateway: UserHome) -> Browser:
    """Open the page as a person does, and return it once the servers are loaded."""
    url, code = gateway.open_page()
    page = Browser(url)
    page.sign_in(code)
    eventually(lambda: not any(each["loading"] for each in page.state()["servers"]))
    return page


def test_paths_of_a_platform_that_was_not_run_are_labelled(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first line of the plan, and the path is that of the platform."""
    monkeypatch.setattr(sys, "platform", "darwin")
    client = next(client for client in CLIENTS if client.name == "vscode")
    path = _written(client, home)
    assert "Library/Application Support" in str(path)
    lines = run("setup", "--dry-run").splitlines()
    assert lines[0] == "the paths of this platform are from the clients' documentation, and have not been run"
    assert any(str(path) in line for line in lines)


def test_a_setup_adds_to_a_config_of_a_person_and_takes_back_only_that(home: Path) -> None:
    """Comments stay, and what the person edits afterwards stays too."""
    config = home / ".config/callability/gateway.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(
        "# mine\nmcpServers:\n  one: {command: /bin/other} # not theirs\nagents: {cursor: {servers: [one]}}\n"
    )
    before = config.read_bytes()
    cursor = next(client for client in CLIENTS if client.name == "cursor")
    path = _written(cursor, home)
    run("install", "cursor", "--yes")
    assert load_config(config).agents["cursor"].servers == ("one", "one-cursor", "two")
    run("setup", "--undo", "--yes")
    assert config.read_bytes() == before
    run("install", "cursor", "--yes")
    config.write_text(config.read_text().replace("# mine", "# still mine").replace("/bin/two", "/bin/three"))
    run("setup", "--undo", "--yes")
    assert config.read_text().startswith("# still mine\n")
    assert set(load_config(config).servers) == {"one", "two"}
    assert load_config(config).agents["cursor"].servers == ("one",)
    assert list(_servers(cursor, path)) == ["one", "two"]


def test_files_of_a_project_are_for_an_agent_of_their_own(home: Path) -> None:
    """Elsewhere the client does not have their servers; they are read only if the project is named."""
    project = home / "app"
    project.mkdir()
    (project / ".mcp.json").write_text('{"mcpServers": {"here": {"command": "/bin/here"}}}')
    local = {"mcpServers": {"mine": {"command": "/bin/mine"}}}
    user = {"mcpServers": {"all": {"command": "/bin/all"}}, "projects": {str(project): local, "/elsewhere": local}}
    (home / ".claude.json").write_text(json.dumps({**user, "mcpServers": {}}))
    here = f"  leaves `mine` of the project `{project}` to the client: `--project DIR` takes"
    elsewhere = "  leaves `mine` of the project `/elsewhere` to the client: `--project DIR` takes"
    said = run("setup", "--dry-run")
    assert here in said
    assert elsewhere in said
    said = run("setup", "--project", str(project), "--dry-run")
    assert here not in said
    assert elsewhere in said
    (home / ".claude.json").write_text(json.dumps(user))
    run("install", "claude-code", "--yes")
    config = home / ".config/callability/gateway.yaml"
    assert list(load_config(config).servers) == ["all"]
    run("install", "claude-code", "--project", str(project), "--yes")
    agents = {name: agent.servers for name, agent in load_config(config).agents.items()}
    assert agents == {"claude-code": ("all",), "claude-code-app": ("here",), "claude-code-app-local": ("mine",)}
    written = json.loads((home / ".claude.json").read_text())
    assert list(written["projects"][str(project)]["mcpServers"]) == ["callability-app"]
    assert written["projects"]["/elsewhere"] == local
    assert list(json.loads((project / ".mcp.json").read_text())["mcpServers"]) == ["callability-app"]
    run("setup", "--undo", "--yes")
    assert json.loads((home / ".claude.json").read_text()) == user


def test_tools_that_claude_code_denies_elsewhere_stay_denied(home: Path) -> None:
    """Its rules name its own servers, and would match nothing any more."""
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").write_text('{"permissions": {"deny": ["mcp__one__drop", "mcp__two", "Bash(rm)"]}}')
    _written(next(client for client in CLIENTS if client.name == "claude-code"), home)
    run("import", "claude-code", "--yes")
    servers = load_config(home / ".config/callability/gateway.yaml").servers
    assert servers["one"].disabled_tools == ("drop",)
    assert servers["two"].enabled is False


def test_a_file_of_many_megabytes_is_edited_in_the_place_of_its_servers(home: Path) -> None:
    """Claude Code keeps the history of every project in it."""
    history = {f"/home/me/{number}": {"history": ["x" * 1_000] * 10} for number in range(300)}
    path = home / ".claude.json"
    text = json.dumps({"projects": history, "mcpServers": {"one": {"command": "/bin/one"}}, "userID": "me"}, indent=2)
    path.write_text(text)
    run("install", "claude-code", "--yes")
    installed = json.loads(path.read_text())
    assert installed["projects"] == history
    assert list(installed["mcpServers"]) == ["callability"]
    run("uninstall", "claude-code", "--yes")
    assert path.read_text() == text
    path.write_text(json.dumps({"projects": history}, indent=2))
    run("install", "claude-code", "--server", "one", "--yes")
    assert json.loads(path.read_text())["projects"] == history
    assert load_config(home / ".config/callability/gateway.yaml").agents["claude-code"].servers == ("one",)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("install", "cursro"), 2, "`cursro` is no client that is known (did you mean `cursor`?)"),
        (("import", "nowhere.json"), 2, "`nowhere.json` is neither a file nor a client"),
        (("import", "cursor"), 1, "Cursor has no config here: looked for"),
        (("install", "mcpproxy-go"), 2, "mcpproxy-go cannot be installed: it is a proxy itself"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: tuple[str, ...], code: int, said: str, home: Path) -> None:
    """With what to do."""
    done = callability(*arguments)
    assert done.returncode == code
    assert said in done.stderr


def test_without_an_answer_nothing_is_written(home: Path) -> None:
    """And a file that is not well-formed is left as it is, with its place."""
    path = _written(CLIENTS[0], home)
    before = path.read_bytes()
    assert callability("setup").returncode == 1
    assert path.read_bytes() == before
    assert not (home / ".config/callability").exists()
    path.write_text(f'{{"mcpServers": {{"one": {SECRET}}}}}')
    done = callability("setup", "--yes")
    assert "claude_desktop_config.json:1:24: is not valid JSON here" in done.stderr
    assert SECRET not in done.stdout + done.stderr


def test_a_client_whose_config_cannot_be_used_is_left_and_the_others_are_set_up(home: Path) -> None:
    """Each with its reason and place, and the exit code says that something is left to do."""
    (home / ".cursor").mkdir()
    cursor = home / ".cursor/mcp.json"
    cursor.write_text('{\n "mcpServers": {\n  "git": {"command": "/a"},\n  "git": {"command": "/b"}\n }\n}\n')
    gemini = home / ".gemini/settings.json"
    gemini.parent.mkdir()
    gemini.write_text('{"mcpServers": {"one": {"command": "/a"}},\n  "mcpServers": {}}')
    windsurf = home / ".codeium/windsurf/mcp_config.json"
    windsurf.parent.mkdir(parents=True)
    windsurf.write_text('{"mcpServers": {"one": ')
    (home / ".claude").mkdir()
    settings = home / ".claude/settings.json"
    settings.write_text("{")
    codex = home / ".codex/config.toml"
    codex.parent.mkdir()
    codex.write_text("[mcp_servers.one]\ncommand = '/a'\n[mcp_servers.one]\n")
    for name in ("claude-code", "goose"):
        _written(next(client for client in CLIENTS if client.name == name), home)
    done = callability("setup", "--yes")
    assert done.returncode == 1
    for said in (
        f"{codex}:3:17: table `mcp_servers.one` is repeated",
        f"{cursor}:4:3: key `git` is repeated",
        f"{gemini}:2:3: key `mcpServers` is repeated; keep one of the two",
        f"{windsurf}:1:24: is not valid JSON here",
        f"{settings}:1:2: is not valid JSON here",
    ):
        assert f"left as it is: {said}\n" in done.stderr
    assert "5 files cannot be used: correct what is named above, and run this again" in done.stderr
    assert list(load_config(home / ".config/callability/gateway.yaml").agents) == ["goose"]
    run("setup", "--undo", "--yes")
    (home / ".config/goose/config.yaml").unlink()
    done = callability("setup", "--yes")
    assert done.returncode == 1
    assert done.stdout == ""


def test_an_undo_says_what_it_will_do_before_a_person_agrees(home: Path) -> None:
    """Of a client that is not installed, there is nothing; what no setup stored stays, and is named."""
    path = _written(next(client for client in CLIENTS if client.name == "codex"), home)
    config = home / ".config/callability/gateway.yaml"
    assert "nothing to undo: nothing was set up" in run("setup", "--undo")
    run("install", "codex", "--yes")
    secrets = config.with_name("secrets.env")
    secrets.write_text(f"{secrets.read_text()}OLD={SECRET}x\n")
    written = {file: file.read_bytes() for file in (path, config, secrets)}
    planned = run("setup", "--undo", "--dry-run").splitlines()
    assert planned == [
        f"{path}: will be restored, byte for byte",
        f"{config}: will be removed",
        "secrets.env: will be without `API_TOKEN`",
        "secrets.env: keeps `OLD`, which no setup stored and nothing refers to",
        f"{config.with_name('setup.json')}: will be removed, and the copies of files that it names",
        "dry run: nothing was written",
    ]
    assert callability("setup", "--undo").returncode == 1
    assert {file: file.read_bytes() for file in written} == written
    assert "nothing to undo: Zed is not installed" in run("uninstall", "zed")
    assert f"{config}: will be without what was added: agent `codex`\n" in run("uninstall", "codex", "--yes")
    assert "nothing to undo: Codex is not installed" in run("uninstall", "codex")
    other = config.with_name("other.yaml")
    other.write_text("mcpServers: {a: {command: x, env: {K: '${secret:API_TOKEN}'}}}")
    kept = "secrets.env: keeps `API_TOKEN`, which a config beside it refers to"
    assert kept in run("setup", "--undo", "--dry-run").splitlines()
    other.unlink()
    config.unlink()
    run("setup", "--undo", "--yes")
    assert secrets.read_text() == f"OLD={SECRET}x\n"


def test_a_token_of_a_provider_among_the_arguments_is_stored_whatever_its_name_is(home: Path) -> None:
    """As people pass it to a container; and a command with its arguments in one text stays, with what to do."""
    path = home / ".cursor/mcp.json"
    path.parent.mkdir()
    token = "ghp_0123456789abcdefghijABCDEFGHIJ"
    box = {"command": "docker", "args": ["run", "-i", "-e", f"GH={token}", "image"]}
    line = {"command": "npx -y @acme/server"}
    path.write_text(json.dumps({"mcpServers": {"box": box, "line": line}}))
    written = run("setup", "--yes")
    assert "leaves `line` to the client: its `command` has arguments behind it: write them to `args` there" in written
    config = home / ".config/callability/gateway.yaml"
    assert token not in written + config.read_text()
    assert "GH=${secret:BOX_GH}" in load_config(config).servers["box"].args
    assert config.with_name("secrets.env").read_text() == f"BOX_GH={token}\n"


def _run_limited(limit: Sequence[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*limit, *COMMAND, *arguments], check=False, capture_output=True, text=True, timeout=120)


def test_a_file_in_a_folder_that_cannot_be_written_stays_and_the_others_are_set_up(home: Path) -> None:
    """As a link into a store that is only read; it is found before anything is written."""
    store = home / "store"
    store.mkdir()
    linked, other = (_written(client, home) for client in CLIENTS if client.name in ("cursor", "windsurf"))
    linked.rename(store / "mcp.json")
    linked.symlink_to(store / "mcp.json")
    before = linked.read_bytes()
    store.chmod(0o500)
    # The user of a container may write everywhere.
    limit = ("setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override") if os.geteuid() == 0 else ()
    done = _run_limited(limit, "setup", "--yes")
    assert f"left as it is: {linked}: `{store}` cannot be written; `callability import cursor` takes" in done.stderr
    assert done.returncode == 1
    assert linked.read_bytes() == before
    assert "connect" in other.read_text()
    run("import", "cursor", "--yes")
    assert "cursor" in load_config(home / ".config/callability/gateway.yaml").agents


def test_a_setup_that_has_no_room_for_its_copies_leaves_nothing_behind(home: Path) -> None:
    """The error names the file, and that nothing was changed."""
    small, large = (_written(client, home) for client in CLIENTS if client.name in ("cursor", "windsurf"))
    large.write_text(large.read_text() + " " * 4096)
    before = {path: path.read_bytes() for path in (small, large)}
    done = _run_limited(("bash", "-c", 'ulimit -f 2 && exec "$@"', "-"), "setup", "--yes")
    assert re.search(r"/backups/\S+-mcp_config\.json-\w+` cannot be written: file too large; no file", done.stderr)
    assert done.returncode == 1
    assert {path: path.read_bytes() for path in before} == before
    assert [path for path in (home / ".config/callability").rglob("*") if path.is_file()] == []
    assert "nothing to undo" in run("setup", "--undo")


def test_a_setup_whose_config_is_gone_says_how_to_have_it_again(home: Path) -> None:
    """The clients have entries of the gateway in place of their servers; what it says to do brings the config back."""
    path = _written(next(client for client in CLIENTS if client.name == "cursor"), home)
    config = home / ".config/callability/gateway.yaml"
    run("setup", "--yes")
    before, installed = config.read_bytes(), path.read_bytes()
    config.unlink()
    done = callability("setup", "--yes")
    assert f"`{config}` is gone, and clients are set up by it: run `callability setup --undo`" in done.stderr
    assert (done.returncode, config.exists(), path.read_bytes()) == (1, False, installed)
    run("setup", "--undo", "--yes")
    run("setup", "--yes")
    assert (config.read_bytes(), path.read_bytes()) == (before, installed)


def test_the_settings_of_an_earlier_vs_code_are_not_taken_for_those_of_opencode(home: Path) -> None:
    """Their variables are others, and `${input:ID}` is no text for a server."""
    path = home / "settings.json"
    asks = {"command": "/bin/asks", "env": {"K": "${input:k}"}}
    path.write_text(json.dumps({"mcp": {"servers": {"plain": {"command": "/bin/plain"}, "asks": asks}}}))
    for form in ((), ("--client", "vscode")):
        said = run("import", str(path), "--dry-run", *form)
        assert "agent vscode gets plain\n" in said
        assert "leaves `asks` to the client: names `${input:k}`" in said


def test_an_undo_names_every_file_that_stands_in_its_way(home: Path) -> None:
    """And not one at each try; what it says to do lets the next one succeed."""
    clients = [client for client in CLIENTS if client.name in ("cursor", "codex", "goose")]
    paths = {client.name: _written(client, home) for client in clients}
    before = {path: path.read_bytes() for path in paths.values()}
    run("setup", "--yes")
    installed = {path: path.read_bytes() for path in paths.values()}
    for name in ("cursor", "codex"):
        paths[name].write_bytes(installed[paths[name]].replace(b"connect", b"connected"))
    paths["goose"].write_bytes(installed[paths["goose"]] + b"broken: [\n")
    done = callability("setup", "--undo", "--yes")
    assert done.returncode == 1
    for name in ("cursor", "codex"):
        assert (
            f"{paths[name]}: the entry `callability` was edited; remove it by hand, and run this again" in done.stderr
        )
    assert f"{paths['goose']}:" in done.stderr
    for path, data in installed.items():
        path.write_bytes(data)
    run("setup", "--undo", "--yes")
    assert {path: path.read_bytes() for path in before} == before


def test_an_undo_restores_a_file_that_is_gone(home: Path) -> None:
    """As after its client was removed: it does not stand in the way of the other clients, and no server is lost."""
    gone, other = (_written(client, home) for client in CLIENTS if client.name in ("cursor", "windsurf"))
    before = {path: path.read_bytes() for path in (gone, other)}
    run("setup", "--yes")
    gone.unlink()
    gone.parent.rmdir()
    assert f"{gone}: is gone; will be restored, byte for byte" in run("setup", "--undo", "--yes").splitlines()
    assert {path: path.read_bytes() for path in before} == before
    assert stat.S_IMODE(gone.stat().st_mode) == 0o600


def test_an_undo_names_a_server_that_a_person_has_put_in_the_place_of_a_taken_one(home: Path) -> None:
    """The later one stays, and a person reads that before agreeing to lose the earlier one."""
    path = home / ".cursor/mcp.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": {"one": {"command": "/bin/one"}}}')
    run("setup", "--yes")
    later = {"mcpServers": {"one": {"command": "/bin/other"}}}
    path.write_text(json.dumps(later))
    said = f"{path}: stays as it is; `one` there stays, and the one that was taken is lost"
    assert said in run("setup", "--undo", "--dry-run").splitlines()
    run("setup", "--undo", "--yes")
    assert json.loads(path.read_text()) == later


def test_an_undo_takes_back_what_it_added_to_an_agent_that_got_another_server_since(home: Path) -> None:
    """The agent stays with that server alone, and so do no secret and no other server of the setup."""
    path = _written(next(client for client in CLIENTS if client.name == "cursor"), home)
    before = path.read_bytes()
    config = home / ".config/callability/gateway.yaml"
    run("setup", "--yes")
    run("servers", "add", "mine", "--agent", "cursor", "--", "/bin/mine")
    said = f"{config}: will be without what was added: server `one`, server `two`; what was edited or is used stays:"
    assert f"{said} agent `cursor`\n" in run("setup", "--undo", "--yes")
    assert path.read_bytes() == before
    assert load_config(config).agents["cursor"].servers == ("mine",)
    assert [*load_config(config).servers] == ["mine"]
    assert not config.with_name("secrets.env").exists()


def test_an_earlier_entry_of_ours_is_replaced_and_comes_back(home: Path) -> None:
    """Also where the client has written its file since; a client of which nothing can be taken stays as it is."""
    path = home / ".cursor/mcp.json"
    path.parent.mkdir()
    before = {"callability": {"command": "callability", "args": ["gateway"]}, "one": {"command": "/bin/one"}}
    path.write_text(json.dumps({"mcpServers": before}, indent=2))
    zed = home / ".config/zed/settings.json"
    zed.parent.mkdir(parents=True)
    zed.write_text('{"context_servers": {"it": {"settings": {"key": "value"}}}}')
    text = zed.read_text()
    assert "leaves `it` to the client: an extension of the client provides it" in run("setup", "--yes")
    assert zed.read_text() == text
    assert "connect" in path.read_text()
    path.write_text(f"{path.read_text()}\n")
    run("setup", "--undo", "--yes")
    assert json.loads(path.read_text())["mcpServers"] == before


class _Keyring(KeyringBackend):
    """A keyring that lasts as long as a test."""

    priority = 1.0

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.held: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.held.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.held[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.held[service, username]


@pytest.fixture
def keys() -> Iterator[_Keyring]:
    """The keyring of the system, for a test."""
    before = keyring.get_keyring()
    keys = _Keyring()
    keyring.set_keyring(keys)
    yield keys
    keyring.set_keyring(before)


def test_secrets_go_to_the_keyring_if_a_person_wants_it(home: Path, keys: _Keyring) -> None:
    """The file then says only where they are; an undo removes them there too."""
    cursor = next(client for client in CLIENTS if client.name == "cursor")
    path = _written(cursor, home)
    before = path.read_bytes()
    assert "1 value to the keyring of the system" in run("install", "cursor", "--secrets", "keyring", "--yes")
    config = home / ".config/callability/gateway.yaml"
    secrets = config.with_name("secrets.env")
    assert secrets.read_text() == f"API_TOKEN=keyring:{config.parent}/API_TOKEN\n"
    assert load_config(config).secrets == {"API_TOKEN": SECRET}
    run("servers", "add", "new", "--env", f"NEW_TOKEN={SECRET}x", "--", "x")
    assert SECRET not in secrets.read_text().splitlines()[0]
    assert load_config(config).secrets["API_TOKEN"] == SECRET
    run("setup", "--undo", "--yes")
    assert path.read_bytes() == before
    assert keys.held == {}
    keyring.set_keyring(NoKeyring())  # type: ignore[no-untyped-call]
    done = callability("install", "cursor", "--secrets", "keyring", "--yes")
    assert done.returncode == 1
    assert "a secret cannot be stored: the keyring cannot be used (NoKeyringError)" in done.stderr
    assert path.read_bytes() == before


def test_variables_of_a_shell_are_stored_if_a_person_wants_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server does not load without one of them, which the plan says; a secret is there for every client."""
    monkeypatch.setenv("FROM_SHELL", SECRET)
    path = home / ".cursor/mcp.json"
    path.parent.mkdir()
    env = {"X": "${env:FROM_SHELL}", "Y": "${userHome} ${env:HOME}"}
    off = {"command": "/bin/off", "disabled": True, "args": ["-x", "${env:FROM_SHELL}"]}
    path.write_text(json.dumps({"mcpServers": {"one": {"command": "/bin/one", "env": env}, "off": off}}))
    warning = "warning: servers do not load without `FROM_SHELL` in the environment of the gateway"
    assert warning in run("setup", "--dry-run")
    said = run("install", "cursor", "--store-variables", "--yes")
    assert "warning" not in said
    assert "takes `one`; the value of `FROM_SHELL` is stored" in said
    monkeypatch.delenv("FROM_SHELL")
    run("config", "check")
    config = load_config(home / ".config/callability/gateway.yaml")
    assert config.servers["one"].env == {"X": "${secret:FROM_SHELL}", "Y": f"{home} ${{HOME}}"}
    assert config.servers["off"].args == ("-x", "${secret:FROM_SHELL}")
    assert config.secrets == {"FROM_SHELL": SECRET}
    assert "it does not load without `NONE` in the gateway's environment" in run(
        "servers", "add", "x", "--env", "NONE", "--", "x"
    )
    run("setup", "--undo", "--yes")


def test_an_entry_names_a_config_that_is_not_found_by_itself(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client starts the gateway without the variables of the person's shell; what a server needs of them is said."""
    monkeypatch.setenv("CALLABILITY_CONFIG", str(home / "other.json"))
    monkeypatch.setenv("FROM_SHELL", "value")
    path = home / ".cursor/mcp.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": {"one": {"command": "/bin/one", "args": ["${env:FROM_SHELL}"]}}}')
    assert "needs `FROM_SHELL` in the environment of the gateway" in run("install", "cursor", "--yes")
    [entry] = json.loads(path.read_text())["mcpServers"].values()
    assert entry["args"] == ["connect", "--agent", "cursor", "--config", str(home / "other.json")]
    assert load_config(home / "other.json").servers["one"].args == ("${FROM_SHELL}",)
