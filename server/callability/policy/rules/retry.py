"""Whether a later try can succeed although facts of this one are unknown."""

from __future__ import annotations

from collections.abc import Mapping

from callability.kernel.explainable import Diagram
from callability.kernel.nearest import opens_by_itself
from callability.policy.rules.rule_set import RuleSet
from callability.policy.rules.verdict import Verdict
from callability.vocabulary import Retry


def retry_of(rule_set: RuleSet, diagram: Diagram, verdict: Verdict, facts: Mapping[str, str]) -> Retry:
    """Return whether trying again can help with a verdict for some facts, of which the unknown ones were not sent."""
    question = rule_set.question
    if verdict.undetermined and question.open_status is not None:
        stays_unknown = {name for name, fact in question.facts.items() if fact.stays_unknown}
        if not opens_by_itself(rule_set, diagram, facts, stays_unknown):
            return Retry.NEVER
    return question.status(verdict.status).retry
