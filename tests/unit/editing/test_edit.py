"""Changing one value of a file that a person wrote, and no other byte."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from callability.files import document
from callability.files.editing import EditRefused, edited_bytes, rewrite, without
from callability.files.spelling import Tree, Value

DIGEST = "1e5" + "0" * 61

CONFIG = """\
# The servers of this machine.
mcpServers:
    files:   # the disk
        command: "/bin/files"   # do not move
        args: ['-v',
               "x"]
        # enabled: is left out on purpose

    clock: {command: clock, enabled: no-not-this}  # inline
approvals: approvals.yaml
"""


def edit(text: str, keys: str, value: str | bool, file: str = "a.yaml") -> str:
    """Set a value in a text; the keys are joined by dots."""
    return edited_bytes(text.encode(), file, _tree(tuple(keys.split(".")), value)).decode()


def _tree(keys: tuple[str, ...], value: Value | Tree) -> Tree:
    """Return a value under keys."""
    for key in reversed(keys):
        value = {key: value}
    assert isinstance(value, Mapping)
    return value


@pytest.mark.parametrize(
    ("before", "keys", "value", "after"),
    [
        ("a: {b: true}\n", "a.b", False, "a: {b: false}\n"),
        ("a:\n  b: 'x' # y\n", "a.b", "z", "a:\n  b: z # y\n"),
        ("a:\n  b: # y\n", "a.b", True, "a:\n  b: true # y\n"),
        ("a:\n  b:\nc: 1\n", "a.b.d", True, "a:\n  b: {d: true}\nc: 1\n"),
        ("a: {}\n", "a.b.c", True, "a: {b: {c: true}}\n"),
        ("a:\n- b\nc: 1", "d", True, "a:\n- b\nc: 1\nd: true"),
        ("a: 1\r\n", "b.c.d", True, "a: 1\r\nb:\r\n  c: {d: true}\r\n"),
        ("\ufeffa: 1\n", "b", True, "\ufeffa: 1\nb: true\n"),
        ("a:\n    b: {c: 1}\n", "d.e.f", True, "a:\n    b: {c: 1}\nd:\n    e: {f: true}\n"),
        ("a:\n  b: 1\n  # of b\n\n# of c\nc: 1\n", "a.d", True, "a:\n  b: 1\n  d: true\n  # of b\n\n# of c\nc: 1\n"),
        ("a:\n  b: |\n    x\n\n\nc: 1\n", "a.d", True, "a:\n  b: |\n    x\n  d: true\n\n\nc: 1\n"),
        ("a: |+\n  x\n\n# y\n", "b", True, "a: |+\n  x\n\nb: true\n# y\n"),
        ("---\na: 1\n...\n", "b", True, "---\na: 1\nb: true\n...\n"),
        ("? a\n: b\n? c\n", "d", True, "? a\n: b\n? c\nd: true\n"),
        ("{a: 1, b: }", "c", True, "{a: 1, b: , c: true }"),
        ("{a: 1, }", "c", True, "{a: 1, c: true }"),
        ("{a: 1 # x\n}", "c", True, "{a: 1, # x\n c: true\n}"),
        ("{\n  a: 1, # x\n}", "c.d.e", True, "{\n  a: 1, # x\n  c: {\n    d: {e: true}\n  }\n}"),
        ("{ # x\n}\n", "c", True, "{ # x\n  c: true\n}\n"),
    ],
)
def test_a_change_keeps_to_the_style_of_its_place(before: str, keys: str, value: str | bool, after: str) -> None:
    """Quotes, comments, indentation, line endings, a byte order mark, and a missing line break at the end."""
    assert edit(before, keys, value) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a":{"b":1}}', '{"a":{"b":1, "c": true}}'),
        ('{\n\t"a": {\n\t\t"b": 1\n\t}\n}\n', '{\n\t"a": {\n\t\t"b": 1,\n\t\t"c": true\n\t}\n}\n'),
        ('{"x\u2028\x7f\\ud83d\\ude00":\t1, "a": {"c": null}}', '{"x\u2028\x7f\\ud83d\\ude00":\t1, "a": {"c": true}}'),
        ('{"a": {}}', '{"a": {"c": true}}'),
        ('{"a": {"c": false, // c\n}, }', '{"a": {"c": true, // c\n}, }'),
        ('{"a": {"b": 1 /* b */}}', '{"a": {"b": 1, "c": true /* b */}}'),
        ('{"a": {"b": 1, /* b */}}', '{"a": {"b": 1, "c": true /* b */}}'),
        ('{"a": {\n  "b": 1 // b\n}}', '{"a": {\n  "b": 1, // b\n  "c": true\n}}'),
        ('{"a": {\n  "b": 1 /* , */ , // b\n}}', '{"a": {\n  "b": 1 /* , */ , // b\n  "c": true\n}}'),
        ('{"a": {\n  "b": 1 /* b\n */\n}}', '{"a": {\n  "b": 1,\n  "c": true /* b\n */\n}}'),
        ('{"a": {\n  // "c": false,\n}} // }', '{"a": {\n  // "c": false,\n  "c": true\n}} // }'),
        ('// {"a": 1}\n{"a": {"b": "//"}}', '// {"a": 1}\n{"a": {"b": "//", "c": true}}'),
    ],
)
def test_json_stays_json(before: str, after: str) -> None:
    """With its tabs, its compact form, its comments and characters that YAML does not allow."""
    assert edit(before, "a.c", True, "a.json") == after


def test_a_switch_of_a_server_is_one_line_of_a_diff() -> None:
    """A comment stays above its line."""
    after = edit(CONFIG, "mcpServers.files.enabled", False)
    assert after == CONFIG.replace('"x"]\n', '"x"]\n        enabled: false\n')
    assert edit(CONFIG, "mcpServers.clock.enabled", True) == CONFIG.replace("no-not-this", "true")


def test_what_the_file_says_already_is_not_written_again() -> None:
    """To the byte, however it is spelled."""
    assert edit("a: {b: True}", "a.b", True) == "a: {b: True}"


@pytest.mark.parametrize(
    "word", [DIGEST, "0" * 64, "yes", "NO", "null", "~", "on", "", " x", "a: b", "x\u202e", "\U000e0041"]
)
def test_a_word_that_could_be_read_otherwise_stands_in_quotes(word: str) -> None:
    """As a value and as a key, for readers of YAML 1.1 too; invisible characters are escaped."""
    written = edited_bytes(b"a: {b: c}\n", "a.yaml", {"a": {word: word}}).decode()
    assert re.fullmatch(r'a: \{b: c, "(.*)": "\1"\}\n', written)
    assert written[:-1].isprintable()


@pytest.mark.parametrize(
    ("text", "keys", "place"),
    [
        ("a: [1]\n", "a", "1:4"),
        ("a: {b: [1]}\n", "a.b.c", "1:8"),
        ("a: |\n  true\n", "a", "1:4"),
        ("a: 1\n", "a.b", "1:4"),
        ("[1]\n", "a", "1:1"),
        ("a: {b: 1}\n", "a", "1:4"),
    ],
)
def test_what_cannot_be_changed_alone_is_left_to_a_person(text: str, keys: str, place: str) -> None:
    """With its place, and what to do."""
    with pytest.raises(EditRefused, match=f"^a.yaml:{place}: .* edit it by hand: set `{keys[-1]}` to `true`"):
        edit(text, keys, True)


KEYS = st.text("ab\n:#-{}'\"\\ é\u2028\x7f\U0001f600", max_size=3) | st.sampled_from(["yes", "1", "x y", "~", "<<"])
VALUES = st.booleans() | KEYS
SCALARS = st.sampled_from(
    ["1", "true", "x", "'q # q'", '"q: \\" q"', "", "~", "2026-01-01", "|", ">-", "|+", "[1, {a: b}]"]
)
TREES = st.recursive(
    SCALARS, lambda below: st.dictionaries(st.text("abcde", min_size=1, max_size=2), below), max_leaves=8
)


class Writer:
    """Writes a tree as YAML in the styles that are drawn, with numbered comments all over it."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data
        self._comments = 0

    def document(self, tree: dict[str, Any]) -> str:
        """Return the whole text, with line ends, a mark at its beginning and a last line that are drawn too."""
        text = self._block(tree, "") if self._maybe() else f"{self._flow(tree, '  ')}\n"
        text = text.removesuffix("\n") if self._maybe() else text
        return self._one_of("", "\ufeff") + text.replace("\n", self._one_of("\n", "\r\n"))

    def _maybe(self) -> bool:
        return self._data.draw(st.booleans())

    def _one_of(self, *texts: str) -> str:
        return self._data.draw(st.sampled_from(texts))

    def _comment(self, before: str = " ") -> str:
        if not self._maybe():
            return ""
        self._comments += 1
        return f"{before}# c{self._comments}"

    def _lines(self, indent: str) -> str:
        return "".join(
            self._one_of("", "\n", f"{self._comment(indent)}\n", f"{self._comment()}\n")
            for _ in range(self._data.draw(st.integers(0, 2)))
        )

    def _key(self, key: str) -> str:
        return self._one_of("{}", '"{}"', "'{}'").format(key)

    def _block(self, tree: dict[str, Any], indent: str) -> str:
        entries = (
            f"{self._lines(indent)}{indent}{self._key(key)}:{self._value(value, indent)}" for key, value in tree.items()
        )
        return "".join(entries) + self._lines(indent)

    def _value(self, value: Any, indent: str) -> str:
        if isinstance(value, str):
            more = f"{indent}  text # no comment\n{indent}  more\n" if value[:1] in {"|", ">"} else ""
            return f" {value}{self._comment()}\n{more}"
        if not value or self._maybe():
            return f" {self._flow(value, indent + '  ')}{self._comment()}\n"
        return f"{self._comment()}\n{self._block(value, indent + self._one_of(' ', '  ', '    '))}"

    def _flow(self, tree: dict[str, Any], indent: str) -> str:
        lines = self._maybe()
        parts = [f"{self._comment()}\n" if lines else ""]
        for number, (key, value) in enumerate(tree.items(), 1):
            written = self._flow(value, indent + "  ") if isinstance(value, dict) else value.strip("|>+-")
            comma = "," if number < len(tree) or self._maybe() else ""
            end = f"{self._comment()}\n" if lines else " "
            parts.append(f"{indent if lines else ''}{self._key(key)}: {written} {comma}{end}")
        return f"{{{''.join(parts)}{indent if lines else ''}}}"


def _paths(data: object, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield (*above, key)
            yield from _paths(value, (*above, key))


def _at(data: Any, keys: tuple[str, ...]) -> Any:
    """Return what keys lead to, as far as they do."""
    for key in keys:
        if not isinstance(data, dict) or key not in data:
            break
        data = data[key]
    return data


def _set(data: Any, tree: Any) -> Any:
    """Return data after the values of a tree are set."""
    if not isinstance(tree, dict):
        return tree
    return {**(data or {}), **{key: _set((data or {}).get(key), below) for key, below in tree.items()}}


def _is_in(old: str, new: str) -> bool:
    """Return whether a text can be made from another by leaving out characters."""
    rest = iter(new)
    return all(character in rest for character in old)


def _shared(one: str, other: str) -> int:
    """Return how many characters two texts have in common at the start."""
    differing = (index for index, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1])
    return next(differing, min(len(one), len(other)))


@given(st.data(), TREES.filter(lambda tree: isinstance(tree, dict) and tree != {}))
def test_a_change_of_any_yaml_changes_nothing_else(data: st.DataObject, tree: dict[str, Any]) -> None:
    """Every other value and every comment stays, and without the new text, the file is the old one."""
    _check(data, Writer(data).document(tree), "a.yaml")


@given(st.data(), TREES.filter(lambda tree: isinstance(tree, dict)), st.sampled_from([None, 0, 2, "\t"]))
def test_a_change_of_any_json_changes_nothing_else(data: st.DataObject, tree: object, indent: Any) -> None:
    """In every layout."""
    _check(data, json.dumps(tree, indent=indent, ensure_ascii=data.draw(st.booleans())), "a.json")


@pytest.mark.parametrize("gap", ["\n", " \r\n ", "\r", "\t\n", "  //, {\n"])
def test_a_value_changes_whose_colon_is_in_another_line_than_its_key(gap: str) -> None:
    """JSON allows a line break there, which YAML does not."""
    text = f'{{"a"{gap}: {{"b"{gap}:"1"}}}}'
    assert edited_bytes(text.encode(), "a.json", {"a": {"b": "2"}}).decode() == text.replace('"1"', '"2"')


@given(st.data(), TREES.filter(lambda tree: isinstance(tree, dict)), st.sampled_from([None, 0, 2, "\t"]))
def test_a_change_of_any_json_with_comments_changes_nothing_else(
    data: st.DataObject, tree: object, indent: Any
) -> None:
    """Comments and trailing commas stay as they are, wherever they are."""
    parts: list[str] = []
    for token in re.findall(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|\s+|[^{}\[\],:\s"]+', json.dumps(tree, indent=indent)):
        before = next((part for part in reversed(parts) if part.strip() and part[0] != "/"), "")
        if token in "}]" and before not in "{[" and data.draw(st.booleans()):
            parts.append(",")
        parts.append(data.draw(st.sampled_from(["", "", "/* ,} */", "//, {\n", '/*\n " */', "/**/"])))
        parts.append(token)
    _check(data, "".join(parts), "a.json")


def _check(data: st.DataObject, text: str, file: str) -> None:
    try:
        before: Any = document.plain(document.parse(text.encode(), file))
    except document.Refused:
        assume(False)
    tree: dict[str, Any] = {}
    paths = [_drawn_keys(data, before) for _ in range(data.draw(st.integers(1, 3)))]
    for keys in paths:
        # If one value would be inside the other, the tree has the first.
        if not any(other[: len(keys)] == keys or keys[: len(other)] == other for other in _paths_to_values(tree)):
            tree = _set(tree, _tree(keys, data.draw(VALUES)))
    try:
        result = edited_bytes(text.encode(), file, tree).decode()
    except EditRefused:
        assert text.endswith(" more") or any(_may_be_refused(before, keys) for keys in paths)
        return
    after: Any = document.plain(document.parse(result.encode(), file))
    assert repr(after) == repr(_set(before, tree))
    comments = re.compile(r"# c\d+")
    assert comments.findall(result) == comments.findall(text)
    if all(isinstance(_at(before, keys), dict) for keys in _paths_to_values(tree)):
        assert _is_in(text, result)
    elif result != text and len(paths) == 1:
        start = _shared(text, result)
        end = _shared(text[start:][::-1], result[start:][::-1])
        assert not re.search(r"[\r\n]|# c", text[start : len(text) - end])


def _drawn_keys(data: st.DataObject, before: Any) -> tuple[str, ...]:
    place = data.draw(st.sampled_from([(), *_paths(before)]))
    return (*place, *data.draw(st.lists(KEYS, min_size=0 if place else 1, max_size=3)))


def _paths_to_values(tree: Any) -> list[tuple[str, ...]]:
    return [keys for keys in _paths(tree) if not isinstance(_at(tree, keys), dict)]


def _may_be_refused(before: Any, keys: tuple[str, ...]) -> bool:
    """Say whether a value that is neither a mapping nor one that is written in a line is in the way.

    A block of text at the end of a file without a line end is another text before a further line.
    """
    found = _at(before, keys)
    whole = keys in set(_paths(before))
    return isinstance(found, dict | list) or "more" in str(found) if whole else not isinstance(found, dict | None)


def _disabled(name: str) -> Tree:
    return {"files": {name: {"disabled": True}}}


def test_twenty_changes_at_the_same_time_are_all_made(tmp_path: Path) -> None:
    """None is lost, and a concurrent reader always reads a whole file."""
    path = tmp_path / "approvals.yaml"
    path.write_text("# mine\nfiles:\n  first: {} # stays\n")
    names = [f"tool{number}" for number in range(20)]
    with ThreadPoolExecutor(len(names)) as threads:
        changing = [threads.submit(rewrite, path, _disabled(name)) for name in names]
        while not all(each.done() for each in changing):
            document.read(path)
    assert all(each.result() for each in changing)
    after: Any = document.plain(document.read(path))
    assert after == {"files": {"first": {}, **{name: {"disabled": True} for name in names}}}
    assert path.read_text().startswith("# mine\nfiles:\n  first: {} # stays\n")
    assert os.listdir(tmp_path) == ["approvals.yaml"]


def test_a_changed_file_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    """The link still leads to the file, which is a new one with the same mode."""
    (tmp_path / "elsewhere").mkdir()
    path, link = tmp_path / "elsewhere/approvals.yaml", tmp_path / "approvals.yaml"
    path.write_text("files: {}\n")
    path.chmod(0o640)
    link.symlink_to("elsewhere/approvals.yaml")
    before = path.stat()
    assert rewrite(link, _disabled("read"))
    assert link.is_symlink()
    assert path.read_text() == "files: {read: {disabled: true}}\n"
    after = path.stat()
    assert stat.S_IMODE(after.st_mode) == 0o640
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino


def test_of_several_changes_all_or_none_are_made(tmp_path: Path) -> None:
    """One value that cannot be set refuses the others, and nothing is left behind."""
    path = tmp_path / "approvals.yaml"
    path.write_text("files: {read: {disabled: [1]}}\n")
    with pytest.raises(EditRefused):
        rewrite(path, {"files": {"write": {"disabled": True}, "read": {"disabled": True}}})
    assert path.read_text() == "files: {read: {disabled: [1]}}\n"
    assert os.listdir(tmp_path) == ["approvals.yaml"]


def test_nothing_is_written_where_there_is_nothing_to_do(tmp_path: Path) -> None:
    """The file is not replaced."""
    path = tmp_path / "approvals.yaml"
    path.write_text("files: {read: {disabled: true}}\n")
    before = path.stat()
    assert not rewrite(path, _disabled("read"))
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("text", ["", "a: [\n", "a: 1\na: 2\n", "a: &x 1\nb: *x\n"])
def test_a_file_that_is_not_sound_is_not_touched(text: str, tmp_path: Path) -> None:
    """The error says what is wrong with it."""
    path = tmp_path / "approvals.yaml"
    path.write_text(text)
    with pytest.raises(document.Refused):
        rewrite(path, _disabled("read"))
    assert path.read_text() == text


def test_a_missing_file_is_created_only_on_request(tmp_path: Path) -> None:
    """In the form that a person would write."""
    path = tmp_path / "approvals.yaml"
    with pytest.raises(document.Refused):
        rewrite(path, _disabled("read"))
    assert rewrite(path, {"files": {"read": {"disabled": True}, "no way": {"disabled": False}}}, create=True)
    assert path.read_text() == 'files:\n  read: {disabled: true}\n  "no way": {disabled: false}\n'
    assert rewrite(tmp_path / "approvals.json", _disabled("read"), create=True)
    assert json.loads((tmp_path / "approvals.json").read_text()) == {"files": {"read": {"disabled": True}}}


def test_many_values_are_set_at_once(tmp_path: Path) -> None:
    """In existing mappings and in new ones, each at its own place and in its own style."""
    path = tmp_path / "approvals.yaml"
    path.write_text("a:\n  x: {} # x\n  y:\nb: {z: {disabled: false}}\n")
    record: Tree = {"status": "approved", "disabled": True}
    rewrite(
        path, {"a": {"new": record, "y": record}, "b": {"z": record, "new": record}, "c": {"x": record, "y": record}}
    )
    written = "{status: approved, disabled: true}"
    assert path.read_text() == (
        f"a:\n  x: {{}} # x\n  y: {written}\n  new: {written}\n"
        f"b: {{z: {{disabled: true, status: approved}}, new: {written}}}\n"
        f'c:\n  x: {written}\n  "y": {written}\n'
    )
    path = tmp_path / "approvals.json"
    path.write_text('{\n  "a": {}\n}\n')
    rewrite(path, {"b": {"x": {"disabled": True}, "y": {"disabled": True}}})
    assert path.read_text() == (
        '{\n  "a": {},\n  "b": {\n    "x": {"disabled": true},\n    "y": {"disabled": true}\n  }\n}\n'
    )


@pytest.mark.parametrize(
    ("before", "keys", "value", "after"),
    [
        ("a: [x]  # y\n", "a", ["x", "z"], "a: [x, z]  # y\n"),
        ("a: [x, y, z]\n", "a", ["x", "z"], "a: [x, z]\n"),
        ("a:\n- x # one\n- y\n# end\n", "a", ["x", "y", "1"], 'a:\n- x # one\n- y\n- "1"\n# end\n'),
        ("a:\n  - x\n  # why\n  - y\nb: 1\n", "a", ["x"], "a:\n  - x\n  # why\nb: 1\n"),
        ("a:\n  - x\nb: 1\n", "a", [], "a: []\nb: 1\n"),
        ("a: []\n", "a", ["x"], "a: [x]\n"),
        ("b: 1\n", "a", ["x", "-y"], 'b: 1\na: [x, "-y"]\n'),
        ("b: 1\n", "a", 2.5, "b: 1\na: 2.5\n"),
    ],
)
def test_a_list_gets_more_items_or_fewer_and_keeps_its_comments(
    before: str, keys: str, value: Value, after: str
) -> None:
    """In braces or in lines of their own; a list that is another one altogether is not edited."""
    assert edited_bytes(before.encode(), "a.yaml", _tree(tuple(keys.split(".")), value)).decode() == after
    with pytest.raises(EditRefused):
        edited_bytes(b"a: [x, y]\n", "a.yaml", {"a": ["y", "x"]})


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("a.yaml", "s:\n  a: 1 # one\n  # two\n  b: 2\n", "s:\n  # two\n  b: 2\n"),
        ("a.yaml", "s:\n  a: {x: 1}\nz: 1\n", "s:\n  {}\nz: 1\n"),
        ("a.yaml", "s: {b: 1, a: 2}\n", "s: {b: 1}\n"),
        ("a.yaml", "s:\n  b: 1\n  a:\n    x: [1,\n      2]", "s:\n  b: 1\n"),
        ("a.json", '{"s": {"a": 1, "b": 2}}', '{"s": {"b": 2}}'),
        ("a.json", '{"s": {\n  "b": 2, // two\n  "a": {"x": 1}\n}}', '{"s": {\n  "b": 2 // two\n}}'),
        ("a.json", '{"s": {\n  "b": 2,\n  "a": 1, // one\n}}', '{"s": {\n  "b": 2,\n}}'),
        ("a.json", '{"s": {\n  "a": 1\n}, "t": 3}', '{"s": {\n}, "t": 3}'),
        ("a.json", '{"t": 1}', '{"t": 1}'),
    ],
)
def test_an_entry_is_removed_with_its_lines_and_nothing_else(file: str, before: str, after: str) -> None:
    """In YAML and in JSON; what is not there stays so."""
    assert without(before.encode(), file, ("s", "a")).decode() == after


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=3), st.sampled_from(["x", True, 3, ["p", "q"]]), min_size=1, max_size=5
    ),
    st.sampled_from(["a.yaml", "a.json"]),
    st.data(),
)
def test_what_was_added_can_be_removed(values: dict[str, Any], file: str, data: st.DataObject) -> None:
    """The rest says what it said."""
    name = data.draw(st.sampled_from(sorted(values)))
    text = edited_bytes(b"{}\n" if file.endswith("json") else b"z: 1\n", file, values)
    left = {key: value for key, value in values.items() if key != name}
    kept = document.plain(document.parse(without(text, file, (name,)), file))
    assert kept == (left if file.endswith("json") else {"z": 1} | left if name != "z" else left)
