"""The vectors of the adapter, replayed by Python.

`PYTHONPATH=tests python -m support.adapter_vectors` writes the results of the adapter as it is into the files. Review
what it changes against docs/adapter.md: a vector holds what is right, and not what is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.json_format import ParseDict

from callability import adapter
from callability.v1 import callability_service_pb2 as pb
from support.checkout import VECTORS

DIRECTORY = VECTORS / "adapter"
_NOT_SHOWN = re.compile(r"[^\n -~\xa1-\xac\xae-\u02ff\u0400-\u05ff\u2010-\u2027\u4e00-\u9fff]")
Vector = Mapping[str, Any]
Judgements = Mapping[str, Vector]


def load(function: str) -> dict[str, Any]:
    """Return the content of the file about one function."""
    content: dict[str, Any] = json.loads((DIRECTORY / f"{function}.json").read_text(encoding="utf-8"))
    return content


def replayed(function: str, vector: Vector, judgements: Judgements) -> str | None:
    """Return what the adapter answers to a vector, as JSON; None: there is no result."""
    return _REPLAYS[function](vector, judgements)


def written(content: Mapping[str, Any]) -> str:
    """Return the text of a file, with an escape for every character that an editor may not show."""
    text = json.dumps(content, ensure_ascii=False, indent=1)
    return _NOT_SHOWN.sub(lambda match: json.dumps(match[0])[1:-1], text) + "\n"


def _judgement(given: Vector) -> adapter.Judgement:
    servers = [
        pb.ServerTools(name=server["name"], tools=[pb.Tool(name=tool) for tool in server["tools"]])
        for server in given["servers"]
    ]
    return adapter.judge(
        pb.CheckToolsRequest(servers=servers),
        ParseDict(given["response"], pb.CheckToolsResponse()),
        visible=given.get("visible", adapter.ALL_SERVERS),
        refusals=given.get("refusals"),
        separator=given.get("separator", adapter.SEPARATOR),
    )


def _text(given: Mapping[str, str]) -> adapter.ToolText:
    schema, annotations = (given.get(key) for key in ("inputSchema", "annotations"))
    return adapter.ToolText(
        given.get("description"),
        None if schema is None else adapter.read_json(schema),
        None if annotations is None else adapter.read_json(annotations),
    )


def _discovery(vector: Vector, judgements: Judgements) -> str:
    options = {key: vector[key] for key in ("limit", "include_disabled", "not_loaded", "found_locked") if key in vector}
    answer = adapter.discovery(
        _judgement(judgements[vector["judgement"]]),
        vector["query"],
        found=vector.get("found", ()),
        texts={name: _text(text) for name, text in vector.get("texts", {}).items()},
        phrases=vector.get("phrases", {}),
        **options,
    )
    return adapter.result_json(adapter.tool_result(answer))


def _counts(vector: Vector, judgements: Judgements) -> str:
    return adapter.result_json(adapter.tool_counts(_judgement(judgements[vector["judgement"]])))


def _rejection(vector: Vector, _: Judgements) -> str | None:
    options = {key: vector[key] for key in ("discovery_tool", "refusal", "facts_from_config") if key in vector}
    response = ParseDict(vector["response"], pb.CheckToolResponse())
    phrases = vector.get("phrases", {})
    result = adapter.rejection(response, vector["server"], vector["tool"], phrases=phrases, **options)
    return None if result is None else adapter.result_json(result)


def _unknown_tool(vector: Vector, _: Judgements) -> str:
    options = {key: vector[key] for key in ("discovery_tool",) if key in vector}
    return adapter.result_json(adapter.unknown_tool(vector["tool"], vector["names"], **options))


def _load_messages(vector: Vector, _: Judgements) -> str:
    responses = {name: ParseDict(each, pb.ClassifyLoadResponse()) for name, each in vector["responses"].items()}
    messages = adapter.load_messages(responses, vector.get("reasons", {}), phrases=vector.get("phrases", {}))
    return adapter.result_json({str(status): text for status, text in messages.items()})


def _enable_result(vector: Vector, _: Judgements) -> str:
    options = {key: vector[key] for key in ("variables", "locks", "reason") if key in vector}
    if "load" in vector:
        options["load"] = ParseDict(vector["load"], pb.ClassifyLoadResponse())
    response = ParseDict(vector["response"], pb.ClassifyEnableResponse())
    result = adapter.enable_result(response, vector["server"], phrases=vector.get("phrases", {}), **options)
    return adapter.result_json(result)


def _arguments(vector: Vector, _: Judgements) -> str:
    try:
        checked = adapter.checked_arguments(adapter.read_json(vector["arguments"]))
    except adapter.InvalidArgument as error:
        return adapter.result_json(adapter.invalid_argument(error))
    return adapter.result_json(
        {"query": checked.query, "limit": checked.limit, "include_disabled": checked.include_disabled}
    )


def _unavailable(vector: Vector, _: Judgements) -> str:
    return adapter.result_json(adapter.unavailable(vector["reason"]))


_REPLAYS: Mapping[str, Callable[[Vector, Judgements], str | None]] = {
    "discovery": _discovery,
    "rejection": _rejection,
    "counts": _counts,
    "load_messages": _load_messages,
    "enable_result": _enable_result,
    "arguments": _arguments,
    "near_names": _unknown_tool,
    "unknown_tool": _unknown_tool,
    "unavailable": _unavailable,
}
FUNCTIONS = tuple(_REPLAYS)
"""The files, each with the vectors of one function."""


def record() -> None:
    """Write the results of the adapter as it is into the files."""
    for function in FUNCTIONS:
        content = load(function)
        judgements = content.get("judgements", {})
        for vector in content["vectors"]:
            vector["result"] = replayed(function, vector, judgements)
        (DIRECTORY / f"{function}.json").write_text(written(content), encoding="utf-8")


if __name__ == "__main__":
    record()
