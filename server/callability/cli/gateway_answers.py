"""Which gateway a question is about: one that runs, which answers it, or its files; and the places of facts in them."""

from __future__ import annotations

import json
import os
import shlex
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from callability.cli.options import check_policy_choice, escape, leave
from callability.cli.policy_service import PolicyService
from callability.compiler.policy import Policy, rules_at
from callability.compiler.questions import CALLABILITY
from callability.contract.finding import Place, as_code
from callability.files import document
from callability.files.shipped_policy import shipped_policy
from callability.gateway.config.config import ConfigRefused, NoConfig, default_config, socket_directories
from callability.gateway.config.variables import find_node

ANSWER_SECONDS = 30.0
_MAX_LINE = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A connection to a running gateway; `about` is what it says of itself."""

    about: Mapping[str, Any]
    connection: socket.socket
    reader: IO[bytes]

    @property
    def pid(self) -> int:
        """The id of its process."""
        return int(self.about["pid"])

    @property
    def config(self) -> Path:
        """Its config file."""
        return Path(self.about["config"])

    def ask(self, **question: Any) -> dict[str, Any]:
        """Return the answer to the only question of a command, or exit with code 1 or 2 if there is none."""
        try:
            self.connection.sendall(json.dumps(question).encode() + b"\n")
            answer = _object_in(self.reader)
        except (OSError, ValueError, TypeError):
            leave(f"gateway {self.pid} gave no answer: ask again, or read the files alone by `--files`", 1)
        finally:
            self.close()
        if error := answer.get("error"):
            leave(f"gateway {self.pid}: {escape(str(error))}", 1 if answer.get("kind") == "policy" else 2)
        return answer

    def close(self) -> None:
        """Disconnect."""
        self.reader.close()
        self.connection.close()


def chosen_gateway(config: Path | None, agent: str | None, pid: int | None) -> RunningGateway | None:
    """Return the gateway that a call means, or None if none runs; exit with code 2 if several match.

    Without a config, it is one with the default config; if there is no default config, it may be any.
    """
    running = [*_running_gateways()]
    wanted = config or _default_config()
    matching = [
        gateway
        for gateway in running
        if gateway.pid == pid
        or (
            pid is None
            and (wanted is None or _is_same(gateway.config, wanted))
            and (agent is None or gateway.about.get("agent") in ("", agent))
        )
    ]
    for gateway in running:
        if len(matching) != 1 or gateway is not matching[0]:
            gateway.close()
    if pid is not None and not matching:
        leave(f"no gateway of this user runs as process {pid}{_list_gateways(running)}", 2)
    if len(matching) > 1:
        leave(f"several gateways match: name one by `--gateway PID`{_list_gateways(matching)}", 2)
    return matching[0] if matching else None


def _running_gateways() -> Iterator[RunningGateway]:
    """Yield the gateways of this user that answer; sockets that a gateway left behind are removed."""
    for directory in socket_directories():
        for path in sorted(directory.glob("*.sock")):
            gateway = _connect(path)
            if gateway is not None:
                yield gateway


def _connect(path: Path) -> RunningGateway | None:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(ANSWER_SECONDS)
    try:
        if path.lstat().st_uid != os.geteuid():
            raise PermissionError(path)
        connection.connect(str(path))
        reader = connection.makefile("rb")
        about = _object_in(reader)
        about |= {"pid": int(about["pid"]), "config": str(about["config"])}
    except ConnectionRefusedError:
        connection.close()
        with suppress(OSError):
            path.unlink()
        return None
    except (OSError, ValueError, TypeError, KeyError):
        connection.close()
        typer.echo(f"callability: what listens on {as_code(str(path))} does not answer as a gateway", err=True)
        return None
    return RunningGateway(about, connection, reader)


def _object_in(reader: IO[bytes]) -> dict[str, Any]:
    """Return the object in the next line.

    Raises:
        ValueError, TypeError: there is none.
    """
    return dict(json.loads(reader.readline(_MAX_LINE)))


def _default_config() -> Path | None:
    try:
        return default_config()
    except (NoConfig, ConfigRefused):
        return None


def _is_same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def _list_gateways(gateways: Sequence[RunningGateway]) -> str:
    """Return the lines that list gateways; empty if there are none."""
    return "".join(
        f"\n  {each.pid}: config {escape(str(each.config))}, started {escape(str(each.about.get('started')))}, "
        + (f"agent {as_code(str(each.about['agent']))}" if each.about.get("agent") else "every agent")
        for each in gateways
    )


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of a gateway as it is written now; `root` is None if it cannot be read."""

    path: Path
    root: document.Node | None
    digest: str

    @classmethod
    def at(cls, path: Path) -> WrittenFile:
        """Read a file."""
        try:
            data = document.read_bytes(path)
        except document.Refused:
            return cls(path, None, "")
        try:
            return cls(path, document.parse(data, str(path)), document.digest(data))
        except document.Refused:
            return cls(path, None, document.digest(data))

    def place(self, keys: Sequence[str | int]) -> Place:
        """Return the place of a value, or of the nearest one above it that is there."""
        if self.root is None:
            return Place(str(self.path))
        if keys and not self.has(keys):
            # Of a key that is not there, the name of what would hold it says more than where its content begins.
            return self.key_place(keys)
        return find_node(self.root, keys)[1].place

    def key_place(self, keys: Sequence[str | int]) -> Place:
        """Return the place of a key, or of the nearest one above it that is there."""
        return find_node(self.root, keys)[0].place if self.root is not None else Place(str(self.path))

    def removal(self, keys: Sequence[str | int]) -> tuple[Sequence[str | int], int]:
        """Return the keys of what is removed with an entry, since nothing may be left empty, and its last line."""
        if self.root is None:
            return keys, 0
        while len(keys) > 2 and self.has(keys) and _size(find_node(self.root, keys[:-1])[1]) == 1:
            keys = keys[:-1]
        return keys, max((place.line for place in _places(find_node(self.root, keys)[1])), default=0)

    def has(self, keys: Sequence[str | int]) -> bool:
        """Say whether a value is there."""
        node = self.root
        for key in keys:
            match node:
                case document.DocumentMapping():
                    node = node.get(str(key))
                case document.DocumentSequence(items=items) if isinstance(key, int) and key < len(items):
                    node = items[key]
                case _:
                    return False
        return node is not None


@dataclass(frozen=True, slots=True)
class FactPlaces:
    """The files of a gateway, and the directory of the policy that decides for it, None if a service does.

    `rules` are the rules in that directory, None if they are refused.
    """

    config: WrittenFile
    approvals: WrittenFile | None
    directory: Path | None
    rules: Policy | None

    @classmethod
    def of(cls, config: Path, approvals: Path | None, directory: Path | None, rules: Policy | None) -> FactPlaces:
        """Read the files."""
        return cls(WrittenFile.at(config), WrittenFile.at(approvals) if approvals else None, directory, rules)

    @property
    def check(self) -> str:
        """The command that prints what is wrong with the files."""
        words = ["callability", "config", "check", "--config", str(self.config.path)]
        if self.approvals is not None and not self._is_named(self.approvals.path):
            words += ["--approvals", str(self.approvals.path)]
        return shlex.join(words)

    def _is_named(self, approvals: Path) -> bool:
        """Say whether the config names an approvals file."""
        if self.config.root is None:
            return False
        named = document.node_at(self.config.root, "approvals")
        return isinstance(named, document.Scalar) and _is_same(self.config.path.parent / str(named.value), approvals)

    def place(self, report: Mapping[str, Any]) -> dict[str, Any]:
        """Return a report in which each source has its place in a file, and the rule that decides its own."""
        placed: dict[str, Any] = self._with_places(report)
        return placed | {"rule_at": self._rule_place(report), "newer_files": [*self._newer(report)]}

    def _with_places(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            inner = {key: self._with_places(each) for key, each in value.items()}
            return inner | (self._place_of(value) if "in" in value and "keys" in value else {})
        return [self._with_places(each) for each in value] if isinstance(value, list) else value

    def _place_of(self, source: Mapping[str, Any]) -> dict[str, Any]:
        file = {"config": self.config, "approvals": self.approvals}.get(source["in"])
        if file is None:
            return {"file": None, "line": 0, "column": 0, "is_set": False}
        keys: Sequence[str | int] = source["keys"]
        if keys[-1:] == ["status"] and not file.has(keys) and file.has([*keys[:-1], "sha256"]):
            # Without a status, the fingerprint alone says what is approved.
            keys = [*keys[:-1], "sha256"]
        placed: dict[str, Any] = {"is_set": file.has(keys)}
        if source.get("do") == "remove":
            keys, last = file.removal(keys)
            placed |= {"keys": [*keys], "last_line": last}
        at = file.key_place(keys) if source.get("do") == "remove" else file.place(keys)
        return placed | {"file": at.file, "line": at.line, "column": at.column}

    def _rule_place(self, report: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the place of the rule that decided, if the rule files are here and still those that decided."""
        rule = report.get("rule")
        if not rule or self.directory is None:
            return None
        if self.rules is None or self.rules.revision != report["revision"]:
            return {"file": str(self.directory), "line": 0, "column": 0}
        at = self.rules.rule_sets[CALLABILITY.name].rule_set.rule(rule).place
        return {"file": at.file, "line": at.line, "column": at.column}

    def _newer(self, report: Mapping[str, Any]) -> Iterator[str]:
        """Yield the files that were edited since those by which the report was made."""
        in_effect = report.get("in_effect", {})
        for name, file in (("config", self.config), ("approvals", self.approvals)):
            # The digest of a config has that of its secrets behind it.
            if file is not None and name in in_effect and not in_effect[name].startswith(file.digest):
                yield str(file.path)
        decided_by = report["revision"] if report.get("rule") else None
        if decided_by and self.directory is not None and (self.rules is None or self.rules.revision != decided_by):
            yield str(self.directory)


def _size(node: document.Node) -> int:
    match node:
        case document.DocumentMapping(entries=entries):
            return len(entries)
        case document.DocumentSequence(items=items):
            return len(items)
        case _:
            return 0


def _places(node: document.Node) -> Iterator[Place]:
    """Yield the places of a node and of all that it holds."""
    yield node.place
    match node:
        case document.DocumentMapping(entries=entries):
            for key, value in entries:
                yield key.place
                yield from _places(value)
        case document.DocumentSequence(items=items):
            for item in items:
                yield from _places(item)


QueriedAgentOption = Annotated[
    str | None,
    typer.Option(
        "--agent",
        metavar="NAME",
        help="The agent of the config that asks. Default: that of the running gateway, or else one that sees every"
        " server.",
    ),
]
GatewayPidOption = Annotated[
    int | None, typer.Option("--gateway", metavar="PID", help="Ask the running gateway that is this process.")
]
FilesOption = Annotated[
    bool, typer.Option("--files", help="Read the files alone, even if a gateway runs; its servers are connected.")
]
AskOfflineOption = Annotated[bool, typer.Option("--offline", help="Read the files alone, and connect no server.")]


@dataclass(frozen=True, slots=True)
class GatewayQuery:
    """What a call names: which gateway, or which files, and for which agent."""

    agent: str | None
    config: Path | None
    approvals: Path | None
    policy: Path | None
    service: PolicyService | None
    pid: int | None
    files: bool
    offline: bool

    def gateway(self) -> RunningGateway | None:
        """Return the running gateway that the call means; None: the files alone are read.

        An option about files beside the config says that the files are meant. It exits with code 2 if `--gateway` does
        not go with the others.
        """
        only_files = [
            name
            for name, is_given in (
                ("--files", self.files),
                ("--offline", self.offline),
                ("--approvals", self.approvals is not None),
                ("--policy", self.policy is not None),
                ("--policy-address", self.service is not None),
            )
            if is_given
        ]
        check_policy_choice(self.policy, self.service.address if self.service else None)
        if only_files and self.pid is not None:
            leave(f"`--gateway` and `{only_files[0]}` exclude each other: it reads the files alone", 2)
        if only_files:
            return None
        running = chosen_gateway(self.config, self.agent, self.pid)
        if running is not None and running.about.get("awaits_config"):
            # It knows nothing beside what is wrong with the config, which its files say.
            running.close()
            return None
        return running


def places_of(gateway: RunningGateway) -> FactPlaces:
    """Return the files of a running gateway, to find places in them."""
    about: Mapping[str, Any] = gateway.about
    of_policy = about.get("policy") or {}
    directory = None if of_policy.get("address") else Path(of_policy.get("directory") or shipped_policy())
    approvals = about.get("approvals")
    rules = rules_at(directory).policy if directory else None
    return FactPlaces.of(gateway.config, Path(approvals) if approvals else None, directory, rules)
