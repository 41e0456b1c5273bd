"""The settings of `callability serve`: each from an option, the environment, a file or its default, in this order."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel, BeforeValidator, Field, ValidationError
from pydantic.fields import FieldInfo

from callability.cli.application import refuse_without_extra
from callability.cli.options import MAX_KEYS, JsonOption, KeyFiles, LogLevel, key_files, leave, refuse
from callability.contract.finding import Finding, as_code, did_you_mean, in_order
from callability.files import document
from callability.files.document import Node, Scalar
from callability.kernel.limits import CONCURRENT_CALLS
from callability.process.logs import LogFormat
from callability.records.recorder import RecordLevel
from callability.records.writer import STANDARD_OUTPUT

PREFIX = "CALLABILITY_SERVE_"
"""How the variable of a setting begins; its name follows in upper case."""
FILE_VARIABLE = f"{PREFIX}CONFIG"
MAX_WORKERS = 64
MANY = 2**31 - 1
"""The largest number that a setting can have."""

Value = str | int | bool | Path | KeyFiles | None


@dataclass(frozen=True, slots=True)
class Effective:
    """The value of a setting that is in effect, and where it comes from."""

    value: Value
    source: str


class SettingsRefused(Exception):
    """Settings that cannot be used. It carries findings of the file, or a sentence about a variable."""

    def __init__(self, findings: tuple[Finding, ...] = (), sentence: str = "") -> None:
        super().__init__(sentence or "\n".join(map(str, findings)))
        self.findings = findings
        self.sentence = sentence


def _number(text: str) -> int:
    if not re.fullmatch("[0-9_]+", text):
        raise ValueError
    return int(text)


def _mode(text: str) -> int:
    if not re.fullmatch("0?[0-7]{3}", text):
        raise ValueError
    return int(text, 8)


def _keys(text: str) -> KeyFiles:
    try:
        return key_files(map(str.strip, text.split(",")), "", MAX_KEYS)
    except typer.BadParameter as error:
        raise ValueError from error


def _whole_number(default: int | None, most: int) -> Any:
    bounds = "of at least 1" if most == MANY else f"from 1 to {most:,}"
    return Field(default, ge=1, le=most, description=f"a whole number {bounds}")


def _one_of(words: type[StrEnum]) -> Any:
    return Field(description=f"one of {', '.join(f'`{word}`' for word in words)}")


_Number = Annotated[int, BeforeValidator(_number)]
_Switch = Annotated[bool, BeforeValidator({"true": True, "false": False}.get), Field(description="`true` or `false`")]


class ServiceSettings(BaseModel):
    """The settings, as they are written in the environment or a file. A description says what a value must be."""

    policy: Path | None = None
    bundle_key: Annotated[KeyFiles | None, BeforeValidator(_keys)] = Field(
        None,
        description=f"KEY_ID=FILE, or up to {MAX_KEYS} of these with commas between, each with an id of its own",
    )
    address: str = "127.0.0.1:7420"
    callers: Path | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    insecure_listen: _Switch = False
    socket_mode: Annotated[int | None, BeforeValidator(_mode)] = Field(
        None, description="three octal digits such as 660"
    )
    max_concurrent_calls: _Number = _whole_number(CONCURRENT_CALLS, MANY)
    workers: _Number = _whole_number(1, MAX_WORKERS)
    max_connection_age: _Number | None = _whole_number(None, MANY // 1_000)
    reuse_port: _Switch = False
    metrics_address: str | None = None
    insecure_metrics: _Switch = False
    log_level: Annotated[LogLevel, _one_of(LogLevel)] = LogLevel.INFO
    log_format: Annotated[LogFormat, _one_of(LogFormat)] = LogFormat.TEXT
    log_calls: _Switch = False
    traces: _Switch = False
    shadow: Path | None = None
    records: Path | None = None
    record_level: Annotated[RecordLevel, _one_of(RecordLevel)] = RecordLevel.REFUSED
    records_mib: _Number = _whole_number(1_024, MANY)
    records_days: _Number = _whole_number(30, 36_500)


SETTINGS: Mapping[str, FieldInfo] = ServiceSettings.model_fields


def read_setting(name: str, text: str) -> Value:
    """Return the value of a setting that is written so.

    Raises:
        ValueError: it cannot have it; the text says what it must be and what it is.
    """
    try:
        value: Value = getattr(ServiceSettings.model_validate({name: text}), name)
    except ValidationError as error:
        raise ValueError(f"must be {SETTINGS[name].description}, and is {as_code(text)}") from error
    return value


def effective_settings(
    given: Mapping[str, Value], environment: Mapping[str, str], file: Path | None
) -> Mapping[str, Effective]:
    """Return the value of each setting, with its source: an option, a variable, a place in the file, or the default.

    `given` has None for an option that is left out. `file` is that of the option `--config`; without it,
    `$CALLABILITY_SERVE_CONFIG` names the file, if it is set.

    Raises:
        SettingsRefused: a variable or the file cannot be used.
    """
    path = file or (Path(environment[FILE_VARIABLE]) if environment.get(FILE_VARIABLE) else None)
    of_file = _of_file(path) if path else {}
    return {name: _effective(name, given.get(name), environment, of_file) for name in SETTINGS}


def settings_or_exit(given: Mapping[str, Value], file: Path | None) -> Mapping[str, Effective]:
    """Return the same for the environment of this process; exit with 1 for the file, with 2 for a variable."""
    try:
        return effective_settings(given, os.environ, file)
    except SettingsRefused as refused:
        if refused.sentence:
            leave(refused.sentence, 2)
        refuse(refused.findings, "the config of the service is refused")


def _effective(name: str, given: Value, environment: Mapping[str, str], of_file: Mapping[str, Effective]) -> Effective:
    variable = f"{PREFIX}{name.upper()}"
    if given is not None:
        return Effective(given, f"--{name.replace('_', '-')}")
    if environment.get(variable):
        try:
            return Effective(read_setting(name, environment[variable]), f"${variable}")
        except ValueError as error:
            raise SettingsRefused(sentence=f"`${variable}` {error}") from error
    return of_file.get(name) or Effective(SETTINGS[name].default, "default")


def _of_file(path: Path) -> Mapping[str, Effective]:
    try:
        root = document.read(path)
    except document.Refused as refused:
        raise SettingsRefused(refused.findings) from refused
    if not isinstance(root, document.DocumentMapping):
        raise SettingsRefused((Finding(root.place, "wrong-type", "the file is not a mapping of settings"),))
    found: list[Finding] = []
    values = {str(key.value): value for key, node in root.entries if (value := _value(key, node, path, found))}
    if found:
        raise SettingsRefused(in_order(found))
    return values


def _value(key: Scalar, node: Node, path: Path, found: list[Finding]) -> Effective | None:
    name = str(key.value)
    if name not in SETTINGS:
        hint = did_you_mean(name, SETTINGS)
        found.append(Finding(key.place, "unknown-key", f"unknown setting {as_code(name)}", hint))
        return None
    if (text := _setting_text(node)) is None:
        found.append(Finding(node.place, "unknown-value", f"`{name}` must be a single value"))
        return None
    try:
        value = read_setting(name, text)
    except ValueError as error:
        found.append(Finding(node.place, "unknown-value", f"`{name}` {error}"))
        return None
    return Effective(_beside(path.absolute().parent, value), str(node.place))


def _beside(directory: Path, value: Value) -> Value:
    """Return a value of a file in a directory: a relative path is one beside it, wherever the service is started."""
    match value:
        case Path() if str(value) != STANDARD_OUTPUT:
            return directory / value
        case Mapping():
            return {key_id: directory / file for key_id, file in value.items()}
        case _:
            return value


def _setting_text(node: Node) -> str | None:
    """Return a value as the file writes it; None if it is empty, or not a single value."""
    match node:
        case Scalar(value=bool(value)):
            return str(value).lower()
        case Scalar(value=str() | int(), word=word) if word != "":
            return str(word)
        case _:
            return None


def unused_variables(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the variables that begin as those of settings do, and are none of them."""
    known = {f"{PREFIX}{name.upper()}" for name in SETTINGS} | {FILE_VARIABLE}
    yield from sorted(name for name in environment if name.startswith(PREFIX) and name not in known)


def shown_value(name: str, value: Value) -> str:
    """Return a value as it is written in a file; none of them is a secret."""
    match value:
        case None:
            return "-"
        case bool():
            return str(value).lower()
        case Mapping():
            return ", ".join(f"{key_id}={file}" for key_id, file in value.items())
        case int() if name == "socket_mode":
            return f"{value:03o}"
        case _:
            return os.fspath(value) if isinstance(value, Path) else str(value)


_GATEWAY_SETTINGS = "callability.cli.gateway"
"""The module that needs the extra `gateway`; this command is installed without it too."""
Row = tuple[str, str, str]
"""A key, its value as it is shown, and its source."""


def show(
    service: Annotated[
        bool, typer.Option("--service", help="Show the settings of `callability serve` in place of the gateway's.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="The config. Default: that of the gateway, or with `--service` `$CALLABILITY_SERVE_CONFIG`.",
        ),
    ] = None,
    form: JsonOption = False,
) -> None:
    """Print the settings that are in effect without options, and where each comes from; secrets are not shown.

    Exit code 0: printed. 1: the config is refused. 2: usage error.
    """
    rows = _of_service(config) if service else _of_gateway(config)
    if form:
        data = [{"key": key, "value": value, "source": source} for key, value, source in rows]
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
        return
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for key, value, source in rows:
        typer.echo(f"{key:{widths[0]}}  {value:{widths[1]}}  {source}")


def _of_service(config: Path | None) -> Sequence[Row]:
    settings = settings_or_exit({}, config)
    for name in unused_variables(os.environ):
        typer.echo(f"callability: `${name}` is not a setting, and is not used", err=True)
    return [(name, shown_value(name, each.value), each.source) for name, each in settings.items()]


def _of_gateway(config: Path | None) -> Sequence[Row]:
    try:
        settings = import_module(_GATEWAY_SETTINGS)
    except ImportError as error:
        refuse_without_extra("config show", "gateway", error)
    rows: Sequence[Row] = settings.gateway_rows(config)
    return rows
