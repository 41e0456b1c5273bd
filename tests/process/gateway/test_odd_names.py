"""Tools with odd names: upstreams choose names, and no name may affect more than its own tool."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callability.cli.options import argument_of, cell_of, name_of, word_of
from callability.contract.vocabulary import is_plain, unrecordable
from callability.files import document
from callability.files.editing import EditRefused, edited_bytes, new_file
from callability.files.spelling import Tree
from callability.gateway.config.approvals import load_approvals
from support.commands import callability
from support.gateway_in_process import client_of
from support.gateways import call, retrieve, shelf, text_of, write_config
from support.running import COMMAND, serving

HOSTILE = {"1,030 characters": "x" * 1030, "control characters": "\x01" * 200}
ODD = ("read all files", 'it\'s "odd" $(id) `x`', "back\\slash", "\u8aad\u3080", "-x y", "un\ufe0fseen", '"' * 512)
UNREADABLE = "and only a tool with a name of 1 to 512 bytes can be called"


def _write(directory: Path, *names: str, **keys: Any) -> None:
    """Write a config with a server `good` that lists `read`, and a server `evil` that lists other tools."""
    tools = [{"name": name, "description": "Reads."} for name in names]
    servers = {
        "good": shelf(directory, "good", {"name": "read", "description": "Reads."}, trust="manual"),
        "evil": shelf(directory, "evil", *tools, trust="manual"),
    }
    write_config(directory, servers, **keys)


def _approvals(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    verb, *rest = arguments
    return callability("approvals", verb, "--config", "mcp_config.json", *rest, cwd=directory)


def _pinned(directory: Path) -> set[tuple[str, str]]:
    approvals = load_approvals(directory / "approvals.yaml")
    assert approvals.readable, approvals.warnings
    return {(server, tool) for server, tools in approvals.records.items() for tool in tools}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("first", [True, False], ids=["in a new file", "in a file with records"])
def test_a_name_that_cannot_be_written_costs_no_other_approval(name: str, first: bool, tmp_path: Path) -> None:
    """`--all` skips it, reports it and exits with 1; the file stays readable and keeps its content."""
    _write(tmp_path, name, "plain")
    if not first:
        assert _approvals(tmp_path, "approve", "good", "--all", "--yes").returncode == 0
    done = _approvals(tmp_path, "approve", "evil", "--all", "--yes")
    assert done.returncode == 1
    said = done.stderr.splitlines()
    assert said[-2].startswith(f"skipped: {cell_of(name)} (it cannot be approved: its name has ")
    assert said[-1].startswith("callability: 1 tool of server `evil` skipped: ")
    if first:
        assert _approvals(tmp_path, "approve", "good", "--all", "--yes").returncode == 0
    assert _pinned(tmp_path) == {("good", "read"), ("evil", "plain")}
    listed = _approvals(tmp_path, "list")
    assert listed.returncode == 0
    assert all(line.isprintable() and len(line) < 250 for line in listed.stdout.splitlines())


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("verb", [("approve", "--yes"), ("disable", "--offline")], ids=["approve", "disable"])
def test_a_name_that_cannot_be_written_is_refused_when_it_is_given(
    name: str, verb: tuple[str, str], tmp_path: Path
) -> None:
    """With the reason; no file is created."""
    _write(tmp_path, name)
    done = _approvals(tmp_path, *verb, "evil", argument_of(name))
    assert done.returncode == 1
    assert re.search(r"callability: tool `.*` of server `evil` cannot have a record: its name has ", done.stderr)
    assert not (tmp_path / "approvals.yaml").exists()


def test_an_odd_name_is_approved_as_the_list_writes_it_and_is_called(tmp_path: Path) -> None:
    """The word in the list can be pasted into a shell; `--all` approves none of them and is then done."""
    _write(tmp_path, *ODD, approvals="approvals.yaml")
    (tmp_path / "approvals.yaml").write_text("{}\n")
    skipping = _approvals(tmp_path, "approve", "evil", "--all", "--yes")
    assert skipping.returncode == 1
    assert skipping.stderr.count("(approve it by its name)\n") == len(ODD)
    assert _pinned(tmp_path) == set()
    table = _approvals(tmp_path, "list", "evil")
    words = [re.split(r"  +(?=pending)", line.removeprefix("evil    "))[0] for line in table.stdout.splitlines()[1:]]
    assert table.stderr.count("in its quotes\n") == table.stderr.count("under `argument`\n") == 1
    tools = json.loads(_approvals(tmp_path, "list", "evil", "--json").stdout)["tools"]
    whole = [word if word.endswith("'") else f"'{tool['argument']}'" for word, tool in zip(words, tools, strict=True)]
    command = shlex.join([*COMMAND, "approvals", "approve", "evil", "--yes", "--config", "mcp_config.json"])
    subprocess.run(["sh", "-c", f"{command} -- {' '.join(whole)}"], cwd=tmp_path, check=True, capture_output=True)
    assert _pinned(tmp_path) == {("evil", name) for name in ODD}
    assert _approvals(tmp_path, "approve", "evil", "--all", "--yes").returncode == 0

    async def answers() -> list[str]:
        async with client_of(tmp_path / "mcp_config.json") as client:
            return [text_of(await call(client, f"evil:{name}")) for name in ODD]

    assert asyncio.run(answers()) == [f"{name} was called" for name in ODD]


def test_a_withheld_tool_with_an_odd_name_is_counted_and_not_named(tmp_path: Path) -> None:
    """In the notice as in the list; an agent that calls it by its name reads why it is locked (A.3)."""
    names = [f"read {name}" for name in HOSTILE.values()] + ["read"]
    _write(tmp_path, *names)

    async def check() -> None:
        async with client_of(tmp_path / "mcp_config.json") as client:
            notice = (await retrieve(client, "read"))["notice"]
            assert notice.startswith("4 matching tools exist")
            answer = await retrieve(client, "read", include_disabled=True)
            assert sorted(each["name"] for each in answer["disabled"]) == ["evil:read", "good:read"]
            assert answer["disabled_total"] == 4
            counts = (await client.call_tool("upstream_servers", {"operation": "get", "name": "evil"})).content
            assert "xxx" not in str(counts)
            assert "u0001" not in str(counts)
            rejected = await call(client, f"evil:{names[1]}")
            assert isinstance(rejected.structured_content, dict)
            assert rejected.structured_content["status"] == "pending_approval"
            assert rejected.structured_content["tool"] == names[1][:128]

    asyncio.run(check())


def test_a_tool_that_cannot_be_approved_or_called_is_refused_with_what_can_be_done(tmp_path: Path) -> None:
    """No agent passes on a command that refuses the name, or waits for a tool that no request can name (E-9)."""
    unprintable, long = "bu\u202ern", "x" * 1030
    _write(tmp_path, unprintable, long)

    async def check() -> None:
        async with client_of(tmp_path / "mcp_config.json") as client:
            locked = await call(client, f"evil:{unprintable}")
            assert "approvals approve" not in text_of(locked)
            assert "a tool with such a name cannot be approved" in text_of(locked)
            never = await call(client, f"evil:{long}")
            assert isinstance(never.structured_content, dict)
            assert never.structured_content["status"] == "disabled_unknown"
            assert never.structured_content["retry"] == "never"
            assert "The name of this tool has 1,030 bytes" in text_of(never)

    asyncio.run(check())


def test_a_name_that_no_request_can_hold_costs_no_other_tool(tmp_path: Path) -> None:
    """A server that lists one would otherwise end discovery and calls for every agent."""
    _write(tmp_path, "x" * 1_100_000, "plain")
    assert _approvals(tmp_path, "approve", "good", "--all", "--yes").returncode == 0

    async def ask(address: str) -> None:
        async with client_of(tmp_path / "mcp_config.json", "--policy-address", address) as client:
            found = await retrieve(client, "read", include_disabled=True)
            assert [each["name"] for each in found["tools"]] == ["good:read"]
            assert not (await call(client, "good:read")).is_error

    with serving() as address:
        asyncio.run(ask(address))


def test_a_tool_that_was_disabled_by_hand_can_be_enabled_whatever_its_name(tmp_path: Path) -> None:
    """Its record exists already, so no new name is written to the file."""
    _write(tmp_path, "\x01", approvals="approvals.yaml")
    (tmp_path / "approvals.yaml").write_text('evil: {"\\u0001": {disabled: true}}\n')
    assert _approvals(tmp_path, "enable", "evil", "\\u0001").returncode == 0
    assert (tmp_path / "approvals.yaml").read_text() == 'evil: {"\\u0001": {disabled: false}}\n'


def test_a_backslash_that_begins_no_escape_is_a_wrong_call(tmp_path: Path) -> None:
    """With what is expected, before any server is connected."""
    _write(tmp_path, "read")
    for word in ("a\\b", "\\u12", "\\Uffffffff", "\\"):
        done = _approvals(tmp_path, "show", "evil", word)
        assert done.returncode == 2
        assert done.stderr.startswith("callability: a backslash in TOOL begins an escape, as in `\\\\`, `\\u202e` or ")


NAMES = st.text(max_size=8) | st.text("\\u'\" `$0123\ufe0f\u202e\n", max_size=12)


@given(NAMES, NAMES)
def test_every_name_has_a_word_of_its_own_that_a_shell_reads_as_the_argument(one: str, other: str) -> None:
    """It is printable, and the argument stands for exactly this name."""
    for name in (one, other):
        assert name_of(argument_of(name)) == name
        assert shlex.split(word_of(name)) == [argument_of(name)]
        assert word_of(name).isprintable()
        assert (word_of(name) == name) is is_plain(name)
    assert (word_of(one) == word_of(other)) is (one == other)


HOSTILE_KEYS = (
    st.text(min_size=1, max_size=6)
    | st.characters(codec=None).map(lambda character: character * 3)
    | st.sampled_from(["x", "\x01", '"', "'", "\\", "\u00e9", "\U0001f600", "? ", ": ", " #"]).flatmap(
        lambda part: st.integers(1, 1100).map(lambda count: part * count)
    )
)
RECORD: Tree = {"status": "approved", "sha256": "1e5" + "0" * 61}


@given(
    st.dictionaries(HOSTILE_KEYS, st.just(RECORD), min_size=1, max_size=4),
    st.sampled_from(["a.yaml", "a.json"]),
    st.sampled_from(["", "evil: {}\n", "good:\n  read: {}\n", '{"good": {"read": {}}}']),
)
def test_whatever_is_written_is_read_again_as_what_was_meant(tools: dict[str, Tree], file: str, before: str) -> None:
    """In a new file and in one with records; an invalid name is refused, and a valid one never."""
    if before and file.endswith(".json"):
        before = '{"good": {"read": {}}}'
    tree: Tree = {"evil": tools}
    kept = document.plain(document.parse(before.encode(), file)) if before else {}
    assert isinstance(kept, dict)
    try:
        written = edited_bytes(before.encode(), file, tree) if before else new_file(file, tree)
    except EditRefused:
        # JSON has one way to quote a key, and one of more than 1,024 characters is none.
        assert any(unrecordable(name) or (file == "a.json" and len(json.dumps(name)) > 1024) for name in tools)
        return
    assert document.plain(document.parse(written, file)) == {**kept, **tree}


def test_a_file_that_would_be_too_large_is_not_written(tmp_path: Path) -> None:
    """The error says what it would be; the file is unchanged."""
    tree: Tree = {"evil": {f"tool{number}": RECORD for number in range(9_000)}}
    with pytest.raises(EditRefused, match=r"nothing was changed, .* again afterwards: is larger than 524,288 bytes"):
        new_file("a.yaml", tree)
    with pytest.raises(EditRefused, match="nothing was changed"):
        edited_bytes(b"{}\n", "a.yaml", tree)
