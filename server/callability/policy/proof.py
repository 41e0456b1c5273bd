"""What is proved of a rule set by looking at its whole decision table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from callability.finding import Finding, listed
from callability.policy.rule_set import Rule, RuleSet
from callability.policy.space import Space
from callability.policy.table import DecisionTable
from callability.policy.words import facts_opened, spoken, spoken_by_rule


def prove(rule_set: RuleSet, table: DecisionTable) -> tuple[Finding, ...]:
    """Return what is wrong: rules that never decide, words that send somebody to what is open already, and
    combinations that are callable although text is withheld.
    """
    return (*_check_dead(rule_set, table), *_check_actions(rule_set, table), *_check_withheld(rule_set, table))


def witness(space: Space, facts: Mapping[str, str]) -> str:
    """Write one combination of facts, those at their open value left out."""
    told = [f"{fact} {facts[fact]}" for fact in space.facts if facts[fact] != space.question.facts[fact].open_value]
    return ", ".join(told) if told else "every fact at its open value"


def _check_dead(rule_set: RuleSet, table: DecisionTable) -> Iterator[Finding]:
    """Find rules that never decide; one that is only ever reached undetermined is dead too."""
    decided = table.decided
    for rule in rule_set.rules:
        if rule.when is not None and not decided[rule.id, False]:
            covers, example = _cover(rule, table)
            if not covers:
                yield Finding(rule.place, "never-decides", f"rule `{rule.id}` never decides: its condition never holds")
            else:
                sentence = f"rule `{rule.id}` never decides: wherever it holds, a rule above it is reached first"
                yield Finding(
                    rule.place, "never-decides", sentence, f"covered by {listed(covers)}; for example {example}"
                )


def _cover(rule: Rule, table: DecisionTable) -> tuple[tuple[str, ...], str]:
    """Return the rules that are reached where a rule would hold, the most frequent first, and an example."""
    covers: Counter[str] = Counter()
    example = ""
    for combination, verdict in table:
        facts = table.space.named(combination)
        if rule.when is not None and rule.when.truth(facts):
            covers[verdict.rule] += 1
            example = example or witness(table.space, facts)
    return tuple(name for name, _ in covers.most_common()), example


def _check_actions(rule_set: RuleSet, table: DecisionTable) -> Iterator[Finding]:
    """Find rules that decide where nothing that their words name an action for is in the way (SC-003)."""
    opened = {rule.id: _opened(rule, rule_set) for rule in rule_set.rules}
    examples: dict[str, str] = {}
    for combination, verdict in table:
        if verdict.undetermined or verdict.rule in examples:
            continue
        facts = table.space.named(combination)
        for named in opened[verdict.rule]:
            if all(facts[fact] == rule_set.question.facts[fact].open_value for fact in named):
                examples[verdict.rule] = witness(table.space, facts)
    for rule in rule_set.rules:
        if rule.id in examples:
            told = listed(sorted({fact for facts_named in opened[rule.id] for fact in facts_named}))
            sentence = f"the words of rule `{rule.id}` would have somebody open {told}, which is open where it decides"
            hint = f"give the rule an `action` of its own, or another status; for example {examples[rule.id]}"
            yield Finding(rule.place, "action-does-not-help", sentence, hint)


def _opened(rule: Rule, rule_set: RuleSet) -> tuple[frozenset[str], ...]:
    """Return, for each text that a rule has said, the facts that its actions open, where there are any."""
    if rule.status not in rule_set.words:
        return ()
    said = spoken_by_rule(rule_set, rule) or spoken(rule_set, rule.status)
    return tuple(filter(None, map(facts_opened, said.values())))


def _check_withheld(rule_set: RuleSet, table: DecisionTable) -> Iterator[Finding]:
    """Find rules that make a tool callable whose text may not be shown (spec A.3)."""
    question = rule_set.question
    if question.withholds is None:
        return
    rules = {rule.id: rule for rule in rule_set.rules}
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for combination, verdict in table:
        if verdict.status == question.open_status and verdict.withhold_text:
            counts[verdict.rule] += 1
            examples.setdefault(verdict.rule, witness(table.space, table.space.named(combination)))
    for rule, count in counts.items():
        sentence = f"rule `{rule}` makes tools callable whose text is withheld, in {count:,} combinations"
        yield Finding(rules[rule].place, "callable-withheld", sentence, f"for example {examples[rule]}")
