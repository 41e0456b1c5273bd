"""The command line with more facts in the first question: the shipped rules over 122,472 combinations."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from callability.cli import main
from callability.compiler.question import BOOLEAN, Fact, axis_of, facts_by_name
from callability.compiler.questions import CALLABILITY, QUESTIONS
from callability.files.shipped_policy import shipped_policy

_MORE = (
    *(Fact(f"server.more{number}", BOOLEAN, "false") for number in range(4)),
    Fact("server.more_asserted", BOOLEAN, "false", asserted=True),
)
_LAST = "  - {id: open, "


def write_large(directory: Path) -> Path:
    """Write the shipped policy with a rule for each fact more, and return its directory."""
    shutil.copytree(shipped_policy(), directory, dirs_exist_ok=True)
    path = directory / "callability.yaml"
    rules = "".join(
        f"  - {{id: more{number}, when: {{{fact.name}: true}}, status: disabled_unknown}}\n"
        for number, fact in enumerate(_MORE)
    )
    text = path.read_text()
    if _LAST not in text:
        raise RuntimeError("the shipped rules have no rule `open`")
    path.write_text(text.replace(_LAST, f"{rules}{_LAST}"))
    return directory


def widen() -> None:
    """Give the first question the facts more."""
    QUESTIONS[CALLABILITY.name] = replace(
        CALLABILITY,
        facts=facts_by_name((*CALLABILITY.facts.values(), *_MORE)),
        axes=(*CALLABILITY.axes, *map(axis_of, _MORE)),
    )


if __name__ == "__main__":
    widen()
    main()
