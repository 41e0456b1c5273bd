"""Reading `facts`: the facts that a rule file declares, in addition to those of the question."""

from __future__ import annotations

import re
from collections.abc import Mapping

from callability.document import Mapping as MappingNode
from callability.document import Node, Scalar
from callability.finding import Place, did_you_mean, listed, shown
from callability.kernel.glob import is_glob
from callability.policy.questions.fact import BOOLEAN, DeclaredFact
from callability.policy.questions.question import Question
from callability.policy.reading.form import Form, described
from callability.vocabulary import ACTIONS, RESERVED_PREFIXES, UNKNOWN, LiftedBy

MAX_FACTS = 64
"""Facts that may be declared, and values of one."""
MAX_BYTES = 128
"""Bytes of the name of a declared fact, and of a value of one."""
MAX_PHRASE = 200
"""Characters of the phrase of an action."""
NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
"""What the name of a declared fact may be."""
ACTION = re.compile(r"[a-z]{1,20}(_[a-z]{1,20}){0,5}")
"""What the name of an action may be. Clients fill placeholders of this form."""
OWNERS = (LiftedBy.USER, LiftedBy.OPERATOR)
PLACEHOLDERS = frozenset({"server", "tool", "agent", "variables", "locks", "reason"})
"""Placeholders of some question that are no actions."""
TAKEN_ACTIONS = PLACEHOLDERS | {action.name for action in ACTIONS}
"""Placeholders that have a meaning already."""
_KEYS = ("of", "values", "default")
_OPTIONAL = ("owner", "action", "phrase", "asserted")
_OPENING = ("owner", "action", "phrase")


def read_facts(root: Node, question: Question, form: Form) -> Question:
    """Return the question of a rule file: with the facts that are declared at its head, and their actions."""
    node = _head(root) if question.declares else None
    entries = form.entries(node, "`facts`") if node else None
    if node is None or entries is None:
        return question
    if len(entries) > MAX_FACTS:
        sentence = f"`facts` declares {len(entries):,} facts; the maximum is {MAX_FACTS}"
        form.find(node.place, "too-many-facts", sentence)
        return question
    facts = [fact for key, value in entries.items() if (fact := _fact(key, value, question, form))]
    places = {str(key.value): value.place for key, value in entries.items()}
    _check_actions(facts, places, form)
    return question.having(facts)


def fact_places(root: Node) -> dict[str, Place]:
    """Return the facts that are declared at the head of a rule file, each with its place."""
    node = _head(root)
    return {str(key.value): key.place for key, _ in node.entries} if isinstance(node, MappingNode) else {}


def _head(root: Node) -> Node | None:
    entries = root.entries if isinstance(root, MappingNode) else ()
    return next((value for key, value in entries if key.value == "facts"), None)


def _fact(key: Scalar, node: Node, question: Question, form: Form) -> DeclaredFact | None:
    name = str(key.value)
    where = f"fact {shown(name)}"
    named = _check_name(key, name, form)
    entries = form.mapping(node, where, required=_KEYS, optional=_OPTIONAL)
    if entries is None or not named:
        return None
    of = _one_of(entries["of"], f"`of` of {where}", question.declares, form)
    values = _values(entries["values"], name, form)
    default = _value(entries["default"], f"`default` of {where}", form) if values else None
    if values and default is not None and default not in values:
        found = f"`default` of {where} is {shown(default)}, which is none of its values"
        form.find(entries["default"].place, "unknown-value", found, did_you_mean(default, values))
    asserted = form.truth(entries["asserted"], f"`asserted` of {where}") if "asserted" in entries else False
    opening = _opening(entries, node, where, form)
    if values is None:
        return None
    owner, action, phrase = opening or (None, "", "")
    # What is wrong here refuses the file; conditions that name the fact are not wrong for it.
    open_value = default if default in values else values[0]
    return DeclaredFact(
        name,
        values,
        str(open_value),
        owner,
        action,
        asserted=bool(asserted),
        of=of or question.declares[0],
        phrase=phrase,
    )


def _check_name(key: Scalar, name: str, form: Form) -> bool:
    if not NAME.fullmatch(name) or len(name) > MAX_BYTES:
        most = f"at most {MAX_BYTES} bytes"
        hint = f"words of lower-case letters, digits and `_`, joined by `.`, such as `proxy.quota`; {most}"
        form.find(key.place, "bad-fact-name", f"{shown(name)} cannot be the name of a declared fact", hint)
        return False
    prefix = name.partition(".")[0]
    if prefix in RESERVED_PREFIXES:
        sentence = f"a declared fact cannot be named {shown(name)}: `{prefix}.` begins the contract's own facts"
        form.find(key.place, "reserved-fact", sentence, "begin it with a word of your own, such as `proxy.`")
        return False
    return True


def _one_of(node: Node, what: str, wanted: tuple[str, ...], form: Form) -> str | None:
    text = form.text(node, what)
    if text is not None and text not in wanted:
        hint = did_you_mean(text, wanted) or f"one of {listed(wanted)}"
        form.find(node.place, "unknown-value", f"{what} is {shown(text)}", hint)
        return None
    return text


def _values(node: Node, name: str, form: Form) -> tuple[str, ...] | None:
    items = form.items(node, f"the values of `{name}`")
    if len(items) > MAX_FACTS:
        form.find(node.place, "too-many-facts", f"`{name}` has {len(items):,} values; the maximum is {MAX_FACTS}")
        return None
    values = [value for item in items if (value := _value(item, f"a value of `{name}`", form)) is not None]
    if len(values) < len(items) or not items:
        return None
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        form.find(node.place, "duplicate-value", f"value {listed(twice)} of `{name}` is repeated in `facts`")
    elif len(values) < 2:
        hint = "a fact has at least two values, and `unknown` is not one of them"
        form.find(node.place, "too-few-values", f"`{name}` has one value", hint)
    if any(_is_truth(item) for item in items) and set(values) != set(BOOLEAN):
        hint = "put it in quotes, or write `[true, false]`"
        form.find(node.place, "wrong-type", f"the values of `{name}` mix a truth value with others", hint)
    return BOOLEAN if set(values) == set(BOOLEAN) else tuple(dict.fromkeys(values))


def _value(node: Node, what: str, form: Form) -> str | None:
    """Return a value as a text: a truth value, a whole number as it is written, or a text."""
    value = node.word if isinstance(node, Scalar) else None
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        hint = "put it in quotes" if isinstance(value, float) else ""
        sentence = f"{what} is {described(node)}, but must be text, a whole number or a truth value"
        form.find(node.place, "wrong-type", sentence, hint)
        return None
    if form.text(Scalar(value, node.place), what) is None:
        return None
    if value == UNKNOWN or is_glob(value):
        means = "it stands for a fact that could not be read" if value == UNKNOWN else "it is a pattern"
        form.find(node.place, "reserved-value", f"{shown(value)} cannot be {what}: {means}")
        return None
    if len(value.encode()) > MAX_BYTES:
        form.find(node.place, "text-too-long", f"{what} has more than {MAX_BYTES} bytes")
        return None
    return value


def _is_truth(node: Node) -> bool:
    return isinstance(node, Scalar) and isinstance(node.value, bool)


def _opening(
    entries: Mapping[str, Node], node: Node, where: str, form: Form
) -> tuple[LiftedBy | None, str, str] | None:
    """Return who changes the fact, by which action, and its phrase: all three, or none of them."""
    given = [key for key in _OPENING if key in entries]
    missing = [key for key in _OPENING if key not in entries]
    if not given:
        return None, "", ""
    if missing:
        hint = "`owner`, `action` and `phrase` belong together; leave all three out if nobody can change the fact"
        form.find(node.place, "missing-key", f"{where} has no {listed(missing)}", hint)
        return None
    owner = _one_of(entries["owner"], f"`owner` of {where}", tuple(map(str, OWNERS)), form)
    action, phrase = _action(entries["action"], where, form), _phrase(entries["phrase"], where, form)
    if owner is None or action is None or phrase is None:
        return None
    return LiftedBy(owner), action, phrase


def _action(node: Node, where: str, form: Form) -> str | None:
    text = form.text(node, f"`action` of {where}")
    if text is not None and not ACTION.fullmatch(text):
        hint = "1 to 6 words of lower-case letters, joined by `_`, such as `raise_quota`"
        form.find(node.place, "bad-action", f"{shown(text)} cannot be the name of an action", hint)
        return None
    return text


def _phrase(node: Node, where: str, form: Form) -> str | None:
    text = form.text(node, f"`phrase` of {where}")
    if text is None:
        return None
    phrase = " ".join(text.split())
    if set(phrase) & set("{}"):
        hint = "write the verb phrase itself, such as `raise the quota`"
        form.find(node.place, "stray-brace", f"`phrase` of {where} has a brace", hint)
        return None
    if len(phrase) > MAX_PHRASE:
        form.find(node.place, "text-too-long", f"`phrase` of {where} has more than {MAX_PHRASE} characters")
        return None
    return phrase


def _check_actions(facts: list[DeclaredFact], places: Mapping[str, Place], form: Form) -> None:
    """Find actions that another fact has, or that the contract or a placeholder has already."""
    seen: dict[str, str] = {}
    for fact in facts:
        if fact.action in TAKEN_ACTIONS:
            sentence = f"action {shown(fact.action)} of fact `{fact.name}` is a placeholder of the contract's own"
            form.find(places[fact.name], "reserved-action", sentence, "give it a name of your own")
        elif fact.action and fact.action in seen:
            sentence = f"action {shown(fact.action)} of fact `{fact.name}` is that of `{seen[fact.action]}` too"
            form.find(places[fact.name], "duplicate-action", sentence, "give each fact an action of its own")
        seen.setdefault(fact.action, fact.name)


def undeclared_fact(name: str, question: Question) -> str:
    """Return what to do about a fact that a rule file could declare; nothing if it could not."""
    if not question.declares or not NAME.fullmatch(name) or name.partition(".")[0] in RESERVED_PREFIXES:
        return ""
    return "a fact of your own is declared under `facts`, at the head of the rule file"
