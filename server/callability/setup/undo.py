"""Undoing a setup: byte for byte where nothing else changed a file, and otherwise the servers alone.

Everything is worked out before anything is written: what cannot be undone refuses the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from callability.contract.finding import as_code, list_names
from callability.files import document
from callability.files.editing import EditRefused, edited_bytes, turn, without
from callability.files.editing import replace as replace_file
from callability.gateway.config.variables import SECRETS_FILE, written_secrets
from callability.setup.client_file import ClientFile, Unusable, content_of, with_members
from callability.setup.clients import ConfigForm
from callability.setup.writing import (
    FileChange,
    Installed,
    Run,
    backup_of,
    digest_of,
    read_record,
    record_of,
    remove_secrets,
    unused_secrets,
    write_record,
)

Write = Callable[[], None]


@dataclass(slots=True)
class Undo:
    """What an undo would do, in lines, and what does it; no lines if there is nothing to undo."""

    lines: list[str] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)


def plan_undo(config: Path, client: str = "") -> Undo:
    """Return the undo of every setup of a config, or only of the installations in a client.

    Raises:
        Unusable: something cannot be undone; the message has a line for each file, and says what to do.
    """
    runs = read_record(config)
    undo = Undo()
    contents: dict[Path, bytes | None] = {}
    touched: dict[Path, FileChange] = {}
    kept_there: dict[Path, set[str]] = {}
    faults: dict[Path, str] = {}
    left: list[Run] = []
    for run in reversed(runs):
        chosen = [each for each in run.installed if not client or each.client == client]
        for change in run.files:
            entries = [each for each in chosen if each.path == change.path]
            path = Path(change.path)
            if entries and path not in faults:
                now = contents[path] if path in contents else _current_bytes(path)
                try:
                    contents[path], kept_names = _restore_file(config, change, entries, now)
                    kept_there.setdefault(path, set()).update(kept_names)
                    touched[path] = change
                except Unusable as error:
                    faults[path] = str(error)
        if client:
            rest = tuple(each for each in run.installed if each not in chosen)
            paths = {each.path for each in rest}
            left.append(replace(run, installed=rest, files=tuple(each for each in run.files if each.path in paths)))
    if faults:
        raise Unusable("\n".join(faults.values()))
    for path, data in contents.items():
        is_whole = ("" if data is None else document.digest(data)) == touched[path].before
        undo.lines.append(f"{path}: {_promise(path, data, is_whole=is_whole, kept=kept_there[path])}")
        undo.writes.append(partial(_write_file, path, data))
    agents = {each.agent for run in runs for each in run.installed if each.client == client} if client else None
    if not runs or (client and not agents):
        return undo
    _undo_config(config, runs, undo, agents)
    backups = [backup_of(config, each) for run in runs for each in (*run.files, run.config) if each and each.backup]
    kept = {backup_of(config, each) for run in left for each in (*run.files, run.config) if each and each.backup}
    if not client:
        undo.lines.append(f"{record_of(config)}: will be removed, and the copies of files that it names")
    remaining = [run for run in left if run.installed or run.servers or run.agents or run.secrets]
    undo.writes.append(lambda: write_record(config, tuple(reversed(remaining))))
    undo.writes.append(lambda: _remove_backups([each for each in backups if each not in kept]))
    return undo


def write_undo(config: Path, undo: Undo) -> None:
    """Write what was worked out.

    Raises:
        OSError: a file cannot be written; the record is as it was, and the undo can be tried again.
    """
    with turn(config.resolve().parent):
        for write in undo.writes:
            write()


def _restore_file(
    config: Path, change: FileChange, entries: list[Installed], now: bytes | None
) -> tuple[bytes | None, set[str]]:
    """Return what a file is after an undo, None if there is none, and its servers that stand in the way of taken ones.

    A file that is gone, as after its client was removed, comes back: its servers are nowhere else.
    """
    digest = "" if now is None else document.digest(now)
    if digest == change.before:
        return now, set()
    before = backup_of(config, change).read_bytes() if change.backup else None
    if now is None or digest == change.after:
        return before, set()
    kept: set[str] = set()
    for entry in entries:
        now, names = _put_servers_back(entry, before, now)
        kept |= names
    return now, kept


def _put_servers_back(entry: Installed, before: bytes | None, now: bytes) -> tuple[bytes, set[str]]:
    path, form = Path(entry.path), ConfigForm(entry.form)
    file = ClientFile(path, form, entry.keys, now, content_of(now, form, entry.path))
    ours = file.servers.get(entry.entry_name)
    if ours is not None and ours != entry.entry:
        raise Unusable(
            f"{path}: the entry {as_code(entry.entry_name)} was edited; remove it by hand, and run this again"
        )
    old: Mapping[str, Any] = {}
    if before is not None:
        old = ClientFile(path, form, entry.keys, before, content_of(before, form, entry.path)).servers
    there = {name: each for name, each in file.servers.items() if name != entry.entry_name}
    back = {name: old[name] for name in entry.removed if name in old and name not in there}
    kept = {name for name in entry.removed if name in old and name in there and old[name] != there[name]}
    return with_members(file, [entry.entry_name] if ours is not None else [], back), kept


def _undo_config(config: Path, runs: tuple[Run, ...], undo: Undo, agents: set[str] | None) -> None:
    """Take back what setups added to our config, or the agents of a client alone, and the secrets."""
    changes = [run.config for run in runs if run.config is not None]
    now = data = _current_bytes(config)
    if now is not None and changes:
        if agents is None and document.digest(now) == changes[-1].after and _is_chain(changes):
            first = changes[0]
            data = backup_of(config, first).read_bytes() if first.backup else None
            undo.lines.append(f"{config}: {_promise(config, data, is_whole=True)}")
        else:
            data = _remove_added(config, now, runs, undo, agents)
        undo.writes.append(partial(_write_file, config, data))
    if agents is None:
        _undo_secrets(config, data, runs, undo)


def _promise(path: Path, data: bytes | None, *, is_whole: bool, kept: Collection[str] = ()) -> str:
    """Return what an undo will do to a file; `kept` are its servers that stand in the way of taken ones."""
    now = _current_bytes(path)
    stays = f"; {list_names(sorted(kept))} there stays, and the one that was taken is lost" if kept else ""
    if now == data:
        return f"{'is as it was' if is_whole else 'stays as it is'}{stays}"
    if data is None:
        return "will be removed"
    gone = "is gone; " if now is None else ""
    what = "will be restored, byte for byte" if is_whole else "will get its servers back, and nothing else changes"
    return f"{gone}{what}{stays}"


def _is_chain(changes: list[FileChange]) -> bool:
    """Say whether each setup found the config as the one before had left it."""
    return all(later.before == earlier.after for earlier, later in pairwise(changes))


def _remove_added(config: Path, now: bytes, runs: tuple[Run, ...], undo: Undo, agents: set[str] | None) -> bytes | None:
    data, gone, kept = now, [], []
    try:
        for run in reversed(runs):
            for name in (each for each in run.agents if agents is None or each in agents):
                before = data
                data, is_gone = _remove_agent(config, data, name, run)
                kept += [] if is_gone else [f"agent {as_code(name)}"]
                gone += [f"agent {as_code(name)}"] if is_gone and data != before else []
            for name, entry in run.servers.items() if agents is None else ():
                root: Any = document.plain(document.parse(data, str(config)))
                used = any(name in agent.get("servers", ()) for agent in (root.get("agents") or {}).values())
                if used or (root.get("mcpServers") or {}).get(name) != entry:
                    kept += [f"server {as_code(name)}"] if name in (root.get("mcpServers") or {}) else []
                else:
                    data = without(data, str(config), ("mcpServers", name))
                    gone.append(f"server {as_code(name)}")
        root = document.plain(document.parse(data, str(config)))
        if (
            agents is None
            and not any(root.values())
            and all(run.config is None or run.config.before == "" for run in runs[:1])
        ):
            undo.lines.append(f"{config}: {_promise(config, None, is_whole=True)}")
            return None
        if root.get("agents") == {} and not _had_agents(config, runs):
            data = without(data, str(config), ("agents",))
    except (EditRefused, document.Refused):
        raise Unusable(f"{config}: what was added cannot be removed without touching something else") from None
    stays = f"; what was edited or is used stays: {', '.join(kept)}" if kept else ""
    if data != now or kept:
        added = ", ".join(dict.fromkeys(gone))
        undo.lines.append(f"{config}: will be without what was added{': ' if added else ''}{added}{stays}")
    return data


def _remove_agent(config: Path, data: bytes, name: str, run: Run) -> tuple[bytes, bool]:
    root: Any = document.plain(document.parse(data, str(config)))
    agent = (root.get("agents") or {}).get(name)
    if agent is None:
        return data, True
    added = set(run.agents[name])
    is_new = name in run.new_agents
    if is_new and set(agent) == {"servers"} and set(agent["servers"]) <= added:
        return without(data, str(config), ("agents", name)), True
    left = [*agent.get("servers", ())]
    # One by one: so a list keeps the form that a person gave it.
    for each in (each for each in agent.get("servers", ()) if each in added):
        left.remove(each)
        data = edited_bytes(data, str(config), {"agents": {name: {"servers": [*left]}}})
    return data, not is_new


def _had_agents(config: Path, runs: tuple[Run, ...]) -> bool:
    first = next((run.config for run in runs if run.config is not None), None)
    if first is None or not first.backup:
        return False
    root: Any = document.plain(document.parse(backup_of(config, first).read_bytes(), str(config)))
    return "agents" in root


def _undo_secrets(config: Path, after: bytes | None, runs: tuple[Run, ...], undo: Undo) -> None:
    unused = unused_secrets(config, after)
    stored = {name for run in runs for name in run.secrets}
    if used := sorted((stored & written_secrets(config).keys()).difference(unused)):
        undo.lines.append(f"{SECRETS_FILE}: keeps {list_names(used)}, which a config beside it refers to")
    if gone := [name for name in unused if name in stored]:
        undo.lines.append(f"{SECRETS_FILE}: will be without {list_names(gone)}")
        undo.writes.append(partial(remove_secrets, config, gone))
    if others := [name for name in unused if name not in stored]:
        undo.lines.append(f"{SECRETS_FILE}: keeps {list_names(others)}, which no setup stored and nothing refers to")


def _current_bytes(path: Path) -> bytes | None:
    return None if digest_of(path) == "" else path.read_bytes()


def _write_file(path: Path, data: bytes | None) -> None:
    if data is None:
        path.unlink(missing_ok=True)
    elif (now := _current_bytes(path)) != data:
        path.resolve().parent.mkdir(parents=True, exist_ok=True)
        # What is gone may have secrets, and had a mode that nobody knows now.
        replace_file(path.resolve(), data, mode=0o600 if now is None else None)


def _remove_backups(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
    for directory in {path.parent for path in paths}:
        if directory.is_dir() and not any(directory.iterdir()):
            directory.rmdir()
