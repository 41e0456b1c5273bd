"""The decision table: the verdict for every combination of facts, found by one look-up."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Any

from callability.policy.deciding.space import Combination, Space
from callability.policy.deciding.tabulation import Tabulation
from callability.policy.questions.fact import Fact
from callability.policy.rules.rule_set import RuleSet
from callability.policy.rules.verdict import Verdict


class DecisionTable:
    """All verdicts of a rule set. It is never changed."""

    def __init__(self, rule_set: RuleSet, space: Space, tabulation: Tabulation) -> None:
        question = rule_set.question
        self.space = space
        self.engine = tabulation.engine
        verdicts: dict[tuple[int, bool, bool | None], Verdict] = {}
        self._answers: dict[Combination, Verdict] = {}
        withheld = _withholding(space)
        for combination, decision in tabulation.decisions.items():
            key = (decision.rule, decision.undetermined, withheld(combination))
            if key not in verdicts:
                rule = rule_set.rules[decision.rule]
                status = question.undetermined if decision.undetermined else rule.status
                verdicts[key] = Verdict(status, rule.id, *key[1:])
            self._answers[combination] = verdicts[key]
        self.verdicts = tuple(verdicts.values())
        self._key = _key_of(space)

    def verdict(self, facts: Mapping[str, str]) -> Verdict:
        """Return the verdict of a combination of facts, by name; facts that no rule reads do not matter.

        Of a fact that is a name or a label, what was read is given: its class is found here.

        Raises:
            KeyError: a fact that some rule reads is missing, or the combination is impossible.
        """
        return self._answers[self._key(facts)]

    def combination(self, facts: Mapping[str, str]) -> Combination:
        """Return the combination of facts by which a verdict is found: of names and labels, their classes.

        Raises:
            KeyError: a fact that some rule reads is missing.
        """
        return self._key(facts)

    def __iter__(self) -> Iterator[tuple[Combination, Verdict]]:
        """Iterate over all combinations with their verdicts, those that look the same to the rules each on its own."""
        return ((combination, self._answers[combination]) for combination in self.space.combinations())

    def __getstate__(self) -> dict[str, Any]:
        """Return what rebuilds the table in another process: for each combination the index of its verdict."""
        places = {verdict: place for place, verdict in enumerate(self.verdicts)}
        answers = array("L", (places[verdict] for _, verdict in self))
        return {"space": self.space, "engine": self.engine, "verdicts": self.verdicts, "answers": answers}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.space, self.engine, self.verdicts = state["space"], state["engine"], state["verdicts"]
        verdicts = map(self.verdicts.__getitem__, state["answers"])
        self._answers = dict(zip(self.space.combinations(), verdicts, strict=True))
        self._key = _key_of(self.space)

    @property
    def decided(self) -> Counter[tuple[str, bool]]:
        """How many combinations each rule decides, by rule and whether it was undetermined."""
        return Counter((verdict.rule, verdict.undetermined) for _, verdict in self)


def _withholding(space: Space) -> Callable[[Combination], bool | None]:
    """Return what says of a combination whether upstream text is withheld; None where the question is not about it."""
    withholds, opened, facts = space.question.withholds, space.question.open_facts, space.facts
    if withholds is None:
        return lambda combination: None
    return lambda combination: withholds(opened | dict(zip(facts, combination, strict=True)))


def _key_of(space: Space) -> Callable[[Mapping[str, str]], Combination]:
    """Return what takes a combination out of all facts; `itemgetter` gives a tuple from the second fact on only."""
    facts = tuple(space.question.facts[name] for name in space.facts)
    if len(facts) > 1 and all(type(fact) is Fact for fact in facts):
        return itemgetter(*space.facts)
    return lambda given: tuple(fact.reading(given[fact.name]) for fact in facts)
