"""Reading `labels`: for servers, tools and agents, the keys that rules may read, each with its values."""

from __future__ import annotations

import re
from collections.abc import Iterator

from callability.document import Mapping, Node, Scalar
from callability.finding import Place, listed, shown
from callability.kernel.glob import is_glob
from callability.policy.questions.fact import LabelFact
from callability.policy.questions.question import Question
from callability.policy.reading.form import Form
from callability.vocabulary import NO_LABEL, UNKNOWN

MAX_LABELS = 64
"""Labels that may be declared, and values of one."""
KEY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,126}[A-Za-z0-9])?")
"""What the key of a label may be."""


def read_labels(root: Node, question: Question, form: Form) -> Question:
    """Return the question of a rule file: with the labels that stand at its head."""
    node = _head(root)
    if node is None:
        return question
    kinds = form.mapping(node, "`labels`", required=(), optional=question.labels) or {}
    declared = [
        (question.labels[kind] + str(key.value), key, value)
        for kind in question.labels
        if kind in kinds
        for key, value in (form.entries(kinds[kind], f"`{kind}` in `labels`") or {}).items()
    ]
    if len(declared) > MAX_LABELS:
        sentence = f"`labels` declares {len(declared):,} labels; the maximum is {MAX_LABELS}"
        form.find(node.place, "too-many-labels", sentence)
        return question
    facts = [_label(fact, key, value, form) for fact, key, value in declared]
    return question.having(fact for fact in facts if fact)


def label_places(root: Node, question: Question) -> Iterator[tuple[str, Place]]:
    """Yield the facts of the labels at the head of a rule file, each with its place."""
    for kind, labels in _entries(_head(root)):
        for key, _ in _entries(labels):
            yield question.labels[str(kind.value)] + str(key.value), key.place


def _head(root: Node) -> Node | None:
    return next((value for key, value in _entries(root) if key.value == "labels"), None)


def _entries(node: Node | None) -> tuple[tuple[Scalar, Node], ...]:
    return node.entries if isinstance(node, Mapping) else ()


def _label(fact: str, key: Scalar, node: Node, form: Form) -> LabelFact | None:
    if not isinstance(key.value, str) or not KEY.fullmatch(key.value):
        hint = "1 to 128 letters, digits, `.`, `_`, `-` and `/`, with a letter or digit at both ends"
        form.find(key.place, "bad-label-key", f"{shown(str(key.value))} cannot be the key of a label", hint)
        return None
    items = form.items(node, f"the values of `{fact}`")
    if len(items) > MAX_LABELS:
        sentence = f"`{fact}` has {len(items):,} values; the maximum is {MAX_LABELS}"
        form.find(node.place, "too-many-labels", sentence)
        return None
    values = [value for item in items if (value := _value(item, fact, form)) is not None]
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        form.find(node.place, "duplicate-value", f"value {listed(twice)} of `{fact}` is repeated in `labels`")
    # What is wrong here refuses the file; conditions that name the label are not wrong for it.
    return LabelFact(fact, (NO_LABEL, *dict.fromkeys(values)), NO_LABEL)


def _value(node: Node, fact: str, form: Form) -> str | None:
    value = form.text(node, f"a value of `{fact}`")
    if value in {NO_LABEL, UNKNOWN}:
        means = "a label that is not there" if value == NO_LABEL else "one that could not be read"
        form.find(node.place, "reserved-value", f"`{value}` cannot be a value of `{fact}`: it stands for {means}")
        return None
    if value is not None and is_glob(value):
        hint = "write out each value"
        form.find(node.place, "reserved-value", f"{shown(value)} cannot be a value of `{fact}`: it is a pattern", hint)
        return None
    return value
