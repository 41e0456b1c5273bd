"""The decision diagram: it decides as the reference does, has one form for each meaning, and its witnesses cover it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.large_policies import write_large
from callability.compiler.combination_sets import CombinationSets, space_of
from callability.compiler.confirmation import Confirmation, Engine, confirm, evaluator, witnesses
from callability.compiler.diagram import DecisionDiagram, NotDecided, build
from callability.compiler.questions import CALLABILITY
from callability.compiler.rule_file import read_rule_set
from callability.compiler.rule_set import Rule, RuleSet, Verdict
from callability.files import document
from callability.kernel.conditions import AllOf, AnyOf, Condition, Facts, Is, Not, decide
from support.drawing import drawing, share
from support.drawn_policies import any_rule_sets, conditions, diagram_of, drawn_facts, rule_set_of, rule_sets

LARGE = ("wanted", "merged", "names", "agents-and-labels")


@cache
def large(shape: str, seed: int = 1) -> tuple[RuleSet, DecisionDiagram]:
    """Return a large rule set with its diagram."""
    with TemporaryDirectory() as name:
        path = write_large(shape, Path(name), seed=seed) / "callability.yaml"
        rule_set, findings = read_rule_set(document.parse(path.read_bytes(), path.name), CALLABILITY)
    assert rule_set, findings
    return rule_set, diagram_of(rule_set)


def _check_decision(rule_set: RuleSet, diagram: DecisionDiagram, facts: Facts) -> None:
    """See that the diagram gives what the first rule that is not false gives, by names of facts and by points."""
    verdict, decision = diagram.verdict(facts), decide(rule_set.conditions, facts)
    rule, question = rule_set.rules[decision.rule], rule_set.question
    status = question.undetermined if decision.undetermined else rule.status
    withheld = question.withholds(facts) if question.withholds else None
    assert verdict == Verdict(status, rule.id, decision.undetermined, withheld)
    assert diagram.verdict_at(_points(diagram, facts)) is verdict


def _points(diagram: DecisionDiagram, facts: Facts) -> tuple[int, ...]:
    return CombinationSets(diagram.space, diagram.order).points_of(facts)


@drawing(40)
@given(drawn=any_rule_sets())
def test_a_diagram_decides_every_combination_as_the_reference_does(drawn: RuleSet) -> None:
    """Names by patterns, labels, annotations that depend on one another, `not`; each of the facts unknown too."""
    diagram = diagram_of(drawn)
    for facts in _all_facts(diagram):
        _check_decision(drawn, diagram, facts)


@pytest.mark.parametrize("shape", LARGE)
def test_a_large_diagram_decides_as_the_reference_does(shape: str) -> None:
    """10,000 combinations that are drawn from all, and the witnesses of the diagram; in the quick profile, a tenth."""
    rule_set, diagram = large(shape)
    drawn = drawn_facts(diagram.space, share(10_000))
    every = witnesses(diagram).combinations
    chosen = Random(shape).sample(every, min(len(every), share(len(every))))
    for facts in (*drawn, *map(diagram.space.named, chosen)):
        _check_decision(rule_set, diagram, facts)


@drawing(60)
@given(drawn=any_rule_sets())
def test_together_the_verdicts_are_given_in_every_combination_once(drawn: RuleSet) -> None:
    """The sizes of their sets add up to the space, and no two of them share a combination."""
    diagram = diagram_of(drawn)
    sets, found = diagram.sets()
    assert sum(where.size for where in found.values()) == diagram.space.size
    left = sets.all
    for where in found.values():
        assert where
        assert not where - left
        left -= where


@pytest.mark.parametrize("shape", LARGE)
def test_the_counts_of_a_large_diagram_add_up_to_its_space(shape: str) -> None:
    """They are exact, however large."""
    _, diagram = large(shape)
    _, found = diagram.sets()
    assert sum(where.size for where in found.values()) == diagram.space.size


@drawing(60)
@given(drawn=any_rule_sets())
def test_a_diagram_has_no_node_that_is_needless_or_there_twice(drawn: RuleSet) -> None:
    """The canonical form: a node has different children, stands after them, and tests an earlier axis than they do."""
    diagram = diagram_of(drawn)
    for nodes, results in ((diagram.inner, len(diagram.verdicts)), (diagram.unread_nodes.inner, 2)):
        assert len(set(nodes)) == len(nodes)
        for number, node in enumerate(nodes, results):
            assert len(set(node.children)) > 1
            assert max(node.children) < number
            assert all(nodes[child - results].place > node.place for child in node.children if child >= results)


_CHANGED = st.sampled_from(["as it is", "doubly negated", "by De Morgan", "a list split", "parts turned", "repeated"])


@st.composite
def _rewritten(draw: st.DrawFn, condition: Condition) -> Condition:
    """Write a condition in other words, with the same truth for all facts."""
    match condition:
        case Is(fact=fact, values=values, place=place):
            written: Condition = condition
        case Not(part=part):
            written = Not(draw(_rewritten(part)))
        case AllOf(parts=parts) | AnyOf(parts=parts):
            written = type(condition)(tuple(draw(_rewritten(part)) for part in parts))
    match draw(_CHANGED), written:
        case "doubly negated", _:
            return Not(Not(written))
        case "by De Morgan", AllOf(parts=parts) | AnyOf(parts=parts):
            return Not((AnyOf if isinstance(written, AllOf) else AllOf)(tuple(map(Not, parts))))
        case "a list split", Is(fact=fact, values=values, place=place):
            return AnyOf(tuple(Is(fact, frozenset({value}), place) for value in sorted(values)))
        case "parts turned", AllOf(parts=parts) | AnyOf(parts=parts):
            return type(written)(parts[::-1])
        case "repeated", _:
            both = (written, written)
            return AllOf(both) if draw(st.booleans()) else AnyOf(both)
        case _:
            return written


def _apart(one: Rule, other: Rule, sets: CombinationSets) -> bool:
    return not sets.truths(one.when).possible & sets.truths(other.when).possible


def _reordered(rules: tuple[Rule, ...], sets: CombinationSets) -> tuple[Rule, ...]:
    """Put each rule above those above it, as far as none of these can be true where it can."""
    found: list[Rule] = []
    for rule in rules:
        place = len(found)
        while place and _apart(found[place - 1], rule, sets):
            place -= 1
        found.insert(place, rule)
    return tuple(found)


@drawing(150)
@given(data=st.data(), drawn=st.one_of(any_rule_sets(), rule_sets(most=6)))
def test_policies_of_the_same_meaning_have_equal_diagrams(data: st.DataObject, drawn: RuleSet) -> None:
    """However they are written: the same tests, verdicts and unread facts, in the same order."""
    space = space_of(drawn)
    rules = tuple(replace(rule, when=rule.when and data.draw(_rewritten(rule.when))) for rule in drawn.rules)
    turned = _reordered(rules, CombinationSets(space))
    assert build(replace(drawn, rules=turned), space) == build(drawn, space)


@drawing(60)
@given(one=conditions, other=conditions)
def test_policies_of_different_meanings_have_different_diagrams(one: Condition, other: Condition) -> None:
    """So that equal diagrams prove equal policies."""
    first, second = (rule_set_of([(each, "disabled_unknown")]) for each in (one, other))
    space = space_of(replace(first, rules=(*first.rules[:1], *second.rules)))
    diagrams = [build(each, space) for each in (first, second)]
    same = all(
        diagrams[0].verdict(facts) == diagrams[1].verdict(facts) for facts in map(space.named, space.combinations())
    )
    assert ((diagrams[0].verdicts, diagrams[0].inner) == (diagrams[1].verdicts, diagrams[1].inner)) is same


def _walked(diagram: DecisionDiagram, points: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Yield the edges that a combination takes."""
    number = diagram.root
    while node := diagram.node(number):
        child = node.children[points[node.place]]
        yield number, child
        number = child


def _check_cover(diagram: DecisionDiagram) -> None:
    """See that the witnesses are different, and that each region, edge and point has one."""
    chosen = witnesses(diagram)
    points = [_points(diagram, diagram.space.named(each)) for each in chosen.combinations]
    assert len(set(points)) == len(points)
    paths = {tuple(_walked(diagram, each)) for each in points}
    assert len(paths) == chosen.regions
    assert chosen.of_regions == diagram.regions
    reachable = {(n, child) for n in range(len(diagram.verdicts), diagram.root + 1) for child in _children(diagram, n)}
    assert {edge for path in paths for edge in path} == reachable
    for place, axis in enumerate(diagram.axes):
        seen = {axis.points[each[place]].values for each in points}
        assert seen == {point.values for point in axis.points}


def _children(diagram: DecisionDiagram, number: int) -> tuple[int, ...]:
    node = diagram.node(number)
    return node.children if node else ()


@drawing(60)
@given(drawn=any_rule_sets())
def test_each_region_edge_and_point_of_a_diagram_has_a_witness(drawn: RuleSet) -> None:
    """And the witnesses are always the same."""
    diagram = diagram_of(drawn)
    _check_cover(diagram)
    assert witnesses(diagram).regions == diagram.regions
    assert witnesses(diagram) == witnesses(diagram_of(drawn))


@pytest.mark.parametrize("shape", LARGE)
def test_each_region_of_a_large_diagram_has_a_witness(shape: str) -> None:
    """There are fewer regions than may be decided, however many combinations there are."""
    _, diagram = large(shape)
    _check_cover(diagram)
    assert witnesses(diagram).regions == diagram.regions


def test_where_there_are_too_many_regions_each_edge_has_a_witness(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the count says how many of the regions have one."""
    monkeypatch.setattr("callability.compiler.confirmation.MAX_WITNESSES", 900)
    _, diagram = large("agents-and-labels")
    _check_cover(diagram)
    chosen = witnesses(diagram)
    assert chosen.regions < chosen.of_regions == diagram.regions


def test_where_witnesses_take_long_there_are_fewer() -> None:
    """Down to one a region, and then to some regions."""
    _, diagram = large("wanted")
    counts = [len(witnesses(diagram, effort).combinations) for effort in (1, 100, 10_000)]
    assert counts == sorted(counts, reverse=True)
    assert diagram.regions <= counts[1] < counts[0]
    assert counts[2] < diagram.regions
    assert witnesses(diagram, 10_000).regions < diagram.regions


@drawing(40)
@given(drawn=any_rule_sets())
def test_a_diagram_that_was_sent_to_another_process_decides_the_same(drawn: RuleSet) -> None:
    """It is pickled where a policy is checked, and answers where it is served."""
    diagram = diagram_of(drawn)
    diagram.verdict(drawn.question.complete({}))
    sent = pickle.loads(pickle.dumps(diagram))
    assert sent == diagram
    for facts in drawn_facts(diagram.space, 300):
        verdict = diagram.verdict(facts)
        assert sent.verdict(facts) == verdict
        assert sent.unread(verdict, facts) == diagram.unread(verdict, facts)


def _confirm(rule_set: RuleSet, diagram: DecisionDiagram) -> Confirmation:
    return confirm(diagram, evaluator(rule_set, diagram.space, "drawn.yaml", by=Engine.REFERENCE))


def _exchanged(diagram: DecisionDiagram, number: int) -> DecisionDiagram:
    """Return the diagram with one of its verdicts in the place of the next."""
    verdicts = [*diagram.verdicts]
    verdicts[number] = verdicts[number - 1]
    return replace(diagram, verdicts=tuple(verdicts))


@drawing(40)
@given(drawn=any_rule_sets(), data=st.data())
def test_a_diagram_with_one_wrong_verdict_is_not_confirmed(drawn: RuleSet, data: st.DataObject) -> None:
    """Wherever in the diagram it is: there is a witness."""
    diagram = diagram_of(drawn)
    number = data.draw(st.integers(0, len(diagram.verdicts) - 1))
    wrong, right = (diagram.verdicts[each] for each in (number - 1, number))
    if wrong == right:
        return
    with pytest.raises(NotDecided, match=f"by `{right.rule}` .* the decision diagram .* by `{wrong.rule}` ") as caught:
        _confirm(drawn, _exchanged(diagram, number))
    assert caught.value.finding.code == "engines-differ"
    assert _confirm(drawn, diagram).regions == diagram.regions


@drawing(60)
@given(drawn=any_rule_sets(), data=st.data())
def test_a_diagram_with_two_exchanged_edges_is_not_confirmed(drawn: RuleSet, data: st.DataObject) -> None:
    """An inner node gives two verdicts at each other's points."""
    diagram = diagram_of(drawn)
    results = [sorted({child for child in node.children if child < len(diagram.verdicts)}) for node in diagram.inner]
    several = [number for number, found in enumerate(results) if len(found) > 1]
    if not several:
        return
    at = data.draw(st.sampled_from(several))
    one, other = data.draw(st.permutations(results[at]))[:2]
    children = tuple({one: other, other: one}.get(child, child) for child in diagram.inner[at].children)
    inner = (*diagram.inner[:at], replace(diagram.inner[at], children=children), *diagram.inner[at + 1 :])
    with pytest.raises(NotDecided, match="the decision diagram"):
        _confirm(drawn, replace(diagram, inner=inner))


def _all_facts(diagram: DecisionDiagram) -> Iterator[Facts]:
    return map(diagram.space.named, diagram.space.combinations())
