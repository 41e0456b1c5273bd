"""Building the decision diagram of a rule set: rule by rule, each where every rule above it is false."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from callability.finding import Finding
from callability.policy.deciding.combination_set import MAX_NODES, CombinationSet, CombinationSets
from callability.policy.deciding.diagram import DecisionDiagram, InnerNode, UnreadNodes
from callability.policy.deciding.nodes import EMPTY, FULL, MAX_STEPS, Node, TooManyNodes
from callability.policy.deciding.not_decided import NotDecided
from callability.policy.deciding.space import Space
from callability.policy.deciding.unread_sets import UnreadSets
from callability.policy.questions.fact import Axis, DeclaredFact, LabelFact, NameFact
from callability.policy.rules.rule_set import Rule, RuleSet
from callability.policy.rules.verdict import Verdict

MAX_INNER = 50_000
"""Inner nodes that the diagram of one rule set may have, with those that find unread facts."""
FEW_NODES = 50_000
"""Nodes that each order may need, even if another needs fewer."""
MAX_LISTED = 8
"""Facts that a finding about a large diagram lists."""


def build(rule_set: RuleSet, space: Space) -> DecisionDiagram:
    """Build the decision diagram of a rule set.

    A few orders of the axes are tried, each with a share of the steps, and the first of the smallest diagrams is kept.

    Raises:
        NotDecided: it would be too large.
    """
    best: DecisionDiagram | None = None
    most = MAX_NODES
    refused: Finding | None = None
    orders = _orders(space)
    for order in orders:
        sets = CombinationSets(space, order, most=most, steps=MAX_STEPS // len(orders))
        try:
            built = _built(rule_set, sets)
        except NotDecided as error:
            refused = refused or error.finding
            continue
        # An order that needs many more than another did is not worth the time.
        most = min(most, max(FEW_NODES, len(sets.nodes)))
        best = min(filter(None, (best, built)), key=lambda each: len(each.inner))
    if best is None:
        assert refused is not None
        raise NotDecided(refused)
    return best


def _built(rule_set: RuleSet, sets: CombinationSets) -> DecisionDiagram:
    """Build a diagram in one order.

    Raises:
        NotDecided: it would be too large.
    """
    verdicts: dict[Node, Verdict] = {}
    root: Node = EMPTY
    # After each rule, as far as verdicts are given.
    roots: dict[str, Node] = {}
    unread: dict[str, dict[str, CombinationSet]] = {}
    unread_sets = UnreadSets(sets)
    rule = rule_set.rules[0]
    try:
        for verdict, where in verdicts_of(rule_set, sets):
            rule = rule_set.rule(verdict.rule)
            terminal = sets.nodes.terminal()
            verdicts[terminal] = verdict
            root = roots[rule.id] = sets.nodes.with_result(root, where.node, terminal)
            if verdict.undetermined and rule.when and rule.id not in unread:
                unread[rule.id] = unread_sets.by_fact(rule.when)
    except TooManyNodes as error:
        # Without an id, it was in adding the last verdict to the diagram.
        raise NotDecided(too_large(rule_set.rule(*error.args or (rule.id,)), sets.space)) from None
    # In an order that does not depend on the order of the rules.
    ordered = sorted(verdicts, key=lambda node: _key(verdicts[node]))
    inner, _ = _flat([root], {node: number for number, node in enumerate(ordered)}, sets)
    unread_roots = dict.fromkeys(where.node for rule_id in sorted(unread) for where in unread[rule_id].values())
    unread_nodes, numbers = _flat(unread_roots, {EMPTY: 0, FULL: 1}, sets)
    if len(inner) + len(unread_nodes) > MAX_INNER:
        raise NotDecided(too_large(rule_set.rule(_first_large(roots, sets)), sets.space))
    first = {
        rule_id: {fact: numbers[where.node] for fact, where in facts.items() if where}
        for rule_id, facts in unread.items()
    }
    return DecisionDiagram(
        sets.space, sets.order, tuple(map(verdicts.__getitem__, ordered)), inner, UnreadNodes(first, unread_nodes)
    )


def _orders(space: Space) -> list[tuple[int, ...]]:
    """Return orders of the axes: the facts of every policy, then names, then what remains, in two orders."""
    facts = space.question.facts

    def kind(axis: Axis) -> int:
        fact = facts[axis.facts[0]]
        if isinstance(fact, DeclaredFact):
            return 4
        return 1 if isinstance(fact, NameFact) else 2 if isinstance(fact, LabelFact) else 3 if fact.hint else 0

    kinds = [kind(axis) for axis in space.axes]
    orders = ((0, 1, 2, 3, 4), (0, 1, 3, 2, 4))
    return list(dict.fromkeys(tuple(sorted(range(len(kinds)), key=lambda n: order[kinds[n]])) for order in orders))


def order_of(space: Space) -> tuple[int, ...]:
    """Return an order in which the axes of a space may be tested: the first of those that are tried."""
    return _orders(space)[0]


def verdicts_of(rule_set: RuleSet, sets: CombinationSets) -> Iterator[tuple[Verdict, CombinationSet]]:
    """Yield for each verdict where a rule set gives it, rule by rule: together, every combination once.

    Raises:
        TooManyNodes: the sets would be too large; it carries the id of the rule.
    """
    withheld = withheld_in(sets)
    left = sets.all
    for rule in rule_set.rules:
        try:
            truths = sets.truths(rule.when, rule_set.question)
            reached = left & truths.possible
            left -= truths.possible
            certain = _given(rule, rule.status, reached & truths.certain, withheld)
            unknown = rule_set.question.undetermined
            given = [*certain, *_given(rule, unknown, reached - truths.certain, withheld, undetermined=True)]
        except TooManyNodes:
            raise TooManyNodes(rule.id) from None
        yield from given


def _given(
    rule: Rule, status: str, where: CombinationSet, withheld: CombinationSet | None, *, undetermined: bool = False
) -> Iterator[tuple[Verdict, CombinationSet]]:
    """Yield the verdicts of a rule in a set of combinations, separately where text is withheld."""
    parts: dict[bool | None, CombinationSet] = {None: where}
    if withheld is not None:
        parts = {False: where - withheld, True: where & withheld}
    yield from ((Verdict(status, rule.id, undetermined, text), part) for text, part in parts.items() if part)


def withheld_in(sets: CombinationSets) -> CombinationSet | None:
    """Return where text of the upstream is withheld; None if the question is not about such text.

    What decides that is on axes that are always included.
    """
    withholds, facts = sets.space.question.withholds, sets.space.question.open_facts
    if withholds is None:
        return None
    places = [place for place, axis in enumerate(sets.axes) if axis.always]

    def below(places: Sequence[int], facts: dict[str, str]) -> Node:
        if not places:
            return FULL if withholds(facts) else EMPTY
        axis = sets.axes[places[0]]
        states = (dict(zip(axis.facts, point.values, strict=True)) for point in axis.points)
        return sets.nodes.node(places[0], tuple(below(places[1:], facts | state) for state in states))

    return sets.of(below(places, facts))


def _key(verdict: Verdict) -> tuple[str, bool, bool]:
    return verdict.rule, verdict.undetermined, bool(verdict.withhold_text)


def _flat(
    roots: Iterable[Node], results: Mapping[Node, int], sets: CombinationSets
) -> tuple[tuple[InnerNode, ...], dict[Node, int]]:
    """Return the nodes below some roots as inner nodes, each after its children, and the number of each node."""
    numbers = dict(results)
    inner: list[InnerNode] = []

    def visit(node: Node) -> int:
        if node not in numbers:
            children = sets.nodes.children(node)
            found = {child: visit(child) for child in dict.fromkeys(children)}
            inner.append(InnerNode(sets.nodes.axis(node), tuple(found[child] for child in children)))
            numbers[node] = len(results) + len(inner) - 1
        return numbers[node]

    for root in roots:
        visit(root)
    return tuple(inner), numbers


def _first_large(roots: Mapping[str, Node], sets: CombinationSets) -> str:
    """Return the first rule up to which there are too many inner nodes; the last if those of unread facts are."""
    each = list(roots.items())

    def large(number: int) -> bool:
        return len(sets.nodes.below(each[number][1])) > MAX_INNER

    found = bisect_left(range(len(each)), True, key=large)
    return each[min(found, len(each) - 1)][0]


def too_large(rule: Rule, space: Space) -> Finding:
    """Return the finding that the rules up to one need too much to be decided, or to be proved."""
    wide = [axis for axis in space.axes if not rule.when or not set(axis.facts).isdisjoint(rule.reads)]
    sentence = f"the decision diagram of the rules up to `{rule.id}` is too large"
    limit = (
        f"it would need more than {MAX_NODES:,} nodes or {MAX_STEPS:,} steps while it is built,"
        f" or {MAX_INNER:,} inner nodes in the end"
    )
    hint = "let fewer rules read them together, or replace some of them by one label with a value for each case"
    return Finding(
        rule.place, "diagram-too-large", sentence, f"{limit}; these facts multiply: {sizes_of(wide)}; {hint}"
    )


def sizes_of(axes: Iterable[Axis]) -> str:
    """Return the facts of some axes with their numbers of points, the most points first."""
    wide = sorted(axes, key=lambda axis: -len(axis.points))
    sizes = ", ".join(f"`{'`, `'.join(axis.facts)}` {len(axis.points)}" for axis in wide[:MAX_LISTED])
    return sizes + (f" and {len(wide) - MAX_LISTED} more" if len(wide) > MAX_LISTED else "")
