"""What it takes to check and look at a policy: the shipped one, wider ones, and the large ones of the six shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from bench.large import write_large
from bench.large_policies import SHAPES
from bench.large_policies import write_large as write_shape
from bench.launched import launched
from bench.report import Aim, Aimed, Row
from bench.rounds import Figures, Rounds
from callability.compiler.combination_sets import space_of
from callability.compiler.diagram import DecisionDiagram, build
from callability.compiler.questions import CALLABILITY
from callability.compiler.rule_file import read_rule_set
from callability.compiler.rule_set import RuleSet
from callability.files import document
from callability.files.policy_source import policy_files
from callability.files.shipped_policy import shipped_policy
from callability.studio.drafts import DraftAnalysis

PART = "checking"

_SHIPPED = "callability"
_LARGE = "bench.large"
_CHECK_AIMS = {"shipped": 1, "wanted": 1, "merged": 1, "names": 3, "agents-and-labels": 3, "adversarial": 15}
"""Seconds."""
_DIFF_OF_NAMES = 1.5
_ROUNDS = 5
"""Of the shapes: a round of them takes half a minute."""
_FEW = 3
"""Shapes in a quick round."""


def rows(rounds: Rounds) -> list[Row]:
    """Measure the time of commands, with their start, and the memory of the largest process that they run."""
    with TemporaryDirectory() as name:
        large = write_large(Path(name))
        subjects = {
            each: partial(_run, [each, "check", str(directory)])
            for each, directory in ((_SHIPPED, shipped_policy()), (_LARGE, large))
        }
        measured = rounds.interleaved(PART, subjects)
    shipped, large_one = measured[_SHIPPED], measured[_LARGE]
    return [
        Row(PART, "`check` of the shipped policy", "s", shipped["s"], aim=Aim(1, Aimed.VALUE)),
        Row(PART, "the same, peak memory of a process", "MiB", shipped["MiB"]),
        Row(PART, "`check` of 122,472 combinations", "s", large_one["s"], aim=Aim(10, Aimed.VALUE)),
        Row(PART, "the same, peak memory of a process", "MiB", large_one["MiB"]),
        *_rows_of_shapes(replace(rounds, count=min(rounds.count, _ROUNDS))),
    ]


def _rows_of_shapes(rounds: Rounds) -> list[Row]:
    found: list[Row] = []
    with TemporaryDirectory() as name:
        shapes = [*SHAPES][:_FEW] if rounds.quick else [*SHAPES]
        for shape in shapes:
            found += _rows_of(shape, write_shape(shape, Path(name, shape)), rounds)
    return found


def _rows_of(shape: str, directory: Path, rounds: Rounds) -> list[Row]:
    rule_set = _read(directory)
    diagram = build(rule_set, space_of(rule_set))
    commands = {"check": [_SHIPPED, "check", str(directory)]}
    if shape != "adversarial":
        commands |= {
            "explain": [_SHIPPED, "explain", "--policy", str(directory), "server.enabled=false"],
            "table": [_SHIPPED, "table", str(directory)],
            "diff": [_SHIPPED, "diff", str(shipped_policy()), str(directory)],
        }
    subjects = {verb: partial(_run, command) for verb, command in commands.items()}
    edits = {"edit": _Edits(directory).next} if shape != "adversarial" else {}
    measured = rounds.interleaved(f"{PART} {shape}", {"build": partial(_build, rule_set), **edits, **subjects})
    size = f"{diagram.space.size:,} combinations, {len(diagram.inner):,} inner nodes, {diagram.regions:,} regions"
    memory = 300 if shape == "adversarial" else 150
    found = [Row(PART, f"{shape}: build the diagram of {size}", "s", measured["build"]["s"])]
    for verb in commands:
        limit = _CHECK_AIMS[shape] if verb == "check" else _DIFF_OF_NAMES if (verb, shape) == ("diff", "names") else 1
        found.append(Row(PART, f"{shape}: `{verb}`", "s", measured[verb]["s"], aim=Aim(limit, Aimed.VALUE)))
    if edits:
        what = f"{shape}: findings and verdict of an edit in the studio"
        found.append(Row(PART, what, "s", measured["edit"]["s"], aim=Aim(1, Aimed.VALUE)))
    peak = tuple(map(max, zip(*(measured[verb]["MiB"] for verb in commands), strict=True)))
    found.append(Row(PART, f"{shape}: peak memory of a process", "MiB", peak, aim=Aim(memory, Aimed.VALUE)))
    return found


def _read(directory: Path) -> RuleSet:
    path = directory / "callability.yaml"
    rule_set, findings = read_rule_set(document.parse(path.read_bytes(), path.name), CALLABILITY)
    if rule_set is None:
        raise RuntimeError(f"the policy is refused: {findings[0]}")
    return rule_set


def _build(rule_set: RuleSet) -> Figures:
    started = perf_counter()
    built: DecisionDiagram = build(rule_set, space_of(rule_set))
    return {"s": perf_counter() - started, "inner nodes": len(built.inner)}


class _Edits:
    """Edits of a rule file in the studio's analysis of a policy, which has looked at the file on disk."""

    def __init__(self, directory: Path) -> None:
        self._saved = {path.name: path.read_text() for path in policy_files(directory)}
        self._analysis = DraftAnalysis(directory)
        self._number = 0
        self._analysis.check(self._saved, self._saved)

    def next(self) -> Figures:
        """Name the last rule otherwise, and return the seconds until its findings and the verdict are there."""
        self._number += 1
        name = f"{CALLABILITY.name}.yaml"
        text = self._saved[name].replace("{id: open, ", f"{{id: open{self._number}, ")
        started = perf_counter()
        self._analysis.check(self._saved, self._saved | {name: text})
        self._analysis.decide(CALLABILITY.name, {}, "", row=False)
        return {"s": perf_counter() - started}


def _run(command: Sequence[str]) -> Figures:
    """Return seconds, and MiB that were resident at most in the process or in one that it ran.

    Raises:
        RuntimeError: the policy is refused.
    """
    module, verb, *others = command
    done = launched(module, [verb, *others])
    # 1 of a difference is that there is one.
    if done.code not in ((0, 1) if verb == "diff" else (0,)):
        raise RuntimeError(f"`{module} {verb}` left with exit code {done.code}")
    return {"s": done.seconds, "MiB": done.mebibytes}
