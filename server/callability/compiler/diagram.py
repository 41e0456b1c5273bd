"""The decision diagram: the verdict for every combination of facts, found by testing few of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, reduce
from itertools import chain, combinations, product
from operator import or_
from typing import Any, TypeVar

from callability.compiler.combination_sets import MAX_NODES, Combination, CombinationSet, CombinationSets, Space
from callability.compiler.nodes import EMPTY, FULL, MAX_STEPS, Node, TooManyNodes
from callability.compiler.question import Axis, DeclaredFact, Fact, LabelFact, NameFact
from callability.compiler.rule_set import Rule, RuleSet, Verdict
from callability.contract.finding import Finding
from callability.contract.vocabulary import UNKNOWN
from callability.kernel.conditions import Condition, facts_read

Result = TypeVar("Result", Verdict, bool)


@dataclass(frozen=True, slots=True)
class InnerNode:
    """A node that tests an axis: the place of that axis, and for each of its points a number.

    A number below the number of results is a result. Any other is an inner node, counted from there.
    """

    place: int
    children: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class UnreadNodes:
    """Where facts keep rules undetermined: for each rule and fact, the number of an inner node or of a result.

    The results are 0, the fact does not matter, and 1, it is unread. `inner` are in an order as in a diagram.
    """

    first: Mapping[str, Mapping[str, int]]
    inner: tuple[InnerNode, ...]


@dataclass(frozen=True)
class DecisionDiagram:
    """All verdicts of a rule set. It is never changed.

    The axes are tested in `order`, numbers of the axes of the space. `inner` are the inner nodes, each after its
    children; the last is the first to be made. No two are equal, and none has children that are all the same. So two
    rule sets with the same verdicts have equal diagrams if their axes are tested in the same order. The facts that keep
    a verdict undetermined are in nodes of their own: for a rule that reads n facts there may be 2**n sets of them.
    """

    space: Space
    order: tuple[int, ...]
    verdicts: tuple[Verdict, ...]
    inner: tuple[InnerNode, ...]
    unread_nodes: UnreadNodes

    @cached_property
    def verdict(self) -> Callable[[Mapping[str, str]], Verdict]:
        """What returns the verdict of a combination of facts, by name; facts that do not matter are not looked at.

        Of a fact that is a name or a label, what was read is given: its class is found here. It raises `KeyError` if a
        fact that matters is missing, or if what was looked at of the facts cannot occur together.
        """
        return _walk(_branches(self, self.inner, self.verdicts)[self.root])

    def unread(self, verdict: Verdict, facts: Mapping[str, str]) -> tuple[str, ...]:
        """Return the unknown facts that keep a verdict undetermined, in the order of the facts; none if it is not.

        Raises:
            KeyError: a fact that matters is missing.
        """
        if not verdict.undetermined:
            return ()
        return tuple(fact for fact, is_unread in self._unread[verdict.rule] if is_unread(facts))

    @cached_property
    def _unread(self) -> Mapping[str, tuple[tuple[str, Callable[[Mapping[str, str]], bool]], ...]]:
        found = _branches(self, self.unread_nodes.inner, (False, True))
        return {
            rule: tuple((fact, _walk(found[number])) for fact, number in facts.items())
            for rule, facts in self.unread_nodes.first.items()
        }

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """The axes in the order in which they are tested."""
        return tuple(self.space.axes[number] for number in self.order)

    @property
    def root(self) -> int:
        """The number of the first inner node, or of the only verdict."""
        return len(self.verdicts) + len(self.inner) - 1 if self.inner else 0

    def node(self, number: int) -> InnerNode | None:
        """Return the inner node with a number; None if it is a verdict."""
        return self.inner[number - len(self.verdicts)] if number >= len(self.verdicts) else None

    def branches(self, node: InnerNode) -> dict[int, tuple[int, ...]]:
        """Return the different children of a node, each with the points of the axis that lead to it."""
        found: dict[int, list[int]] = {}
        for point, child in enumerate(node.children):
            found.setdefault(child, []).append(point)
        return {child: tuple(points) for child, points in found.items()}

    @cached_property
    def regions(self) -> int:
        """How many regions there are: paths from the root to a verdict, by inner nodes and their different children."""
        count = [1] * len(self.verdicts)
        for node in self.inner:
            count.append(sum(count[child] for child in dict.fromkeys(node.children)))
        return count[self.root]

    @cached_property
    def first(self) -> Any:
        """The first node, as explanations go through the diagram."""
        found: list[_AtPoint | Verdict] = list(self.verdicts)
        for node in self.inner:
            found.append((node.place, tuple([found[child] for child in node.children])))
        return found[self.root]

    @cached_property
    def verdict_at(self) -> Callable[[Sequence[int]], Verdict]:
        """What returns the verdict of a combination, given by the points of its axes in the order of the tests."""
        first = self.first

        def result(points: Sequence[int]) -> Verdict:
            node: Any = first
            while type(node) is tuple:
                place, children = node
                node = children[points[place]]
            verdict: Verdict = node
            return verdict

        return result

    def sets(self) -> tuple[CombinationSets, dict[Verdict, CombinationSet]]:
        """Return for each verdict where it is given, as sets of the diagram's space and order.

        Raises:
            TooManyNodes: the sets would be too large.
        """
        sets = CombinationSets(self.space, self.order)
        found: list[dict[int, Node]] = [{number: FULL} for number in range(len(self.verdicts))]
        last = {child: number for number, node in enumerate(self.inner) for child in node.children}
        for number, node in enumerate(self.inner):
            below = [found[child] for child in node.children]
            given = dict.fromkeys(chain.from_iterable(below))
            found.append(
                {
                    result: sets.nodes.node(node.place, tuple([each.get(result, EMPTY) for each in below]))
                    for result in given
                }
            )
            for child in node.children:
                if last[child] == number:
                    # No later node needs it.
                    found[child] = {}
        where = found[self.root]
        return sets, {verdict: sets.of(where[n]) for n, verdict in enumerate(self.verdicts) if n in where}

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: the fields, without what is computed from them."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __iter__(self) -> Iterator[tuple[Combination, Verdict]]:
        """Iterate over all combinations with their verdicts: for spaces that are small enough."""
        for combination in self.space.combinations():
            yield combination, self.verdict(dict(zip(self.space.facts, combination, strict=True)))


_AtPoint = tuple[int, tuple[Any, ...]]
"""The place of an axis, and for each of its points what it leads to."""
_Branch = tuple[str, Mapping[str, Any], Fact]
"""A fact, for each of its readings a branch or a result, and how other values of it are read."""


def _walk(first: _Branch | Result) -> Callable[[Mapping[str, str]], Result]:
    """Return the walk from a branch to a result, by the facts that it meets."""

    def result(facts: Mapping[str, str]) -> Result:
        node: Any = first
        while type(node) is tuple:
            name, children, fact = node
            try:
                node = children[facts[name]]
            except KeyError:
                node = children[fact.reading(facts[name])]
        found: Result = node
        return found

    return result


def _branches(
    diagram: DecisionDiagram, nodes: Iterable[InnerNode], results: Iterable[Result]
) -> list[_Branch | Result]:
    """Return what each number of a result or an inner node stands for."""
    found: list[_Branch | Result] = list(results)
    for node in nodes:
        axis = diagram.axes[node.place]
        states = dict(zip((point.values for point in axis.points), node.children, strict=True))
        facts = [diagram.space.question.facts[name] for name in axis.facts]
        found.append(_tests_of_facts(facts, states, found))
    return found


def _tests_of_facts(
    facts: Sequence[Fact], states: Mapping[tuple[str, ...], int], found: Sequence[_Branch | Result]
) -> _Branch | Result:
    """Return tests of one fact after the other that together test an axis; a fact that does not matter is left out."""
    if len(set(states.values())) == 1:
        return found[next(iter(states.values()))]
    fact, *others = facts
    children: dict[str, _Branch | Result] = {}
    for value in dict.fromkeys(state[0] for state in states):
        rest = {state[1:]: number for state, number in states.items() if state[0] == value}
        children[value] = _tests_of_facts(others, rest, found)
    return fact.name, children, fact


class UnreadSets:
    """Finds, for conditions, where a fact is unread.

    A *completion* gives every unknown fact a known value, so that the facts of each axis are at one of its points. Take
    two completions under which the condition has different truths, and the facts that it reads in which they differ. A
    fact is unread if it belongs to such a set of facts that contains no smaller one. Facts that vary by themselves make
    sets of one: such a fact is unread if another value of it alone can change the truth.

    Kleene's logic does not see that `any: [{a: true}, {a: false}]` holds whatever `a` is. For such a condition every
    unknown fact that it reads is unread, so that none is only where the condition is decided (spec A.1).
    """

    def __init__(self, sets: CombinationSets) -> None:
        self._sets = sets
        self._nodes = sets.nodes
        self._known = [[n for n, point in enumerate(axis.points) if UNKNOWN not in point.values] for axis in sets.axes]
        self._completing = [
            [_completions(axis, point.values, known) for point in axis.points]
            for axis, known in zip(sets.axes, self._known, strict=True)
        ]
        self._completed_by = [
            [frozenset(n for n, points in enumerate(each) if point in points) for point in range(len(each))]
            for each in self._completing
        ]
        self._completed: dict[Node, Node] = {}

    def by_fact(self, condition: Condition) -> dict[str, CombinationSet]:
        """Return, for each fact that a condition reads, in the order of the facts, where it is unread."""
        sets = self._sets
        truths = sets.truths(condition)
        undetermined = truths.possible - truths.certain
        if not undetermined:
            return {}
        read = frozenset(facts_read(condition))
        found = dict.fromkeys((fact for fact in sets.space.question.facts if fact in read), sets.none)
        for place, axis in enumerate(sets.axes):
            mine = read.intersection(axis.facts)
            if mine:
                for facts, where in self._changed_by(truths.certain.node, place, mine):
                    for fact in facts:
                        found[fact] |= where & undetermined
        left = undetermined
        for where in found.values():
            left -= where
        return {fact: where | (left & sets.where(fact, (UNKNOWN,))) for fact, where in found.items()}

    def _changed_by(
        self, true: Node, place: int, read: frozenset[str]
    ) -> Iterator[tuple[frozenset[str], CombinationSet]]:
        """Yield sets of facts of an axis, each with where their values, and no fewer, can change the truth."""
        axis = self._sets.axes[place]
        if len(axis.facts) == 1:
            known = self._known[place]
            differs = self._nodes.difference(
                self._nodes.somewhere(true, place, known), self._nodes.everywhere(true, place, known)
            )
            yield read, self._sets.of(self._complete(differs)) & self._sets.where(axis.facts[0], (UNKNOWN,))
            return
        changed = self._changed_together(true, place, read)
        for facts, where in changed.items():
            by_fewer = (already for fewer, already in changed.items() if fewer < facts)
            yield facts, where - reduce(or_, by_fewer, self._sets.none)

    def _changed_together(self, true: Node, place: int, read: frozenset[str]) -> dict[frozenset[str], CombinationSet]:
        """Return sets of facts of an axis, each with where their values can change the truth."""
        axis = self._sets.axes[place]
        # A few sets for many points: of two points with the same, the facts in which they differ do not matter.
        alike: dict[Node, list[int]] = {}
        for point in self._known[place]:
            alike.setdefault(self._nodes.at(true, place, point), []).append(point)
        found: dict[frozenset[str], CombinationSet] = {}
        for (left, ones), (right, others) in combinations(alike.items(), 2):
            differs = self._nodes.union(self._nodes.difference(left, right), self._nodes.difference(right, left))
            where = self._complete(differs)
            for facts, here in self._differing(axis, place, read, ones, others).items():
                changed = self._sets.of(self._nodes.restrict(where, place, here))
                found[facts] = found.get(facts, self._sets.none) | changed
        return found

    def _differing(
        self, axis: Axis, place: int, read: frozenset[str], ones: Iterable[int], others: Iterable[int]
    ) -> dict[frozenset[str], set[int]]:
        """Return sets of facts in which two points differ, each with the points that both of the two complete."""
        read_at = [number for number, fact in enumerate(axis.facts) if fact in read]
        found: dict[frozenset[str], set[int]] = {}
        for one, other in product(ones, others):
            left, right = axis.points[one].values, axis.points[other].values
            facts = frozenset(axis.facts[number] for number in read_at if left[number] != right[number])
            if facts:
                found.setdefault(facts, set()).update(self._completed_by[place][one] & self._completed_by[place][other])
        return found

    def _complete(self, node: Node) -> Node:
        """Return the combinations, known or not, of which some completion is in a set of known ones."""
        if not self._nodes.children(node):
            return node
        found = self._completed.get(node)
        if found is None:
            place = self._nodes.axis(node)
            children = self._nodes.children(node)
            known = dict.fromkeys([children[point] for point in self._known[place]])
            complete = {child: self._complete(child) for child in known}
            each = [
                complete[children[points[0]]] if len(points) == 1 else self._join(children, points, complete)
                for points in self._completing[place]
            ]
            found = self._completed[node] = self._nodes.node(place, tuple(each))
        return found

    def _join(self, children: tuple[Node, ...], points: list[int], complete: Mapping[Node, Node]) -> Node:
        """Return what any of some points of an axis leads to, completed."""
        joined = EMPTY
        for child in dict.fromkeys([complete[children[point]] for point in points]):
            joined = self._nodes.union(joined, child)
        return joined


def _completions(axis: Axis, state: tuple[str, ...], known: list[int]) -> list[int]:
    """Return which of the known points of an axis its facts may be at, given those that are known."""
    if UNKNOWN not in state:
        return [point for point in known if axis.points[point].values == state]
    return [
        point
        for point in known
        if all(value in {UNKNOWN, other} for value, other in zip(state, axis.points[point].values, strict=True))
    ]


class NotDecided(Exception):
    """A rule set could not be decided. It carries the finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


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
            built = _build(rule_set, sets)
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


def _build(rule_set: RuleSet, sets: CombinationSets) -> DecisionDiagram:
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
            certain = _verdicts_of(rule, rule.status, reached & truths.certain, withheld)
            unknown = rule_set.question.undetermined
            given = [*certain, *_verdicts_of(rule, unknown, reached - truths.certain, withheld, undetermined=True)]
        except TooManyNodes:
            raise TooManyNodes(rule.id) from None
        yield from given


def _verdicts_of(
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
