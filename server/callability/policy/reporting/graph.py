"""The decision diagram as a graph: for programs, and for Graphviz."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from callability.policy.deciding.diagram import DecisionDiagram, InnerNode
from callability.policy.questions.fact import Axis, NameFact
from callability.policy.questions.question import Question
from callability.policy.reporting.plain_data import Plain, of_count
from callability.policy.rules.verdict import Verdict

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
    return "\n".join((f"digraph {_quoted(name)} {{", *_dot_lines(diagram), "}"))


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
        yield f"  n{number} [shape=box, label={_quoted(*notes)}];"
    # The first node to be tested comes first, so that it is drawn at the top.
    for number in reversed(range(len(diagram.verdicts), len(diagram.verdicts) + len(diagram.inner))):
        node = diagram.node(number)
        if node is not None:
            axis = diagram.axes[node.place]
            yield f"  n{number} [label={_quoted(*axis.facts)}];"
            for child, points in diagram.branches(node).items():
                label = _values(axis, points, diagram.space.question)
                yield f"  n{number} -> n{child} [label={_quoted(label)}];"


def _values(axis: Axis, points: Collection[int], question: Question) -> str:
    """Describe some points of an axis."""
    if len(axis.facts) == 1:
        fact = question.facts[axis.facts[0]]
        return ", ".join(fact.describe([axis.points[point].values[0] for point in points]))
    states = [" ".join(axis.points[point].values) for point in points]
    if len(states) > MAX_STATES:
        states = [*states[:MAX_STATES], f"{len(states) - MAX_STATES} more"]
    return ", ".join(states)


def _quoted(*lines: str) -> str:
    r"""Return a string of Graphviz with lines; a backslash in one of them is escaped, as `\n` means a new line."""
    return '"' + r"\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in lines) + '"'
