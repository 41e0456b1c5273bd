"""Rule files and their tests as JSON Schemas (2020-12), with which an editor completes and checks them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from callability.compiler import forms
from callability.compiler.names import NAME_BYTES
from callability.compiler.question import Fact, NameFact, Question
from callability.compiler.rule_file import ID, MAX_LAWS, MAX_RULES
from callability.contract.vocabulary import NO_LABEL, RESERVED_PREFIXES, UNKNOWN

DECLARED_NAME = rf"^(?!({'|'.join(sorted(RESERVED_PREFIXES))})\.){forms.NAME.pattern}$"
"""What the name of a declared fact may be."""
ACTION_NAME = rf"(?!({'|'.join(sorted(forms.PLACEHOLDERS))})\}}){forms.ACTION.pattern}"
"""What the placeholder of a declared fact's action may be, without its braces."""
DECLARED_VALUE: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "minLength": 1, "maxLength": forms.MAX_BYTES},
        {"type": "integer"},
        {"type": "boolean"},
    ]
}
"""What a value of a declared fact may be."""
_NO_WORD = {"not": {"const": UNKNOWN}, "pattern": "^[^*?]*$"}


def schema_of_facts(question: Question) -> dict[str, Any]:
    """Return the schema of `facts`, at the head of a rule file."""
    value = {"anyOf": [DECLARED_VALUE["anyOf"][0] | _NO_WORD, *DECLARED_VALUE["anyOf"][1:]]}
    properties = {
        "of": {"enum": list(question.declares), "description": "What it is a fact of: callers send it with this."},
        "values": {"type": "array", "items": value, "minItems": 2, "maxItems": forms.MAX_FACTS, "uniqueItems": True},
        "default": value | {"description": "The value that locks nothing; of an asserted fact, the one that locks."},
        "owner": {"enum": list(map(str, forms.OWNERS)), "description": "Who can change it; left out: nobody."},
        "action": {
            "type": "string",
            "pattern": f"^{forms.ACTION.pattern}$",
            "not": {"enum": sorted(forms.TAKEN_ACTIONS)},
            "description": "The placeholder by which words name what its owner does.",
        },
        "phrase": {
            "type": "string",
            "minLength": 1,
            "maxLength": forms.MAX_PHRASE,
            "pattern": "^[^{}]*$",
            "description": "What fills that placeholder: a verb phrase in the infinitive.",
        },
        "asserted": {"type": "boolean", "description": "`true`: if it is not sent, it has its default."},
    }
    fact = {
        "type": "object",
        "properties": properties,
        "required": ["of", "values", "default"],
        "additionalProperties": False,
        "dependentRequired": {
            "owner": ["action", "phrase"],
            "action": ["owner", "phrase"],
            "phrase": ["owner", "action"],
        },
    }
    return {
        "type": "object",
        "patternProperties": {DECLARED_NAME: fact},
        "propertyNames": {"maxLength": forms.MAX_BYTES},
        "maxProperties": forms.MAX_FACTS,
        "additionalProperties": False,
        "description": "Facts of your own, which callers send by name.",
    }


DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]


def schema_of_rules(question: Question) -> Schema:
    """Return the schema of a question's rule file.

    What a schema cannot say, `check` finds: whether a rule ever decides, laws, ids that stand twice, and whether an
    action is the status's to name.
    """
    declaring = bool(question.declares)
    rule = _object(
        {
            "id": {"type": "string", "pattern": f"^{ID.pattern}$", "description": "By which verdicts name the rule."},
            "when": {"$ref": "#/$defs/condition"},
            "status": _status(question),
            **_texts_of_rule(question, declaring=declaring),
        },
        required=("id", "status"),
    )
    properties = {
        **({"labels": _labels(question)} if question.labels else {}),
        **({"facts": schema_of_facts(question)} if declaring else {}),
        "rules": _list(rule, most=MAX_RULES) | {"description": "Tried in order: the first that holds is the answer."},
        "laws": _list(_law(question), most=MAX_LAWS) | {"description": "What must hold of every combination of facts."},
        "words": _all_words(question, declaring=declaring),
    }
    return {
        "$schema": DIALECT,
        "title": f"The rules of {question.name}",
        **_object(properties, required=("rules", "words")),
        **(_without_facts(question) if declaring else {}),
        "$defs": {"condition": _condition(question)},
    }


def schema_of_tests(question: Question) -> Schema:
    """Return the schema of the tests beside a question's rule file."""
    facts = {fact.name: _value(fact, test=True) for fact in question.facts.values()}
    expected: Schema = {
        "status": _status(question),
        "rule": {"type": "string", "description": "The rule that decides, or is reached."},
        "undetermined": {"type": "boolean", "description": "Whether the rule that is reached cannot be read."},
        "words": _object({name: _parts() for name in question.texts}) | {"description": "What each text may contain."},
    }
    if question.withholds:
        expected["withhold_text"] = {"type": "boolean", "description": "Whether the upstream's text is kept back."}
    test = _object(
        {
            "name": {"type": "string", "minLength": 1, "description": "A sentence: what holds."},
            "facts": _facts(facts, question, _text_value(), DECLARED_VALUE)
            | {"description": "One that is left out has its default."},
            "expect": _object(expected, required=("status",)),
        },
        required=("name", "expect"),
    )
    return {
        "$schema": DIALECT,
        "title": f"Tests of {question.name}",
        **_object({"tests": _list(test)}, required=("tests",)),
    }


def _texts_of_rule(question: Question, *, declaring: bool) -> Schema:
    names = tuple(each.name for each in question.shared_placeholders)
    return {
        "because": _text(question, names, "Said before the words of the status.", declaring=declaring),
        "action": _text(question, names, "Said in place of what to do.", declaring=declaring),
    }


def _all_words(question: Question, *, declaring: bool) -> Schema:
    return _object({status: _words(question, status, declaring=declaring) for status in map(str, question.statuses)})


def _without_facts(question: Question) -> Schema:
    """A file that declares no facts names no actions but those of the question."""
    texts = {"properties": _texts_of_rule(question, declaring=False)}
    strict = {"rules": {"items": texts}, "words": _all_words(question, declaring=False)}
    return {"if": {"not": {"required": ["facts"]}}, "then": {"properties": strict}}


def _parts() -> Schema:
    text = {"type": "string", "minLength": 1, "maxLength": forms.MAX_TEXT}
    return {"anyOf": [text, _list(text)], "description": "What must stand in it, with its placeholders."}


def _law(question: Question) -> Schema:
    statuses = {"anyOf": [_status(question), _list(_status(question))]}
    properties = {
        "name": {"type": "string", "minLength": 1, "description": "A sentence: what must hold."},
        "when": {"$ref": "#/$defs/condition"},
        "always": statuses | {"description": "Where the condition certainly holds, the status is one of these."},
        "never": statuses | {"description": "Where the condition may hold, the status is none of these."},
    }
    one_kind = [{"required": ["always"]}, {"required": ["never"]}]
    return _object(properties, required=("name",)) | {"oneOf": one_kind}


def _condition(question: Question) -> Schema:
    nested = {"$ref": "#/$defs/condition"}
    facts = {fact.name: _one_or_more(_value(fact)) | _about(fact) for fact in question.facts.values()}
    connectives = {
        "any": _list(nested) | {"description": "At least one of them holds."},
        "all": _list(nested) | {"description": "Every one of them holds."},
        "not": nested | {"description": "It does not hold."},
    }
    condition = _facts(facts | connectives, question, _one_or_more(_text_value()), _one_or_more(DECLARED_VALUE))
    return condition | {"minProperties": 1, "description": "Its keys are joined by *and*."}


def _facts(properties: Schema, question: Question, label: Schema, declared: Schema) -> Schema:
    """Add labels and declared facts, of which a rule file says itself what they are."""
    patterns = {f"^{re.escape(prefix)}": label for prefix in question.labels.values()}
    if question.declares:
        patterns[DECLARED_NAME] = declared
    return _object(properties) | ({"patternProperties": patterns} if patterns else {})


def _one_or_more(value: Schema) -> Schema:
    return {"anyOf": [value, _list(value) | {"uniqueItems": True}]}


def _labels(question: Question) -> Schema:
    value = {"type": "string", "minLength": 1, "not": {"enum": [NO_LABEL, UNKNOWN]}, "pattern": "^[^*?]*$"}
    values = _list(value, most=forms.MAX_LABELS) | {"uniqueItems": True}
    keys = _object({}) | {"patternProperties": {f"^{forms.KEY.pattern}$": values}}
    description = {"description": "The labels that rules read, each with its values."}
    return _object(dict.fromkeys(question.labels, keys)) | description


def _about(fact: Fact) -> Schema:
    if isinstance(fact, NameFact):
        return {"description": "A name, or a pattern: `*` stands for any characters, and `?` for any one."}
    opened = f" The {fact.opened_by} can change it to `{fact.open_value}`." if fact.action else ""
    return {"description": f"One of {', '.join(f'`{value}`' for value in fact.values)}.{opened}"}


def _text_value() -> Schema:
    return {"anyOf": [{"type": "string", "minLength": 1}, {"type": "integer"}]}


def _value(fact: Fact, *, test: bool = False) -> Schema:
    if isinstance(fact, NameFact):
        name: Schema = {"type": "string", "minLength": min(1, len(fact.open_value)), "maxLength": NAME_BYTES}
        return name | ({"pattern": "^[^*?]*$"} if test else {"not": {"const": UNKNOWN}})
    values: list[object] = [True, False] if fact.boolean else [str(value) for value in fact.values]
    if not fact.boolean:
        values += [int(value) for value in fact.values if re.fullmatch("[1-9][0-9]*", value)]
    return {"enum": [*values, *([UNKNOWN] if test and not fact.asserted else [])]}


def _status(question: Question) -> Schema:
    return {"enum": [str(status) for status in question.statuses]}


def _words(question: Question, status: str, *, declaring: bool) -> Schema:
    texts = {
        name: _text(question, (each.name for each in placeholders if each.fits(status)), declaring=declaring)
        for name, placeholders in question.texts.items()
    }
    return _object(texts, required=tuple(texts))


def _text(question: Question, placeholders: Iterable[str], description: str = "", *, declaring: bool = False) -> Schema:
    """Return the schema of a text; `declaring`: it may name actions that the file declares with its facts."""
    actions = (action.name for action in question.actions)
    names = "|".join((*placeholders, *actions, *((ACTION_NAME,) if declaring else ())))
    part = rf"([^{{}}]|\{{({names})\}})*"
    schema = {"type": "string", "maxLength": forms.MAX_TEXT, "pattern": rf"^{part}[^\s{{}}]{part}$"}
    return schema | ({"description": description} if description else {})


def _list(items: Schema, *, most: int | None = None) -> Schema:
    return {"type": "array", "minItems": 1, "items": items, **({"maxItems": most} if most else {})}


def _object(properties: Schema, *, required: Iterable[str] = ()) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
