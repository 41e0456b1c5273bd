"""The facts and the texts of a tool as an MCP server lists it, whichever library read the list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callability.adapter import ToolText
from callability.v1 import facts_pb2

NO_RECORD = facts_pb2.Approval()
"""The approval of a tool that has no record. It must not be changed."""

_HINTS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}


def tool_facts(
    tool: object,
    *,
    config_denied: bool | None,
    approval: facts_pb2.Approval | None,
    labels: Mapping[str, str] | None = None,
    declared: Mapping[str, str] | None = None,
    caller_refuses: bool = False,
) -> facts_pb2.ToolFacts:
    """Return complete facts of a tool: its annotations from the list, and what the proxy knows beside it.

    Args:
        tool: the tool as the server lists it: an object of an MCP library, or the JSON object.
        config_denied: whether the operator's configuration denies the tool; None if it could not be read.
        approval: what was read about its approval, `NO_RECORD` if there is no record, None if it could not be read.
        labels: the operator's labels of the tool.
        declared: the facts that the policy declares of tools, by name.
        caller_refuses: whether the proxy's own gate refuses the tool.

    Raises:
        ValueError: an annotation is not true, false or absent.
    """
    return facts_pb2.ToolFacts(
        config_denied=config_denied,
        approval=approval,
        annotations=_annotations(tool),
        labels=facts_pb2.Labels(values=labels or {}),
        declared_facts=facts_pb2.DeclaredFacts(values=declared or {}),
        caller_refuses=caller_refuses,
    )


def tool_name(tool: object) -> str:
    """Return the name of a tool as the server lists it.

    Raises:
        ValueError: it has none.
    """
    name = _field(tool, "name")
    if not isinstance(name, str) or not name:
        raise ValueError("a listed tool has no name")
    return name


def tool_text(tool: object) -> ToolText:
    """Return what a server says about a tool, for a discovery answer."""
    description, schema, annotations = (_field(tool, name) for name in ("description", "inputSchema", "annotations"))
    return ToolText(
        description if isinstance(description, str) else None,
        dict(schema) if isinstance(schema, Mapping) else None,
        None if annotations is None else _plain(annotations),
    )


def _annotations(tool: object) -> facts_pb2.Annotations:
    given = _field(tool, "annotations")
    hints = {name: None if given is None else _field(given, written) for name, written in _HINTS.items()}
    for name, value in hints.items():
        if value is not None and not isinstance(value, bool):
            raise ValueError(f"the annotation `{_HINTS[name]}` must be true or false, and is {type(value).__name__}")
    return facts_pb2.Annotations(**{name: value for name, value in hints.items() if isinstance(value, bool)})


def _field(holder: object, written: str) -> Any:
    """Return a field of a JSON object, or of an object of a library, that may have Python's spelling of its name."""
    if isinstance(holder, Mapping):
        return holder.get(written)
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in written)
    for name in (snake, written, "parameters" if written == "inputSchema" else written):
        # A name that is there counts, even if its value is None: other spellings may be deprecated.
        if hasattr(holder, name):
            return getattr(holder, name)
    return None


def _plain(annotations: Any) -> dict[str, Any]:
    if isinstance(annotations, Mapping):
        return dict(annotations)
    dumped: dict[str, Any] = annotations.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped
