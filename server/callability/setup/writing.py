"""Writing a plan, and the record by which it is undone.

The record and the copies of what was there come first: whatever happens later, an undo knows all of it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from callability.contract.finding import as_code
from callability.files import document
from callability.files.editing import ChangedMeanwhile, replace, turn
from callability.gateway.config import variables
from callability.setup.client_file import Unusable
from callability.setup.plan import Plan, entry_name_of, replaced_names
from callability.setup.secret_values import Entry

RECORD_FILE = "setup.json"
BACKUPS = "backups"
PRIVATE = 0o600
_CONFIG_SUFFIXES = frozenset({".yaml", ".yml", ".json", ".jsonc"})
_VERSION = 1


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that was written: the digests of it before and after, empty for none, and the copy of what was there."""

    path: str
    before: str
    after: str
    backup: str


@dataclass(frozen=True, slots=True)
class Installed:
    """Our entry in a file of a client, and the servers that it replaced."""

    client: str
    agent: str
    path: str
    form: str
    keys: tuple[str, ...]
    entry_name: str
    entry: Mapping[str, Any]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One setup: all that it wrote. Of secrets it has the names alone."""

    time: str
    files: tuple[FileChange, ...]
    config: FileChange | None
    installed: tuple[Installed, ...] = ()
    servers: Mapping[str, Entry] = field(default_factory=dict)
    agents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    new_agents: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


def write_plan(plan: Plan, *, in_keyring: bool = False) -> Run:
    """Write a plan, all of it or as much as a record says; secrets first, and the files of clients last.

    `in_keyring`: secrets go to the keyring of the system.

    Raises:
        ChangedMeanwhile: a file is not the one that was read; nothing was written.
        Unusable: the record of earlier setups cannot be read, the keyring cannot be used, or no copy can be written.
        OSError: a file cannot be written. What was written before is in the record.
    """
    directory = plan.config.resolve().parent
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with turn(directory):
        _check_unchanged(plan)
        runs = read_record(plan.config)
        # A keyring that cannot be used is known before anything is written.
        secrets = _store_secrets(plan, in_keyring=in_keyring)
        now = datetime.now(UTC)
        copied: list[FileChange] = []
        try:
            for path, data in plan.installed.items():
                path.resolve().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                copied.append(_back_up(plan.config, path, data, now))
            files = tuple(copied)
            if plan.changes_config:
                copied.append(_back_up(plan.config, plan.config, plan.after, now))
            run = Run(
                now.isoformat(timespec="seconds"),
                files,
                copied[-1] if plan.changes_config else None,
                _entries(plan),
                dict(plan.new_servers),
                dict(plan.agents),
                tuple(sorted(plan.new_agents)),
                tuple(plan.secrets),
            )
            write_record(plan.config, (*runs, run))
        except OSError as error:
            # No record names these copies, so that no undo would remove them.
            for change in copied:
                if change.backup:
                    backup_of(plan.config, change).unlink()
            why = f"`{error.filename}` cannot be written: {(error.strerror or 'error').lower()}"
            raise Unusable(f"{why}; no file was changed") from error
        if plan.secrets:
            write_secrets(plan.config, {**variables.written_secrets(plan.config), **secrets})
        if plan.changes_config:
            replace(plan.config.resolve(), plan.after, mode=None if plan.before is not None else PRIVATE)
        for path, data in plan.installed.items():
            replace(path.resolve(), data)
    return run


def write_secrets(config: Path, secrets: Mapping[str, str]) -> None:
    """Write the secrets of a config, so that only their owner can read them; no file is left without any.

    Lines that stay the same keep their place, and comments stay.
    """
    path = variables.secrets_beside(config).resolve()
    old = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    before = variables.written_secrets(config)
    lines = []
    for line in old:
        name = _name_in(line)
        if name is None or (name in secrets and before.get(name) == secrets[name]):
            lines.append(line)
        elif name in secrets:
            lines.append(variables.variable_line(name, secrets[name]))
    there = {_name_in(line) for line in lines}
    lines += [variables.variable_line(name, value) for name, value in secrets.items() if name not in there]
    if any(line.strip() for line in lines):
        replace(path, "".join(f"{line}\n" for line in lines).encode(), mode=PRIVATE)
    else:
        path.unlink(missing_ok=True)


def unused_secrets(config: Path, after: bytes | None) -> tuple[str, ...]:
    """Return the secrets beside a config that neither its new content nor another config beside them refers to.

    Raises:
        Unusable: the file of secrets, or another config that may use it, cannot be read.
    """
    try:
        there = variables.written_secrets(config)
        beside = variables.secrets_beside(config).parent.iterdir() if there else ()
        others = {each.resolve() for each in beside if each.suffix in _CONFIG_SUFFIXES and each.is_file()}
        others -= {config.resolve(), record_of(config)}
        texts = [data.decode(errors="replace") for data in (after or b"", *map(document.read_bytes, others))]
    except document.Refused as refused:
        raise Unusable(str(refused.findings[0])) from refused
    return tuple(name for name in there if not any(_is_used(name, text) for text in texts))


def remove_secrets(config: Path, names: Collection[str]) -> None:
    """Remove secrets from the file of a config, and from the keyring where they are there.

    Raises:
        Unusable: one stays in the keyring.
        OSError: the file cannot be written.
    """
    there = variables.written_secrets(config)
    for name in names:
        account = there.get(name, "")
        if account.startswith(variables.KEYRING):
            try:
                variables.remove_from_keyring(account.removeprefix(variables.KEYRING))
            except variables.NoKeyring as error:
                raise Unusable(f"secret {as_code(name)} stays in the keyring: {error}") from None
    write_secrets(config, {name: value for name, value in there.items() if name not in names})


def read_record(config: Path) -> tuple[Run, ...]:
    """Return the setups of a config that were not undone, the oldest first.

    Raises:
        Unusable: the record cannot be read.
    """
    path = record_of(config)
    if not path.exists():
        return ()
    try:
        given = json.loads(document.read_bytes(path))
        if given["version"] != _VERSION:
            raise Unusable(f"{path}: is of another version of callability")
        return tuple(_run_of(each) for each in given["runs"])
    except (document.Refused, ValueError, KeyError, TypeError) as error:
        raise Unusable(f"{path}: the record of what was set up cannot be read") from error


def write_record(config: Path, runs: tuple[Run, ...]) -> None:
    """Write the record; if nothing is left to undo, there is none."""
    path = record_of(config)
    if not runs:
        path.unlink(missing_ok=True)
        return
    text = json.dumps({"version": _VERSION, "runs": [asdict(run) for run in runs]}, indent=2)
    replace(path, f"{text}\n".encode(), mode=PRIVATE)


def record_of(config: Path) -> Path:
    """Return where the record of a config is."""
    return config.resolve().with_name(RECORD_FILE)


def backup_of(config: Path, change: FileChange) -> Path:
    """Return where the copy of what was there before a change is."""
    return config.resolve().parent / BACKUPS / change.backup


def digest_of(path: Path) -> str:
    """Return the digest of a file; empty if there is none.

    Raises:
        Unusable: it is there, and cannot be read.
    """
    try:
        return document.digest(path.read_bytes()) if path.exists() else ""
    except OSError as error:
        raise Unusable(f"{path}: cannot be read: {(error.strerror or 'error').lower()}") from error


def _is_used(name: str, text: str) -> bool:
    return f"${{{variables.PREFIX}{name}}}" in text or f"${{{variables.PREFIX}{name}:-" in text


def _store_secrets(plan: Plan, *, in_keyring: bool) -> Mapping[str, str]:
    """Return what the file of secrets says of the new ones, once they are in the keyring if they belong there."""
    if not in_keyring:
        return plan.secrets
    accounts = {name: f"{plan.config.resolve().parent}/{name}" for name in plan.secrets}
    try:
        for name, account in accounts.items():
            variables.keep_in_keyring(account, plan.secrets[name])
    except variables.NoKeyring as error:
        raise Unusable(f"a secret cannot be stored: {error}; without `--secrets keyring`, it goes to a file") from None
    return {name: f"{variables.KEYRING}{account}" for name, account in accounts.items()}


def _check_unchanged(plan: Plan) -> None:
    before = "" if plan.before is None else document.digest(plan.before)
    read = {source.file.path: source.file.data if source.is_there else None for source in plan.sources}
    wanted = {plan.config: before} | {
        path: "" if data is None else document.digest(data) for path, data in read.items() if path in plan.installed
    }
    for path, digest in wanted.items():
        if digest_of(path) != digest:
            raise ChangedMeanwhile(str(path))


def _back_up(config: Path, path: Path, after: bytes, now: datetime) -> FileChange:
    """Copy what is there, and return the change."""
    before = digest_of(path)
    backup = f"{now:%Y%m%dT%H%M%S.%f}-{path.name.lstrip('.')}-{before[:8]}" if before else ""
    change = FileChange(str(path), before, document.digest(after), backup)
    if before:
        target = backup_of(config, change)
        target.parent.mkdir(mode=0o700, exist_ok=True)
        replace(target, path.read_bytes(), mode=PRIVATE)
    return change


def _entries(plan: Plan) -> tuple[Installed, ...]:
    return tuple(
        Installed(
            source.client.name,
            source.agent,
            str(source.file.path),
            source.file.form,
            source.file.keys,
            entry_name_of(source),
            source.client.filled_entry(plan.commands[source.agent]),
            replaced_names(source, plan.taken),
        )
        for source in plan.sources
        if source.file.path in plan.installed
    )


def _run_of(given: Mapping[str, Any]) -> Run:
    return Run(
        given["time"],
        tuple(FileChange(**each) for each in given["files"]),
        FileChange(**given["config"]) if given["config"] else None,
        tuple(
            Installed(**{**each, "keys": tuple(each["keys"]), "removed": tuple(each["removed"])})
            for each in given["installed"]
        ),
        given["servers"],
        {name: tuple(servers) for name, servers in given["agents"].items()},
        tuple(given["new_agents"]),
        tuple(given["secrets"]),
    )


def _name_in(line: str) -> str | None:
    """Return the name of the variable in a line of a file of secrets."""
    text = line.strip().removeprefix("export ").strip()
    name, equals, _ = text.partition("=")
    return name.strip() if equals and not text.startswith("#") else None
