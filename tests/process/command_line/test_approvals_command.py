"""`callability approvals`: how a person reviews tools and decides about them."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp_types import Tool

from callability.cli.options import escape
from callability.cli.servers import review_lines
from callability.gateway.config.approvals import Definitions, approved_part
from callability.gateway.upstream.listing import upstream_tool
from support.commands import callability
from support.gateways import shelf, write_config
from support.running import COMMAND

SECRET = "hush-hush"
Ended = tuple[int, str, str]
Command = Callable[..., Ended]

READ = {"name": "read", "description": "Reads.\nWhole files.", "inputSchema": {"type": "object", "properties": {}}}
WRITE = {"name": "write", "description": "Writes."}


@pytest.fixture
def approvals(tmp_path: Path) -> Command:
    """Run `callability approvals` beside a config; its output has no value of `env` or `args`."""

    def run(*arguments: str) -> Ended:
        done = callability("approvals", *arguments, "--config", "mcp_config.json", cwd=tmp_path)
        assert SECRET not in done.stdout + done.stderr
        assert "-tools.json" not in done.stdout + done.stderr
        return done.returncode, done.stdout, done.stderr

    return run


def _write(directory: Path, *tools: dict[str, Any], records: str | None = None, **more: Any) -> None:
    """Write a config with a server `files`, and the approvals file that it names."""
    files = shelf(directory, "files", *tools, env={"TOKEN": SECRET})
    write_config(directory, {"files": files, **more}, **({} if records is None else {"approvals": "approvals.yaml"}))
    if records is not None:
        (directory / "approvals.yaml").write_text(records)


def _rows(table: str) -> list[list[str]]:
    return [re.split(r" {2,}", line) for line in table.splitlines()]


def test_a_tool_is_approved_in_one_form_and_its_change_is_shown(tmp_path: Path, approvals: Command) -> None:
    """The first approval creates the file and names it in the config; a later form is another tool."""
    _write(tmp_path, READ, WRITE)
    code, said, _ = approvals("approve", "files", "read", "--yes")
    assert code == 0
    assert "description:\n  | Reads.\n  | Whole files.\ninputSchema:\n  {\n" in said
    [digest] = set(re.findall(r"v2:[0-9a-f]{64}", said))
    record = f'files:\n  read: {{status: approved, sha256: "{digest}"}}\n'
    assert (tmp_path / "approvals.yaml").read_text() == record
    assert json.loads((tmp_path / "mcp_config.json").read_text())["approvals"] == "approvals.yaml"
    assert approvals("approve", "files", "read", "--yes")[1].startswith("nothing to do: tool `read`")
    (tmp_path / "files-tools.json").write_text(json.dumps([READ | {"description": "Reads.\nWhole disks."}, WRITE]))
    assert _rows(approvals("list")[1])[1:] == [
        ["files", "read", "changed", "yes", "yes"],
        ["files", "write", "not reviewed, callable under `trust: auto`", "no", "yes"],
    ]
    code, said, _ = approvals("show", "files", "read")
    assert code == 0
    assert f"\nit changed after its approval:\n--- approved {digest}\n+++ now      " in said
    assert "\n   | Reads.\n-  | Whole files.\n+  | Whole disks.\n" in said
    now = said.partition("sha256: ")[2].partition("\n")[0]
    [shown] = json.loads(approvals("show", "files", "read", "--json")[1])["tools"]
    assert (shown["tool"], shown["approval"], shown["sha256"]) == ("read", "changed", now)
    assert (shown["definition"]["description"], shown["recorded_sha256"]) == ("Reads.\nWhole disks.", digest)
    assert shown["recorded_definition"] == shown["definition"] | {"description": READ["description"]}
    every = json.loads(approvals("show", "files", "--json")[1])["tools"]
    assert [(each["tool"], each["recorded_sha256"] is None) for each in every] == [("read", False), ("write", True)]
    code, _, error = approvals("approve", "files", "read", "--sha256", digest)
    assert (code, error.splitlines()[-1]) == (1, f"callability: tool `read` has changed: its SHA-256 is {now}")
    assert (tmp_path / "approvals.yaml").read_text() == record
    assert approvals("approve", "files", "read", "--sha256", now.upper())[0] == 0
    assert (tmp_path / "approvals.yaml").read_text() == record.replace(digest, now)
    assert {path.stem for path in (tmp_path / "approvals.definitions").iterdir()} == {digest[3:], now[3:]}


def test_a_form_whose_text_is_not_kept_is_said_to_be_so(tmp_path: Path, approvals: Command) -> None:
    """Otherwise the whole definition is shown; a text that does not fit its digest is ignored."""
    _write(tmp_path, READ, records=f'files: {{read: {{sha256: "{"0" * 64}"}}}}\n')
    (tmp_path / "approvals.definitions").mkdir()
    (tmp_path / f"approvals.definitions/{'0' * 64}.json").write_text('{"name": "read", "description": "Harmless."}')
    code, said, _ = approvals("show", "files", "read")
    assert code == 0
    said_first, _, shown_whole = said.partition(", is not kept; as it is now:\n")
    assert said_first.endswith(f"it changed after it was recorded, and the text of that form, {'0' * 64}")
    assert shown_whole.startswith("name: read\n")
    assert "Harmless" not in said
    [shown] = json.loads(approvals("show", "files", "--json")[1])["tools"]
    assert (shown["recorded_sha256"], shown["recorded_definition"]) == ("0" * 64, None)


def test_all_tools_are_approved_and_nothing_else_of_their_records_changes(tmp_path: Path, approvals: Command) -> None:
    """A tool that is disabled stays so, and the output says so; comments stay."""
    before = "# mine\nfiles:\n  read: {disabled: true}  # for now\n  other: {status: pending}\n"
    _write(tmp_path, READ, {"name": "1e5"}, records=before)
    code, said, _ = approvals("approve", "files", "--all", "--yes")
    assert code == 0
    command = f"callability approvals enable files read --config {tmp_path}/mcp_config.json"
    assert f"it stays switched off; to switch it on, run `{command}`" in said
    after = (tmp_path / "approvals.yaml").read_text()
    [one, other] = re.findall(r"v2:[0-9a-f]{64}", after)
    assert after == before.replace("true}", f'true, status: approved, sha256: "{one}"}}') + (
        f'  "1e5": {{status: approved, sha256: "{other}"}}\n'
    )


def test_the_list_shows_what_is_known_about_each_tool(tmp_path: Path, approvals: Command) -> None:
    """Waiting tools first, then those that only a file names or the config denies, and why a server has none."""
    off = shelf(tmp_path, "off", READ, enabled=False, disabled_tools=["format"])
    held = shelf(tmp_path, "held", {"name": "bu\u202ern"}, quarantined=True, trust="manual")
    records = "files:\n  read: {disabled: true}\n  gone: {status: pending}\noff: {read: {status: none}}\n"
    _write(tmp_path, READ, records=records, held=held, off=off, broken={"command": "no-such-program"})
    code, table, errors = approvals("list")
    assert code == 1
    assert _rows(table) == [
        ["server", "tool", "approval", "pinned", "listed"],
        ["files", "gone", "pending", "no", "no"],
        ["held", "'bu\\u202ern'", "pending", "no", "yes"],
        ["files", "read", "approved, disabled", "no", "yes"],
        ["off", "read", "unknown", "no", "not asked"],
        ["off", "format", "not reviewed, denied by config", "no", "not asked"],
    ]
    assert "server `off` is switched off, and is not connected\nconnecting `files`, `held`, `broken`\n" in errors
    assert "\nserver `broken` could not be started: command `no-such-program` was not found\n" in errors
    code, text, errors = approvals("list", "files", "--offline", "--json")
    assert (code, errors) == (0, "")
    assert json.loads(text)["tools"][0] == {
        "server": "files",
        "tool": "gone",
        "approval": "pending",
        "disabled": False,
        "config_denied": False,
        "pinned": False,
        "listed": None,
        "sha256": None,
        "argument": "gone",
    }


def test_the_list_shows_what_a_failing_server_wrote_and_what_one_lists_that_cannot_be_used(
    tmp_path: Path, approvals: Command
) -> None:
    """The reason is often there, and the log of these commands has only errors."""
    says = f"import sys; print('no licence for {SECRET}', 'a\\x1bb', file=sys.stderr); sys.exit(3)"
    broken = {"command": sys.executable, "args": ["-c", says], "env": {"KEY": SECRET}}
    _write(tmp_path, READ, {"name": "odd", "inputSchema": 3}, broken=broken)
    code, table, errors = approvals("list")
    assert code == 1
    assert [row[1] for row in _rows(table)] == ["tool", "read"]
    assert (
        "server `broken` exited with code 3 before it answered\n  its standard error: no licence for *** a?b" in errors
    )
    assert "server `files` lists tools that cannot be used: tool `odd` has no valid `inputSchema`" in errors


def test_what_waits_for_a_person_can_be_listed_alone(tmp_path: Path, approvals: Command) -> None:
    """Pending or changed, even if the config denies it; the output says if nothing waits, with exit code 0."""
    new = shelf(tmp_path, "new", {"name": "copy"}, {"name": "send"}, trust="manual", enabled_tools=["copy"])
    _write(tmp_path, READ, WRITE, records=f'files: {{read: {{sha256: "{"0" * 64}"}}}}\n', new=new)
    code, table, _ = approvals("list", "--waiting")
    assert code == 0
    assert _rows(table)[1:] == [
        ["files", "read", "changed", "yes", "yes"],
        ["new", "copy", "pending", "no", "yes"],
        ["new", "send", "pending, denied by config", "no", "yes"],
    ]
    assert approvals("approve", "files", "--all", "--yes")[0] == 0
    code, said, _ = approvals("list", "files", "--waiting")
    assert (code, said) == (0, "no tool that is known waits for a review\n")
    code, text, _ = approvals("list", "files", "--waiting", "--json")
    assert (code, json.loads(text)) == (0, {"tools": [], "failures": {}})


WHOLE = {
    "name": "read",
    "title": "Read",
    "description": "Reads.",
    "inputSchema": {"type": "object"},
    "outputSchema": {"type": "object"},
    "annotations": {"title": "Reading", "readOnlyHint": True},
}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "reed"),
        ("title", "Delete"),
        ("description", "Reads all."),
        ("inputSchema", {"type": "object", "required": ["path"]}),
        ("outputSchema", {"type": "object", "required": ["text"]}),
        ("annotations", {"title": "Deleting", "readOnlyHint": True}),
        ("annotations", {"title": "Reading", "readOnlyHint": False}),
    ],
)
def test_whatever_is_pinned_is_shown(key: str, value: Any, tmp_path: Path) -> None:
    """Adding, changing or removing any part of it changes what a person sees."""
    definitions = Definitions(tmp_path)

    def seen(definition: dict[str, Any]) -> tuple[str, ...]:
        return tuple(review_lines(upstream_tool(Tool.model_validate(definition)), None, definitions))

    assert key in approved_part(Tool.model_validate(WHOLE))
    now, other = seen(WHOLE), seen(WHOLE | {key: value})
    assert f"{key}:" in {line.partition(" ")[0] for line in now}
    assert now != other


def test_every_key_that_is_pinned_is_shown(tmp_path: Path) -> None:
    """Under its own heading, with a title that differs from that of the annotations."""
    tool = Tool.model_validate(WHOLE)
    lines = tuple(review_lines(upstream_tool(tool), None, Definitions(tmp_path)))
    assert {line.partition(":")[0] for line in lines if line[0] not in " {}"} == approved_part(tool).keys()
    assert {"  | Read", '    "title": "Reading"'} <= set(lines)


@pytest.mark.parametrize("tool", ["-x", "$(id)\x1b[2J"])
def test_a_command_that_is_printed_has_the_files_of_the_one_before(tool: str, tmp_path: Path) -> None:
    """A shell can run it, even if names begin with a hyphen; an odd name is not in it."""
    write_config(tmp_path, {"-s": shelf(tmp_path, "-s", {"name": tool})})
    records = tmp_path / "my records.yaml"
    records.write_text(json.dumps({"-s": {tool: {"disabled": True}}}))
    files = ("--config", "mcp_config.json", "--approvals", records.name)
    done = callability("approvals", "approve", "--yes", *files, "--", "-s", tool, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(line.isprintable() for line in done.stdout.splitlines())
    [command] = re.findall(r"run `callability (.*)`", done.stdout)
    name = tool if tool == "-x" else "TOOL"
    absolute = ("--config", str(tmp_path / "mcp_config.json"), "--approvals", str(records))
    assert shlex.split(command) == ["approvals", "enable", *absolute, "--", "-s", name]
    arguments = [tool if word == "TOOL" else word for word in shlex.split(command)]
    assert callability(*arguments, cwd=tmp_path).returncode == 0
    assert '"disabled": false' in records.read_text()


def test_an_approvals_file_that_is_named_must_be_there(tmp_path: Path, approvals: Command) -> None:
    """For an option as for the config; it is an error, and not a warning."""
    _write(tmp_path, READ, records="{}\n")
    (tmp_path / "approvals.yaml").unlink()
    refused = "callability: the approvals are refused; a file without records holds `{}`\n"
    missing = "cannot be read: no such file or directory [unreadable-file]\n"
    assert approvals("list") == (1, "", f"approvals.yaml: {missing}{refused}")
    assert approvals("list", "--approvals", "none.yaml") == (1, "", f"none.yaml: {missing}{refused}")


def test_a_poisoned_definition_cannot_play_with_the_terminal(tmp_path: Path, approvals: Command) -> None:
    """Escapes, bidirectional controls and invisible characters are escaped, and no line looks like one of ours."""
    poison = "Reads.\n\x1b[2J\u202e\u200b\ufe0f\U000e0041\rsha256: 0\\u001b\ninputSchema:\n  {}"
    schema = {"type": "object", "description": f"{poison} |"}
    _write(tmp_path, {"name": "re\x1bad", "description": poison, "inputSchema": schema})
    code, said, _ = approvals("show", "files")
    assert code == 0
    assert all(line.isprintable() for line in said.splitlines())
    assert "\ufe0f" not in said
    lines = said.splitlines()
    assert lines[0] == "tool `re\\u001bad` of server `files`: not reviewed, callable under `trust: auto`"
    assert "  | \\u001b[2J\\u202e\\u200b\\ufe0f\\U000e0041\\u000dsha256: 0\\\\u001b" in lines
    assert lines.count("inputSchema:") == 1


def test_what_is_seen_is_not_escaped() -> None:
    """In any script."""
    assert escape("é 日本 हिन्दी 😀 `|\\") == "é 日本 हिन्दी 😀 `|\\"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ("approve", "files", "read"),
            2,
            "nobody can be asked, as standard input is not a terminal: give `--yes` or `--sha256 HEX`",
        ),
        (("approve", "fils", "read"), 2, "the config has no server `fils` (did you mean `files`?)"),
        (("approve", "files", "--yes"), 2, "name the tools, or give `--all` for every tool of the server"),
        (
            ("approve", "files", "a", "--all", "--yes"),
            2,
            "name the tools, or give `--all` for every tool of the server",
        ),
        (("approve", "files", "a", "b", "--sha256", "0"), 2, "`--sha256` goes with one tool"),
        (("approve", "files", "raed", "--yes"), 2, "server `files` lists no tool `raed` (did you mean `read`?)"),
        (("show", "fils"), 2, "the config has no server `fils` (did you mean `files`?)"),
        (("disable", "files", "raed"), 2, "server `files` lists no tool `raed` (did you mean `read`?)"),
        (
            ("approve", "off", "read", "--yes"),
            1,
            "server `off` is switched off, and lists nothing: run `callability servers enable off --config"
            " DIRECTORY/mcp_config.json` first",
        ),
        (
            ("approve", "broken", "read", "--yes"),
            1,
            "server `broken` could not be started: command `no-such-program` was not found, so that its tools cannot be"
            " seen",
        ),
        (
            ("disable", "files", "read", "--approvals", "none.yaml"),
            1,
            "the approvals are refused; a file without records holds `{}`",
        ),
    ],
)
def test_what_cannot_be_done_is_reported_with_what_to_do(
    arguments: tuple[str, ...], code: int, message: str, tmp_path: Path, approvals: Command
) -> None:
    """And nothing is written."""
    off = shelf(tmp_path, "off", READ, enabled=False)
    _write(tmp_path, READ, records="{}\n", off=off, broken={"command": "no-such-program", "args": [SECRET]})
    done, _, error = approvals(*arguments)
    assert (done, error.splitlines()[-1]) == (code, f"callability: {message.replace('DIRECTORY', str(tmp_path))}")
    assert (tmp_path / "approvals.yaml").read_text() == "{}\n"


def test_a_switch_of_a_tool_changes_nothing_else_of_its_record(tmp_path: Path, approvals: Command) -> None:
    """Off and on again; if the state is right already, nothing is done."""
    before = f'files: # all\n  read: {{status: pending, sha256: "{"a" * 64}"}} # later\n'
    _write(tmp_path, READ, records=before)
    said = "tool `read` of server `files` is switched off now: `disabled: true` in `approvals.yaml`\n"
    assert approvals("disable", "files", "read") == (0, said, "")
    assert (tmp_path / "approvals.yaml").read_text() == before.replace("}", ", disabled: true}")
    assert approvals("disable", "files", "read")[1].startswith("nothing to do: ")
    assert approvals("enable", "files", "read")[0] == 0
    assert (tmp_path / "approvals.yaml").read_text() == before.replace("}", ", disabled: false}")
    said = "nothing to do: tool `raed` of server `files` has no record that switches it off (did you mean `read`?)\n"
    assert approvals("enable", "files", "raed") == (0, said, "")


def test_disabling_and_enabling_a_tool_that_waits_for_approval_does_not_approve_it(
    tmp_path: Path, approvals: Command
) -> None:
    """A record without a status counts as approved, so the new record of an unreviewed tool has a status."""
    files = {"trust": "manual", **shelf(tmp_path, "files", READ)}
    write_config(tmp_path, {"files": files, "free": shelf(tmp_path, "free", READ)}, approvals="approvals.yaml")
    (tmp_path / "approvals.yaml").write_text("{}\n")
    written = "`disabled: true`, `status: pending` in `approvals.yaml`"
    said = f"tool `read` of server `files` is switched off now: {written}\n"
    assert approvals("disable", "files", "read")[:2] == (0, said)
    assert approvals("disable", "free", "read")[0] == 0
    assert approvals("enable", "files", "read")[0] == approvals("enable", "free", "read")[0] == 0
    listed = json.loads(approvals("list", "--json")[1])["tools"]
    assert {tool["server"]: tool["approval"] for tool in listed} == {"files": "pending", "free": "approved"}


def test_a_tool_that_cannot_be_verified_is_switched_off_all_the_same(tmp_path: Path, approvals: Command) -> None:
    """With a warning; the output says so if the file had records that no config named."""
    _write(tmp_path, READ, off=shelf(tmp_path, "off", READ, enabled=False))
    (tmp_path / "approvals.yaml").write_text("files: {read: {disabled: true}}\n")
    code, said, error = approvals("disable", "off", "read")
    assert (code, error) == (0, "not verified: whether server `off` has a tool `read`\n")
    assert "the gateway now uses this file, which had records already\n" in said
    code, _, error = approvals("disable", "files", "x", "--offline")
    assert (code, error) == (0, "not verified: whether server `files` has a tool `x`\n")
    assert (tmp_path / "approvals.yaml").read_text() == (
        'files: {read: {disabled: true}, x: {disabled: true}}\n"off":\n  read: {disabled: true}\n'
    )


@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("y", 0)])
def test_on_a_terminal_a_person_has_to_confirm(answer: str, code: int, tmp_path: Path) -> None:
    """After the definition was shown; without a yes, nothing is approved."""
    _write(tmp_path, READ, records="{}\n")
    ours, theirs = pty.openpty()
    command = [*COMMAND, "approvals", "approve", "files", "read", "--config", "mcp_config.json"]
    with subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    ) as process:
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        said, _ = process.communicate(timeout=120)
        os.close(ours)
    assert process.returncode == code
    assert b"| Whole files." in said.partition(b"Approve tool `read` of server `files` in this form? [y/N]")[0]
    assert ((tmp_path / "approvals.yaml").read_text() == "{}\n") is (answer == "n")
