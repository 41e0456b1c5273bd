"""The settings of `callability serve`: each from an option, the environment, a file or its default, in this order."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import typer

from callability import document
from callability.command_line.key_option import MAX_KEYS, KeyFiles, key_files
from callability.command_line.options import leave, refuse
from callability.document import Node, Scalar
from callability.finding import Finding, did_you_mean, in_order, shown
from callability.kernel.limits import CONCURRENT_CALLS

PREFIX = "CALLABILITY_SERVE_"
"""How the variable of a setting begins; its name follows in upper case."""
FILE_VARIABLE = f"{PREFIX}CONFIG"
MAX_WORKERS = 64
MANY = 2**31 - 1
"""The largest number that a setting can have."""

Value = str | int | bool | Path | KeyFiles | None


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting: its default, and what reads a value as it is written in the environment or a file.

    `read` raises ValueError with what a value must be.
    """

    name: str
    default: Value
    read: Callable[[str], Value]


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


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Return what reads a whole number between two others."""

    def read(text: str) -> int:
        if not re.fullmatch("[0-9]{1,10}", text) or not least <= int(text) <= most:
            bounds = f"of at least {least:,}" if most == MANY else f"from {least:,} to {most:,}"
            raise ValueError(f"a whole number {bounds}")
        return int(text)

    return read


def mode(text: str) -> int:
    """Return the mode of a file, which is written as octal digits.

    Raises:
        ValueError: it is none.
    """
    if not re.fullmatch("0?[0-7]{3}", text):
        raise ValueError("three octal digits such as 660")
    return int(text, 8)


def _text(text: str) -> str:
    if not text:
        raise ValueError("text")
    return text


def _switch(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError("`true` or `false`")
    return text == "true"


def one_of(*words: str) -> Callable[[str], str]:
    """Return what reads one of some words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"one of {', '.join(f'`{word}`' for word in words)}")
        return text

    return read


def _keys(text: str) -> KeyFiles:
    try:
        return key_files(map(str.strip, text.split(",")), "", MAX_KEYS)
    except typer.BadParameter:
        raise ValueError(
            f"KEY_ID=FILE, or up to {MAX_KEYS} of these with commas between, each with an id of its own"
        ) from None


SETTINGS: Mapping[str, Setting] = {
    each.name: each
    for each in (
        Setting("policy", None, Path),
        Setting("bundle_key", None, _keys),
        Setting("address", "127.0.0.1:7420", _text),
        Setting("callers", None, Path),
        Setting("tls_certificate", None, Path),
        Setting("tls_key", None, Path),
        Setting("tls_client_ca", None, Path),
        Setting("insecure_listen", False, _switch),
        Setting("socket_mode", None, mode),
        Setting("max_concurrent_calls", CONCURRENT_CALLS, whole_number(1, MANY)),
        Setting("workers", 1, whole_number(1, MAX_WORKERS)),
        Setting("max_connection_age", None, whole_number(1, MANY // 1_000)),
        Setting("reuse_port", False, _switch),
        Setting("metrics_address", None, _text),
        Setting("insecure_metrics", False, _switch),
        Setting("log_level", "info", one_of("debug", "info", "warning", "error")),
        Setting("log_format", "text", one_of("text", "json")),
        Setting("log_calls", False, _switch),
        Setting("traces", False, _switch),
    )
}


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
    return {name: _effective(setting, given.get(name), environment, of_file) for name, setting in SETTINGS.items()}


def settings_or_exit(given: Mapping[str, Value], file: Path | None) -> Mapping[str, Effective]:
    """Return the same for the environment of this process; exit with 1 for the file, with 2 for a variable."""
    try:
        return effective_settings(given, os.environ, file)
    except SettingsRefused as refused:
        if refused.sentence:
            leave(refused.sentence, 2)
        refuse(refused.findings, "the config of the service is refused")


def _effective(
    setting: Setting, given: Value, environment: Mapping[str, str], of_file: Mapping[str, Effective]
) -> Effective:
    variable = f"{PREFIX}{setting.name.upper()}"
    if given is not None:
        return Effective(given, f"--{setting.name.replace('_', '-')}")
    if environment.get(variable):
        try:
            return Effective(setting.read(environment[variable]), f"${variable}")
        except ValueError as error:
            sentence = f"`${variable}` must be {error}, and is {shown(environment[variable])}"
            raise SettingsRefused(sentence=sentence) from error
    return of_file.get(setting.name) or Effective(setting.default, "default")


def _of_file(path: Path) -> Mapping[str, Effective]:
    try:
        root = document.read(path)
    except document.Refused as refused:
        raise SettingsRefused(refused.findings) from refused
    if not isinstance(root, document.Mapping):
        raise SettingsRefused((Finding(root.place, "wrong-type", "the file is not a mapping of settings"),))
    found: list[Finding] = []
    values = {str(key.value): value for key, node in root.entries if (value := _value(key, node, path, found))}
    if found:
        raise SettingsRefused(in_order(found))
    return values


def _value(key: Scalar, node: Node, path: Path, found: list[Finding]) -> Effective | None:
    name = str(key.value)
    setting = SETTINGS.get(name)
    if setting is None:
        hint = did_you_mean(name, SETTINGS)
        found.append(Finding(key.place, "unknown-key", f"unknown setting {shown(name)}", hint))
        return None
    if (text := _written(node)) is None:
        found.append(Finding(node.place, "unknown-value", f"`{name}` must be a single value"))
        return None
    try:
        value = setting.read(text)
    except ValueError as error:
        found.append(Finding(node.place, "unknown-value", f"`{name}` must be {error}, and is {shown(text)}"))
        return None
    return Effective(_beside(path.absolute().parent, value), str(node.place))


def _beside(directory: Path, value: Value) -> Value:
    """Return a value of a file in a directory: a relative path is one beside it, wherever the service is started."""
    match value:
        case Path():
            return directory / value
        case Mapping():
            return {key_id: directory / file for key_id, file in value.items()}
        case _:
            return value


def _written(node: Node) -> str | None:
    """Return a value as text; None if it is empty, or not a single value."""
    match node:
        case Scalar(value=bool(value)):
            return str(value).lower()
        case Scalar(value=str() | int() as value) if value != "":
            return str(value)
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
