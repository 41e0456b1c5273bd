"""Reading `when`: keys are joined by *and*, a list of values means *any of*, and `any`, `all` and `not` nest."""

from __future__ import annotations

from collections import Counter

from callability.document import Node, Scalar, Sequence
from callability.finding import did_you_mean, listed, shown
from callability.policy.questions.fact import Fact, NameFact
from callability.policy.questions.question import Question
from callability.policy.reading.form import Form, described
from callability.policy.reading.name_form import read_name
from callability.policy.rules.condition import All, Any, Condition, Is, Not, atoms
from callability.vocabulary import UNKNOWN

MAX_PARTS = 2_000
"""Parts of one condition that read a fact."""
_CONNECTIVES = ("any", "all", "not")


def read_when(node: Node, question: Question, rule: str, form: Form) -> Condition | None:
    """Return the whole condition that a node writes, or None after a finding, also where it has too many parts."""
    condition = read_condition(node, question, rule, form)
    parts = sum(1 for _ in atoms(condition))
    if parts > MAX_PARTS:
        form.find(node.place, "too-many-parts", f"`when` of {rule} has {parts:,} parts, and may have {MAX_PARTS:,}")
        return None
    return condition


def read_condition(node: Node, question: Question, rule: str, form: Form) -> Condition | None:
    """Return the condition that a node writes, or None after a finding."""
    entries = form.entries(node, f"`when` of {rule}")
    if entries is None:
        return None
    if not entries:
        form.find(
            node.place, "empty-condition", f"a condition of {rule} is empty", "leave `when` out where it always holds"
        )
        return None
    parts = [_part(key, value, question, rule, form) for key, value in entries.items()]
    sound = tuple(part for part in parts if part is not None)
    if len(sound) < len(parts):
        return None
    return sound[0] if len(sound) == 1 else All(sound)


def read_value(node: Node, fact: Fact, where: str, form: Form, *, unknown: bool = False) -> str | None:
    """Return a value of a fact, a number quoted or not, or None after a finding; `unknown` where it may be written.

    Where it may not be, it is a condition that is read, and a name may be a pattern.
    """
    value = node.value if isinstance(node, Scalar) else None
    if isinstance(fact, NameFact) and value != UNKNOWN:
        return read_name(node, fact, where, form, pattern=not unknown)
    if fact.boolean and isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str) and value == UNKNOWN:
        if not unknown:
            hint = "an unknown fact decides by itself"
            form.find(node.place, "names-unknown", f"{where} names `unknown`, which no condition can", hint)
        elif fact.asserted:
            form.find(node.place, "unknown-value", f"`{fact.name}` is never unknown, as {where} has it")
        return UNKNOWN if unknown and not fact.asserted else None
    if isinstance(value, str) and not fact.boolean and value in fact.values:
        return value
    if fact.boolean and value in fact.values:
        hint = "without quotes"
    elif isinstance(value, bool) and str(value).lower() in fact.values:
        hint = "in quotes"
    else:
        hint = did_you_mean(str(value), fact.values)
    form.find(node.place, "unknown-value", f"unknown value of `{fact.name}` in {where}: {described(node)}", hint)
    return None


def find_fact(key: Scalar, question: Question, where: str, form: Form, others: tuple[str, ...] = ()) -> Fact | None:
    """Return the fact that a key names, or None after a finding that suggests a fact or one of the other keys."""
    fact = question.facts.get(str(key.value))
    if fact is None:
        hint = did_you_mean(str(key.value), (*question.facts, *others))
        if any(str(key.value).startswith(prefix) for prefix in question.labels.values()):
            hint = "; ".join(filter(None, (hint, "a label is declared under `labels`, at the head of the rule file")))
        form.find(key.place, "unknown-fact", f"unknown fact {shown(str(key.value))} in {where}", hint)
    return fact


def read_status(node: Node, question: Question, where: str, form: Form) -> str | None:
    """Return the status that a node names, or None after a finding."""
    status = form.text(node, f"`status` of {where}")
    if status is not None and status not in question.statuses:
        hint = did_you_mean(status, question.statuses)
        form.find(node.place, "unknown-status", f"unknown status {shown(status)} in {where}", hint)
        return None
    return status


def written_part(part: Is, question: Question) -> str:
    """Write a part of a condition that reads one fact, as a rule file has it."""
    values = question.facts[part.fact].written(part.values)
    return f"{part.fact}: {values[0]}" if len(values) == 1 else f"{part.fact}: [{', '.join(values)}]"


def _part(key: Scalar, value: Node, question: Question, rule: str, form: Form) -> Condition | None:
    match key.value:
        case "not":
            part = read_condition(value, question, rule, form)
            return Not(part) if part else None
        case "any" | "all":
            items = form.items(value, f"`{key.value}` in {rule}")
            parts = [read_condition(item, question, rule, form) for item in items]
            sound = tuple(part for part in parts if part is not None)
            if not sound or len(sound) < len(parts):
                return None
            return Any(sound) if key.value == "any" else All(sound)
    fact = find_fact(key, question, rule, form, _CONNECTIVES)
    return _is(fact, value, rule, form) if fact else None


def _is(fact: Fact, node: Node, rule: str, form: Form) -> Condition | None:
    nodes = form.items(node, f"`{fact.name}` in {rule}") if isinstance(node, Sequence) else (node,)
    values = [read_value(item, fact, rule, form) for item in nodes]
    sound = [value for value in values if value is not None]
    if not sound or len(sound) < len(values):
        return None
    twice = sorted(value for value, count in Counter(sound).items() if count > 1)
    if twice:
        form.find(node.place, "duplicate-value", f"value {listed(twice)} of `{fact.name}` stands twice in {rule}")
        return None
    return Is(fact.name, frozenset(sound), node.place)
