"""Files as nodes: YAML 1.2 and JSON, and what is no document."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callability.files.document import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_VALUES,
    DocumentMapping,
    DocumentSequence,
    Refused,
    Scalar,
    parse,
    plain,
)
from support.drawing import drawing

_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcdé: {}#-", min_size=1), inner, max_size=4),
    max_leaves=12,
)


@drawing(300)
@given(value=_values, indent=st.sampled_from([None, 2, "\t"]), ascii_only=st.booleans())
def test_json_reads_as_json_does(value: object, indent: int | str | None, ascii_only: bool) -> None:
    """With any white space and escapes."""
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert plain(parse(text.encode(), "a.json")) == json.loads(text)


def test_folded_and_literal_texts_are_the_authors_own() -> None:
    """No mark of the parser is left in them."""
    text = "a: >-\n  one\n  two\n\n  three\nb: |\n  one\n  two\nc: 'x\n  y'\n"
    assert plain(parse(text.encode(), "a.yaml")) == {"a": "one two\nthree", "b": "one\ntwo\n", "c": "x y"}


@pytest.mark.parametrize(
    "rest", ["", "\n", " # note\n", "\n\n# note\nb: 1\n", "\r\nb:\r\n  - 1\r\n", "\n  # note\n\nb: {}\n"]
)
def test_an_empty_value_is_behind_its_key(rest: str) -> None:
    """Wherever the next key is: that is what an author has to look at."""
    found = parse(f"# first\na:{rest}".encode(), "a.yaml")
    assert isinstance(found, DocumentMapping)
    [key, value] = found.entries[0]
    assert plain(value) is None
    assert (str(key.place), str(value.place)) == ("a.yaml:2:1", "a.yaml:2:3")


def test_scalars_are_those_of_yaml_1_2() -> None:
    """`yes` and a date are text."""
    text = "{a: true, b: yes, c: on, d: 2026-01-01, e: null, f: 0o17, g: '1', h: 1.5, i: ~}"
    assert plain(parse(text.encode(), "a.yaml")) == {
        "a": True,
        "b": "yes",
        "c": "on",
        "d": "2026-01-01",
        "e": None,
        "f": 15,
        "g": "1",
        "h": 1.5,
        "i": None,
    }


@pytest.mark.parametrize(
    ("data", "finding"),
    [
        (b"", "a.yaml: is empty"),
        (b"# only a comment\n", "a.yaml: is empty"),
        (b"a: {b: 1", "a.yaml:1:9: is not YAML: the `{` in line 1 is not closed, or a comma is missing"),
        (b"a: 'b\n", "a.yaml:1:4: is not YAML: a quoted text is not closed"),
        (b"a: [[}", "a.yaml:1:6: is not YAML: this `}` closes nothing (remove it)"),
        (b"a: [}", "a.yaml:1:5: is not YAML: this `}` closes nothing (remove it)"),
        (b"a:\n\t- 1", "a.yaml:2:1: is not YAML: a tab is used where only spaces are allowed"),
        (b"a: 1\n---\nb: 2", "a.yaml:2:1: is not YAML: a second document begins here"),
        (
            b"a: *secret",
            "a.yaml:1:4: is not YAML: an alias (`*name`) refers to nothing (quote a text that begins with `*`)",
        ),
        (
            b"a:\n - [*, b]",
            "a.yaml:2:6: is not YAML: a `*` begins an alias, and no name follows (quote a text that begins with `*`)",
        ),
        (
            b"a: b\nc: x\0y",
            "a.yaml:2:5: is not YAML: the character U+0000 is not allowed in a file (remove it)",
        ),
        (b"a: b\rc: \x1f", "a.yaml:2:4: is not YAML: the character U+001F is not allowed in a file (remove it)"),
        (b"a: !secret x", "a.yaml:1:4: a tag (`!name`) is not supported"),
        (b"# c\n\n%YAML 1.1\n---\na: 1", "a.yaml:3:1: a directive (`%...`) is not supported (files are YAML 1.2)"),
        (b"a:\n%YAML 2.2\n--- b", "a.yaml:2:1: a directive (`%...`) is not supported (files are YAML 1.2)"),
        (b"\xff", "a.yaml:1:1: byte 0xff is not UTF-8"),
        (b"a: b\rc: \xff", "a.yaml:2:4: byte 0xff is not UTF-8"),
        (b"\xef\xbb\xbf\xff", "a.yaml:1:1: byte 0xff is not UTF-8"),
        (b"\xef\xbb\xbfa: \xff", "a.yaml:1:4: byte 0xff is not UTF-8"),
        (b"\xef\xbb\xbfa: b\nc: \xff", "a.yaml:2:4: byte 0xff is not UTF-8"),
        (b"\xef\xbb", "a.yaml:1:1: byte 0xef is not UTF-8"),
        (b"a: \x01", "a.yaml:1:4: is not YAML: the character U+0001 is not allowed in a file (remove it)"),
        (b"[" * 5000, "a.yaml:1:50: is nested more than 48 levels deep"),
        (b"[" * 60 + b"]" * 60, "a.yaml:1:50: is nested more than 48 levels deep"),
        (b"? [1]\n: 2", "a.yaml:1:3: a key is not text (quote it, or write `placeholder` in quotes)"),
        (
            b"a: &x [1]\nb: [*x, *x]",
            "a.yaml:1:4: this value is repeated by an alias (`*name`), which is not supported",
        ),
        (b" " * (MAX_BYTES + 1), f"a.yaml: is larger than {MAX_BYTES:,} bytes"),
    ],
    ids=range(27),
)
def test_what_is_no_sound_document_is_refused_at_its_place(data: bytes, finding: str) -> None:
    """In our own words, without text of the file, since that may be secret."""
    with pytest.raises(Refused) as caught:
        parse(data, "a.yaml")
    assert str(caught.value).startswith(finding)


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("a:\n  - b\n - c\n", "3:2: is not YAML: the indentation of this line matches no line above"),
        ("a:\n  b: {}\n   c: {}\n", "3:4: is not YAML: the indentation of this line matches no line above"),
        ("a:\n  - b\n  c: d\n", "3:3: is not YAML: the indentation of this line matches no line above"),
        ("a:\n  b: 1\n   c: 2\n", "3:5: is not YAML: a key is not allowed here (indent the key like"),
        ("a\nb: 2\n", "2:2: is not YAML: a key is not allowed here (indent the key like"),
        ("rules:\n  - {id: a}]\n", "2:12: is not YAML: this `]` closes nothing (remove it)"),
        ("rules:\n  - {id: a}}\n", "2:12: is not YAML: this `}` closes nothing (remove it)"),
        ("rules: [a]]\n", "1:11: is not YAML: this `]` closes nothing (remove it)"),
        ("rules: ]\n", "1:8: is not YAML: this `]` closes nothing (remove it)"),
        ("a:\n  - x\n  ,\n", "3:3: is not YAML: this `,` separates nothing (remove it)"),
        (
            "rules:\n  - {id: a, when: {b: [x]]}}\n",
            "2:26: is not YAML: this `]` does not close the `{` in line 2 (write `}` before it, or remove it)",
        ),
        ("a: [1, 2}\n", "1:9: is not YAML: this `}` does not close the `[` in line 1 (write `]` before it, or remove"),
        ("a: b: c\n", "1:5: is not YAML: this line has a second `: ` (quote a sentence"),
        ("a: {b} c\n", "1:8: is not YAML: text follows a value that has ended (quote a sentence"),
        ("a: @b\n", "1:4: is not YAML: an unquoted text cannot begin with this character (quote the text)"),
    ],
)
def test_the_hint_fits_what_is_wrong_with_the_indentation_or_the_quotes(text: str, finding: str) -> None:
    """Quotes do not help with a line that is indented wrongly."""
    with pytest.raises(Refused) as caught:
        parse(text.encode(), "a.yaml")
    assert str(caught.value).startswith(f"a.yaml:{finding}")


def test_json_may_break_the_line_between_a_key_and_its_colon() -> None:
    """Every value keeps its line and column; a text that looks like a key and a break stays as it is."""
    node = parse(b'{"a"\n: 1, "b" \r\n\t  : {"c\\n:"\n\n:2}, "d": "e\\"\\n :"}', "a.json")
    assert plain(node) == {"a": 1, "b": {"c\n:": 2}, "d": 'e"\n :'}
    assert isinstance(node, DocumentMapping)
    assert [(value.place.line, value.place.column) for _, value in node.entries] == [(2, 3), (3, 6), (5, 11)]


def test_json_that_is_none_is_refused_at_its_place() -> None:
    """And a repeated key, which JSON's own reader accepts."""
    for text, finding in (
        ("[1 2]", "a.json:1:4: is not valid JSON here"),
        ('{"a": }', "a.json:1:7: is not valid JSON here"),
        ('{"a": 1, "a": 2}', "a.json:1:10: key `a` is repeated"),
    ):
        with pytest.raises(Refused) as caught:
            parse(text.encode(), "a.json")
        assert str(caught.value).startswith(finding)


@pytest.mark.parametrize("text", ["[,]", "[1,,]", '{"a": 1,,\n}', "{,}", '{"a": ,}', "[1,, /* x */ ]"])
def test_json_with_a_comma_too_many_says_so(text: str) -> None:
    """One comma may follow the last value, and no more than one."""
    with pytest.raises(Refused, match=r"is not valid JSON here") as caught:
        parse(text.encode(), "a.json")
    assert caught.value.findings[0].code == "not-json"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1,]", [1]),
        ("[1 , // one\n]", [1]),
        ("// before\n[1 /* one */, /*\n * two\n */ 2] // after", [1, 2]),
        ('{"a": [[1,],2],\n}', {"a": [[1], 2]}),
        (
            '{"url": "https://host/*x*/", /**/ "b": "\\"// no comment",}',
            {"url": "https://host/*x*/", "b": '"// no comment'},
        ),
        ("[1] //", [1]),
    ],
)
@pytest.mark.parametrize("file", ["a.json", "a.jsonc"])
def test_json_may_have_comments_and_trailing_commas(text: str, value: object, file: str) -> None:
    """As in the config files of editors and MCP clients; what looks like a comment inside a text is text."""
    assert plain(parse(text.encode(), file)) == value


def test_comments_do_not_move_the_places_of_values() -> None:
    """A finding behind a comment of several lines, with characters that YAML does not take, names the right place."""
    node = parse('/* caf\u00e9 \u2028 \t\n\n */ {"a": /* \x7f */ 1,\n  // x\n\t"b": 2,}'.encode(), "a.json")
    assert isinstance(node, DocumentMapping)
    assert [(key.place.line, key.place.column) for key, _ in node.entries] == [(3, 6), (5, 2)]


def test_characters_within_texts_do_not_move_the_places_behind_them() -> None:
    """Each is one column, escaped or not, whatever another format makes of it."""
    node = parse('["\x7f\x85\u2028\ufeff", "\\ud83d\\ude00", "\\u0000",\t1e5, -0, NaN]'.encode(), "a.json")
    assert isinstance(node, DocumentSequence)
    scalars = [item for item in node.items if isinstance(item, Scalar)]
    assert [item.place.column for item in scalars] == [2, 10, 26, 36, 41, 45]
    assert [item.value for item in scalars] == ["\x7f\x85\u2028\ufeff", "\U0001f600", "\0", 1e5, 0, "NaN"]


def test_json_within_its_limits_is_read_and_beyond_them_refused_at_its_place() -> None:
    """Values, keys among them, and levels."""
    deepest = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert parse(deepest.encode(), "a.json")
    with pytest.raises(Refused, match=f"a.json:1:{MAX_DEPTH + 1}: is nested more than {MAX_DEPTH} levels deep"):
        parse(f"[{deepest}]".encode(), "a.json")
    most = MAX_VALUES - 1
    assert parse(json.dumps([1] * most).encode(), "a.json")
    with pytest.raises(Refused, match=f"a.json:1:{3 * most + 2}: has more than 50,000 values, keys among them"):
        parse(json.dumps([1] * MAX_VALUES).encode(), "a.json")


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("[1] /* x", "a.json:1:5: a comment begins here and is not closed (close it with `*/`)"),
        ("[1]\n/*/", "a.json:2:1: a comment begins here and is not closed (close it with `*/`)"),
        ("[1] / 2", "a.json:1:5: is not valid JSON here"),
        ("[1] # x", "a.json:1:5: is not valid JSON here"),
        ("// nothing", "a.json:1:11: is not valid JSON here"),
    ],
)
def test_what_is_no_comment_of_json_is_refused_at_its_place(text: str, finding: str) -> None:
    """A comment that does not end, a single slash, and the comments of YAML."""
    with pytest.raises(Refused) as caught:
        parse(text.encode(), "a.json")
    assert str(caught.value) == finding


@pytest.mark.parametrize("text", ["/*" * 200_000, '"' * 400_000, "[1,]," * 100_000, '"\\' * 200_000, "//" * 200_000])
def test_a_file_that_is_all_signs_of_comments_is_read_as_fast_as_any(text: str) -> None:
    """Each character is read once: with quadratic time, a file of the maximum size would take forever."""
    with pytest.raises(Refused):
        parse(text.encode(), "a.json")


# IMPORT


def test_a_number_of_very_many_digits_is_no_number() -> None:
    """In JSON as in YAML: Python refuses to read more than 4,300 digits, with an error of its own."""
    digits = "9" * 5_000
    assert plain(parse(f'{{"a": {digits}}}'.encode(), "a.json")) == {"a": digits}
    assert plain(parse(f"a: {digits}".encode(), "a.yaml")) == {"a": digits}
