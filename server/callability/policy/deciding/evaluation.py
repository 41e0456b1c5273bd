"""Deciding given combinations of facts: by the rules engine in a child process, or by the reference evaluator."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from callability.finding import Finding, Place
from callability.kernel.semantics import Decision, decide
from callability.policy.deciding.engine_process import EngineOutput, OnProgress, run
from callability.policy.deciding.normal_form import (
    MAX_ALTOGETHER,
    MAX_CONJUNCTIONS,
    ConditionTooLarge,
    Conjunction,
    Test,
    conjunctions,
)
from callability.policy.deciding.not_decided import NotDecided
from callability.policy.deciding.space import Combination, Space
from callability.policy.rules.rule_set import RuleSet
from callability.vocabulary import UNKNOWN

TIME_LIMIT = 300.0
"""Seconds that the rules engine may take for one rule set; its processor time has a limit of its own."""
BLOCK = 60
"""Conjunctions in a block, and different tests: the engine fails where more than 64 of them are true of one event."""
ENOUGH = 20_000
"""Blocks passed by combinations for which one more process of the engine is worth its start."""
RULES = 20
"""Rules that take the reference evaluator about as long as the engine takes a block."""


_Blocks = tuple[tuple[Conjunction, ...], ...]


class Engine(StrEnum):
    """What decides: durable-rules where it can be imported (`auto`), one of the two, or both, compared."""

    AUTO = "auto"
    DURABLE_RULES = "durable-rules"
    REFERENCE = "reference"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The decision of each combination, and what decided."""

    decisions: dict[Combination, Decision]
    engine: str


def no_progress(_decided: int, _of: int) -> None:
    """Ignore progress."""


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Decides combinations of the space of a rule set: by the reference evaluator if there are no blocks."""

    rule_set: RuleSet
    space: Space
    blocks: _Blocks
    place: Place
    by: Engine
    seconds: float
    progress: OnProgress

    @property
    def effort(self) -> int:
        """What deciding a combination takes: how many blocks, or as many rules, it may have to pass."""
        return len(self.blocks) or -(-len(self.rule_set.rules) // RULES)

    def decide(self, combinations: Sequence[Combination]) -> Evaluation:
        """Decide some combinations, each of which is given once.

        Raises:
            NotDecided: the engine failed or took too long, or two engines that were compared differ.
        """
        if self.by is Engine.REFERENCE:
            return _by_reference(self.rule_set, self.space, combinations)
        self.progress(0, len(combinations))
        try:
            ask = partial(run, place=self.place, seconds=self.seconds, progress=self.progress)
            answer = _by_engine(self.blocks, self.space, combinations, ask)
        except ModuleNotFoundError:
            if self.by is not Engine.AUTO:
                raise NotDecided(_unavailable(self.place)) from None
            return _by_reference(self.rule_set, self.space, combinations)
        if self.by is Engine.BOTH:
            _compare(answer, _by_reference(self.rule_set, self.space, combinations), self.rule_set, self.space)
        return answer


def evaluator(
    rule_set: RuleSet,
    space: Space,
    file: str,
    *,
    by: Engine = Engine.AUTO,
    seconds: float = TIME_LIMIT,
    progress: OnProgress = no_progress,
) -> Evaluator:
    """Return what decides combinations of a space, within `seconds`.

    Raises:
        NotDecided: a condition is too large for the rules engine.
    """
    blocks = () if by is Engine.REFERENCE else _blocks(_flat(rule_set, space))
    return Evaluator(rule_set, space, blocks, Place(file), by, seconds, progress)


def _by_reference(rule_set: RuleSet, space: Space, distinct: Sequence[Combination]) -> Evaluation:
    facts = space.facts
    return Evaluation(
        {each: decide(rule_set.rules, dict(zip(facts, each, strict=True))) for each in distinct}, "reference"
    )


def _flat(rule_set: RuleSet, space: Space) -> tuple[Conjunction, ...]:
    domains = {fact: (*space.question.facts[fact].values, UNKNOWN) for fact in space.facts}
    found: list[Conjunction] = []
    for number, rule in enumerate(rule_set.rules):
        try:
            found.extend(conjunctions(number, rule, domains))
        except ConditionTooLarge:
            sentence = f"the condition of rule `{rule.id}` is too large to decide"
            hint = f"it comes to more than {MAX_CONJUNCTIONS:,} conjunctions: split the rule"
            raise NotDecided(Finding(rule.place, "condition-too-large", sentence, hint)) from None
        if len(found) > MAX_ALTOGETHER:
            sentence = f"the rules as far as `{rule.id}` are too large to decide"
            hint = f"they come to more than {MAX_ALTOGETHER:,} conjunctions, and values in lists multiply"
            raise NotDecided(Finding(rule.place, "rules-too-large", sentence, hint))
    return tuple(found)


def _by_engine(
    blocks: _Blocks, space: Space, distinct: Sequence[Combination], ask: Callable[[str], EngineOutput]
) -> Evaluation:
    """Decide many combinations by several processes side by side, as many as there are processors for."""
    processes = max(1, min(len(os.sched_getaffinity(0)), len(distinct) * len(blocks) // ENOUGH))
    parts = [distinct[number::processes] for number in range(processes)]
    with ThreadPoolExecutor(max_workers=processes) as pool:
        answers = [*pool.map(lambda part: ask(_task(blocks, space, part)), parts)]
    decided = {
        combination: blocks[block][conjunction].decision
        for part, answer in zip(parts, answers, strict=True)
        for combination, (block, conjunction) in zip(part, answer.decisions, strict=True)
    }
    return Evaluation({combination: decided[combination] for combination in distinct}, answers[0].engine)


def _blocks(flat: Sequence[Conjunction]) -> _Blocks:
    blocks: list[list[Conjunction]] = [[]]
    tests: set[Test] = set()
    for conjunction in flat:
        tests |= set(conjunction.tests)
        if len(blocks[-1]) == BLOCK or len(tests) > BLOCK:
            blocks.append([])
            tests = set(conjunction.tests)
        blocks[-1].append(conjunction)
    return tuple(map(tuple, blocks))


def _task(blocks: _Blocks, space: Space, distinct: Sequence[Combination]) -> str:
    """Write the task in codes: `f0`, `f1` for facts, and for each fact `v0`, `v1` for values."""
    codes = {fact: f"f{number}" for number, fact in enumerate(space.facts)}
    values = [
        {value: f"v{number}" for number, value in enumerate((*space.question.facts[fact].values, UNKNOWN))}
        for fact in space.facts
    ]
    by_fact = dict(zip(space.facts, values, strict=True))
    task = {
        "facts": list(codes.values()),
        "blocks": [
            [[[codes[test.fact], by_fact[test.fact][test.value], test.equal] for test in each.tests] for each in block]
            for block in blocks
        ],
        "events": [[code[value] for code, value in zip(values, each, strict=True)] for each in distinct],
    }
    return json.dumps(task)


def _unavailable(place: Place) -> Finding:
    hint = "it needs Python 3.11 or 3.12 and a C compiler to build"
    return Finding(place, "engine-unavailable", "durable-rules cannot be imported here", hint)


def _compare(answer: Evaluation, reference: Evaluation, rule_set: RuleSet, space: Space) -> None:
    for combination, decision in answer.decisions.items():
        other = reference.decisions[combination]
        if decision != other:
            facts = ", ".join(f"{fact} {value}" for fact, value in zip(space.facts, combination, strict=True))
            rules = f"`{rule_set.rules[decision.rule].id}`, the reference reaches `{rule_set.rules[other.rule].id}`"
            sentence = f"{answer.engine} reaches {rules}, for {facts}"
            raise NotDecided(Finding(rule_set.rules[other.rule].place, "engines-differ", sentence))
