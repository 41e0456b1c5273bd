"""What an agent is told to pass on to its user lifts the lock: the very command, run by a shell."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from support.gateways import call, over_stdio, retrieve, shelf, text_of, write_config

SECONDS = 120
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
LOCKED = {
    "off:shred_file": "server_disabled",
    "held:burn_file": "server_quarantined",
    "files:delete_file": "disabled_by_user",
    "files:write_file": "pending_approval",
    "files:move_file": "pending_approval",
    "files:-rf": "disabled_by_user",
    "new:copy_file": "pending_approval",
    "-new:copy_file": "pending_approval",
}
APPROVALS = f"""\
files:
  delete_file: {{disabled: true}}
  write_file: {{status: pending}}
  move_file: {{sha256: "{"0" * 64}"}}  # another form, so that it is a changed tool
  "-rf": {{disabled: true}}
"""


def _tool(name: str) -> dict[str, Any]:
    return {"name": name, "description": f"Does what {name} says to a file."}


def _config(directory: Path, **keys: Any) -> Path:
    """Write a config with a tool under each lock that a user can lift, in a directory whose name a shell reads."""
    place = directory / "it's here"
    place.mkdir()
    servers = {
        "files": shelf(place, "files", *map(_tool, ("delete_file", "write_file", "move_file", "-rf"))),
        "off": shelf(place, "off", _tool("shred_file"), enabled=False, disabled_tools=["other"]),
        "held": shelf(place, "held", _tool("burn_file"), quarantined=True),
        "new": shelf(place, "new", _tool("copy_file"), trust="manual"),
        "-new": shelf(place, "-new", _tool("copy_file"), trust="manual"),
    }
    return write_config(place, servers, **keys)


def _commands(text: str, server: str, tool: str) -> list[str]:
    """Return the commands in a text, with what SERVER and TOOL stand for."""
    found = [
        each.replace("SERVER", server).replace("TOOL", tool) for each in re.findall(r"`(callability [^`]*)`", text)
    ]
    assert found, text
    return found


def _run(command: str) -> str:
    """Run a command as a person would who says yes."""
    command = command.replace(" approve ", " approve --yes ")
    done = subprocess.run(
        ["sh", "-c", command],
        cwd="/",
        env=os.environ | {"PATH": PATH},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def _is_lifted(client: Client, name: str) -> None:
    """Wait until the gateway that runs calls a tool."""
    async with asyncio.timeout(SECONDS):
        while (result := await call(client, name)).is_error:  # noqa: ASYNC110 - only a call tells
            await asyncio.sleep(0.1)
    assert text_of(result) == f"{name.partition(':')[2]} was called"


async def _told(client: Client, name: str, where: str) -> str:
    """Return what an agent is told of a locked tool, at its call or by discovery."""
    result = await call(client, name)
    status = LOCKED[name]
    assert isinstance(result.structured_content, dict)
    assert result.structured_content["status"] == status
    if where == "rejection":
        return text_of(result)
    found = await retrieve(client, name.replace("_", " "), include_disabled=True)
    return str(found["remediation"][status])


@pytest.mark.parametrize(
    ("where", "approvals"),
    [("rejection", "of the config"), ("discovery", "of an option"), ("rejection", "none")],
)
def test_the_commands_that_are_told_lift_each_lock(where: str, approvals: str, tmp_path: Path) -> None:
    """At the same gateway, with its own files, from any directory; and no other lock is lifted on the way."""
    named = {"approvals": "approvals.yaml"} if approvals == "of the config" else {}
    config = _config(tmp_path, **named)
    records = config.with_name("records.yaml" if approvals == "of an option" else "approvals.yaml")
    locked = dict(LOCKED)
    if approvals == "none":
        locked = {name: status for name, status in locked.items() if not name.startswith("files:")}
    else:
        records.write_text(APPROVALS)
    option = ("--approvals", str(records)) if approvals == "of an option" else ()

    async def story() -> None:
        async with over_stdio(config, *option) as client:
            for name in locked:
                told = await _told(client, name, where)
                for command in _commands(told, *name.split(":")):
                    _run(command)
                await _is_lifted(client, name)

    asyncio.run(story())


def test_a_tool_that_changes_behind_a_running_gateway_is_open_again_when_it_is_approved(tmp_path: Path) -> None:
    """What a person approved is what the server lists now, also where the gateway has not heard of the change."""
    files = shelf(tmp_path, "files", _tool("copy_file"), trust="manual")
    config = write_config(tmp_path, {"files": files})

    async def story() -> None:
        async with over_stdio(config) as client:
            told = text_of(await call(client, "files:copy_file"))
            changed = {"name": "copy_file", "description": "Copies every file."}
            (tmp_path / "files-tools.json").write_text(json.dumps([changed]))
            for command in _commands(told, "files", "copy_file"):
                _run(command)
            await _is_lifted(client, "files:copy_file")
            [found] = (await retrieve(client, "copy"))["tools"]
            assert found["description"] == changed["description"]

    asyncio.run(story())


def test_the_commands_that_are_told_load_a_mended_server_anew(tmp_path: Path) -> None:
    """One that needs attention is opened again by nobody else; the gateway itself is not started again."""
    place = tmp_path / "it's here"
    place.mkdir()
    config = write_config(place, {"late": {"command": str(place / "late")}})
    mended = shelf(place, "late", _tool("copy_file"))

    async def story() -> None:
        async with over_stdio(config) as client:
            notice = (await retrieve(client, "copy"))["notice"]
            assert notice.startswith('Needs attention: "late" (could not be started')
            (place / "late").write_text(f"#!/bin/sh\nexec {mended['command']} {shlex.join(mended['args'])}\n")
            (place / "late").chmod(0o755)
            for command in _commands(notice, "late", ""):
                _run(command)
            await _is_lifted(client, "late:copy_file")

    asyncio.run(story())


@pytest.mark.parametrize("lists", [{"disabled_tools": ["format_disk"]}, {"enabled_tools": ["read_file"]}], ids=str)
def test_a_lock_of_the_operator_names_no_command(lists: dict[str, Any], tmp_path: Path) -> None:
    """SC-003: there is no switch of the user's for it, in no answer."""
    files = shelf(tmp_path, "files", _tool("format_disk"), **lists)

    async def story() -> None:
        async with over_stdio(write_config(tmp_path, {"files": files})) as client:
            rejected = text_of(await call(client, "files:format_disk"))
            found = await retrieve(client, "format disk", include_disabled=True)
            for told in (rejected, found["remediation"]["disabled_by_config"]):
                assert "`callability" not in told
                assert "change `enabled_tools` or `disabled_tools` in the entry of the server" in told

    asyncio.run(story())


def test_a_name_that_is_not_plain_stands_in_no_command(tmp_path: Path) -> None:
    """The agent and its user then put it there themselves; that of its server stands there all the same."""
    names = ("a b", "-a b", "$(id)", "a`b", "x" * 129, "é", "a;b\n")
    files = shelf(tmp_path, "files", *({"name": name} for name in names), trust="manual")

    async def story() -> None:
        async with over_stdio(write_config(tmp_path, {"files": files})) as client:
            for name in names:
                told = text_of(await call(client, f"files:{name}"))
                assert re.search(r"`callability approvals approve --config \S+ -- files TOOL`", told)
                assert ", where TOOL stands for the name of the tool, without its server." in told

    asyncio.run(story())
