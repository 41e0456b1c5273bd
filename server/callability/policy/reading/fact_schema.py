"""The JSON Schema of the facts that a rule file declares."""

from __future__ import annotations

from typing import Any

from callability.policy.questions.question import Question
from callability.policy.reading.fact_form import (
    ACTION,
    MAX_BYTES,
    MAX_FACTS,
    MAX_PHRASE,
    NAME,
    OWNERS,
    PLACEHOLDERS,
    TAKEN_ACTIONS,
)
from callability.vocabulary import RESERVED_PREFIXES, UNKNOWN

DECLARED_NAME = rf"^(?!({'|'.join(sorted(RESERVED_PREFIXES))})\.){NAME.pattern}$"
"""What the name of a declared fact may be."""
ACTION_NAME = rf"(?!({'|'.join(sorted(PLACEHOLDERS))})\}}){ACTION.pattern}"
"""What the placeholder of a declared fact's action may be, without its braces."""
DECLARED_VALUE: dict[str, Any] = {
    "anyOf": [{"type": "string", "minLength": 1, "maxLength": MAX_BYTES}, {"type": "integer"}, {"type": "boolean"}]
}
"""What a value of a declared fact may be."""
_NO_WORD = {"not": {"const": UNKNOWN}, "pattern": "^[^*?]*$"}


def schema_of_facts(question: Question) -> dict[str, Any]:
    """Return the schema of `facts`, at the head of a rule file."""
    value = {"anyOf": [DECLARED_VALUE["anyOf"][0] | _NO_WORD, *DECLARED_VALUE["anyOf"][1:]]}
    properties = {
        "of": {"enum": list(question.declares), "description": "What it is a fact of: callers send it with this."},
        "values": {"type": "array", "items": value, "minItems": 2, "maxItems": MAX_FACTS, "uniqueItems": True},
        "default": value | {"description": "The value that locks nothing; of an asserted fact, the one that locks."},
        "owner": {"enum": list(map(str, OWNERS)), "description": "Who can change it; left out: nobody."},
        "action": {
            "type": "string",
            "pattern": f"^{ACTION.pattern}$",
            "not": {"enum": sorted(TAKEN_ACTIONS)},
            "description": "The placeholder by which words name what its owner does.",
        },
        "phrase": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_PHRASE,
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
        "propertyNames": {"maxLength": MAX_BYTES},
        "maxProperties": MAX_FACTS,
        "additionalProperties": False,
        "description": "Facts of your own, which callers send by name.",
    }
