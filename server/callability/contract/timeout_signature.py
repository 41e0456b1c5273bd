"""How a text says that an authorization proxy, or an upstream of one, timed out; what refused us did not decide then.

What a URL, a path or the name of a host says is never looked at (L-2). JSON is read value by value and HTML text by
text, also if the end is missing: what two of them say together, neither of them says.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator

LONGEST = 8192
"""Characters of a text that are read for the signature."""
MOST_NESTED = 4
"""Documents within one another, such as JSON in a value of JSON, that are looked into."""
_QUOTED_URL = re.compile(r"""(["'])(?:(?!://)[^"'])*+://(?:(?!\1).)*+\1""", re.DOTALL)
_HOST = re.compile(r"\.[a-z][a-z0-9-]*(?::\d+)?\W*$|:\d{4,5}\b")
"""What ends with a dot and a word in lower case, which the name of an exception does not, or has a port."""
TIMEOUT = r"(?:time[ds]?[ _-]?out|deadline exceeded)"
DECIDED = r"denied|polic(?:y|ies)\b|not (?:allowed|permitted|authorized)|\brbac\b|invalid[ _]token"
"""What only a decision says, in lower case: with it a timeout on the way is not sure."""
_ON_THE_WAY = r"(?:upstream|ext[_-]?authz|authz|authorization[ _-](?:proxy|service|server|check|call|request))"
_SIGNATURE = re.compile(
    rf"{_ON_THE_WAY}[^.;\n]{{0,40}}{TIMEOUT}(?!\s*(?:[=:]|is|of)\s*\d)|{TIMEOUT}[^.;\n]{{0,40}}{_ON_THE_WAY}"
)
_DECISION = re.compile(DECIDED)
_DOCUMENT = re.compile(r"""(?P<json>[{\[]\s*["{\[])|<(?=[A-Za-z/!?])""")
_JSON_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)(?:"(\s*:)?|\\?\Z)', re.DOTALL)
_MARKUP = re.compile(
    r"""<!--.*?(?:-->|\Z)
    |<(script|style)\b.*?(?:</\1\b[^>]*+(?:>|\Z)|\Z)
    |<[A-Za-z/!?](?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^>"'])*+(?:>|\Z)""",
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)
_ADDRESS_FIRST = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*+:/|/)", re.IGNORECASE)
"""A value that is a URL or a path, even if it has spaces."""
_ESCAPED_ADDRESS = re.compile(r"%(?:2f|3a)|[?&][\w.-]+=", re.IGNORECASE)
"""A URL that is encoded in another one, or the query of one."""


def timed_out_on_the_way(text: str) -> bool:
    """Say whether a text has the signature for sure; the text of a decision does not have it, whatever else it says."""
    text = text[:LONGEST]
    said: list[str] = []
    names = [text]
    for part, is_name in _parts(text, MOST_NESTED):
        (names if is_name else said).append(part)
    texts = [without_addresses(part).lower() for part in said]
    decided = [*texts, *(without_addresses(name).lower() for name in names)]
    return any(map(_SIGNATURE.search, texts)) and not any(map(_DECISION.search, decided))


def _parts(text: str, nested: int) -> Iterator[tuple[str, bool]]:
    """Yield what a text says, part by part, and whether a part is only the name of a member."""
    start = _DOCUMENT.search(text) if nested else None
    if start is None:
        yield text, False
        return
    yield text[: start.start()], False
    document = text[start.start() :]
    if not start["json"]:
        for node in _text_nodes(document):
            yield from _parts(node, nested - 1)
        return
    for string, name in _JSON_STRING.findall(document):
        part = _unescape(string)
        if name:
            yield part, True
        elif not _ADDRESS_FIRST.match(part):
            yield from _parts(part, nested - 1)


def _unescape(string: str) -> str:
    try:
        text: str = json.loads(f'"{string}"', strict=False)
    except ValueError:
        return string
    return text


def _text_nodes(document: str) -> list[str]:
    """Return what a reader of a page sees, text by text: no tag, no comment, no program and no style."""
    return [html.unescape(node) for node in _MARKUP.sub("\0", document).split("\0")]


def without_addresses(text: str) -> str:
    """Leave out URLs, paths and names of hosts, whole, with everything in them."""
    return " ".join(word for word in _QUOTED_URL.sub(" ", text).split() if not _is_address(word))


def _is_address(word: str) -> bool:
    if _ESCAPED_ADDRESS.search(word):
        return True
    if "/" in word or "\\" in word:
        return "://" in word or not word.upper().startswith("HTTP/")
    return bool(_HOST.search(word))
