"""The gateway's config: what is read from it, and every finding with its words and place."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

import pytest
from hypothesis import given

from callability.contract.finding import Severity
from callability.gateway.config.config import Config, ConfigRefused, load_config
from support.config_files import AGENTS, DIGEST, FAULTY, FILES, ONE, VALUES, WHOLE


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings then name the file alone."""
    monkeypatch.chdir(tmp_path)


def loaded(text: str, name: str = "servers.yaml") -> Config:
    """Write a config file and load it."""
    Path(name).write_text(text, encoding="utf-8")
    return load_config(Path(name))


def refused(text: str, name: str = "servers.yaml") -> list[str]:
    """Write a config file that is refused, and return its findings as lines."""
    with pytest.raises(ConfigRefused) as caught:
        loaded(text, name)
    assert str(caught.value) == "\n".join(map(str, caught.value.findings))
    return str(caught.value).split("\n")


def test_every_key_of_a_server_is_read() -> None:
    """A config with every key is read as it was written; placeholders stay."""
    config = loaded(WHOLE)
    zulu, alpha = config.servers.values()
    assert (zulu.command, zulu.args, dict(zulu.env), zulu.cwd) == (
        "python", ("-m", "files", "8080"), {"TOKEN": "${TOKEN}"}, "/srv",
    )  # fmt: skip
    assert (zulu.url, zulu.type, zulu.enabled, zulu.quarantined, zulu.trust) == (None, "stdio", True, True, "manual")
    assert (dict(zulu.labels), {tool: dict(of) for tool, of in zulu.tool_labels.items()}) == (
        {"team": "storage"},
        {"read_file": {"risk": "low"}},
    )
    assert (alpha.url, dict(alpha.headers)) == ("https://example.com:8443/mcp", {"Authorization": "Bearer ${TOKEN}"})
    assert (alpha.type, alpha.enabled, alpha.trust) == ("http", False, "auto")
    assert (config.deadlines.call_seconds, config.deadlines.open_seconds) == (30, 2.5)
    assert config.approvals == Path("state/approvals.yaml")
    assert config.warnings == ()


def test_servers_keep_the_order_of_the_file() -> None:
    """The order is that of the file, and not alphabetical."""
    assert tuple(loaded(WHOLE).servers) == ("zulu", "alpha")


def test_a_key_that_is_left_out_has_its_default() -> None:
    """A server needs a command or a url and nothing else."""
    config = loaded('{"mcpServers": {"time": {"command": "time"}}}', "servers.json")
    server = config.servers["time"]
    assert (server.args, dict(server.env), server.cwd, server.type) == ((), {}, None, None)
    assert (server.enabled, server.quarantined, server.trust, server.listed_tools) == (True, False, "auto", ())
    assert (config.deadlines.call_seconds, config.deadlines.open_seconds, config.approvals) == (60, 10, None)


def test_the_approvals_file_lies_beside_the_config(tmp_path: Path) -> None:
    """A relative path starts at the config file, wherever the gateway is started; an absolute one stays."""
    (tmp_path / "etc").mkdir()
    assert loaded("{approvals: a.yaml, mcpServers: {}}", "etc/servers.yaml").approvals == Path("etc/a.yaml")
    assert loaded("{approvals: /var/a.yaml, mcpServers: {}}", "etc/servers.yaml").approvals == Path("/var/a.yaml")


def test_a_deny_list_denies_its_own_names_exactly() -> None:
    """Case counts, and no name is a pattern."""
    server = loaded(WHOLE).servers["zulu"]
    assert [server.config_denies(tool) for tool in ("delete_file", "Move", "move", "delete_file2")] == [
        True, True, False, False,
    ]  # fmt: skip
    assert server.listed_tools == ("delete_file", "Move")


def test_an_allow_list_denies_every_other_name() -> None:
    """Tools that the operator did not name are denied."""
    server = loaded(WHOLE).servers["alpha"]
    assert [server.config_denies(tool) for tool in ("search", "Search", "other")] == [False, True, True]


def test_a_config_knows_where_its_values_stand() -> None:
    """A finding can name the line to edit, or for a missing key the line of its server."""
    config = loaded(WHOLE)
    assert str(config.place("mcpServers", "zulu", "disabled_tools", 1)) == "servers.yaml:12:35"
    assert str(config.place("mcpServers", "zulu", "enabled_tools")) == "servers.yaml:5:5"
    assert str(config.place("mcpServers", "nobody", "zulu")) == "servers.yaml:4:3"


def test_secrets_do_not_show_in_a_server_that_is_printed() -> None:
    """Values that may be secret are not in the printed form of a server or a config."""
    config = loaded(WHOLE.replace("${TOKEN}", "hunter2").replace("8080", "hunter2").replace("8443/mcp", "8443/hunter2"))
    assert "hunter2" not in repr(config)


def test_a_config_cannot_be_changed() -> None:
    """The mappings of a config are immutable like its fields."""
    server = loaded(WHOLE).servers["zulu"]
    assert {type(server.env), type(server.headers), type(server.labels)} == {MappingProxyType}


# Each finding as it is printed, after `servers.yaml:`.


@pytest.mark.parametrize(("text", "lines"), FAULTY.values(), ids=FAULTY)
def test_a_faulty_config_is_refused_with_all_its_findings(text: str, lines: list[str]) -> None:
    """Each finding is one line, in the order of the file, and none contains a secret."""
    found = refused(text)
    assert found == [f"servers.yaml:{line}" for line in lines]
    assert "hunter2" not in "".join(found)


def test_a_file_that_is_not_there_is_refused() -> None:
    """A path that leads nowhere is a finding like any other."""
    with pytest.raises(ConfigRefused, match=r"^nowhere\.json: cannot be read: no such file or directory$"):
        load_config(Path("nowhere.json"))


def test_json_is_refused_with_line_and_column() -> None:
    """The usual format of such a file has places too."""
    lines = refused('{\n\t"mcpServers": {\n\t\t"files": {"command": "x", "disabled": true}\n\t}\n}', "servers.json")
    assert lines == ["servers.json:3:29: unknown key `disabled` in server `files` (write `enabled: false`)"]


def test_a_double_entry_is_a_warning() -> None:
    """The config loads, and the entry counts once."""
    config = loaded(ONE + "command: x\n    enabled_tools: [a, b, a]")
    assert list(map(str, config.warnings)) == [
        "servers.yaml:4:27: `a` is repeated in `enabled_tools` of server `files` (keep one of them)"
    ]
    assert {(warning.code, warning.severity) for warning in config.warnings} == {("duplicate-entry", Severity.WARNING)}
    assert config.servers["files"].listed_tools == ("a", "b")


def test_an_entry_that_matches_no_tool_is_a_warning_that_names_it() -> None:
    """A typo in a deny list leaves a tool open, so it is reported as soon as the tools are known (A.2)."""
    config = loaded(ONE + 'command: x\n    disabled_tools: [delete_file, delet_file, "move*", zzz]')
    found = config.find_unmatched("files", ["delete_file", "read_file", "move_file", "zz\nz"])
    assert list(map(str, found)) == [
        "servers.yaml:4:35: `delet_file` in `disabled_tools` of server `files` matches no tool of the server "
        "(did you mean `delete_file`?)",
        "servers.yaml:4:47: `move*` in `disabled_tools` of server `files` matches no tool of the server "
        "(names are exact: `*` and `?` stand for themselves)",
        "servers.yaml:4:56: `zzz` in `disabled_tools` of server `files` matches no tool of the server",
    ]
    assert {finding.severity for finding in found} == {Severity.WARNING}


def test_lists_that_match_have_no_warning() -> None:
    """Neither has a server without lists."""
    config = loaded("mcpServers: {a: {command: x, enabled_tools: [t]}, b: {command: x}}")
    assert config.find_unmatched("a", ["t", "u"]) == config.find_unmatched("b", ["t"]) == ()


@given(VALUES | FILES)
def test_whatever_stands_in_the_file_is_read_or_found(data: object) -> None:
    """Every finding has a place, a code, and a sentence of ours on one line."""
    with TemporaryDirectory() as directory:
        path = Path(directory, "servers.json")
        path.write_text(json.dumps(data), encoding="utf-8")
        try:
            load_config(path)
        except ConfigRefused as refusal:
            for finding in refusal.findings:
                assert str(finding).isprintable()
                assert not {"Input", "Value", "should", "None", "dict"} & set(finding.sentence.split())
                assert finding.code == finding.code.lower().replace("_", "-")


def test_agents_have_a_digest_and_the_servers_that_they_see() -> None:
    """FR-007; a name without a token is for stdio."""
    config = loaded(AGENTS + f"  one: {{token_sha256: {DIGEST}, servers: [git]}}\n  two: {{servers: []}}\n")
    assert {name: (agent.token_sha256, agent.servers) for name, agent in config.agents.items()} == {
        "one": (DIGEST, ("git",)),
        "two": (None, ()),
    }
    assert DIGEST not in repr(config)


@pytest.mark.parametrize(
    ("agents", "finding"),
    [
        (
            "  a: {token_sha256: secret, servers: []}",
            "3:21: `token_sha256` of agent `a` is not a SHA-256 of 64 hexadecimal digits",
        ),
        (
            "  a: {servers: [gitt]}",
            "3:17: agent `a` may see server `gitt`, which is not in `mcpServers`, nor in `catalog`"
            " (did you mean `git`?)",
        ),
        ("  a: {}", "3:3: agent `a` has no `servers`"),
        ("  a b: {servers: []}", "3:3: agent `a b` is not named with 1 to 128 of `A-Za-z0-9_.-`"),
        (
            f"  a: {{token_sha256: {DIGEST}, servers: []}}\n  b: {{token_sha256: {DIGEST.upper()}, servers: []}}",
            "4:21: agent `b` has the same token as agent `a` (give each its own)",
        ),
        (
            "  a: {token: x, servers: []}",
            "3:7: unknown key `token` in agent `a`"
            " (one of `facts`, `labels`, `servers`, `token_expires`, `token_sha256`)",
        ),
    ],
)
def test_what_is_wrong_with_an_agent_is_reported(agents: str, finding: str) -> None:
    """At its place, and never with a digest."""
    assert refused(AGENTS + agents + "\n") == [f"servers.yaml:{finding}"]


CATALOG = "mcpServers: {git: {command: git}}\ncatalog:\n"


@pytest.mark.parametrize(
    ("entry", "findings"),
    [
        (
            "  git: {command: x}",
            ["3:3: catalog server `git` has the name of a server in `mcpServers` (give it another one)"],
        ),
        (
            "  x: {command: x, enabled: true}",
            [
                "3:19: unknown key `enabled` in catalog server `x` (did you mean `enabled_tools`?)",
            ],
        ),
        (
            "  x: {command: x, oauth: {}}",
            [
                "3:19: `oauth` of catalog server `x` does not go with `command` (it belongs to a server with `url`)",
            ],
        ),
        (
            "  x: {url: 'http://h/mcp', oauth: {}, headers: {authorization: '${T}'}}",
            [
                "3:28: catalog server `x` has both `oauth` and an authorization in `headers` (keep one of them)",
            ],
        ),
        (
            "  x: {url: 'http://h/mcp', oauth: {client_secret: s}}",
            [
                "3:51: `oauth` of catalog server `x` has `client_secret`, and no `client_id` (give the `client_id` that"
                " it belongs to)",
            ],
        ),
        (
            "  x: {url: 'http://h/mcp', oauth: {clientid: a}}",
            ["3:36: unknown key `clientid` in `oauth` of catalog server `x` (did you mean `client_id`?)"],
        ),
        (
            "  x: {url: 'http://h/mcp', oauth: {redirect_port: 0}}",
            ["3:51: a value in `oauth` of catalog server `x` is not a port from 1 to 65,535"],
        ),
    ],
)
def test_what_is_wrong_with_the_catalog_is_reported(entry: str, findings: list[str]) -> None:
    """At its place, and never with a secret."""
    assert refused(CATALOG + entry + "\n") == [f"servers.yaml:{finding}" for finding in findings]


HINTS = {
    "${A B}": "a variable is written `${NAME}` or `${NAME:-default}`, and the text `${` is written `$${`",
    "${A:-${B}}": "a variable is written `${NAME}` or `${NAME:-default}`, and the text `${` is written `$${`",
    "${env:TOKEN}": "write `${NAME}` for an environment variable, without `env:`",
    "${input:token}": "the gateway does not prompt for values: write `${NAME}` for an environment variable",
}


@pytest.mark.parametrize("text", HINTS)
@pytest.mark.parametrize("section", ["mcpServers", "catalog"])
def test_what_looks_like_a_variable_and_is_none_is_a_warning(section: str, text: str, tmp_path: Path) -> None:
    """It would be sent literally."""
    path = tmp_path / "servers.yaml"
    servers = {"url": "http://h/mcp", "headers": {"X": text, "Y": "${OK}", "Z": "$${A B}"}}
    path.write_text(json.dumps({"mcpServers": {}, section: {"x": servers}}))
    [warning] = load_config(path).warnings
    subject = {"mcpServers": "server `x`", "catalog": "catalog server `x`"}[section]
    assert warning.code == "odd-variable"
    assert warning.sentence == f"a value in `headers` of {subject} has `${{` without a variable, and is used literally"
    assert warning.hint == HINTS[text]


FOR_A_SHELL = {
    "$HOME/x": "`$` before a name",
    "--key=$API_KEY": "`$` before a name",
    "%USERPROFILE%\\\\x": "a name between `%`",
    "~/notes": "`~`",
    "~": "`~`",
    "--root=~/notes": "`~`",
}
FOR_A_PROGRAM = ("$1.50", "pa$word", "a~/b", "100%", "%20a%20", "http://h/~ada", "^x$", "${OK:-~/x}", "$${OK}", "cost$")


@pytest.mark.parametrize("key", ["args", "env"])
@pytest.mark.parametrize("text", FOR_A_SHELL)
def test_what_only_a_shell_fills_in_is_a_warning_without_the_value(key: str, text: str) -> None:
    """A server gets it literally; no finding shows it, since it may be a secret."""
    values = {"args": f'args: ["{text}"]', "env": f'env: {{X: "{text}"}}'}
    [warning] = loaded(ONE + f"command: x\n    {values[key]}").warnings
    assert (warning.code, warning.severity) == ("odd-variable", "warning")
    words = f"a value in `{key}` of server `files` has {FOR_A_SHELL[text]}, and is used literally: no shell reads it"
    assert warning.sentence == words
    assert "${" in warning.hint


@pytest.mark.parametrize("key", ["args", "env"])
@pytest.mark.parametrize("text", FOR_A_PROGRAM)
def test_what_no_shell_fills_in_is_no_warning(key: str, text: str) -> None:
    """Prices, passwords, patterns, and variables of the config."""
    values = {"args": f'args: ["{text}"]', "env": f'env: {{X: "{text}"}}'}
    assert loaded(ONE + f"command: x\n    {values[key]}").warnings == ()


@pytest.mark.parametrize("command", ["sh", "/bin/bash", "cmd.exe"])
def test_the_arguments_of_a_shell_are_read_by_one(command: str) -> None:
    """It fills them in."""
    assert loaded(ONE + f'command: {command}\n    args: ["-c", "exec x $HOME ~/y"]').warnings == ()


def test_a_variable_where_none_is_filled_in_is_a_warning() -> None:
    """`command` and `cwd` are used literally."""
    [command, cwd] = loaded(ONE + "command: ${HOME}/bin/x\n    cwd: ${HOME}").warnings
    assert str(command) == (
        "servers.yaml:3:14: `command` of server `files` has `${`, and is used literally: variables are not filled"
        " in here (variables are filled in only in `args`, `env`, `url`, `headers`, `oauth`)"
    )
    assert cwd.code == "odd-variable"


@pytest.mark.parametrize("type_", ["http", "streamable-http", "streamableHttp"])
def test_every_spelling_of_http_is_http(type_: str) -> None:
    """Clients spell it in three ways."""
    assert loaded(ONE + f"url: http://h\n    type: {type_}").servers["files"].type == "http"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--api-key", "hunter2"],
        ["--githubToken=hunter2"],
        ["-e", "GITHUB_TOKEN=hunter2"],
        ["--header", "Authorization: Bearer hunter2"],
        ["postgresql://people:hunter2@host/base"],
        ["--header", "X-Any: ${MY_API_KEY}"],
        ["-e", "GH=ghp_hunter2hunter2hunter2"],
        ["-y", "server", "sk-hunter2hunter2hunter2"],
    ],
)
def test_a_secret_among_the_arguments_is_a_warning(arguments: list[str]) -> None:
    """At its place and without its value: everybody on the machine can read arguments in a process list."""
    config = loaded(json.dumps({"mcpServers": {"files": {"command": "x", "args": arguments}}}), "servers.json")
    [warning] = config.warnings
    assert warning.code == "secret-in-args"
    assert warning.place == config.place("mcpServers", "files", "args", len(arguments) - 1)
    assert "hunter2" not in str(warning)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--token-file", "/run/secrets/token"],
        ["sk-learn", "AKIA", "/srv/sk-hunter2hunter2hunter2"],
        ["--max-tokens=100000"],
        ["--author=somebody"],
        ["--token", "--verbose-logs"],
        ["--password", "no"],
        ["${HOME}/documents"],
        ["https://host/mcp"],
        ["http://[::1]:8080/a@b"],
    ],
)
def test_any_other_argument_is_no_secret(arguments: list[str]) -> None:
    """A warning that is often wrong is ignored."""
    assert loaded(json.dumps({"mcpServers": {"files": {"command": "x", "args": arguments}}}), "a.json").warnings == ()
