"""The plan of a setup: which servers of which clients become ours, under which names, and what is written where."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path
from typing import Any, cast

from callability.contract.finding import Finding, Severity, as_code, in_order
from callability.files import document
from callability.files.editing import EditRefused, edited_bytes, new_file
from callability.files.spelling import Tree
from callability.gateway.config.findings import content, findings
from callability.gateway.config.variables import read_secrets
from callability.setup.client_file import ClientFile, Unusable, content_of, read_client_file, with_members
from callability.setup.clients import CLIENTS, ENTRY_NAME, ConfigForm, McpClient, moved_by_environment
from callability.setup.secret_values import Entry, SecretStore, fill_secrets, with_stored_variables, without_secrets
from callability.setup.translation import LeftOut, Surroundings, denials, is_ours, translate

_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST = 100


@dataclass(frozen=True, slots=True)
class ServerSource:
    """A file of a client that is read, and the agent that the client becomes."""

    client: McpClient
    file: ClientFile
    agent: str
    entry_name: str = ENTRY_NAME
    is_there: bool = True


class UnusableSource(Unusable):
    """A file of a client that cannot be changed, or something else of that client that cannot be read."""

    def __init__(self, source: ServerSource, message: str) -> None:
        super().__init__(message)
        self.source = source


@dataclass(frozen=True, slots=True)
class Taken:
    """A server of a client, as it is in our config, and under which name."""

    source: ServerSource
    given: str
    name: str
    entry: Entry = field(repr=False)
    notes: tuple[str, ...] = ()
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class KeptServer:
    """A server that its client keeps, and why."""

    source: ServerSource
    given: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a setup would do; nothing is written yet."""

    config: Path
    before: bytes | None = field(repr=False)
    after: bytes = field(repr=False)
    sources: tuple[ServerSource, ...]
    taken: tuple[Taken, ...]
    kept: tuple[KeptServer, ...]
    agents: Mapping[str, tuple[str, ...]]
    """The servers that each agent gets, in addition to those that it has."""
    new_agents: frozenset[str]
    secrets: Mapping[str, str] = field(repr=False)
    """The secrets that are added, by name."""
    installed: Mapping[Path, bytes] = field(repr=False)
    """The new content of the clients' files."""
    commands: Mapping[str, Sequence[str]]
    """The command line that starts callability for each agent."""

    @property
    def new_servers(self) -> Mapping[str, Entry]:
        """The servers that the config gets, by name."""
        return {server.name: server.entry for server in self.taken if server.is_new}

    @property
    def changes_config(self) -> bool:
        """Whether the config gets anything."""
        return self.before is None or self.before != self.after

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.installed and not self.new_servers and not self.agents


def sources_of(
    clients: Iterable[McpClient], home: Path, project: Path | None = None, *, missing: bool = False
) -> tuple[tuple[ServerSource, ...], tuple[str, ...]]:
    """Return the files of clients on this machine, and why others cannot be used; `missing`: files that are not there
    count as empty ones.
    """
    found: list[ServerSource] = []
    unusable: list[str] = []
    for client in clients:
        moved = moved_by_environment(client)
        places = (moved,) if moved else client.files(home)
        path = next((place for place in places if place.is_file()), places[0])
        try:
            if project is None and (missing or path.is_file()):
                found.append(_source(client, path, client.keys, client.name))
            elif project is not None:
                found += _of_project(client, path, project)
        except Unusable as error:
            unusable.append(str(error))
    return tuple(found), tuple(unusable)


def source_of_file(path: Path, client: McpClient | None, agent: str) -> ServerSource:
    """Return a file that a person named, in the form of a client, or in the one that its content shows.

    Raises:
        Unusable: it cannot be read, or has no servers.
    """
    client = client or _client_of(path)
    return _source(client, path, client.keys, agent or client.name)


def plan(
    sources: Sequence[ServerSource],
    config: Path,
    surroundings: Surroundings,
    executable: Sequence[str],
    *,
    installing: bool,
    granted: Sequence[str] = (),
    options: Sequence[str] = (),
    all_of_them: bool = True,
) -> Plan:
    """Return the plan for files of clients; `granted` are servers of the config that every agent gets too, and
    `options` those of the command line that each client starts. Without `all_of_them`, a client of which nothing is
    taken stays as it is.

    Raises:
        UnusableSource: the config of a client cannot be used as it is; nothing was written.
        Unusable: another file cannot; nothing was written.
    """
    work = _Work(config, surroundings)
    for source in sources:
        work.take(source)
    used = [each for each in sources if all_of_them or any(server.source == each for server in work.taken)]
    agents, new_agents = work.agents(used, granted)
    after = work.config_with(agents)
    work.check(after)
    commands = {source.agent: (*executable, "connect", "--agent", source.agent, *options) for source in sources}
    installed = dict(_install_entries(used, work.taken, commands)) if installing else {}
    return Plan(
        config,
        work.before,
        after,
        tuple(sources),
        tuple(work.taken),
        tuple(work.kept),
        agents,
        new_agents,
        dict(work.store.added),
        installed,
        commands,
    )


def servers_of_projects(source: ServerSource, sources: Iterable[ServerSource]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the projects for which a file of Claude Code has servers that no source reads, each with their names."""
    projects = source.file.root.get("projects")
    if (
        source.client.name != "claude-code"
        or source.file.keys != source.client.keys
        or not isinstance(projects, Mapping)
    ):
        return
    read = {each.file.keys for each in sources if each.file.path == source.file.path}
    for project in projects:
        keys = ("projects", str(project), *source.client.keys)
        names = (name for name, entry in replace(source.file, keys=keys).servers.items() if not is_ours(entry))
        if keys not in read and (found := tuple(names)):
            yield str(project), found


def missing_commands_of(taken: Iterable[Taken], environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the new servers whose command is not found, each with the command."""
    path = environment.get("PATH", os.defpath)
    for server in taken:
        command = server.entry.get("command")
        own = server.entry.get("env", {}).get("PATH", path)
        if server.is_new and command and shutil.which(command, path=own) is None:
            yield server.name, command


def is_running(client: McpClient) -> bool:
    """Say whether a client of this user runs now, as far as that can be seen; on Linux alone."""
    names = {name.lower()[:15] for name in client.processes}
    for each in Path("/proc").glob("[0-9]*/comm") if sys.platform == "linux" else ():
        try:
            if each.read_text().strip().lower() in names and each.stat().st_uid == os.getuid():
                return True
        except OSError:
            # It has ended meanwhile.
            continue
    return False


def _source(
    client: McpClient, path: Path, keys: Sequence[str], agent: str, entry_name: str = ENTRY_NAME
) -> ServerSource:
    if not path.is_file():
        empty = ClientFile(path, client.form, tuple(keys), b"", {})
        return ServerSource(client, empty, agent, entry_name, is_there=False)
    file = read_client_file(path, client.form, tuple(keys))
    inner = file.root.get("mcp")
    if client.name in ("opencode", "vscode") and isinstance(inner, Mapping) and _are_servers(inner.get("servers")):
        file = read_client_file(path, client.form, ("mcp", "servers"))
    return ServerSource(client, file, agent, entry_name)


def _are_servers(found: object) -> bool:
    return isinstance(found, Mapping) and all(isinstance(each, Mapping) for each in found.values())


def _are_servers_of_vscode(found: object) -> bool:
    """Say whether `mcp` of a file is that of VS Code before it had a file for it; opencode has another form there."""
    servers = found.get("servers") if isinstance(found, Mapping) else None
    if not isinstance(servers, Mapping) or not _are_servers(servers):
        return False
    return any(isinstance(each.get("command"), str) or each.get("type") in ("http", "sse") for each in servers.values())


def _of_project(client: McpClient, user_file: Path, project: Path) -> Iterator[ServerSource]:
    """Yield the files of a project; their servers are for an agent of their own, since the client has them there
    alone.
    """
    name = _plain_name(project.name)
    agent, entry_name = f"{client.name}-{name}", f"{ENTRY_NAME}-{name}"
    if client.project and (project / client.project).is_file():
        yield _source(client, project / client.project, client.keys, agent, entry_name)
    if client.name == "claude-code" and user_file.is_file():
        source = _source(client, user_file, ("projects", str(project), *client.keys), f"{agent}-local", entry_name)
        if source.file.servers:
            yield source


def _client_of(path: Path) -> McpClient:
    """Return the client whose form a file has."""
    by_form = {".toml": ConfigForm.TOML, ".yaml": ConfigForm.YAML, ".yml": ConfigForm.YAML}
    form = by_form.get(path.suffix, ConfigForm.JSON)
    root = read_client_file(path, form, ()).root
    if _are_servers_of_vscode(root.get("mcp")):
        return next(each for each in CLIENTS if each.name == "vscode")
    for client in (*(each for each in CLIENTS if each.name == "claude-code"), *CLIENTS):
        found: object = root
        for key in client.keys:
            found = found.get(key) if isinstance(found, Mapping) else None
        if client.form is form and isinstance(found, list if client.name == "mcpproxy-go" else Mapping):
            return client
    raise Unusable(f"{path}: has no servers of a client that is known; name the client with `--client`")


class _Work:
    """A plan in progress."""

    def __init__(self, config: Path, surroundings: Surroundings) -> None:
        self.taken: list[Taken] = []
        self.kept: list[KeptServer] = []
        self._config = config
        self._surroundings = surroundings
        try:
            secrets = read_secrets(config)
            self.before = document.read_bytes(config) if config.exists() else None
            root = document.parse(self.before, str(config)) if self.before is not None else None
        except document.Refused as refused:
            raise _unusable_config(refused.findings) from refused
        if root is not None and findings(root)[0] is None:
            raise _unusable_config(findings(root)[1])
        self._content = cast("dict[str, Any]", content(root)) if root is not None else {}
        self.store = SecretStore(secrets)
        self._entries: dict[str, Entry] = dict(self._content.get("mcpServers") or {})
        self._reached = {name: _canonical_form(fill_secrets(entry, secrets)) for name, entry in self._entries.items()}
        # A name of the catalog is taken by something else, whatever it is.
        self._reached |= dict.fromkeys(self._content.get("catalog") or {}, "")

    def take(self, source: ServerSource) -> None:
        """Translate the servers of a file, and name them."""
        try:
            denied = denials(source.client, source.file, self._surroundings.home)
        except Unusable as error:
            raise UnusableSource(source, str(error)) from error
        for given, entry in source.file.servers.items():
            if is_ours(entry):
                continue
            name = _plain_name(given)
            try:
                done = translate(source.client, name, entry, denied.get(given, ()), self._surroundings)
            except LeftOut as reason:
                self.kept.append(KeptServer(source, given, str(reason)))
                continue
            self._add(source, given, name, done.entry, done.notes)

    def agents(
        self, sources: Sequence[ServerSource], granted: Sequence[str]
    ) -> tuple[dict[str, tuple[str, ...]], frozenset[str]]:
        """Return what each agent gets in addition, and which agents are new."""
        there: Mapping[str, Any] = self._content.get("agents") or {}
        gets: dict[str, tuple[str, ...]] = {}
        for source in sources:
            has = there.get(source.agent, {}).get("servers", [])
            wanted = [*(each.name for each in self.taken if each.source == source), *granted]
            more = tuple(name for name in dict.fromkeys(wanted) if name not in has)
            if more or source.agent not in there:
                gets[source.agent] = more
        return gets, frozenset(gets) - there.keys()

    def config_with(self, agents: Mapping[str, tuple[str, ...]]) -> bytes:
        """Return the config with the new servers and agents in it, and every other byte as it was."""
        servers = {each.name: each.entry for each in self.taken if each.is_new}
        there: Mapping[str, Any] = self._content.get("agents") or {}
        tree: dict[str, Any] = {}
        if servers or self.before is None:
            tree["mcpServers"] = servers
        if agents:
            tree["agents"] = {
                name: {"servers": [*there.get(name, {}).get("servers", []), *more]} for name, more in agents.items()
            }
        try:
            if self.before is None:
                return new_file(self._config.name, cast(Tree, tree))
            return edited_bytes(self.before, str(self._config), cast(Tree, tree)) if tree else self.before
        except EditRefused:
            raise Unusable(
                f"{self._config}: the servers cannot be added without touching something else; edit it by hand"
            ) from None

    def check(self, after: bytes) -> None:
        """Check that a gateway would accept the new config."""
        root = document.parse(after, str(self._config))
        if errors := tuple(each for each in in_order(findings(root)[1]) if each.severity is Severity.ERROR):
            raise _unusable_config(errors)

    def _add(self, source: ServerSource, given: str, name: str, entry: Entry, notes: tuple[str, ...]) -> None:
        stored = SecretStore({**self.store.known, **self.store.added})
        if self._surroundings.stores_variables:
            entry = with_stored_variables(entry, name, stored, self._surroundings.environment)
        reached = _canonical_form(fill_secrets(entry, {**stored.known, **stored.added}))
        other = f"{name}-{source.client.name}"
        names = chain((name, other), (f"{other}-{number}" for number in count(2)))
        chosen = next(each for each in names if self._reached.get(each, reached) == reached)
        is_new = chosen not in self._reached
        if chosen != name:
            notes = (f"another {as_code(name)} has another definition", *notes)
        if is_new:
            self._reached[chosen] = reached
            self.store.added |= stored.added
            self._entries[chosen] = without_secrets(entry, chosen, self.store)
        self.taken.append(Taken(source, given, chosen, self._entries[chosen], notes, is_new))


def _check_writable(source: ServerSource) -> None:
    """Find before anything is written that a file cannot be replaced, as a link into a store that is only read.

    Raises:
        UnusableSource: it cannot.
    """
    folder = next(each for each in source.file.path.resolve().parents if each.exists())
    if not os.access(folder, os.W_OK):
        by_hand = f"`callability import {source.client.name}` takes its servers; put its entry in by hand"
        raise UnusableSource(source, f"{source.file.path}: {as_code(str(folder))} cannot be written; {by_hand}")


def _install_entries(
    sources: Sequence[ServerSource], taken: Sequence[Taken], commands: Mapping[str, Sequence[str]]
) -> Iterator[tuple[Path, bytes]]:
    """Yield the new content of each file of a client: our entry in place of the servers that are taken."""
    by_path: dict[Path, ClientFile] = {}
    for source in (each for each in sources if not each.client.cannot_be_installed):
        file = by_path.get(source.file.path, source.file)
        file = ClientFile(file.path, file.form, source.file.keys, file.data, file.root)
        remove = replaced_names(source, taken)
        entry = source.client.filled_entry(commands[source.agent])
        if remove == (entry_name_of(source),) and file.servers[remove[0]] == entry:
            continue
        _check_writable(source)
        try:
            data = with_members(file, remove, {entry_name_of(source): entry})
        except Unusable as error:
            raise UnusableSource(source, str(error)) from error
        root = content_of(data, file.form, str(file.path))
        by_path[file.path] = ClientFile(file.path, file.form, file.keys, data, root)
    yield from ((path, file.data) for path, file in by_path.items())


def replaced_names(source: ServerSource, taken: Iterable[Taken]) -> tuple[str, ...]:
    """Return the servers of a file that our entry replaces: those that are taken, and earlier entries of ours."""
    ours = (name for name, entry in source.file.servers.items() if is_ours(entry))
    return (*(each.given for each in taken if each.source == source), *ours)


def entry_name_of(source: ServerSource) -> str:
    """Return the name of our entry in a file: another one if a server of a person has it."""
    there = source.file.servers.get(source.entry_name)
    return source.entry_name if there is None or is_ours(there) else f"{source.entry_name}-gateway"


def _canonical_form(entry: object) -> str:
    """Return what is equal for two entries that mean the same server."""
    given = dict(entry) if isinstance(entry, Mapping) else {}
    if given.get("type") == ("stdio" if "command" in given else "http"):
        del given["type"]
    if given.get("enabled") is True:
        del given["enabled"]
    return json.dumps({key: value for key, value in given.items() if value not in ({}, [])}, sort_keys=True)


def _plain_name(given: str) -> str:
    return _NOT_IN_NAME.sub("-", given).strip("-")[:_LONGEST] or "server"


def _unusable_config(found: Iterable[Finding]) -> Unusable:
    return Unusable("\n".join(map(str, found)))
