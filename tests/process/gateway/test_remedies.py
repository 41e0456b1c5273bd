"""The command that an agent passes on to its user lifts the lock when a shell runs it."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from support.commands import callability
from support.gateway_in_process import client_of
from support.gateways import call, retrieve, shelf, stdio_gateway, text_of, write_config

SECONDS = 120
PROGRAM = Path(sys.executable).with_name("callability")
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


def _config(place: Path, **keys: Any) -> Path:
    """Write a config with a tool under each lock that a user can lift."""
    place.mkdir(parents=True)
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


def _in_shell(command: str, home: Path) -> str:
    """Let a shell do a command, from another directory, with only the home directory set, and return the output."""
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd="/",
        env={"HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _as_a_person(command: str) -> str:
    """Return a command to which a person answers yes."""
    return command.replace(" approve ", " approve --yes ")


def _run(command: str, home: Path) -> None:
    """Run a command by its name, like a person who answers yes."""
    program = f'callability() {{ {shlex.quote(str(PROGRAM))} "$@"; }}; '
    _in_shell(program + _as_a_person(command), home)


def _run_here(command: str, home: Path) -> None:
    """Run in this process what a shell makes of a command, like a person who answers yes."""
    called = _in_shell("callability() { printf '%s\\0' \"$@\"; echo; }; " + _as_a_person(command), home)
    for words in called.splitlines():
        done = callability(*words.split("\0")[:-1], cwd=Path("/"), env={"HOME": str(home)})
        assert done.returncode == 0, done.stderr


async def _is_lifted(client: Client, name: str) -> None:
    """Wait until the gateway that runs calls a tool."""
    async with asyncio.timeout(SECONDS):
        while (result := await call(client, name)).is_error:  # noqa: ASYNC110 - only a call shows it
            await asyncio.sleep(0.1)
    assert text_of(result) == f"{name.partition(':')[2]} was called"


async def _text_of(client: Client, name: str, where: str) -> str:
    """Return what an agent reads about a locked tool, in a rejection or in discovery."""
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
def test_the_printed_commands_lift_each_lock(where: str, approvals: str, tmp_path: Path) -> None:
    """At the same gateway, with its own files, from any directory; and no other lock is lifted."""
    named = {"approvals": "approvals.yaml"} if approvals == "of the config" else {}
    config = _config(tmp_path / "it's here", **named)
    records = config.with_name("records.yaml" if approvals == "of an option" else "approvals.yaml")
    locked = dict(LOCKED)
    if approvals == "none":
        locked = {name: status for name, status in locked.items() if not name.startswith("files:")}
    else:
        records.write_text(APPROVALS)
    option = ("--approvals", str(records)) if approvals == "of an option" else ()

    async def story() -> None:
        async with client_of(config, *option) as client:
            printed = await _lifted(client, locked, where, tmp_path)
        assert all("--config" in command for command in printed)

    asyncio.run(story())


@pytest.mark.parametrize(("where", "name"), [("rejection", "gateway.json"), ("discovery", "gateway.yaml")])
def test_the_printed_commands_are_short_where_the_config_is_in_the_default_place(
    where: str, name: str, tmp_path: Path
) -> None:
    """They find the config of the gateway by themselves."""
    written = _config(tmp_path / ".config/callability", approvals="approvals.yaml")
    written.rename(written.with_name(name))
    written.with_name("approvals.yaml").write_text(APPROVALS)

    async def story() -> None:
        async with _in_default_place(tmp_path) as client:
            printed = await _lifted(client, LOCKED, where, tmp_path)
        assert not any("--config" in command for command in printed)

    asyncio.run(story())


@asynccontextmanager
async def _in_default_place(home: Path) -> AsyncIterator[Client]:
    """Run a gateway with the config in the configuration directory of a user."""
    with (home / "gateway.log").open("w") as log:
        async with Client(stdio_gateway(env={"HOME": str(home)}, cwd="/", errlog=log)) as client:
            yield client


async def _lifted(client: Client, locked: Mapping[str, str], where: str, home: Path) -> list[str]:
    """Run the printed commands for each locked tool, check that its lock is lifted, and return the commands."""
    printed = []
    for name in locked:
        for command in _commands(await _text_of(client, name, where), *name.split(":")):
            _run_here(command, home)
            printed.append(command)
        await _is_lifted(client, name)
    return printed


def test_a_tool_that_changes_behind_a_running_gateway_is_open_again_when_it_is_approved(tmp_path: Path) -> None:
    """The approval is for what the server lists now, even if the gateway has not read the change."""
    files = shelf(tmp_path, "files", _tool("copy_file"), trust="manual")
    config = write_config(tmp_path, {"files": files})

    async def story() -> None:
        async with client_of(config) as client:
            rejection_text = text_of(await call(client, "files:copy_file"))
            changed = {"name": "copy_file", "description": "Copies every file."}
            (tmp_path / "files-tools.json").write_text(json.dumps([changed]))
            for command in _commands(rejection_text, "files", "copy_file"):
                _run(command, tmp_path)
            await _is_lifted(client, "files:copy_file")
            [found] = (await retrieve(client, "copy"))["tools"]
            assert found["description"] == changed["description"]

    asyncio.run(story())


def test_the_printed_commands_load_a_repaired_server_again(tmp_path: Path) -> None:
    """The gateway does not retry a server that needs attention by itself, and it is not restarted."""
    place = tmp_path / "it's here"
    place.mkdir()
    config = write_config(place, {"late": {"command": str(place / "late")}})
    replaced = shelf(place, "late", _tool("copy_file"))

    async def story() -> None:
        async with client_of(config) as client:
            notice = (await retrieve(client, "copy"))["notice"]
            assert notice.startswith('Needs attention: "late" (could not be started')
            (place / "late").write_text(f"#!/bin/sh\nexec {replaced['command']} {shlex.join(replaced['args'])}\n")
            (place / "late").chmod(0o755)
            [command] = _commands(notice, "late", "")
            assert command.startswith("callability servers enable ")
            assert "&&" not in command
            await asyncio.to_thread(_run, command, tmp_path)
            await _is_lifted(client, "late:copy_file")

    asyncio.run(story())


@pytest.mark.parametrize("lists", [{"disabled_tools": ["format_disk"]}, {"enabled_tools": ["read_file"]}], ids=str)
def test_a_lock_of_the_operator_names_no_command(lists: dict[str, Any], tmp_path: Path) -> None:
    """SC-003: no answer names a switch of the user for it."""
    files = shelf(tmp_path, "files", _tool("format_disk"), **lists)

    async def story() -> None:
        async with client_of(write_config(tmp_path, {"files": files})) as client:
            rejected = text_of(await call(client, "files:format_disk"))
            found = await retrieve(client, "format disk", include_disabled=True)
            for rejection_text in (rejected, found["remediation"]["disabled_by_config"]):
                assert "`callability" not in rejection_text
                assert "edit `enabled_tools` or `disabled_tools` in " in rejection_text

    asyncio.run(story())


def test_a_name_that_is_not_plain_stands_in_no_command(tmp_path: Path) -> None:
    """The agent and its user fill the name in; the name of the server is in the command."""
    names = ("a b", "-a b", "$(id)", "a`b", "x" * 129, "é", "a;b")
    files = shelf(tmp_path, "files", *({"name": name} for name in names), trust="manual")

    async def story() -> None:
        async with client_of(write_config(tmp_path, {"files": files})) as client:
            for name in names:
                rejection_text = text_of(await call(client, f"files:{name}"))
                assert re.search(r"`callability approvals approve --config \S+ -- files TOOL`", rejection_text)
                assert " (TOOL: the tool's name without its server)." in rejection_text

    asyncio.run(story())
