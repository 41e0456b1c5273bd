"""Sound policies of the shapes that outgrow a table of all combinations, generated from a seed.

Each is the shipped policy with more rules. `python -m bench.large_policies names DIR` writes
one.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from callability.files.shipped_policy import shipped_policy

SEED = 1
_USER = "  - {id: user-off, "
_LAST = "  - {id: open, "
_RULES = "\nrules:\n"
_EIGHT = {f"k{number}": tuple(f"v{value}" for value in range(6)) for number in range(8)}
_LABELS = "action: 'Tell the user that the operator has to {edit_labels}.'"
_POLICY = "action: 'Tell the user that the operator has to {edit_policy}.'"
_HINTS = "any: [{annotations.destructive: true}, {annotations.read_only: false}]"


@dataclass(frozen=True, slots=True)
class _More:
    """What a policy has besides the shipped one: conditions of rules with what they say, and labels of servers.

    The rules stand above the one that begins with `above`.
    """

    rules: tuple[tuple[str, str], ...] = ()
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    above: str = _LAST


def _shipped(_: Random) -> _More:
    return _More()


def _wanted(_: Random) -> _More:
    """Destructive tools in production are the operator's to open, but for one agent; servers on trial only read."""
    production = "server.label.environment: production, annotations.destructive: true, not: {agent.name: release-bot}"
    trial = "server.label.stage: trial, annotations.read_only: false"
    labels = {"environment": ("production", "staging"), "stage": ("trial",)}
    return _More(((production, _LABELS), (trial, _LABELS)), labels, _USER)


def _merged(_: Random) -> _More:
    """A freeze of production, and servers on trial, each for labels of more values."""
    frozen = "server.label.environment: production, annotations.destructive: true"
    trial = "server.label.stage: trial, annotations.read_only: false, server.label.reviewed: none"
    labels = {"environment": ("production", "staging", "test"), "stage": ("trial", "adopted"), "reviewed": ("yes",)}
    return _More(((frozen, _LABELS), (trial, _LABELS)), labels, _USER)


def _names(chance: Random) -> _More:
    """200 rules with names of servers, patterns for tools, and agents that they do not hold for."""
    servers, agents = chance.sample(range(40), 40), chance.sample(range(10), 10)
    return _More(
        tuple(
            (
                f"server.name: srv{servers[n % 40]}, tool.name: 't{n}_*', not: {{agent.name: bot{agents[n % 10]}}}",
                _POLICY,
            )
            for n in range(200)
        )
    )


def _agents_and_labels(chance: Random) -> _More:
    """100 rules about 200 agents, eight labels of six values, and annotations."""
    keys, values = chance.sample(range(8), 8), chance.sample(range(6), 6)
    return _More(
        tuple(
            (f"agent.name: [a{n}, b{n}], server.label.k{keys[n % 8]}: v{values[n % 6]}, {_HINTS}", _LABELS)
            for n in range(100)
        ),
        _EIGHT,
    )


def _adversarial(chance: Random) -> _More:
    """60 rules, each about two of eight labels: one value of one, and two of the other."""

    def rule() -> str:
        one, other = chance.sample(range(8), 2)
        value, *values = chance.randrange(6), *chance.sample(range(6), 2)
        few = f"server.label.k{other}: [v{values[0]}, v{values[1]}]"
        return f"server.label.k{one}: v{value}, {few}, annotations.destructive: true"

    return _More(tuple((rule(), _LABELS) for _ in range(60)), _EIGHT)


SHAPES: Mapping[str, Callable[[Random], _More]] = {
    "shipped": _shipped,
    "wanted": _wanted,
    "merged": _merged,
    "names": _names,
    "agents-and-labels": _agents_and_labels,
    "adversarial": _adversarial,
}
"""What each policy has more than the shipped one, by a name for it; the first has nothing."""


def write_large(shape: str, directory: Path, *, seed: int = SEED) -> Path:
    """Write the policy of a shape into a directory that is new or empty, and return it.

    Raises:
        RuntimeError: the shipped rules are not as expected.
    """
    shutil.copytree(shipped_policy(), directory, dirs_exist_ok=True)
    path = directory / "callability.yaml"
    text = path.read_text()
    more = SHAPES[shape](Random(seed))
    if more.above not in text or _RULES not in text:
        raise RuntimeError(f"the shipped rules have no `{more.above}`")
    text = text.replace(more.above, _written(more.rules) + more.above)
    path.write_text(text.replace(_RULES, _labels(more.labels) + _RULES))
    return directory


def _written(rules: Iterable[tuple[str, str]]) -> str:
    return "".join(
        f"  - {{id: r{number}, when: {{{when}}}, status: disabled_by_config, {action}}}\n"
        for number, (when, action) in enumerate(rules)
    )


def _labels(labels: Mapping[str, tuple[str, ...]]) -> str:
    if not labels:
        return ""
    declared = "".join(f"    {key}: [{', '.join(map(_quoted, values))}]\n" for key, values in labels.items())
    return f"\nlabels:\n  server:\n{declared}"


def _quoted(value: str) -> str:
    return f"'{value}'"


if __name__ == "__main__":
    write_large(sys.argv[1], Path(sys.argv[2]))
