"""Proofs over every combination of the facts of a rule set: dead rules, laws and words."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import reduce
from operator import and_, or_

from callability.finding import Finding, Severity, listed, shown
from callability.policy.deciding.combination_set import CombinationSet
from callability.policy.proving.decided import Decided
from callability.policy.proving.redundant_condition import check_parts
from callability.policy.questions.fact import Fact, LabelFact
from callability.policy.rules.law import Law
from callability.policy.rules.rule_set import Rule, RuleSet
from callability.policy.rules.words import actions_named, rule_words, status_words
from callability.vocabulary import Action


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
        hint = f"covered by {listed(_covers(holds, rule_set, decided))}"
        witness = decided.sets.witness(holds)
        yield Finding(rule.place, "never-decides", sentence, hint, witness=witness)


def _together(read: Collection[str], rule_set: RuleSet) -> str:
    """Return a hint for a condition that never holds: how facts that it reads depend on each other."""
    axes = (axis for axis in rule_set.question.axes if len([fact for fact in axis.facts if fact in read]) > 1)
    return "; ".join(axis.impossible for axis in axes if axis.impossible)


def _covers(holds: CombinationSet, rule_set: RuleSet, decided: Decided) -> list[str]:
    """Return the rules that are reached somewhere, the most frequent first."""
    counts = {rule.id: (holds & decided.reached(rule.id)).size for rule in rule_set.rules}
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
    locks = f"{listed(facts)} {'lock' if len(facts) > 1 else 'locks'} nothing" if facts else ""
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
        f"the default of `{fact.name}`, {shown(fact.open_value)}, makes tools callable that {shown(value)} locks, in"
        f" {count:,} combination{'s' if count > 1 else ''}: a caller that does not send the fact opens them"
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
        broken = about - _kept(law, decided)
        if not about:
            sentence = f"law {shown(law.name)} is about no combination of facts"
            hint = "; ".join(filter(None, ("its condition never holds", _together(law.reads, rule_set))))
            yield Finding(law.place, "law-of-nothing", sentence, hint, Severity.WARNING)
        elif broken:
            yield _broken(law, broken, decided)


def combinations_of_law(law: Law, decided: Decided) -> CombinationSet:
    """Return the combinations that a law is about."""
    truths = decided.sets.truths(law.when)
    return truths.certain if law.always else truths.possible


def _kept(law: Law, decided: Decided) -> CombinationSet:
    named = reduce(or_, (decided.status(status) for status in law.statuses))
    return named if law.always else ~named


def _broken(law: Law, broken: CombinationSet, decided: Decided) -> Finding:
    verdict = decided.diagram.verdict_at(decided.sets.simplest(broken))
    count = broken.size
    how = "is undetermined and gives" if verdict.undetermined else "gives"
    required = " or ".join(map(shown, law.statuses))
    against = f"but the law requires {required}" if law.always else "which the law forbids"
    sentence = (
        f"law {shown(law.name)} does not hold in {count:,} combination{'s' if count > 1 else ''}:"
        f" rule `{verdict.rule}` {how} `{verdict.status}`, {against}"
    )
    return Finding(law.place, "law-broken", sentence, witness=decided.sets.witness(broken))
