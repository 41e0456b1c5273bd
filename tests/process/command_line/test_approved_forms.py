"""`callability approvals approve`: which forms of a tool an approval is for."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.commands import callability
from support.gateway_in_process import client_of
from support.gateways import alternating, call, shelf, text_of, write_config
from support.running import COMMAND

READ = {
    "name": "read",
    "description": "Reads.",
    "inputSchema": {"type": "object", "required": ["path", "from"], "properties": {"how": {"enum": ["a", "b"]}}},
}
TURNED = READ | {
    "inputSchema": {"type": "object", "required": ["from", "path"], "properties": {"how": {"enum": ["b", "a"]}}}
}
OTHER = READ | {"description": "Reads, as of start 2."}
WRITE = {"name": "write", "description": "Writes."}
Ended = tuple[int, str, str]
Command = Callable[..., Ended]


@pytest.fixture
def approvals(tmp_path: Path) -> Command:
    """Run `callability approvals` beside a config."""

    def run(*arguments: str) -> Ended:
        done = callability("approvals", *arguments, "--config", "mcp_config.json", cwd=tmp_path)
        return done.returncode, done.stdout, done.stderr

    return run


def _write(directory: Path, server: dict[str, Any], records: Any) -> Path:
    """Write a config with a server whose tools need an approval, and its approvals file; return the config."""
    (directory / "approvals.json").write_text(json.dumps(records))
    return write_config(directory, {"files": server | {"trust": "manual"}}, approvals="approvals.json")


def _record(directory: Path, tool: str = "read") -> Any:
    return json.loads((directory / "approvals.json").read_text()).get("files", {}).get(tool)


def _answer(config: Path) -> str:
    """Start a gateway, and return what a call of the tool is answered with."""

    async def story() -> str:
        async with client_of(config) as client:
            return text_of(await call(client, "files:read"))

    return asyncio.run(story())


def test_a_server_that_orders_its_sets_in_another_way_at_each_start_can_be_approved(
    tmp_path: Path, approvals: Command
) -> None:
    """The order of `required` and `enum` means nothing, and differs where a program keeps them in a hash table."""
    config = _write(tmp_path, alternating(tmp_path, "files", [READ], [TURNED]), {})
    code, said, _ = approvals("approve", "files", "read", "--yes")
    assert (code, said.splitlines()[-1].partition(" v2:")[0]) == (
        0,
        "tool `read` of server `files` is approved in the form",
    )
    assert [_answer(config) for _ in range(2)] == ["read was called"] * 2
    assert approvals("approve", "files", "read", "--yes")[1].startswith("nothing to do: ")


def test_a_record_of_the_version_before_stays_approved_and_the_next_approval_renews_it(
    tmp_path: Path, approvals: Command
) -> None:
    """Nobody has to review again because of a release."""
    canonical = json.dumps(READ, sort_keys=True, separators=(",", ":"))
    earlier = hashlib.sha256(canonical.encode()).hexdigest()
    config = _write(tmp_path, shelf(tmp_path, "files", READ), {"files": {"read": {"sha256": earlier}}})
    assert _answer(config) == "read was called"
    [listed] = json.loads(approvals("list", "--json")[1])["tools"]
    assert (listed["approval"], listed["pinned"], listed["sha256"][:3]) == ("approved", True, "v2:")
    assert approvals("approve", "files", "read", "--sha256", earlier)[0] == 0
    assert _record(tmp_path) == {"sha256": listed["sha256"], "status": "approved"}
    assert _answer(config) == "read was called"
    (tmp_path / "files-tools.json").write_text(json.dumps([TURNED]))
    assert _answer(config) == "read was called"


def test_a_form_that_changes_at_each_start_is_reported_and_not_pinned(tmp_path: Path, approvals: Command) -> None:
    """An approval of it would be void at the next start; the others of the server are approved."""
    server = alternating(tmp_path, "files", [READ, WRITE, {"name": "gone"}], [OTHER, WRITE])
    config = _write(tmp_path, server, {})
    code, said, error = approvals("approve", "files", "read", "write", "gone", "--yes")
    assert code == 1
    assert "tool `read` of server `files` is not the same each time that it is listed:\n--- first  v2:" in said
    assert "\n-  | Reads.\n+  | Reads, as of start 2.\n" in said
    assert "listed:\nthe second time, it was not listed\n" in said
    assert error.splitlines()[-3:] == [
        *(
            f"skipped: {name} (an approval of this form would not last; make the server list one form, or approve the"
            " name alone by `--any-form`)"
            for name in ("read", "gone")
        ),
        "callability: not approved: 2 tools of server `files`",
    ]
    assert (_record(tmp_path), _record(tmp_path, "gone")) == (None, None)
    assert _record(tmp_path, "write")["status"] == "approved"
    assert approvals("approve", "files", "--all", "--yes")[0] == 1
    assert _answer(config).startswith("Not called: pending_approval")


def test_a_name_is_approved_without_a_pin_on_request(tmp_path: Path, approvals: Command) -> None:
    """The command says what that gives up; a record with a pin loses it."""
    server = alternating(tmp_path, "files", [READ], [OTHER])
    config = _write(tmp_path, server, {"files": {"read": {"sha256": "0" * 64}}})
    code, said, _ = approvals("approve", "files", "read", "--any-form", "--yes")
    assert code == 0
    assert said.splitlines()[-2:] == [
        "without a pin, whatever the server makes of a tool of this name is approved: a change locks nothing",
        "tool `read` of server `files` is approved in any form",
    ]
    assert _record(tmp_path) == {"sha256": "any", "status": "approved"}
    assert [_answer(config) for _ in range(2)] == ["read was called"] * 2
    [listed] = json.loads(approvals("list", "--json")[1])["tools"]
    assert (listed["approval"], listed["pinned"]) == ("approved", False)
    assert approvals("approve", "files", "read", "--any-form", "--yes")[1].startswith("nothing to do: ")
    for others in (["--all"], ["read", "--sha256", "0" * 64]):
        assert approvals("approve", "files", *others, "--any-form")[0] == 2


def test_a_record_of_no_known_version_opens_nothing(tmp_path: Path, approvals: Command) -> None:
    """It may be of a later release."""
    config = _write(tmp_path, shelf(tmp_path, "files", READ), {"files": {"read": {"sha256": f"v3:{'0' * 64}"}}})
    assert _answer(config).startswith("Not called: ")
    assert json.loads(approvals("list", "--json")[1])["tools"][0]["approval"] == "unknown"


def test_an_order_that_alone_changed_is_said_to_be_so(tmp_path: Path, approvals: Command) -> None:
    """A record of the version before locks such a tool; a person sees that nothing else differs."""
    config = _write(tmp_path, shelf(tmp_path, "files", READ), {})
    assert approvals("approve", "files", "read", "--yes")[0] == 0
    pinned = _record(tmp_path)["sha256"]
    canonical = json.dumps(READ, sort_keys=True, separators=(",", ":"))
    earlier = hashlib.sha256(canonical.encode()).hexdigest()
    (tmp_path / f"approvals.definitions/{earlier}.json").write_text(canonical)
    (tmp_path / "approvals.json").write_text(json.dumps({"files": {"read": {"sha256": earlier}}}))
    (tmp_path / "files-tools.json").write_text(json.dumps([TURNED]))
    assert _answer(config).startswith("Not called: ")
    code, said, _ = approvals("approve", "files", "read", "--yes")
    assert code == 0
    assert f"it differs from what was recorded, {earlier}, only in the order of sets\n" in said
    assert _record(tmp_path) == {"sha256": pinned, "status": "approved"}


@pytest.mark.parametrize("answers", ["yn", "ny"])
def test_each_changed_tool_has_a_question_of_its_own_below_its_change(answers: str, tmp_path: Path) -> None:
    """The new ones come before, together; a no to one keeps the others."""
    changed = {"status": "approved", "sha256": "0" * 64}
    tools: list[dict[str, Any]] = [READ, WRITE, {"name": "copy"}]
    _write(tmp_path, shelf(tmp_path, "files", *tools), {"files": {"read": changed, "write": changed}})
    ours, theirs = pty.openpty()
    command = [*COMMAND, "approvals", "approve", "files", "--all", "--config", "mcp_config.json"]
    with subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    ) as process:
        os.close(theirs)
        os.write(ours, "\n".join(f"y{answers}").encode() + b"\n")
        said, error = process.communicate(timeout=120)
        os.close(ours)
    assert process.returncode == 1
    new, read, write = said.decode().split(" [y/N]: ")[:3]
    assert new.endswith("Approve tool `copy` of server `files` in this form?")
    for part, name in ((read, "read"), (write, "write")):
        assert f"tool `{name}` of server `files`: changed\n" in part
        assert part.endswith(f"It changed after its approval. Approve tool `{name}` of server `files` in the new form?")
    kept = "write" if answers == "yn" else "read"
    assert error.decode().splitlines()[-1] == f"callability: not approved: tool `{kept}` of server `files`"
    assert _record(tmp_path, kept) == changed
    assert all(_record(tmp_path, tool["name"])["sha256"][:3] == "v2:" for tool in tools if tool["name"] != kept)
