"""Reading `when`: keys are joined by *and*, a list of values means *any of*, and `any`, `all` and `not` nest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from callability.document import Mapping, Node, Scalar, Sequence
from callability.finding import did_you_mean, joined_hints, listed, shown
from callability.kernel.condition import All, Any, Condition, Is, Not, atoms
from callability.policy.questions.fact import Fact, NameFact
from callability.policy.questions.question import Question
from callability.policy.reading.fact_form import undeclared_fact
from callability.policy.reading.form import Form, described
from callability.policy.reading.name_form import read_name
from callability.vocabulary import UNKNOWN

MAX_PARTS = 2_000
"""Parts of one condition that read a fact."""
_CONNECTIVES = ("any", "all", "not")


def read_when(node: Node, question: Question, rule: str, form: Form) -> Condition | None:
    """Return the whole condition that a node writes, or None after a finding, also where it has too many parts."""
    condition = read_condition(node, question, rule, form)
    parts = sum(1 for _ in atoms(condition))
    if parts > MAX_PARTS:
        form.find(node.place, "too-many-parts", f"`when` of {rule} has {parts:,} parts; the maximum is {MAX_PARTS:,}")
        return None
    return condition


def read_condition(node: Node, question: Question, rule: str, form: Form) -> Condition | None:
    """Return the condition that a node writes, or None after a finding."""
    entries = form.entries(node, f"`when` of {rule}")
    if entries is None:
        return None
    if not entries:
        form.find(
            node.place,
            "empty-condition",
            f"a condition of {rule} is empty",
            "leave `when` out if the rule always matches",
        )
        return None
    parts = [_part(key, value, question, rule, form) for key, value in entries.items()]
    sound = tuple(part for part in parts if part is not None)
    if len(sound) < len(parts):
        return None
    return sound[0] if len(sound) == 1 else All(sound)


def read_value(node: Node, fact: Fact, where: str, form: Form, *, unknown: bool = False) -> str | None:
    """Return a value of a fact, or None after a finding; `unknown` where it may be written.

    Where it may not be, it is a condition that is read, and a name may be a pattern. A whole number is the text that is
    written, quoted or not.
    """
    found, value = (node.value, node.word) if isinstance(node, Scalar) else (None, None)
    if isinstance(fact, NameFact) and value != UNKNOWN:
        return read_name(node, fact, where, form, pattern=not unknown)
    if fact.boolean and isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value == UNKNOWN:
        if not unknown:
            hint = "a rule that reaches an unknown fact is undetermined by itself"
            form.find(node.place, "names-unknown", f"{where} names `unknown`, which no condition can read", hint)
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
        hint = did_you_mean(str(found), fact.values)
    form.find(node.place, "unknown-value", f"unknown value of `{fact.name}` in {where}: {described(node)}", hint)
    return None


def find_fact(
    key: Scalar, value: Node, question: Question, where: str, form: Form, others: tuple[str, ...] = ()
) -> Fact | None:
    """Return the fact that a key names, or None after a finding that suggests a fact or one of the other keys."""
    name = str(key.value)
    fact = question.facts.get(name)
    if fact is None:
        hint = _nested(name, value, question) or _undeclared(name, question)
        near = did_you_mean(name, (*question.facts, *others))
        hint = hint or joined_hints(near if near.startswith("did") else "", undeclared_fact(name, question)) or near
        form.find(key.place, "unknown-fact", f"unknown fact {shown(name)} in {where}", hint)
    return fact


def _undeclared(name: str, question: Question) -> str:
    """Say what to do about a label that is not declared; nothing if the name is none of a label."""
    prefix = next((each for each in question.labels.values() if name.startswith(each)), None)
    if prefix is None:
        return ""
    near = did_you_mean(name, (fact for fact in question.facts if fact.startswith(prefix)))
    return joined_hints(near, "a label is declared under `labels`, at the head of the rule file")


def _nested(name: str, value: Node, question: Question) -> str:
    """Say how to write facts whose names are written as mappings in each other."""
    if not isinstance(value, Mapping):
        return ""
    labels = tuple(question.labels.values())
    meant = [each for each in _paths(name, value) if each in question.facts or each.startswith(labels or ".")]
    return f"write {listed(meant)}" if meant else ""


def _paths(name: str, value: Node) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.entries:
            yield from _paths(f"{name}.{key.value}", inner)
    else:
        yield name


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
    fact = find_fact(key, value, question, rule, form, _CONNECTIVES)
    return _is(fact, value, rule, form) if fact else None


def _is(fact: Fact, node: Node, rule: str, form: Form) -> Condition | None:
    nodes = form.items(node, f"`{fact.name}` in {rule}") if isinstance(node, Sequence) else (node,)
    values = [read_value(item, fact, rule, form) for item in nodes]
    sound = [value for value in values if value is not None]
    if not sound or len(sound) < len(values):
        return None
    twice = sorted(value for value, count in Counter(sound).items() if count > 1)
    if twice:
        form.find(node.place, "duplicate-value", f"value {listed(twice)} of `{fact.name}` is repeated in {rule}")
        return None
    return Is(fact.name, frozenset(sound), node.place)
