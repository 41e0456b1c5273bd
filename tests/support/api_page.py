"""Writes the reference of the public Python names, from the docstrings beside them. `make api` runs it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import griffe

from support.checkout import ROOT

MODULES = (
    *("callability.adapter", "callability.bundle", "callability.client", "callability.gateway.loading"),
    *("callability.tables", "callability.otel"),
)
"""The modules whose exported names VERSIONING.md promises."""
_HEAD = """\
# The Python API

`VERSIONING.md` says what is promised for these names.
`FR-…`, `SC-…`, `L-…`, `E-…` and `A.…` refer to `docs/specification.md`.
Every module that is not on this page is internal.

`ToolStatus`, `CheckToolsRequest` and the other messages are those of the contract, `callability.v1`.
"""
_WIDTH = 100
_INHERITED_NAMES = re.compile(r"_.*")


@cache
def _package() -> griffe.Module:
    loaded = griffe.load("callability", search_paths=[ROOT / "server"], docstring_parser="google")
    assert isinstance(loaded, griffe.Module)
    return loaded


@cache
def page() -> str:
    """Return the page."""
    return "\n".join((_HEAD, *(line for module in MODULES for line in _module(module)))) + "\n"


def _module(name: str) -> Iterator[str]:
    exported = sorted(import_module(name).__all__, key=str.lower)
    yield f"## {name}\n\n{_text(_at(name))}\n"
    yield "| name | what it is |\n| --- | --- |"
    yield from (f"| [`{each}`](#{each.lower()}) | {_sentence(_named(name, each))} |" for each in exported)
    for each in exported:
        yield from ("", f"### {each}", "", *_section(each, _named(name, each)))
    yield ""


def _at(path: str) -> Any:
    """Return the object at a path; every module on the way has been read."""
    return _package()[path.partition(".")[2]]


def _named(module: str, name: str) -> Any:
    """Return what a module exports under a name, which may be a module's name too."""
    target = _at(module).imports.get(name)
    return _at(target) if target else _at(f"{module}.{name}")


def _text(item: Any) -> str:
    return " ".join(item.docstring.value.split("\n\n")[0].split()) if item.docstring else ""


def _sentence(item: Any) -> str:
    """Return the first sentence of a docstring, fit for a cell of a table."""
    return re.split(r"(?<=\.) (?=[A-Z])", _text(item), maxsplit=1)[0].replace("|", "\\|")


def _section(name: str, item: Any) -> Iterator[str]:
    yield f"```python\n{_declared(name, item)}\n```"
    yield from _documented(item)
    if item.kind is griffe.Kind.CLASS:
        yield from _members(item)


def _declared(name: str, item: Any) -> str:
    match item.kind:
        case griffe.Kind.FUNCTION:
            return _signature(name, item)
        case griffe.Kind.CLASS if _is_enumeration(item) or not _parameters(item):
            return f"class {name}({', '.join(map(str, item.bases))})" if item.bases else f"class {name}"
        case griffe.Kind.CLASS:
            return _signature(f"class {name}", item)
        case _:
            annotation = f": {item.annotation}" if item.annotation else ""
            value = str(item.value) if item.value is not None else ""
            return f"{name}{annotation}" + (f" = {value}" if value and len(value) < _WIDTH else "")


def _is_enumeration(item: Any) -> bool:
    return any("Enum" in str(base) for base in item.bases)


def _parameters(item: Any) -> list[Any]:
    if item.kind is griffe.Kind.CLASS and [str(base) for base in item.bases] == ["NamedTuple"]:
        return [
            griffe.Parameter(name, annotation=each.annotation, default=each.value)
            for name, each in item.members.items()
            if each.kind is griffe.Kind.ATTRIBUTE and "property" not in each.labels
        ]
    return [each for each in item.parameters if each.name not in {"self", "cls"}]


def _signature(name: str, item: Any) -> str:
    """Return a call in one line, or with a line for each parameter."""
    written: list[str] = []
    keyword_only = False
    for each in _parameters(item):
        if each.kind is griffe.ParameterKind.keyword_only and not keyword_only:
            keyword_only = True
            written.append("*")
        annotation = f": {each.annotation}" if each.annotation else ""
        default = f" = {each.default}" if each.default is not None else ""
        written.append(f"{each.name}{annotation}{default}")
    returned = f" -> {item.returns}" if item.kind is griffe.Kind.FUNCTION and item.returns else ""
    prefix = "".join(f"{label} " for label in ("classmethod", "async") if label in item.labels)
    line = f"{prefix}{name}({', '.join(written)}){returned}"
    if len(line) <= _WIDTH:
        return line
    return f"{prefix}{name}(\n" + "".join(f"    {each},\n" for each in written) + f"){returned}"


def _documented(item: Any) -> Iterator[str]:
    """Yield the sections of a docstring, with an empty line before each."""
    if not item.docstring:
        return
    for section in item.docstring.parsed:
        match section.kind:
            case griffe.DocstringSectionKind.text:
                yield f"\n{section.value}"
            case griffe.DocstringSectionKind.parameters:
                yield "\nArguments:\n"
                yield from (f"- `{each.name}`: {_joined(each.description)}" for each in section.value)
            case griffe.DocstringSectionKind.raises:
                yield "\nRaises:\n"
                yield from (f"- `{each.annotation}`: {_joined(each.description)}" for each in section.value)
            case griffe.DocstringSectionKind.returns | griffe.DocstringSectionKind.yields:
                yield f"\nReturns: {_joined(section.value[0].description)}"
            case other:
                raise ValueError(f"{item.path}: a docstring has a section of {other}")


def _joined(text: str) -> str:
    return " ".join(text.split())


def _members(item: Any) -> Iterator[str]:
    """Yield the members of a class that are its own and public."""
    for name, member in item.members.items():
        if _INHERITED_NAMES.fullmatch(name) or member.is_alias:
            continue
        if member.kind is griffe.Kind.FUNCTION:
            yield f"\n```python\n{_signature(name, member)}\n```"
            yield from _documented(member)
        elif "property" in member.labels:
            yield f"\n```python\n{name}: {member.annotation}\n```"
            yield from _documented(member)
        elif member.docstring or _is_enumeration(item):
            value = f" = {member.value}" if _is_enumeration(item) else f": {member.annotation}"
            yield f"\n```python\n{name}{value}\n```"
            yield from _documented(member)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
