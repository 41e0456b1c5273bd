"""The unread facts of undetermined verdicts, computed once for the values that matter to a rule."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from callability.policy.deciding.tabulation import Engine
from callability.policy.loading import Policy, load
from callability.policy.rules.rule_set import RuleSet
from callability.policy.rules.unread import unread_of
from callability.policy.rules.verdict import Verdict
from callability.service.translation.unread_facts import MAX_KEPT, UnreadFacts
from support.checkout import POLICY


@pytest.fixture(scope="module")
def policy() -> Policy:
    """The shipped policy."""
    return load(POLICY, engine=Engine.REFERENCE)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[Verdict]:
    """The verdicts for which unread facts were computed."""
    verdicts: list[Verdict] = []

    def counted(rule_set: RuleSet, verdict: Verdict, facts: Mapping[str, str]) -> tuple[str, ...]:
        verdicts.append(verdict)
        return unread_of(rule_set, verdict, facts)

    monkeypatch.setattr("callability.service.translation.unread_facts.unread_of", counted)
    return verdicts


@pytest.mark.parametrize("question", ["callability", "load_outcome", "enable_outcome"])
def test_for_every_combination_the_unread_facts_are_those_that_are_computed(question: str, policy: Policy) -> None:
    """Those that matter to a rule are the ones that it reads, and those that say something about these."""
    proved = policy.rule_sets[question]
    unread, space = UnreadFacts(proved), proved.table.space
    undetermined = [
        (space.named(combination), verdict) for combination, verdict in proved.table if verdict.undetermined
    ]
    assert undetermined
    for _ in range(2):
        for facts, verdict in undetermined:
            assert unread.of(verdict, facts) == unread_of(proved.rule_set, verdict, facts)


def test_other_facts_cost_nothing(policy: Policy, computed: list[Verdict]) -> None:
    """A rule late in the order has many combinations of facts that only the rules before it read."""
    proved = policy.rule_sets["callability"]
    unread, space = UnreadFacts(proved), proved.table.space
    undetermined = [
        (space.named(combination), verdict) for combination, verdict in proved.table if verdict.undetermined
    ]
    for facts, verdict in undetermined:
        unread.of(verdict, facts)
    assert len(computed) < len(undetermined) / 2
    assert len(computed) <= MAX_KEPT
    computed.clear()
    for facts, verdict in undetermined:
        unread.of(verdict, facts)
    assert computed == []
