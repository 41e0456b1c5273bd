"""How SQL dialects write names, texts and patterns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

_ESCAPE = "!"


class UnfitColumn(Exception):
    """A name that cannot be the name of a column in a dialect. Its text says why."""


class Dialect(StrEnum):
    """A dialect of SQL."""

    DUCKDB = "duckdb"
    SPARK = "spark"
    POSTGRES = "postgres"
    BIGQUERY = "bigquery"


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a dialect spells what differs between dialects.

    `quote` surrounds the name of a column. `backslash`: a backslash escapes the next character of a text; otherwise, a
    quote in a text is doubled. `like_escape`: `LIKE` takes an escape character; without it, that is the backslash.
    `dots`: the name of a column may hold any character. `longest`: how many bytes such a name has at most; 0: any.
    """

    quote: str
    backslash: bool
    like_escape: bool
    dots: bool
    longest: int = 0

    def column(self, name: str) -> str:
        """Return the name of a column.

        Raises:
            UnfitColumn: the dialect cannot have such a column.
        """
        if self.longest and len(name.encode()) > self.longest:
            raise UnfitColumn(
                f"the column `{name}` has {len(name.encode())} bytes, and at most {self.longest} are read"
            )
        spelled = name if self.dots else re.sub(r"[^A-Za-z0-9_]", "_", name)
        return self.quote + spelled.replace(self.quote, self.quote * 2) + self.quote

    def text(self, value: str) -> str:
        """Return a text as a literal."""
        if self.backslash:
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r") + "'"
        return "'" + value.replace("'", "''") + "'"

    def like(self, column: str, glob: str) -> str:
        """Return the condition that a column matches a pattern of a rule file."""
        escape = _ESCAPE if self.like_escape else "\\"
        pattern = "".join(
            {"*": "%", "?": "_"}.get(each) or (escape + each if each in {"%", "_", escape} else each) for each in glob
        )
        return f"{column} LIKE {self.text(pattern)}" + (f" ESCAPE '{_ESCAPE}'" if self.like_escape else "")


SPELLINGS = {
    Dialect.DUCKDB: Spelling(quote='"', backslash=False, like_escape=True, dots=True),
    Dialect.SPARK: Spelling(quote="`", backslash=True, like_escape=True, dots=True),
    Dialect.POSTGRES: Spelling(quote='"', backslash=False, like_escape=True, dots=True, longest=63),
    Dialect.BIGQUERY: Spelling(quote="`", backslash=True, like_escape=False, dots=False),
}
