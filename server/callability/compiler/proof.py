"""What is proved of a rule set over every combination of its facts: laws, dead and redundant parts, tests, coverage."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import accumulate
from operator import and_, or_
from typing import TypeVar

from callability.compiler.combination_sets import CombinationSet, CombinationSets, Truths
from callability.compiler.diagram import DecisionDiagram
from callability.compiler.question import Fact, LabelFact
from callability.compiler.rule_file import Case, written_part
from callability.compiler.rule_set import (
    Law,
    Rule,
    RuleSet,
    Verdict,
    actions_named,
    rule_words,
    status_words,
    verdict_words,
)
from callability.contract.finding import Finding, Place, Severity, Witness, as_code, did_you_mean, list_names
from callability.contract.vocabulary import Action
from callability.kernel.conditions import AllOf, AnyOf, Condition, Is, Not, atoms, decide

MAX_LISTED = 10
"""Differences that one line lists."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Something about a verdict that is not as expected; `part`: what is expected must only stand in what is found."""

    what: str
    expected: str
    found: str
    part: bool = False

    def __str__(self) -> str:
        if self.part:
            return f"{self.what} lacks {as_code(self.expected)}"
        return f"{self.what} `{self.found}` where `{self.expected}` is expected"


@dataclass(frozen=True, slots=True)
class CaseResult:
    """A case and its result; no finding: it passed. Without a verdict it could not be run."""

    case: Case
    verdict: Verdict | None
    differences: tuple[Difference, ...]
    finding: Finding | None


def run_case(case: Case, rule_set: RuleSet, diagram: DecisionDiagram) -> CaseResult:
    """Run a case, and compare what it expects with what the policy does."""
    ids = [rule.id for rule in rule_set.rules]
    if case.rule is not None and case.rule not in ids:
        sentence = f"test {as_code(case.name)} expects unknown rule {as_code(case.rule)}"
        hint = did_you_mean(case.rule, ids)
        return CaseResult(case, None, (), Finding(case.place, "unknown-rule", sentence, hint))
    contradicted = rule_set.question.contradiction(case.facts)
    if contradicted:
        sentence = f"test {as_code(case.name)} has facts that cannot occur together"
        return CaseResult(case, None, (), Finding(case.place, "impossible-facts", sentence, contradicted.impossible))
    verdict = diagram.verdict(case.facts)
    differences = (*_of_verdict(case, verdict), *_of_words(case, verdict, rule_set))
    if not differences:
        return CaseResult(case, verdict, (), None)
    more = f"; and {len(differences) - MAX_LISTED:,} more" if len(differences) > MAX_LISTED else ""
    sentence = f"test {as_code(case.name)} fails: {'; '.join(map(str, differences[:MAX_LISTED]))}{more}"
    return CaseResult(case, verdict, differences, Finding(case.place, "test-failed", sentence))


def _of_verdict(case: Case, verdict: Verdict) -> Iterator[Difference]:
    for what in ("status", "rule", "undetermined", "withhold_text"):
        expected, found = getattr(case, what), getattr(verdict, what)
        if expected is not None and found != expected:
            yield Difference(what, _value_text(expected), _value_text(found))


def _of_words(case: Case, verdict: Verdict, rule_set: RuleSet) -> Iterator[Difference]:
    said = verdict_words(rule_set, verdict)
    for name, parts in case.words.items():
        text = said.texts[name] if said else ""
        yield from (Difference(name, part, text, part=True) for part in parts if part not in text)


def _value_text(value: str | bool | None) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


Name = TypeVar("Name", bound=object)


class Decided:
    """The sets of combinations of a decision diagram: for rules by their ids, for statuses by their names."""

    def __init__(self, rule_set: RuleSet, diagram: DecisionDiagram) -> None:
        self.diagram = diagram
        self.sets, verdicts = diagram.sets()
        self.verdicts: Mapping[Verdict, CombinationSet] = verdicts
        each = self.verdicts.items()
        self._certain = _join((verdict.rule, where) for verdict, where in each if not verdict.undetermined)
        self._undetermined = _join((verdict.rule, where) for verdict, where in each if verdict.undetermined)
        self._statuses = _join((verdict.status, where) for verdict, where in each)
        self._rule_set = rule_set

    def certain(self, rule: str) -> CombinationSet:
        """Return where a rule is reached and true."""
        return self._certain.get(rule, self.sets.none)

    def where_undetermined(self, rule: str) -> CombinationSet:
        """Return where a rule is reached and undetermined."""
        return self._undetermined.get(rule, self.sets.none)

    def where_reached(self, rule: str) -> CombinationSet:
        """Return where a rule is reached: it is true or undetermined, and every rule above it is false."""
        return self.certain(rule) | self.where_undetermined(rule)

    def where_tried(self, rule: str) -> CombinationSet:
        """Return where every rule above a rule is false, whatever it is itself."""
        return self._tries[rule]

    def status(self, status: str) -> CombinationSet:
        """Return where a status is given."""
        return self._statuses.get(status, self.sets.none)

    @cached_property
    def _tries(self) -> Mapping[str, CombinationSet]:
        left = self.sets.all
        found: dict[str, CombinationSet] = {}
        for rule in self._rule_set.rules:
            found[rule.id] = left
            left -= self.where_reached(rule.id)
        return found


def _join(pairs: Iterable[tuple[Name, CombinationSet]]) -> dict[Name, CombinationSet]:
    joined: dict[Name, CombinationSet] = {}
    for name, where in pairs:
        joined[name] = joined[name] | where if name in joined else where
    return joined


@dataclass(frozen=True, slots=True)
class Goal:
    """Something to be reached by a test: that a rule decides or, of a part of its condition, that it is true, or false.

    A part counts where its rule is tried. The witness is a set of facts by which a test would reach the goal.
    """

    rule: str
    part: str | None
    truth: bool
    place: Place
    witness: Witness

    def __str__(self) -> str:
        if self.part is None:
            return f"rule `{self.rule}` decides"
        return f"`{self.part}` is {'true' if self.truth else 'false'} in rule `{self.rule}`"


@dataclass(frozen=True, slots=True)
class Share:
    """How many goals of a kind there are, and those that no test reaches."""

    goals: int
    missed: tuple[Goal, ...]

    @property
    def percent(self) -> float:
        """The share that is reached; all of nothing is 100."""
        return 100.0 * (self.goals - len(self.missed)) / self.goals if self.goals else 100.0


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the tests of a rule set reach of its rules, and of the parts of their conditions."""

    rules: Share
    conditions: Share

    @property
    def percent(self) -> float:
        """The lesser of both shares."""
        return min(self.rules.percent, self.conditions.percent)


_Key = tuple[int, int | None, bool]
"""A rule and a part of its condition by their numbers, and a truth."""


def coverage(rule_set: RuleSet, decided: Decided, tested: Iterable[Mapping[str, str]]) -> Coverage:
    """Return what tests with these facts reach. What no combination of facts can reach is no goal."""
    reached = {key for facts in tested for key in _keys_reached(rule_set, facts)}
    return Coverage(*(_share(goals(rule_set, decided), reached, decided) for goals in (_rules, _truths_to_try)))


def rule_coverage(rule_set: RuleSet, decided: Decided, tested: Iterable[Mapping[str, str]]) -> Share:
    """Return which rules decide in tests with these facts, of those that decide at all."""
    return _share(
        _rules(rule_set, decided), {key for facts in tested for key in _keys_reached(rule_set, facts)}, decided
    )


_Place = tuple[Rule, Is | None, CombinationSet]
"""A rule and a part of it that is meant, if one is, with where the goal is reached."""


def _share(goals: Iterable[tuple[_Key, _Place]], reached: set[_Key], decided: Decided) -> Share:
    each = dict(goals)
    missed = (_goal(key, place, decided) for key, place in each.items() if key not in reached)
    return Share(len(each), tuple(missed))


def _keys_reached(rule_set: RuleSet, facts: Mapping[str, str]) -> Iterator[_Key]:
    decision = decide(rule_set.conditions, facts)
    for number, rule in enumerate(rule_set.rules[: decision.rule + 1]):
        for part, atom in enumerate(atoms(rule.when)):
            truth = atom.truth(facts)
            if truth is not None:
                yield number, part, truth
    if not decision.undetermined:
        yield decision.rule, None, True


def _rules(rule_set: RuleSet, decided: Decided) -> Iterator[tuple[_Key, _Place]]:
    """Yield for each rule that it decides."""
    for number, rule in enumerate(rule_set.rules):
        if where := decided.certain(rule.id):
            yield (number, None, True), (rule, None, where)


def _truths_to_try(rule_set: RuleSet, decided: Decided) -> Iterator[tuple[_Key, _Place]]:
    """Yield for each part of a condition that it is true, and that it is false."""
    for number, rule in enumerate(rule_set.rules):
        tried = decided.where_tried(rule.id)
        for part, atom in enumerate(atoms(rule.when)):
            truths = decided.sets.truths(atom)
            for truth, where in ((True, tried & truths.certain), (False, tried - truths.possible)):
                if where:
                    yield (number, part, truth), (rule, atom, where)


def _goal(key: _Key, reached_by: _Place, decided: Decided) -> Goal:
    rule, atom, where = reached_by
    part = written_part(atom, decided.sets.space.question) if atom else None
    place = atom.place if atom and atom.place else rule.place
    return Goal(rule.id, part, key[2], place, decided.sets.witness(where))


MAX_PARTS = 500
"""Parts of one condition that are looked at; a larger one is not."""


@dataclass(frozen=True, slots=True)
class _Weighed:
    """A part with its truths, where its rule is tried, and where the rest of the condition leaves it open; for what is
    certain, and for what is possible.
    """

    part: Is
    truths: Truths
    tried: CombinationSet
    open: Truths

    def where_changed(self, certain: CombinationSet, possible: CombinationSet) -> CombinationSet:
        """Return where the rule would be another one with other truths of the part."""
        # Where a rule is tried is a large set, and the others are small: it is intersected last.
        of_certain = (self.truths.certain ^ certain) & self.open.certain
        return (of_certain | ((self.truths.possible ^ possible) & self.open.possible)) & self.tried

    def matters(self, where: CombinationSet) -> bool:
        """Say whether the part decides anywhere in a set."""
        return bool(where & (self.open.certain | self.open.possible) & self.tried)


def check_parts(rules: tuple[Rule, ...], decided: Decided) -> Iterator[Finding]:
    """Find parts, and values in lists, without which each answer would be the same, in rules that decide."""
    for rule, weighed in _weigh_rules(rules, decided):
        if not weighed.where_changed(decided.sets.none, decided.sets.none):
            what = f"part `{_part_text(weighed.part, decided)}` of"
            yield _never_matters(rule, weighed.part, what, weighed.truths.certain, decided)
        elif len(weighed.part.values) > 1:
            yield from _check_values(rule, weighed, decided)


def _check_values(rule: Rule, weighed: _Weighed, decided: Decided) -> Iterator[Finding]:
    part, fact = weighed.part, decided.sets.space.question.facts[weighed.part.fact]
    needless = fact.needless(part.values)
    for value in sorted(part.values):
        what = f"value {as_code(value)} of `{part.fact}` in"
        having = decided.sets.where(part.fact, fact.held_with(value))
        if not weighed.matters(having):
            yield _never_matters(rule, part, what, having, decided)
        elif value in needless:
            sentence = f"{what} rule `{rule.id}` never matters: whatever it matches, others in the list match too"
            yield Finding(part.place or rule.place, "part-never-matters", sentence, "", Severity.WARNING)


def needless_parts(rules: tuple[Rule, ...], decided: Decided) -> Iterator[Finding]:
    """Find parts that are true wherever they matter; to say so may be what makes a rule readable."""
    every, none = decided.sets.all, decided.sets.none
    for rule, weighed in _weigh_rules(rules, decided):
        matters = weighed.where_changed(none, none)
        if matters and not weighed.where_changed(every, every):
            sentence = f"part `{_part_text(weighed.part, decided)}` of rule `{rule.id}` is true wherever it matters"
            hint = "the rule decides the same without it"
            witness = decided.sets.witness(matters)
            place = weighed.part.place or rule.place
            yield Finding(place, "part-always-true", sentence, hint, Severity.NOTE, witness)


def _weigh_rules(rules: tuple[Rule, ...], decided: Decided) -> Iterator[tuple[Rule, _Weighed]]:
    for rule in rules:
        if rule.when and decided.certain(rule.id) and sum(1 for _ in atoms(rule.when)) <= MAX_PARTS:
            every = Truths(decided.sets.all, decided.sets.all)
            for part, left_open in _open_parts(rule.when, every, decided.sets):
                yield rule, _Weighed(part, decided.sets.truths(part), decided.where_tried(rule.id), left_open)


def _open_parts(condition: Condition, matters: Truths, sets: CombinationSets) -> Iterator[tuple[Is, Truths]]:
    """Yield the parts of a condition, each with where the rest of it leaves it open."""
    match condition:
        case Is():
            yield condition, matters
        case Not(part=part):
            # What is certain of the whole is what is not possible of the part.
            yield from _open_parts(part, Truths(matters.possible, matters.certain), sets)
        case AllOf(parts=parts) | AnyOf(parts=parts):
            each = [sets.truths(part) for part in parts]
            certain, possible = (
                _open(condition, [getattr(truths, kind) for truths in each], sets) for kind in ("certain", "possible")
            )
            for part, one, other in zip(parts, certain, possible, strict=True):
                yield from _open_parts(part, Truths(matters.certain & one, matters.possible & other), sets)


def _open(condition: AllOf | AnyOf, parts: list[CombinationSet], sets: CombinationSets) -> list[CombinationSet]:
    """Return for each part where the others leave the answer to it: all are true, or none is."""
    join, start = (and_, sets.all) if isinstance(condition, AllOf) else (or_, sets.none)
    before = [*accumulate(parts, join, initial=start)][:-1]
    after = [*accumulate(reversed(parts), join, initial=start)][-2::-1]
    others = [join(one, other) for one, other in zip(before, after, strict=True)]
    return others if join is and_ else [~each for each in others]


def _never_matters(rule: Rule, part: Is, what: str, holds: CombinationSet, decided: Decided) -> Finding:
    witness, there = _elsewhere(rule, holds, decided)
    sentence = f"{what} rule `{rule.id}` never matters: without it each answer is the same"
    place = part.place or rule.place
    return Finding(place, "part-never-matters", sentence, there, Severity.WARNING, witness)


def _elsewhere(rule: Rule, holds: CombinationSet, decided: Decided) -> tuple[Witness | None, str]:
    """Return facts of those for which a part is true, and what decides there."""
    if not holds:
        return None, "no combination of facts has it"
    where = holds - decided.where_tried(rule.id) or holds
    verdict = decided.diagram.verdict_at(decided.sets.simplest(where))
    return decided.sets.witness(where), f"rule `{verdict.rule}` decides without it"


def _part_text(part: Is, decided: Decided) -> str:
    return written_part(part, decided.sets.space.question)


def prove(rule_set: RuleSet, decided: Decided, *, advice: bool = True) -> tuple[Finding, ...]:
    """Return what is wrong: rules that never decide, words that send somebody to what is open already, combinations
    that are callable although text is withheld, asserted facts whose default opens, laws that do not hold, and, as
    advice, parts that never matter.
    """
    return (
        *_check_dead(rule_set, decided),
        *(check_parts(rule_set.rules, decided) if advice else ()),
        *_check_actions(rule_set, decided),
        *_check_callable(rule_set, decided),
        *_check_withheld(rule_set, decided),
        *_check_defaults(rule_set, decided),
        *_check_laws(rule_set, decided),
    )


def _check_dead(rule_set: RuleSet, decided: Decided) -> Iterator[Finding]:
    """Find rules that never decide; one that is only ever reached undetermined is dead too."""
    for rule in rule_set.rules:
        if rule.when is None or decided.certain(rule.id):
            continue
        holds = decided.sets.truths(rule.when).certain
        if not holds:
            sentence = f"rule `{rule.id}` never decides: its condition never holds"
            yield Finding(rule.place, "never-decides", sentence, _together(rule.reads, rule_set))
            continue
        sentence = f"rule `{rule.id}` never decides: wherever it holds, a rule above it is reached first"
        hint = f"covered by {list_names(_covers(holds, rule_set, decided))}"
        witness = decided.sets.witness(holds)
        yield Finding(rule.place, "never-decides", sentence, hint, witness=witness)


def _together(read: Collection[str], rule_set: RuleSet) -> str:
    """Return a hint for a condition that never holds: how facts that it reads depend on each other."""
    axes = (axis for axis in rule_set.question.axes if len([fact for fact in axis.facts if fact in read]) > 1)
    return "; ".join(axis.impossible for axis in axes if axis.impossible)


def _covers(holds: CombinationSet, rule_set: RuleSet, decided: Decided) -> list[str]:
    """Return the rules that are reached somewhere, the most frequent first."""
    counts = {rule.id: (holds & decided.where_reached(rule.id)).size for rule in rule_set.rules}
    return sorted((rule for rule, count in counts.items() if count), key=lambda rule: -counts[rule])


def _check_actions(rule_set: RuleSet, decided: Decided) -> Iterator[Finding]:
    """Find rules that decide where nothing that their words name an action for is in the way (SC-003)."""
    for rule in rule_set.rules:
        named = _changing(rule, rule_set)
        needless = (reduce(and_, (_idle(action, rule, decided) for action in actions)) for actions in named)
        wrong = decided.certain(rule.id) & reduce(or_, needless, decided.sets.none)
        if wrong:
            actions = frozenset(action for actions in named for action in actions)
            sentence = f"the words of rule `{rule.id}` name an action that does not help: {_idle_actions(actions)}"
            hint = "give the rule an `action` of its own, or another status"
            yield Finding(rule.place, "action-does-not-help", sentence, hint, witness=decided.sets.witness(wrong))


def _idle_actions(actions: Collection[Action]) -> str:
    """Say that the facts and labels that actions would change lock nothing when the rule decides."""
    facts = sorted(action.fact for action in actions if action.fact)
    locks = f"{list_names(facts)} {'lock' if len(facts) > 1 else 'locks'} nothing" if facts else ""
    labels = "a change of labels lifts nothing" if any(action.labels for action in actions) else ""
    return f"when the rule decides, {' and '.join(filter(None, (locks, labels)))}"


def _changing(rule: Rule, rule_set: RuleSet) -> tuple[tuple[Action, ...], ...]:
    """Return, for each text that a rule has said, the actions in it that change facts, where there are any."""
    if rule.status not in rule_set.words:
        return ()
    said = rule_words(rule_set, rule) or status_words(rule_set, rule.status)
    named = (
        tuple(each for each in actions_named(text, rule_set.question) if each.fact or each.labels)
        for text in said.values()
    )
    return tuple(filter(None, named))


def _idle(action: Action, rule: Rule, decided: Decided) -> CombinationSet:
    """Return where an action changes nothing about a rule: the fact is open, or no other values make the rule false."""
    sets, facts = decided.sets, decided.sets.space.question.facts
    if action.fact and not facts[action.fact].opened_by_any_value:
        return sets.where(action.fact, (facts[action.fact].open_value,))
    changed = (axis for axis in sets.axes if _changes(action, facts[axis.facts[0]]))
    return ~reduce(sets.spread, changed, ~sets.truths(rule.when).possible)


def _changes(action: Action, fact: Fact) -> bool:
    return isinstance(fact, LabelFact) if action.labels else fact.name == action.fact


def _check_defaults(rule_set: RuleSet, decided: Decided) -> Iterator[Finding]:
    """Find asserted facts whose default opens what another value locks: a caller that sends nothing would open it."""
    wanted, sets = rule_set.question.open_status, decided.sets
    asserted = (fact for fact in rule_set.declared_facts if fact.asserted and fact.name in sets.space.facts)
    for fact in asserted if wanted else ():
        opened, unsent = decided.status(wanted or ""), sets.where(fact.name, (fact.open_value,))
        axis = next(axis for axis in sets.axes if fact.name in axis.facts)
        for value in fact.values:
            locked = sets.where(fact.name, (value,)) - opened
            wrong = opened & unsent & sets.spread(locked, axis)
            if wrong:
                yield _unsafe(rule_set, fact, value, wrong, decided)
                break


def _unsafe(rule_set: RuleSet, fact: Fact, value: str, wrong: CombinationSet, decided: Decided) -> Finding:
    count = wrong.size
    sentence = (
        f"the default of `{fact.name}`, {as_code(fact.open_value)}, makes tools callable that {as_code(value)} locks,"
        f" in {count:,} combination{'s' if count > 1 else ''}: a caller that does not send the fact opens them"
    )
    hint = "give it the default that locks, or remove `asserted`: the fact is then unknown if it is not sent"
    place = rule_set.fact_places.get(fact.name, rule_set.rules[-1].place)
    return Finding(place, "unsafe-default", sentence, hint, witness=decided.sets.witness(wrong))


def _check_callable(rule_set: RuleSet, decided: Decided) -> Iterator[Finding]:
    """Find rules under which nothing ever has the open status."""
    wanted, last = rule_set.question.open_status, rule_set.rules[-1]
    if wanted is not None and not decided.status(wanted):
        sentence = f"no combination of facts is `{wanted}`, so that every tool is locked whatever anybody does"
        hint = f"end with a rule such as `{{id: open, status: {wanted}}}`"
        yield Finding(last.place, "nothing-callable", sentence, hint, Severity.WARNING)


def _check_withheld(rule_set: RuleSet, decided: Decided) -> Iterator[Finding]:
    """Find rules that make a tool callable whose text may not be shown (spec A.3)."""
    for verdict, where_given in decided.verdicts.items():
        if verdict.status == rule_set.question.open_status and verdict.withhold_text:
            count = where_given.size
            where = f"in {count:,} combination{'s' if count > 1 else ''}"
            sentence = f"rule `{verdict.rule}` makes tools callable whose text is withheld, {where}"
            place = rule_set.rule(verdict.rule).place
            yield Finding(place, "callable-withheld", sentence, witness=decided.sets.witness(where_given))


def _check_laws(rule_set: RuleSet, decided: Decided) -> Iterator[Finding]:
    """Find laws that some combination breaks, and such as are about none."""
    for law in rule_set.laws:
        about = combinations_of_law(law, decided)
        broken = about - _where_kept(law, decided)
        if not about:
            sentence = f"law {as_code(law.name)} is about no combination of facts"
            hint = "; ".join(filter(None, ("its condition never holds", _together(law.reads, rule_set))))
            yield Finding(law.place, "law-of-nothing", sentence, hint, Severity.WARNING)
        elif broken:
            yield _law_finding(law, broken, decided)


def combinations_of_law(law: Law, decided: Decided) -> CombinationSet:
    """Return the combinations that a law is about."""
    truths = decided.sets.truths(law.when)
    return truths.certain if law.always else truths.possible


def _where_kept(law: Law, decided: Decided) -> CombinationSet:
    named = reduce(or_, (decided.status(status) for status in law.statuses))
    return named if law.always else ~named


def _law_finding(law: Law, broken: CombinationSet, decided: Decided) -> Finding:
    verdict = decided.diagram.verdict_at(decided.sets.simplest(broken))
    count = broken.size
    how = "is undetermined and gives" if verdict.undetermined else "gives"
    required = " or ".join(map(as_code, law.statuses))
    against = f"but the law requires {required}" if law.always else "which the law forbids"
    sentence = (
        f"law {as_code(law.name)} does not hold in {count:,} combination{'s' if count > 1 else ''}:"
        f" rule `{verdict.rule}` {how} `{verdict.status}`, {against}"
    )
    return Finding(law.place, "law-broken", sentence, witness=decided.sets.witness(broken))
