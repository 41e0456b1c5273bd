"""Confirming a decision diagram: what decides rules independently of it decides witnesses of it, and has to agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from callability.finding import Finding
from callability.policy.deciding.diagram import DecisionDiagram
from callability.policy.deciding.evaluation import Evaluation
from callability.policy.deciding.not_decided import NotDecided
from callability.policy.deciding.space import Combination, Space
from callability.policy.deciding.witnesses import witnesses
from callability.policy.rules.rule_set import RuleSet

Evaluate = Callable[[RuleSet, Space, tuple[Combination, ...]], Evaluation]
"""Decides some combinations of a space by the rules of a file."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What decided how many witnesses of a diagram, and how many of its regions these are in."""

    engine: str
    witnesses: int
    regions: int
    of_regions: int


def confirm(rule_set: RuleSet, diagram: DecisionDiagram, evaluate: Evaluate) -> Confirmation:
    """Decide witnesses of every region of a diagram, as far as these are not too many.

    Raises:
        NotDecided: the witnesses could not be decided, or one is decided otherwise than by the diagram.
    """
    chosen = witnesses(diagram)
    space = diagram.space
    answer = evaluate(rule_set, space, chosen.combinations)
    for combination, decision in answer.decisions.items():
        verdict = diagram.verdict(dict(zip(space.facts, combination, strict=True)))
        rule = rule_set.rules[decision.rule]
        if (rule.id, decision.undetermined) != (verdict.rule, verdict.undetermined):
            facts = ", ".join(f"{fact} {value}" for fact, value in zip(space.facts, combination, strict=True))
            how = "undetermined" if decision.undetermined else "true"
            otherwise = f"`{verdict.rule}`, {'undetermined' if verdict.undetermined else 'true'}"
            sentence = f"{answer.engine} reaches `{rule.id}`, {how}, and the decision diagram {otherwise}, for {facts}"
            raise NotDecided(Finding(rule.place, "engines-differ", sentence))
    return Confirmation(answer.engine, len(chosen.combinations), chosen.regions, chosen.of_regions)
