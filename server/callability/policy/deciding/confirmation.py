"""Confirming a decision diagram: what decides rules independently of it decides witnesses of it, and has to agree."""

from __future__ import annotations

from dataclasses import dataclass

from callability.finding import Finding
from callability.kernel.condition import Facts
from callability.policy.deciding.diagram import DecisionDiagram
from callability.policy.deciding.evaluation import Evaluator
from callability.policy.deciding.not_decided import NotDecided
from callability.policy.deciding.witnesses import witnesses
from callability.policy.rules.rule_set import Rule, RuleSet
from callability.policy.rules.verdict import Verdict


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
            given = f"{answer.engine} gives {_shown(expected)}, and the decision diagram {_shown(verdict)}"
            raise NotDecided(Finding(rule.place, "engines-differ", f"{given}, for {where}"))
    return Confirmation(answer.engine, len(chosen.combinations), chosen.regions, chosen.of_regions)


def _verdict(rule: Rule, facts: Facts, rule_set: RuleSet, *, undetermined: bool) -> Verdict:
    """Return the verdict of a rule that is reached."""
    question = rule_set.question
    withheld = question.withholds(facts) if question.withholds else None
    return Verdict(question.undetermined if undetermined else rule.status, rule.id, undetermined, withheld)


def _shown(verdict: Verdict) -> str:
    how = "undetermined" if verdict.undetermined else "true"
    text = ", text withheld" if verdict.withhold_text else ""
    return f"`{verdict.status}` by `{verdict.rule}` ({how}{text})"
