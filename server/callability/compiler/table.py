"""The decision table for people, and the diagram as a graph: few rows, tried in order, that read like the rules."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callability.compiler.diagram import DecisionDiagram, InnerNode
from callability.compiler.difference import Box, PolicyChange, boxes, combinations_in, needed_boxes
from callability.compiler.proof import Decided
from callability.compiler.question import Axis, NameFact, Question
from callability.compiler.rule_set import RuleSet, Verdict
from callability.contract.vocabulary import LiftedBy, Retry
from callability.kernel.path import FactChange, Path, Trial


@dataclass(frozen=True, slots=True)
class Row:
    """Where the facts have these values, and no row above holds, this is the answer.

    A fact that is not named may have any value. `combinations` is how many this row decides: those in which no row
    above holds, so that the rows of a table add up to its space. `box` has the readings of each fact of the space.
    """

    facts: Mapping[str, tuple[str, ...]]
    status: str
    rule: str
    undetermined: bool
    combinations: int
    box: Box

    def holds(self, facts: Mapping[str, str]) -> bool:
        """Say whether the facts of a combination, as the rules read them, have these values."""
        return all(facts[fact] in readings for fact, readings in self.box.items())


def rows_of(rule_set: RuleSet, diagram: DecisionDiagram) -> tuple[Row, ...]:
    """Return the rows of a decision table: for each rule where it holds, then where it cannot be read.

    Raises:
        TooManyNodes: the table is too large.
    """
    return tuple(_rows(rule_set, Decided(rule_set, diagram)))


def _rows(rule_set: RuleSet, decided: Decided) -> Iterator[Row]:
    sets, question = decided.sets, decided.sets.space.question
    above = sets.none
    for rule in rule_set.rules:
        for undetermined in (False, True):
            wanted = decided.where_undetermined(rule.id) if undetermined else decided.certain(rule.id)
            allowed = above | wanted
            status = question.undetermined if undetermined else rule.status
            for box in needed_boxes(tuple(boxes(wanted, allowed, sets)), wanted, sets):
                mine = combinations_in(box, sets) - above
                above |= mine
                yield Row(question.describe(box), status, rule.id, undetermined, mine.size, box)


Plain = dict[str, Any]
"""A JSON object."""
MOST_EXACT = 2**53
"""The largest number up to which a reader of JSON that has floating-point numbers alone keeps every integer."""


def of_count(count: int) -> int | str:
    """Return a count, as a string if readers of JSON could round it."""
    return count if count <= MOST_EXACT else str(count)


def of_verdict(verdict: Verdict, unread: Sequence[str], retry: Retry, rule_set: RuleSet) -> Plain:
    """Return a verdict, the facts that keep it undetermined, and whether to try again; with who lifts its status."""
    status = rule_set.question.status(verdict.status)
    data: Plain = {
        "status": status,
        "rule": verdict.rule,
        "undetermined": verdict.undetermined,
        "lifted_by": status.lifted_by,
        "retry": retry,
    }
    if verdict.undetermined:
        data["unread"] = list(unread)
    if verdict.withhold_text is not None:
        data["withhold_text"] = verdict.withhold_text
    return data


def of_trial(trial: Trial) -> Plain:
    """Return a rule that was tried."""
    return {
        "rule": trial.rule.id,
        "status": trial.rule.status,
        "truth": {True: "true", False: "false", None: "undetermined"}[trial.truth],
        "reads": dict(trial.reads),
        "why": trial.why,
    }


def of_path(path: Path) -> Plain:
    """Return a path to callable."""
    return {
        "steps": [
            {"rule": step.rule.id, "status": step.rule.status, "changes": list(map(_of_fact_change, step.changes))}
            for step in path.steps
        ],
        "end": path.end,
        "find_out": path.find_out,
    }


def of_row(row: Row) -> Plain:
    """Return a row of a decision table."""
    return {
        "facts": {fact: list(values) for fact, values in row.facts.items()},
        "status": row.status,
        "rule": row.rule,
        "undetermined": row.undetermined,
        "combinations": of_count(row.combinations),
    }


def of_change(change: PolicyChange) -> Plain:
    """Return what a change of a policy changes."""
    return {
        "question": change.question,
        "before": {"status": change.before.status, "words": change.before.words, "rules": change.rules[0]},
        "after": {"status": change.after.status, "words": change.after.words, "rules": change.rules[1]},
        "combinations": of_count(change.combinations),
        "unknown": change.unknown,
        "where": change.where,
        "example": change.example,
    }


def _of_fact_change(change: FactChange) -> Plain:
    return {
        "fact": change.fact.name,
        "current": change.value,
        "wanted": change.wanted,
        "wanted_values": change.wanted_values,
        "changed_by": change.fact.opened_by or LiftedBy.NONE,
        "action": change.fact.action,
    }


MAX_STATES = 4
"""States of facts that vary together which an edge of a graph names; the rest is counted."""


def of_diagram(diagram: DecisionDiagram) -> Plain:
    """Return a decision diagram for programs.

    `axes` are in the order in which nodes test them. Numbers stand for verdicts, from 0 on, and then for nodes; a node
    has a number for each point of its axis. In `unread`, 0 and 1 stand for no and yes, and nodes follow from 2.
    """
    facts = diagram.space.question.facts
    names = (fact for fact in map(facts.__getitem__, diagram.space.facts) if isinstance(fact, NameFact))
    return {
        "combinations": of_count(diagram.space.size),
        "regions": of_count(diagram.regions),
        "axes": [{"facts": axis.facts, "points": [point.values for point in axis.points]} for axis in diagram.axes],
        "names": {fact.name: {each: fact.describe((each,))[0] for each in fact.readings} for fact in names},
        "verdicts": list(map(_of_verdict, diagram.verdicts)),
        "nodes": _of_nodes(diagram.inner),
        "root": diagram.root,
        "unread": {
            "rules": {rule: dict(facts) for rule, facts in diagram.unread_nodes.first.items()},
            "nodes": _of_nodes(diagram.unread_nodes.inner),
        },
    }


def as_dot(name: str, diagram: DecisionDiagram) -> str:
    """Return a decision diagram in the language of Graphviz: an edge names the values for which it is taken."""
    return "\n".join((f"digraph {_quote(name)} {{", *_dot_lines(diagram), "}"))


def _of_verdict(verdict: Verdict) -> dict[str, Any]:
    found: dict[str, Any] = {
        "status": verdict.status,
        "rule": verdict.rule,
        "undetermined": verdict.undetermined,
    }
    return found if verdict.withhold_text is None else {**found, "withhold_text": verdict.withhold_text}


def _of_nodes(nodes: Iterable[InnerNode]) -> list[dict[str, Any]]:
    return [{"axis": node.place, "children": node.children} for node in nodes]


def _dot_lines(diagram: DecisionDiagram) -> Iterator[str]:
    yield "  node [shape=ellipse];"
    for number, verdict in enumerate(diagram.verdicts):
        notes = [verdict.status, f"by {verdict.rule}"]
        notes += ["undetermined"] if verdict.undetermined else []
        notes += ["text withheld"] if verdict.withhold_text else []
        yield f"  n{number} [shape=box, label={_quote(*notes)}];"
    # The first node to be tested comes first, so that it is drawn at the top.
    for number in reversed(range(len(diagram.verdicts), len(diagram.verdicts) + len(diagram.inner))):
        node = diagram.node(number)
        if node is not None:
            axis = diagram.axes[node.place]
            yield f"  n{number} [label={_quote(*axis.facts)}];"
            for child, points in diagram.branches(node).items():
                label = _values(axis, points, diagram.space.question)
                yield f"  n{number} -> n{child} [label={_quote(label)}];"


def _values(axis: Axis, points: Collection[int], question: Question) -> str:
    """Describe some points of an axis."""
    if len(axis.facts) == 1:
        fact = question.facts[axis.facts[0]]
        return ", ".join(fact.describe([axis.points[point].values[0] for point in points]))
    states = [" ".join(axis.points[point].values) for point in points]
    if len(states) > MAX_STATES:
        states = [*states[:MAX_STATES], f"{len(states) - MAX_STATES} more"]
    return ", ".join(states)


def _quote(*lines: str) -> str:
    r"""Return a string of Graphviz with lines; a backslash in one of them is escaped, as `\n` means a new line."""
    return '"' + r"\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in lines) + '"'
