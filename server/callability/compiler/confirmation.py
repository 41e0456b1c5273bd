"""Confirming a decision diagram: the rules engine, in a child process, has to agree at every region, edge and point.

The engine reads rules in disjunctive normal form, with flat conjunctions over known and unknown values.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import partial, reduce
from itertools import product
from random import Random
from typing import IO

from callability.compiler import engine
from callability.compiler.combination_sets import Combination, Space
from callability.compiler.diagram import DecisionDiagram, NotDecided
from callability.compiler.rule_set import Rule, RuleSet, Verdict
from callability.contract.finding import Finding, Place
from callability.contract.vocabulary import UNKNOWN
from callability.kernel.conditions import AllOf, AnyOf, Condition, Decision, Facts, Is, Not, decide, holds
from callability.process.child import CannotStart, Child, Exited, TimedOut

MAX_CONJUNCTIONS = 5_000
"""Conjunctions that one rule may come to."""
MAX_ALTOGETHER = 20_000
"""Conjunctions that the rules of a file may come to: the engine needs some 20 KB of memory for each."""
MAX_PAIRS = 250_000
"""Pairs of terms that are joined at once: many may come to few."""

Domains = Mapping[str, tuple[str, ...]]
Term = Mapping[str, frozenset[str]]
"""For each fact that matters, the values (unknown among them) that it may have."""


class ConditionTooLarge(Exception):
    """A condition that comes to more than `MAX_CONJUNCTIONS`."""


@dataclass(frozen=True, slots=True)
class Test:
    """The fact has the value, or has any other."""

    __test__ = False

    fact: str
    value: str
    equal: bool


@dataclass(frozen=True, slots=True)
class Conjunction:
    """Tests that together decide."""

    tests: tuple[Test, ...]
    decision: Decision


def conjunctions(number: int, rule: Rule, domains: Domains) -> tuple[Conjunction, ...]:
    """Return the conjunctions under which a rule is certainly true, then those under which it may be.

    Raises:
        TooLarge: there are more than `MAX_CONJUNCTIONS`.
    """
    if rule.when is None:
        return (Conjunction((), Decision(number, undetermined=False)),)
    found: list[Conjunction] = []
    for possible in (False, True):
        decision = Decision(number, undetermined=possible)
        for term in _terms(rule.when, domains, wanted=True, possible=possible):
            for tests in _flat_conjunctions(term, domains):
                found.append(Conjunction(tests, decision))
                if len(found) > MAX_CONJUNCTIONS:
                    raise ConditionTooLarge
    return tuple(found)


def _terms(condition: Condition, domains: Domains, *, wanted: bool, possible: bool) -> list[Term]:
    """Return terms that hold where the condition is `wanted`, or, if `possible`, where it is not the opposite."""
    match condition:
        case Is(fact=fact, values=values):
            known = frozenset(domains[fact]) - {UNKNOWN}
            allowed = frozenset(value for value in known if holds(values, value) is wanted)
            if possible:
                allowed |= frozenset(domains[fact]) & {UNKNOWN}
            return [{fact: allowed}] if allowed else []
        case Not(part=part):
            return _terms(part, domains, wanted=not wanted, possible=possible)
        case AllOf(parts=parts) | AnyOf(parts=parts):
            each = [_terms(part, domains, wanted=wanted, possible=possible) for part in parts]
            return reduce(_both, each) if isinstance(condition, AllOf) is wanted else _either(each)


def _both(left: list[Term], right: list[Term]) -> list[Term]:
    if len(left) * len(right) > MAX_PAIRS:
        raise ConditionTooLarge
    joined: dict[frozenset[tuple[str, frozenset[str]]], Term] = {}
    for one, other in product(left, right):
        term = _intersection(one, other)
        if term is not None:
            joined[frozenset(term.items())] = term
            if len(joined) > MAX_CONJUNCTIONS:
                raise ConditionTooLarge
    return list(joined.values())


def _either(each: Iterable[list[Term]]) -> list[Term]:
    return list({frozenset(term.items()): term for terms in each for term in terms}.values())


def _intersection(one: Term, other: Term) -> Term | None:
    term = dict(one)
    for fact, allowed in other.items():
        term[fact] = term.get(fact, allowed) & allowed
        if not term[fact]:
            return None
    return term


def _flat_conjunctions(term: Term, domains: Domains) -> Iterator[tuple[Test, ...]]:
    """Yield the flat conjunctions of a term: one equality or inequality a fact."""
    choices = []
    for fact in sorted(term):
        excluded = frozenset(domains[fact]) - term[fact]
        if len(excluded) == 1 and len(domains[fact]) > 2:
            choices.append([Test(fact, min(excluded), equal=False)])
        elif excluded:
            choices.append([Test(fact, value, equal=True) for value in sorted(term[fact])])
    yield from product(*choices)


CPU_LIMIT = 60
"""Seconds of processor time that a process of the engine may take. A busy machine does not shorten them."""

OnProgress = Callable[[int, int], None]
"""Called with how many more combinations are decided, and how many more there are to decide."""


@dataclass(frozen=True, slots=True)
class EngineOutput:
    """The engine's name, and what its process writes: for each event the block and conjunction that decided."""

    engine: str
    decisions: list[list[int]]


def run(task: str, place: Place, seconds: float, progress: OnProgress, *, cpu_seconds: int = CPU_LIMIT) -> EngineOutput:
    """Let a process decide a task, and end it when the time is over.

    Raises:
        NotDecided: it failed, took longer than `seconds`, or more than `cpu_seconds` of processor time.
        ModuleNotFoundError: durable-rules cannot be imported.
    """
    try:
        # In the group of this process, so that it ends with it.
        process = Child(engine.__name__, str(cpu_seconds), own_group=False)
        # What this imports takes a while, in which the process starts.
        from importlib.metadata import version  # noqa: PLC0415

        written = process.exchange(task.encode(), seconds, partial(_decisions, progress))
    except CannotStart as error:
        sentence = f"the rules engine's process cannot be started: {error.reason}"
        raise NotDecided(Finding(place, "engine-failed", sentence)) from error
    except TimedOut:
        raise _timeout(place, f"{seconds:g} seconds") from None
    except Exited as error:
        if error.code == -signal.SIGXCPU:
            raise _timeout(place, f"{cpu_seconds} seconds of processor time") from None
        if error.code == engine.UNAVAILABLE:
            raise ModuleNotFoundError("durable-rules") from None
        raise NotDecided(Finding(place, "engine-failed", f"the rules engine failed: {error.reason}")) from None
    if written is None:
        raise NotDecided(Finding(place, "engine-failed", "the rules engine's process wrote no decisions"))
    return EngineOutput(f"durable-rules {version('durable-rules')}", written)


def _timeout(place: Place, limit: str) -> NotDecided:
    sentence = f"the rules engine did not decide within {limit}"
    return NotDecided(Finding(place, "engine-timeout", sentence, "the policy is too large"))


def _decisions(progress: OnProgress, output: IO[bytes]) -> list[list[int]] | None:
    """Read what the process decides; None if that is not JSON."""
    decisions: list[list[int]] = []
    try:
        for line in output:
            part = json.loads(line)
            decisions += part
            progress(len(part), 0)
    except ValueError:
        return None
    return decisions


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
    blocks = () if by is Engine.REFERENCE else _blocks(_conjunctions_of(rule_set, space))
    return Evaluator(rule_set, space, blocks, Place(file), by, seconds, progress)


def _by_reference(rule_set: RuleSet, space: Space, distinct: Sequence[Combination]) -> Evaluation:
    facts = space.facts
    return Evaluation(
        {each: decide(rule_set.conditions, dict(zip(facts, each, strict=True))) for each in distinct}, "reference"
    )


def _conjunctions_of(rule_set: RuleSet, space: Space) -> tuple[Conjunction, ...]:
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


MAX_WITNESSES = 20_000
"""Combinations that are decided for one rule set, besides one for each point of an axis."""
MAX_EFFORT = 400_000
"""What these may take together, in the unit of an `Evaluator`."""
A_REGION = 3
"""Combinations that are decided for each region if they take little."""
LITTLE_EFFORT = 30_000
"""What is little."""
SEED = 20_260_101
"""What the choice among the combinations of a region starts from, so that a policy is always tested by the same."""

_Points = tuple[int, ...]
"""A combination by the point of each axis, in the order in which axes are tested."""
_Path = Mapping[int, tuple[int, ...]]
"""For the axes that a path tests, by their places, the points that take it."""


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Combinations of facts, each once, and how many of the regions they are in, of how many."""

    combinations: tuple[Combination, ...]
    regions: int
    of_regions: int


def witnesses(diagram: DecisionDiagram, effort: int = 1) -> Witnesses:
    """Choose the witnesses of a diagram, each of which takes an effort: always the same for the same diagram.

    There are as many as `MAX_WITNESSES` and `MAX_EFFORT` allow. With at most so many regions, there is at least one of
    each region, and so one of each edge, and up to `A_REGION` as long as that takes little. With more regions, each
    edge comes first, the nearest to the root before others, and the rest is drawn. Every point of every axis is in one
    of them. Axes that a region leaves free are at drawn points.
    """
    most = min(MAX_WITNESSES, max(1, MAX_EFFORT // effort))
    walks = _Walks(diagram)
    found: dict[_Points, None] = {}
    if diagram.regions <= most:
        times = min(A_REGION, max(1, min(most, LITTLE_EFFORT // effort) // diagram.regions))
        for path in _regions(diagram, diagram.root, {}):
            found.update((walks.draw(path), None) for _ in range(times))
    else:
        for path in walks.to_new_edges():
            if len(found) == most:
                break
            found[walks.draw(path)] = None
        for _ in range(most - len(found)):
            found[walks.draw({})] = None
    for path in _missing_points(diagram, found):
        found[walks.draw(path)] = None
    combinations = tuple(dict.fromkeys(_combination(diagram, points) for points in found))
    return Witnesses(combinations, len(walks.regions), diagram.regions)


class _Walks:
    """Draws combinations of a diagram, and counts the regions that they are in."""

    def __init__(self, diagram: DecisionDiagram) -> None:
        self._diagram = diagram
        self._chance = Random(SEED)
        self._results = len(diagram.verdicts)
        self._branches = [diagram.branches(node) for node in diagram.inner]
        self._new = [set(branches) for branches in self._branches]
        self.regions: set[tuple[int, ...]] = set()

    def draw(self, path: _Path) -> _Points:
        """Draw a combination that takes a path; where it is free, by an edge that no other has taken, if there is one.

        Otherwise each of the different children is as likely.
        """
        taken, chance = dict(path), self._chance
        number, region = self._diagram.root, []
        while number >= self._results:
            node, branches = self._diagram.inner[number - self._results], self._branches[number - self._results]
            new = self._new[number - self._results]
            if node.place not in taken:
                taken[node.place] = chance.choice([branches[child] for child in branches if not new or child in new])
            point = chance.choice(taken[node.place])
            taken[node.place] = (point,)
            number = node.children[point]
            new.discard(number)
            region.append(number)
        self.regions.add(tuple(region))
        return tuple(
            taken[place][0] if taken.get(place) else chance.randrange(len(axis.points))
            for place, axis in enumerate(self._diagram.axes)
        )

    def to_new_edges(self) -> Iterator[_Path]:
        """Yield paths to inner nodes that have an edge which no combination takes, those nearest to the root first."""
        above: dict[int, int] = {}
        waiting = [self._diagram.root]
        for number in waiting:
            while self._new[number - self._results]:
                yield self._path_to(number, above)
            for child in self._branches[number - self._results]:
                if child >= self._results and child not in above:
                    above[child] = number
                    waiting.append(child)

    def _path_to(self, number: int, above: Mapping[int, int]) -> _Path:
        path: dict[int, tuple[int, ...]] = {}
        while number in above:
            upper = above[number] - self._results
            path[self._diagram.inner[upper].place] = self._branches[upper][number]
            number = above[number]
        return path


def _regions(diagram: DecisionDiagram, number: int, path: _Path) -> Iterator[_Path]:
    """Yield the regions below a node, as the paths to them."""
    node = diagram.node(number)
    if node is None:
        yield path
        return
    for child, points in diagram.branches(node).items():
        yield from _regions(diagram, child, {**path, node.place: points})


def _missing_points(diagram: DecisionDiagram, found: Iterable[_Points]) -> Iterator[_Path]:
    """Yield the points of axes that none of some combinations has."""
    seen = [set(points) for points in zip(*found, strict=True)]
    for place, axis in enumerate(diagram.axes):
        missing: Iterator[_Path] = ({place: (p,)} for p in range(len(axis.points)) if p not in seen[place])
        yield from missing


def _combination(diagram: DecisionDiagram, points: _Points) -> Combination:
    """Return the readings of the facts of a combination, in the order of the space."""
    by_axis = dict(zip(diagram.order, points, strict=True))
    return tuple(
        value for number, axis in enumerate(diagram.space.axes) for value in axis.points[by_axis[number]].values
    )


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What decided how many witnesses of a diagram, and how many of its regions these are in."""

    engine: str
    witnesses: int
    regions: int
    of_regions: int


def confirm(diagram: DecisionDiagram, evaluator: Evaluator) -> Confirmation:
    """Decide witnesses of every region of a diagram, as far as these are not too many.

    Raises:
        NotDecided: the witnesses could not be decided, or one is decided otherwise than by the diagram.
    """
    chosen = witnesses(diagram, evaluator.effort)
    answer = evaluator.decide(chosen.combinations)
    for combination, decision in answer.decisions.items():
        facts = diagram.space.named(combination)
        rule = evaluator.rule_set.rules[decision.rule]
        verdict = diagram.verdict(facts)
        expected = _verdict(rule, facts, evaluator.rule_set, undetermined=decision.undetermined)
        if verdict != expected:
            where = ", ".join(f"{fact} {value}" for fact, value in zip(diagram.space.facts, combination, strict=True))
            given = (
                f"{answer.engine} gives {_verdict_text(expected)}, and the decision diagram {_verdict_text(verdict)}"
            )
            raise NotDecided(Finding(rule.place, "engines-differ", f"{given}, for {where}"))
    return Confirmation(answer.engine, len(chosen.combinations), chosen.regions, chosen.of_regions)


def _verdict(rule: Rule, facts: Facts, rule_set: RuleSet, *, undetermined: bool) -> Verdict:
    """Return the verdict of a rule that is reached."""
    question = rule_set.question
    withheld = question.withholds(facts) if question.withholds else None
    return Verdict(question.undetermined if undetermined else rule.status, rule.id, undetermined, withheld)


def _verdict_text(verdict: Verdict) -> str:
    how = "undetermined" if verdict.undetermined else "true"
    text = ", text withheld" if verdict.withhold_text else ""
    return f"`{verdict.status}` by `{verdict.rule}` ({how}{text})"
