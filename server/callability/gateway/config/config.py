"""The gateway's config as the operator wrote it, and where it is found if no option names it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from typer import get_app_dir

from callability.contract.finding import Finding, Place, Severity, as_code, did_you_mean, has_errors, in_order
from callability.files import document
from callability.gateway.config import model
from callability.gateway.config.findings import TOOL_LISTS, findings, unfit_variables, unset_variables
from callability.gateway.config.variables import digest_of_secrets, key_place, place, read_secrets, with_secrets

_Entry = TypeVar("_Entry", model.ServerConfig, model.CatalogEntry)


class ConfigRefused(Exception):
    """A config that the gateway refuses (A.7); its message is all findings, one a line."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__("\n".join(map(str, findings)))
        self.findings = findings


@dataclass(frozen=True, slots=True)
class Config:
    """A config without errors; `servers` and `catalog` are in the order of the file and share no name, and `approvals`
    is None if no file is configured.
    """

    path: Path
    servers: Mapping[str, model.ServerConfig]
    approvals: Path | None
    agents: Mapping[str, model.AgentConfig]
    deadlines: model.Deadlines
    warnings: tuple[Finding, ...]
    root: document.Node = field(repr=False)
    digest: str = ""
    """The digest of the file that was read, and of its secrets: see `document.digest`."""
    catalog: Mapping[str, model.CatalogEntry] = field(default_factory=dict)
    http: model.HttpConfig = field(default_factory=model.HttpConfig)
    tokens: Literal["file", "keyring"] = "file"
    """Where logins by OAuth are kept."""
    strict_labels: bool = False
    """Whether a label or a fact that the policy does not declare refuses the config."""
    records: model.RecordsConfig | None = None
    """Where records go, if they are asked for; a relative directory is one beside the file."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What `${secret:NAME}` stands for, by name."""
    is_awaited: bool = False
    """Whether the file has errors, and nothing of it is in effect: see `awaited_config`."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of this process, and the secrets of the config."""
        return with_secrets(self.secrets, os.environ) if self.secrets else os.environ

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all servers, those of the catalog last."""
        return (*self.servers, *self.catalog)

    def server(self, name: str) -> model.ServerConfig:
        """Return a server; one of the catalog as it is when it is enabled.

        Raises:
            KeyError: the config has no such server.
        """
        return self.catalog[name].server if name in self.catalog else self.servers[name]

    def section(self, server: str) -> str:
        """Return the key of the file under which a server is, or would be."""
        return "catalog" if server in self.catalog else "mcpServers"

    def place(self, *keys: str | int) -> Place:
        """Return the place of a value, for example of `"mcpServers", "files", "disabled_tools"`.

        A key that is not in the file has the place of what would hold it.
        """
        return place(self.root, keys)

    def key_place(self, *keys: str | int) -> Place:
        """Return the place of a key, or of the nearest one above it."""
        return key_place(self.root, keys)

    def unrecordable(self, approvals: Path | None) -> tuple[Finding, ...]:
        """Return an error for each server with `trust: first_use`, if the approvals in effect cannot be written."""
        why, hint = _unwritable(approvals)
        found = (name for name in self.names if why and self.server(name).trust == "first_use")
        return in_order(
            Finding(
                self.place(self.section(name), name, "trust"),
                "unrecordable-forms",
                f"`trust` of server {as_code(name)} is `first_use`, which records its tools in the approvals,"
                f" but {why}",
                hint,
            )
            for name in found
        )

    def check_recordable(self, approvals: Path | None) -> None:
        """Raise what `unrecordable` finds.

        Raises:
            ConfigRefused: it finds something.
        """
        if found := self.unrecordable(approvals):
            raise ConfigRefused(in_order((*self.warnings, *found)))

    def find_unmatched(self, server: str, tools: Iterable[str]) -> tuple[Finding, ...]:
        """Return a warning for each entry of a server's two lists that names none of its tools (A.2).

        Raises:
            KeyError: the config has no such server.
        """
        return in_order(self._find_unmatched(server, frozenset(tools)))

    def _find_unmatched(self, server: str, tools: frozenset[str]) -> Iterator[Finding]:
        section = self.section(server)
        for key in TOOL_LISTS:
            for index, name in enumerate(getattr(self.server(server), key) or ()):
                if name not in tools:
                    sentence = f"{as_code(name)} in `{key}` of server `{server}` matches no tool of the server"
                    at = self.place(section, server, key, index)
                    yield Finding(at, "unmatched-tool", sentence, _near(name, tools), Severity.WARNING)


def load_config(path: Path, environment: Mapping[str, str] | None = None) -> Config:
    """Read a config file: JSON, with comments, if its name ends in `.json` or `.jsonc`, YAML 1.2 otherwise.

    With an `environment`, the variables that the file names are looked up in it. Commands that only edit files give
    none: they run where the gateway's variables need not be set.

    Raises:
        ConfigRefused: it cannot be read or has errors. It has all the findings.
    """
    try:
        data = document.read_bytes(path)
        root = document.parse(data, str(path))
        secrets_digest = digest_of_secrets(path)
        unread: list[Finding] = []
        # A gateway does without a secret that its keyring does not give; a command that edits files must not.
        secrets = read_secrets(path, None if environment is None else unread)
    except document.Refused as refused:
        raise ConfigRefused(in_order(refused.findings)) from refused
    file, found = findings(root)
    if environment is not None:
        found = (*found, *unread)
        environment = with_secrets(secrets, environment) if secrets else environment
        found = (*found, *unset_variables(root, environment))
        found = (*found, *(unfit_variables(root, file.servers, environment) if file else ()))
    ordered = in_order(found)
    if file is None or has_errors(ordered):
        raise ConfigRefused(ordered)
    approvals = None if file.approvals is None else path.parent / file.approvals
    digest = document.digest(data) + secrets_digest
    return Config(
        path,
        _place_env_files(path, file.servers),
        approvals,
        file.agents,
        file.deadlines,
        ordered,
        root,
        digest,
        _place_env_files(path, file.catalog),
        file.http,
        tokens=file.tokens,
        strict_labels=file.strict_labels,
        secrets=secrets,
        records=file.records,
    )


def awaited_config(path: Path) -> Config:
    """Return the config of a gateway that waits for the errors of its file to be corrected: no server, and no agent."""
    return Config(path, {}, None, {}, model.Deadlines(), (), document.parse(b"{}", str(path)), is_awaited=True)


def _place_env_files(path: Path, entries: Mapping[str, _Entry]) -> Mapping[str, _Entry]:
    """Return entries whose `env_file` is a path from anywhere: in the file it may be relative to its directory."""
    directory = path.absolute().parent

    def place_entry(entry: _Entry) -> _Entry:
        if entry.env_file is None:
            return entry
        return entry.model_copy(update={"env_file": str(directory / entry.env_file)})

    return {name: place_entry(entry) for name, entry in entries.items()}


def _unwritable(approvals: Path | None) -> tuple[str, str]:
    """Return why approvals cannot be written, and what to do; both are empty if they can."""
    if approvals is None:
        return "the config has no `approvals`", "create a file with `{}`, and name it under `approvals`"
    target = approvals.resolve()
    if not target.is_file():
        return f"{as_code(str(approvals))} is not a file", "create it with `{}`"
    if not os.access(target.parent, os.R_OK | os.W_OK | os.X_OK):
        return (
            f"the directory of {as_code(str(approvals))} cannot be written",
            "let the gateway write it, or move the file",
        )
    return "", ""


def _near(name: str, tools: frozenset[str]) -> str:
    if set(name) & set("*?"):
        return "names are exact: `*` and `?` stand for themselves"
    # A tool's name comes from the upstream: only one that fits on a line is shown.
    hint = did_you_mean(name, (tool for tool in tools if tool.isascii() and tool.isprintable() and len(tool) <= 128))
    return hint if hint.startswith("did") else ""


VARIABLE = "CALLABILITY_CONFIG"
NAMES = ("gateway.yaml", "gateway.json")
_APP = "callability"


class NoConfig(Exception):
    """No config was given and none is in the default place; the message says where it was looked for."""


def default_config() -> Path:
    """Return the file that `$CALLABILITY_CONFIG` names, or else the one in the user's configuration directory.

    Raises:
        NoConfig: there is none, or the variable holds a relative path.
        ConfigRefused: the directory holds two, and either could be meant.
    """
    named = os.environ.get(VARIABLE, "")
    if named:
        if not os.path.isabs(named):
            raise NoConfig(f"`${VARIABLE}` must be an absolute path, and is {as_code(named)}")
        return Path(named)
    directory = _directory()
    if directory is None:
        raise NoConfig(f"no config: give `--config`, or set `${VARIABLE}`; the home directory is not known")
    there = [directory / name for name in NAMES if os.path.lexists(directory / name)]
    if not there:
        places = " or ".join(as_code(str(directory / name)) for name in NAMES)
        setup = "`callability setup` writes it from those of your MCP clients"
        raise NoConfig(f"no config: give `--config`, set `${VARIABLE}`, or write {places}; {setup}")
    if len(there) > 1:
        sentence = f"`{there[1].name}` is in the same directory, and only one of the two can be the config"
        raise ConfigRefused(
            (Finding(Place(str(there[0])), "two-configs", sentence, "remove one, or name one with `--config`"),)
        )
    return there[0]


def new_config() -> Path:
    """Return the default config, or where a new one belongs.

    Raises:
        NoConfig: the home directory is not known, or the variable holds a relative path.
        ConfigRefused: the directory holds two.
    """
    directory = _directory()
    named = os.environ.get(VARIABLE, "")
    if not named and directory is not None and not any(os.path.lexists(directory / name) for name in NAMES):
        return directory / NAMES[0]
    return default_config()


def socket_directories() -> tuple[Path, ...]:
    """Return the directories for the sockets of running gateways: beside the default config, or else the session's."""
    directory, session = _directory(), os.environ.get("XDG_RUNTIME_DIR", "")
    beside = () if directory is None else (directory / "run",)
    return (*beside, Path(session) / _APP) if os.path.isabs(session) else beside


def is_found_without_option(config: Path) -> bool:
    """Say whether a command finds a config by itself, from any directory and with nothing set but the home directory.

    So a command that an agent passes on to its user works in a shell that knows nothing of the gateway's environment.
    """
    home = os.path.expanduser("~")
    moved = os.environ.get("XDG_CONFIG_HOME", "")
    others = [config.with_name(name) for name in NAMES if name != config.name]
    return (
        config.name in NAMES
        and config.parent == _directory()
        and (not os.path.isabs(moved) or Path(moved) == Path(home, ".config"))
        and not any(map(os.path.lexists, others))
    )


def _directory() -> Path | None:
    """Return the user's configuration directory, None if the home directory is not known.

    A relative `$XDG_CONFIG_HOME` does not count: it would mean the current directory.
    """
    directory = Path(get_app_dir(_APP))
    if directory.is_absolute():
        return directory
    home = os.path.expanduser("~")
    return Path(home, ".config", _APP) if os.path.isabs(home) else None
