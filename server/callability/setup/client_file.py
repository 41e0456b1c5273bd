"""The config file of a client: its servers are read, some of them are removed, and others are put in their place.

Every other byte stays. A file of Claude Code has the history of every project too: of JSON, only the part with the
servers is laid out.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from callability.contract.finding import Place, as_code
from callability.files import document
from callability.files.document import UnclosedComment, without_comments
from callability.files.editing import EditRefused, edited_bytes, without
from callability.files.spelling import Tree
from callability.setup.clients import ConfigForm

MOST_BYTES = 64 * 1024 * 1024
_BOM = "\ufeff"
_LINE_END = re.compile("\r\n|[\r\n]")
_TOML_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)$")
_QUOTED = re.compile(r"'([^']*)'")
_WHITE = re.compile(r"[ \t\r\n]*")
_FIRST_KEY = re.compile(r"\{(\s*)")
_NAME = "servers.json"
_TABLE = re.compile(r"\s*\[\[?[^\[\]]+\]\]?\s*(?:#.*)?$")


class Unusable(Exception):
    """A config of a client that cannot be read or changed; the message is one line with its path."""


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A file that was read, and where the servers are in it."""

    path: Path
    form: ConfigForm
    keys: tuple[str, ...]
    data: bytes = field(repr=False)
    root: Mapping[str, Any] = field(repr=False)

    @property
    def servers(self) -> Mapping[str, object]:
        """The entries by name; a list of servers that have names counts too."""
        found: object = self.root
        for key in self.keys:
            found = found.get(key) if isinstance(found, Mapping) else None
        if isinstance(found, list):
            return {str(each["name"]): each for each in found if isinstance(each, Mapping) and "name" in each}
        return {str(name): entry for name, entry in found.items()} if isinstance(found, Mapping) else {}


def read_client_file(path: Path, form: ConfigForm, keys: tuple[str, ...]) -> ClientFile:
    """Read a file.

    Raises:
        Unusable: it cannot be read, is not well-formed, or has a key twice on the way to its servers or in them.
    """
    try:
        data = document.read_bytes(path, most=MOST_BYTES)
    except document.Refused as refused:
        raise Unusable(str(refused.findings[0])) from refused
    if len(data) > MOST_BYTES:
        raise Unusable(f"{path}: is larger than {MOST_BYTES:,} bytes")
    file = ClientFile(path, form, keys, data, content_of(data, form, str(path)))
    if form is ConfigForm.JSON and keys and file.root:
        text = data.decode("utf-8-sig")
        start, end, missing = _json_part(file, text)
        if not missing:
            _parse_part(file, text, start, end)
    return file


def with_members(file: ClientFile, remove: Collection[str], insert: Mapping[str, Mapping[str, object]]) -> bytes:
    """Return the bytes of a file without some of its servers, and with others; nothing else differs.

    Raises:
        Unusable: that cannot be done without touching something else.
    """
    wanted = {name: entry for name, entry in file.servers.items() if name not in remove} | dict(insert)
    try:
        match file.form:
            case ConfigForm.JSON:
                result = _with_json_members(file, remove, insert)
            case ConfigForm.YAML:
                result = _with_yaml_members(file, remove, insert)
            case ConfigForm.TOML:
                result = _with_toml_members(file, remove, insert)
        again = ClientFile(file.path, file.form, file.keys, result, content_of(result, file.form, str(file.path)))
    except (EditRefused, document.Refused):
        # Their texts may name a value, which may be a secret.
        raise _unclear_edit(file) from None
    if again.servers != wanted or _content_beside_servers(again) != _content_beside_servers(file):
        raise _unclear_edit(file)
    return result


def _unclear_edit(file: ClientFile) -> Unusable:
    return Unusable(f"{file.path}: its servers cannot be replaced without touching something else; edit it by hand")


def _content_beside_servers(file: ClientFile) -> object:
    """Return the content of a file without its servers."""

    def copy_below(found: object, keys: tuple[str, ...]) -> object:
        if not keys or not isinstance(found, Mapping):
            return None
        rest = {key: value for key, value in found.items() if key != keys[0]}
        inner = copy_below(found.get(keys[0]), keys[1:])
        return {**rest, keys[0]: inner} if inner else rest

    return copy_below(file.root, file.keys)


def content_of(data: bytes, form: ConfigForm, name: str) -> Mapping[str, Any]:
    """Return the content of a file of a form.

    Raises:
        Unusable: it is not well-formed.
    """
    try:
        text = data.decode("utf-8-sig")
        match form:
            case ConfigForm.JSON:
                found = json.loads(without_comments(text)) if text.strip() else {}
            case ConfigForm.YAML:
                found = document.plain(document.parse(data, name)) if text.strip() else {}
            case ConfigForm.TOML:
                found = tomllib.loads(text)
    except document.Refused as refused:
        raise Unusable(str(refused.findings[0])) from refused
    except UnicodeDecodeError as error:
        raise Unusable(f"{name}: is not UTF-8") from error
    except (UnclosedComment, RecursionError) as error:
        raise Unusable(f"{name}: is not valid JSON") from error
    except json.JSONDecodeError as error:
        raise Unusable(f"{name}:{error.lineno}:{error.colno}: is not valid JSON here") from error
    except tomllib.TOMLDecodeError as error:
        raise Unusable(_toml_fault(name, text, str(error))) from error
    if not isinstance(found, Mapping):
        raise Unusable(f"{name}: is no mapping")
    return found


def _toml_fault(name: str, text: str, message: str) -> str:
    """Return what the TOML library found, without its words, which are for those who program with it."""
    found = _TOML_PLACE.search(message)
    lines = text.splitlines() or [""]
    place = Place(name, *map(int, found.groups())) if found else Place(name, len(lines), len(lines[-1]) + 1)
    if message.startswith("Cannot declare"):
        return f"{place}: table {as_code('.'.join(_QUOTED.findall(message)))} is repeated"
    return f"{place}: {'a key is repeated' if message.startswith('Cannot overwrite') else 'is not valid TOML here'}"


def _tree(keys: tuple[str, ...], insert: Mapping[str, Mapping[str, object]]) -> Tree:
    tree: Mapping[str, object] = insert
    for key in reversed(keys):
        tree = {key: tree}
    return cast(Tree, tree)


def _with_yaml_members(file: ClientFile, remove: Collection[str], insert: Mapping[str, Mapping[str, object]]) -> bytes:
    data = file.data
    if not data.strip():
        data = b"{}\n"
    for name in remove:
        data = without(data, file.path.name, (*file.keys, name))
    return edited_bytes(data, file.path.name, _tree(file.keys, insert)) if insert else data


def _with_toml_members(file: ClientFile, remove: Collection[str], insert: Mapping[str, Mapping[str, object]]) -> bytes:
    """Return the bytes with whole tables removed and added; what is written otherwise is left to the library, which
    takes the comments behind a table for a part of it.
    """
    # It is needed for one client alone.
    import tomlkit  # noqa: PLC0415

    text = file.data.decode("utf-8-sig")
    mark = _BOM if file.data.startswith(_BOM.encode()) else ""
    [key] = file.keys
    added: Any = tomlkit.document()
    added[key] = tomlkit.table(is_super_table=True)
    for name, entry in insert.items():
        table = tomlkit.table()
        table.update(entry)
        added[key][name] = table
    wanted = {name: entry for name, entry in file.servers.items() if name not in remove} | dict(insert)
    result = _with_tables(text, key, remove, tomlkit.dumps(added).strip() if insert else "")
    try:
        read = tomllib.loads(result)
    except tomllib.TOMLDecodeError:
        read = {}
    if read.get(key, {}) != wanted:
        root: Any = tomlkit.parse(text)
        for name in remove:
            del root[key][name]
        if key not in root:
            root[key] = tomlkit.table(is_super_table=True)
        for name in insert:
            root[key][name] = added[key][name]
        result = tomlkit.dumps(root)
    return (mark + result).encode()


def _with_tables(text: str, key: str, remove: Collection[str], added: str) -> str:
    """Return a TOML text without the tables of some names below a key, and with a text in place of the first one."""
    lines = text.splitlines(keepends=True)
    line_end = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    new = [f"{line}{line_end}" for line in added.splitlines()]
    of_key = re.compile(rf"\s*\[\s*{re.escape(key)}\s*\.\s*(?:\"([^\"]*)\"|'([^']*)'|([\w-]+))\s*[.\]]")
    kept: list[str] = []
    at: int | None = None
    number = 0
    while number < len(lines):
        found = of_key.match(lines[number])
        if found is None or next(each for each in found.groups() if each is not None) not in remove:
            kept.append(lines[number])
            number += 1
            continue
        end = number + 1
        while end < len(lines) and not _TABLE.match(lines[end]):
            end += 1
        # What stands in front of the next table, behind an empty line or not, belongs to it.
        while end > number + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
            end -= 1
        at = len(kept) if at is None else at
        number = end
        if not kept or not kept[-1].strip():
            while number < len(lines) and not lines[number].strip():
                number += 1
    if not new:
        return "".join(kept)
    at = len(kept) if at is None else at
    if at == len(kept) and kept and not kept[-1].endswith("\n"):
        kept[-1] += line_end
    before = [line_end] if at and kept[at - 1].strip() else []
    after = [line_end] if at < len(kept) and kept[at].strip() else []
    return "".join((*kept[:at], *before, *new, *after, *kept[at:]))


def _with_json_members(file: ClientFile, remove: Collection[str], insert: Mapping[str, Mapping[str, object]]) -> bytes:
    text = file.data.decode("utf-8-sig")
    mark = _BOM if file.data.startswith(_BOM.encode()) else ""
    if not text.strip():
        text = "{}\n"
    start, end, missing = _json_part(file, text)
    inner = text[start:end]
    if missing and len(inner) > document.MAX_BYTES // 2:
        return (mark + text[:start] + _with_first_member(inner, missing, insert) + text[end:]).encode()
    _parse_part(file, text, start, end)
    data = inner.encode()
    for name in remove if not missing else ():
        data = without(data, _NAME, (name,))
    if insert:
        data = edited_bytes(data, _NAME, _tree(missing, insert))
    return (mark + text[:start]).encode() + data + text[end:].encode()


def _json_part(file: ClientFile, text: str) -> tuple[int, int, tuple[str, ...]]:
    """Return where the object of the servers is, or the nearest one above it, and the keys that are missing there."""
    plain = without_comments(text)
    start, end = _skip(plain, 0), len(plain.rstrip())
    missing = file.keys
    while missing:
        found = [place for key, *place in _members(plain, start) if key == missing[0]]
        if len(found) > 1:
            place = _place(file, text, found[1][0])
            raise Unusable(f"{place}: key {as_code(missing[0])} is repeated; keep one of the two")
        if not found or plain[found[0][1]] != "{":
            break
        (_, start, end), missing = found[0], missing[1:]
    return start, end, missing


def _parse_part(file: ClientFile, text: str, start: int, end: int) -> None:
    """Check that a part of a file is what an edit can work on."""
    part = text[start:end]
    try:
        document.parse(part.encode(), _NAME)
    except document.Refused as refused:
        finding = refused.findings[0]
        lines = [0, *(each.end() for each in _LINE_END.finditer(part))]
        place = Place(str(file.path))
        if finding.place.line:
            place = _place(file, text, start + lines[finding.place.line - 1] + finding.place.column - 1)
        raise Unusable(f"{place}: {finding.sentence}") from refused


def _place(file: ClientFile, text: str, at: int) -> Place:
    lines = _LINE_END.split(text[:at])
    return Place(str(file.path), len(lines), len(lines[-1]) + 1)


def _with_first_member(text: str, keys: tuple[str, ...], insert: Mapping[str, Mapping[str, object]]) -> str:
    """Put a member in front of the others of an object that is too large to be laid out."""
    space = _FIRST_KEY.match(text)
    between = space[1] if space else "\n"
    tree = _tree(keys[1:], insert)
    return f"{{{between}{json.dumps(keys[0])}: {json.dumps(tree, ensure_ascii=False)},{text[1:]}"


def _members(plain: str, start: int) -> Iterator[tuple[str, int, int, int]]:
    """Yield each member of an object in plain JSON: its key, where that is, and where its value begins and ends."""
    read = json.JSONDecoder().raw_decode
    at = _skip(plain, start + 1)
    while plain[at] != "}":
        key, after = read(plain, at)
        begin = _skip(plain, _skip(plain, after) + 1)
        _, end = read(plain, begin)
        yield str(key), at, begin, end
        at = _skip(plain, end)
        if plain[at] == ",":
            at = _skip(plain, at + 1)


def _skip(plain: str, at: int) -> int:
    found = _WHITE.match(plain, at)
    assert found is not None
    return found.end()
