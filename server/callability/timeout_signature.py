"""How a text says that an authorization proxy, or an upstream of one, timed out; what refused us did not decide then.

What a URL, a path or the name of a host says is never looked at (L-2).
"""

from __future__ import annotations

import re

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


def timed_out_on_the_way(text: str) -> bool:
    """Say whether a text has the signature for sure; the text of a decision does not have it, whatever else it says."""
    told = without_addresses(text).lower()
    return bool(_SIGNATURE.search(told)) and not _DECISION.search(told)


def without_addresses(text: str) -> str:
    """Leave out URLs, paths and names of hosts, whole, with whatever stands in them."""
    return " ".join(word for word in _QUOTED_URL.sub(" ", text).split() if not _is_address(word))


def _is_address(word: str) -> bool:
    if "/" in word or "\\" in word:
        return "://" in word or not word.upper().startswith("HTTP/")
    return bool(_HOST.search(word))
