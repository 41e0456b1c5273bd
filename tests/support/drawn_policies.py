"""Rule sets as hypothesis draws them, for laws that hold of every policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from random import Random
from typing import cast

from hypothesis import strategies as st

from callability.compiler.bundle_writing import compile_rule_set
from callability.compiler.combination_sets import Space, space_of
from callability.compiler.confirmation import Engine, Evaluation, evaluator
from callability.compiler.diagram import DecisionDiagram, build
from callability.compiler.forms import Form, with_names
from callability.compiler.policy import ProvedRuleSet
from callability.compiler.question import BOOLEAN, DeclaredFact, LabelFact, NameFact
from callability.compiler.questions import CALLABILITY
from callability.compiler.rule_set import Law, Rule, RuleSet
from callability.contract.finding import Place
from callability.contract.vocabulary import LiftedBy
from callability.kernel.conditions import AllOf, AnyOf, Condition, Is, Not
from callability.kernel.rule_set import RuleSet as CompiledRuleSet

NOWHERE = Place("drawn.yaml")

CORE = tuple(fact for fact in CALLABILITY.facts.values() if not fact.hint and not isinstance(fact, NameFact))
"""The facts that the shipped policy reads: with all others beside them, combinations would be too many to look at."""
CORE_SPACE = Space(
    CALLABILITY, tuple(axis for axis in CALLABILITY.axes if set(axis.facts) & {fact.name for fact in CORE})
)

LABELS = tuple(
    LabelFact(f"{kind}.label.{key}", ("none", *values), "none")
    for kind, key, *values in (
        ("server", "stage", "trial", "live"),
        ("tool", "reviewed", "yes"),
        ("agent", "team", "ops"),
    )
)
DECLARED = (
    DeclaredFact(
        "proxy.quota", ("ok", "low", "out"), "ok", LiftedBy.OPERATOR, "raise_quota", of="server", phrase="raise it"
    ),
    DeclaredFact(
        "proxy.license",
        BOOLEAN,
        "false",
        LiftedBy.USER,
        "accept_license",
        asserted=True,
        of="tool",
        phrase="accept the license",
    ),
    DeclaredFact("proxy.shift", ("day", "night"), "day", of="agent"),
)
"""One that is asserted, and one that nobody can change."""
LABELLED = CALLABILITY.having((*LABELS, *DECLARED))
SMALL = 12_000
"""Combinations that each can be looked at."""
_PATTERNS = st.text("ar*?", min_size=1, max_size=3)

_is = st.sampled_from(CORE).flatmap(
    lambda fact: st.builds(Is, st.just(fact.name), st.frozensets(st.sampled_from(fact.values), min_size=1))
)


def _joined(parts: st.SearchStrategy[Is]) -> st.SearchStrategy[Condition]:
    return st.recursive(
        parts,
        lambda inner: st.one_of(
            st.builds(Not, inner),
            st.builds(AllOf, st.lists(inner, min_size=1, max_size=3).map(tuple)),
            st.builds(AnyOf, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        ),
        max_leaves=6,
    )


def _is_any(fact: str) -> st.SearchStrategy[Is]:
    each = _PATTERNS if isinstance(LABELLED.facts[fact], NameFact) else st.sampled_from(LABELLED.facts[fact].values)
    return st.builds(Is, st.just(fact), st.frozensets(each, min_size=1, max_size=3), st.just(NOWHERE))


conditions = _joined(_is)
_any_conditions = tuple(
    _joined(st.sampled_from(facts).flatmap(_is_any))
    for facts in (
        ("tool.name", "server.label.stage", "annotations.destructive", "annotations.idempotent"),
        ("server.enabled", "agent.name", "tool.label.reviewed"),
        ("server.enabled", "agent.label.team", "proxy.quota", "proxy.license", "proxy.shift"),
        ("approval.status", "server.quarantined", "server.label.stage", "tool.label.reviewed", "annotations.read_only"),
    )
)
laws = st.builds(
    Law,
    name=st.just("drawn"),
    when=st.none() | conditions,
    statuses=st.lists(st.sampled_from(CALLABILITY.statuses), min_size=1, max_size=3, unique=True).map(tuple),
    place=st.just(NOWHERE),
    always=st.booleans(),
)


def rule_set_of(drawn: Sequence[tuple[Condition, str]]) -> RuleSet:
    """Return a rule set of conditions and statuses, and of a last rule that makes callable."""
    rules = [Rule(f"r{number}", when, status, NOWHERE) for number, (when, status) in enumerate(drawn)]
    return RuleSet(CALLABILITY, (*rules, Rule("last", None, "callable", NOWHERE)), {})


def rule_sets(*, most: int = 12) -> st.SearchStrategy[RuleSet]:
    """Return rule sets of at most so many rules, beside the last."""
    rules = st.lists(st.tuples(conditions, st.sampled_from(CALLABILITY.statuses)), max_size=most)
    return rules.map(rule_set_of)


def _named(rules: Sequence[Rule]) -> RuleSet | None:
    """Return a rule set that may read names, labels and declared facts.

    None if its patterns distinguish the name `unknown`.
    """
    form = Form()
    question = with_names(LABELLED, rules, form)
    return None if form.findings else RuleSet(question, tuple(rules), {})


def any_rule_sets(*, most: int = 5) -> st.SearchStrategy[RuleSet]:
    """Return rule sets that read names by patterns, labels, annotations and declared facts.

    They have at most `SMALL` combinations.
    """
    rules = st.sampled_from(_any_conditions).flatmap(
        lambda drawn: st.lists(st.tuples(drawn, st.sampled_from(CALLABILITY.statuses)), min_size=1, max_size=most)
    )
    named = rules.map(lambda drawn: _named(rule_set_of(drawn).rules))
    return named.filter(bool).map(lambda each: cast(RuleSet, each)).filter(lambda each: space_of(each).size <= SMALL)


def diagram_of(drawn: RuleSet) -> DecisionDiagram:
    """Return the decision diagram of a rule set."""
    return build(drawn, space_of(drawn))


def compiled_of(drawn: RuleSet) -> CompiledRuleSet:
    """Return a rule set as a bundle of it is read."""
    return compile_rule_set(ProvedRuleSet(drawn, diagram_of(drawn), 0))


def evaluated(drawn: RuleSet, space: Space, *, by: Engine = Engine.REFERENCE, seconds: float = 60) -> Evaluation:
    """Return the decision of each combination of a space by an engine."""
    each = tuple(dict.fromkeys(space.combinations()))
    return evaluator(drawn, space, NOWHERE.file, by=by, seconds=seconds).decide(each)


def drawn_facts(space: Space, count: int) -> Iterator[dict[str, str]]:
    """Yield combinations of a space of any size, always the same, as all facts by name."""
    chance = Random(count)
    for _ in range(count):
        states = (chance.choice(axis.points).values for axis in space.axes)
        yield space.named(tuple(chain.from_iterable(states)))
