"""The policies that are put in effect by turns, and edits that must be refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench.workload import VERBS
from callability.files.policy_source import source_in
from callability.files.shipped_policy import export_policy
from support.edits import replace

_RULES = "callability.yaml"
_ABOVE = "  - {id: user-off,"
_FROZEN = """\
  - id: frozen-{number}
    when: {{tool.name: [{verb}_*, {other}_*]}}
    status: disabled_by_config
    because: This kind of change is frozen.
    action: The operator must {{edit_policy}}.
"""
_GOOD = 4


@dataclass(frozen=True, slots=True)
class GoodPolicy:
    """A policy that may be served: its rules about tools, its revision, and the directory with a copy of it."""

    text: str
    revision: str
    directory: Path


class Policies:
    """A policy in a directory that replicas follow, and what it is edited to."""

    def __init__(self, directory: Path) -> None:
        self.good: Sequence[GoodPolicy] = [_good(directory / f"good-{number}", number) for number in range(_GOOD)]
        self.served = directory / "served"
        self.current = self.good[0]
        _export(self.served, self.current.text)

    def edit(self, random: Random) -> GoodPolicy:
        """Put another good policy in effect, and return it."""
        self.current = random.choice([each for each in self.good if each is not self.current])
        self.restore()
        return self.current

    def spoil(self, random: Random) -> None:
        """Write rules that must be refused."""
        text = self.current.text
        bad = ("rules: 3\n", f"{text}\nmore: 1\n", text[: len(text) // 2], text.replace(_ABOVE, f"{_ABOVE} when: "))
        replace(self.served / _RULES, random.choice(bad))

    def restore(self) -> None:
        """Write the rules of the current good policy."""
        replace(self.served / _RULES, self.current.text)


def _good(directory: Path, number: int) -> GoodPolicy:
    export_policy(directory, None)
    text = (directory / _RULES).read_text()
    if number:
        if _ABOVE not in text:
            raise ValueError(f"the shipped rules have no rule {_ABOVE!r}")
        rule = _FROZEN.format(number=number, verb=VERBS[2 * number], other=VERBS[2 * number + 1])
        text = text.replace(_ABOVE, rule + _ABOVE)
    _export(directory, text)
    return GoodPolicy(text, source_in(directory).revision, directory)


def _export(directory: Path, text: str) -> None:
    """Write the shipped policy with other rules about tools, and without its tests, which name the shipped rules."""
    if not directory.exists():
        export_policy(directory, None)
    (directory / _RULES).write_text(text)
    (directory / "callability_test.yaml").unlink(missing_ok=True)
