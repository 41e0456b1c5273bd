"""How many tokens the texts cost that an agent reads.

`PYTHONPATH=tests python -m support.token_counts` records them in `tests/token_counts.json`.

They are those of the shipped policy, with the neutral phrases of the adapter and with the gateway's own. A tokenizer
that works offline counts them (`o200k_base`); without it, a token is four characters.
"""

from __future__ import annotations

import asyncio
import json
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf import json_format

from callability.adapter import NEUTRAL, Phrases, ToolText, discovery, enable_result, load_messages, rejection
from callability.gateway.tools.decisions import phrases
from callability.v1 import callability_service_pb2 as pb
from support.checkout import TESTS
from support.judging import LOCKED, checked, judgement_of, stub_of, text_of

RECORDED = TESTS / "token_counts.json"
SERVER, TOOL = "github", "create_issue"
DESCRIPTION = "Create a new issue in a repository."
CONFIG = Path.home() / ".config/callability/gateway.yaml"
REASON = "answered with HTTP 503"
VARIABLES = ("GITHUB_TOKEN",)
LOCKS = {"pending_approval": "Ask the user to approve it."}
REACHED = {"phase": "LOAD_PHASE_CONNECT"}
LOADS: Mapping[str, Mapping[str, Any]] = {
    "transient": REACHED | {"failure": "LOAD_FAILURE_TIMEOUT"},
    "transient, retry scheduled": REACHED | {"failure": "LOAD_FAILURE_TIMEOUT", "retryScheduled": True},
    "denied": {"httpStatus": 403},
    "permanent": REACHED | {"failure": "LOAD_FAILURE_REFUSED"},
}
"""For each message about servers that did not load, signals that have it."""
TRIED = {"known": True, "wasConnected": False, "credentials": "ENABLE_CREDENTIALS_COMPLETE", "callableTools": False}
FREE = TRIED | {"authorization": "ENABLE_AUTHORIZATION_NOT_NEEDED"}
FAILED = FREE | {"ended": "ENABLE_END_FAILED"}
ENABLES: Mapping[str, Mapping[str, Any]] = {
    "unknown_server": {"known": False},
    "already_enabled": {"known": True, "wasConnected": True},
    "missing_credentials": TRIED | {"credentials": "ENABLE_CREDENTIALS_MISSING"},
    "enabled": FREE | {"ended": "ENABLE_END_CONNECTED", "callableTools": True},
    "enabled, all locked": FREE | {"ended": "ENABLE_END_CONNECTED"},
    "declined": TRIED | {"authorization": "ENABLE_AUTHORIZATION_DECLINED", "ended": "ENABLE_END_FAILED"},
    "authorization_required": TRIED | {"authorization": "ENABLE_AUTHORIZATION_NO_DIALOG", "ended": "ENABLE_END_FAILED"},
    "cancelled": FREE | {"ended": "ENABLE_END_CANCELLED"},
    "connect_failed": FAILED,
    "connect_failed, dialog expired": FAILED
    | {
        "authorization": "ENABLE_AUTHORIZATION_UNANSWERED",
        "loadStatus": "LOAD_STATUS_TRANSIENT",
        "dialogExpired": True,
    },
    "connect_failed, transient": FAILED | {"loadStatus": "LOAD_STATUS_TRANSIENT"},
    "connect_failed, denied": FAILED | {"loadStatus": "LOAD_STATUS_DENIED"},
    "connect_failed, permanent": FAILED | {"loadStatus": "LOAD_STATUS_PERMANENT"},
}
"""For each text about enabling a server, facts that have it."""


@cache
def _counting() -> Callable[[str], int]:
    # It takes a second to read its tables, which is too much for every process that collects tests.
    with warnings.catch_warnings():
        # It opens its data by a function that is deprecated in some versions of Python.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            import bpe_openai  # noqa: PLC0415
        except ImportError:  # where there is no build of it for a platform
            return lambda text: math.ceil(len(text) / 4)
    encoding = bpe_openai.get_encoding("o200k_base")
    return lambda text: len(encoding.encode_ordinary(text))


def tokens(text: str) -> int:
    """Return the number of tokens of a text."""
    return _counting()(text)


class Wording(NamedTuple):
    """What replaces the actions: about one tool, about any, and about a server of the catalog."""

    one: Phrases
    any: Phrases
    catalog: Phrases


def wordings(config: Path = CONFIG) -> dict[str, Wording]:
    """Return the phrases of the adapter, and those of a gateway with a config."""
    gateway = replace(phrases(config, None), is_default=config == CONFIG)
    catalog = replace(gateway, catalog=frozenset([SERVER])).about(SERVER)
    return {
        "neutral": Wording(NEUTRAL, NEUTRAL, NEUTRAL),
        "gateway": Wording(gateway.about(SERVER, TOOL), gateway.about_any(), catalog),
    }


def rejection_text(status: str, about: Phrases) -> str:
    """Return what an agent reads when it calls a tool that has a status."""
    return text_of(rejection(checked(*LOCKED[status], server=SERVER, tool=TOOL), SERVER, TOOL, phrases=about))


def remediation_text(status: str, about: Phrases) -> str:
    """Return what a list of tools says about a status."""
    server, tool = LOCKED[status]
    judgement = judgement_of({SERVER: (server, {TOOL: tool})})
    return judgement.remediation(judgement.locked, about)[status]


def entry_cost(status: str) -> int:
    """Return the tokens of an entry of a locked tool beyond those of its values, in compact JSON."""
    server, tool = LOCKED[status]
    texts = {f"{SERVER}:{TOOL}": ToolText(DESCRIPTION)}
    judgement = judgement_of({SERVER: (server, {TOOL: tool})})
    [entry] = discovery(
        judgement, "issue", found=[], found_locked=[*texts], texts=texts, phrases={}, include_disabled=True
    )["disabled"]
    written = json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
    return tokens(written) - sum(map(tokens, entry.values()))


def load_text(message: str, servers: int, about: Phrases, reason: str = REASON) -> str:
    """Return what is said about some servers that did not load for the same cause."""
    names = [f"server{number}" for number in range(servers)]
    responses = dict.fromkeys(names, load_response(message))
    [text] = load_messages(responses, dict.fromkeys(names, reason), phrases=about).values()
    return text


def load_response(message: str) -> pb.ClassifyLoadResponse:
    """Return what the service says about a load with the signals of a message."""
    request = json_format.ParseDict({"signals": LOADS[message]}, pb.ClassifyLoadRequest())
    return asyncio.run(_classified_load(request))


async def _classified_load(request: pb.ClassifyLoadRequest) -> pb.ClassifyLoadResponse:
    return await stub_of().ClassifyLoad(request)


def enable_text(outcome: str, about: Phrases) -> str:
    """Return the result of enabling a server."""
    request = json_format.ParseDict({"facts": ENABLES[outcome]}, pb.ClassifyEnableRequest())
    response = asyncio.run(_classified_enable(request))
    result = enable_result(response, SERVER, phrases=about, variables=VARIABLES, locks=LOCKS, reason=REASON)
    return text_of(result)


async def _classified_enable(request: pb.ClassifyEnableRequest) -> pb.ClassifyEnableResponse:
    return await stub_of().ClassifyEnable(request)


def enable_cost(outcome: str, about: Phrases) -> int:
    """Return the tokens of such a result beyond its locks, its reason and its variables."""
    text = enable_text(outcome, about)
    for given in (*LOCKS, *LOCKS.values(), *VARIABLES, REASON):
        if given in text:
            text = text.replace(given, "")
    return tokens(text)


def counts() -> dict[str, dict[str, int]]:
    """Return the tokens of each text, by its kind."""
    found: dict[str, dict[str, int]] = {"discovery entry": {status: entry_cost(status) for status in LOCKED}}
    for whose, wording in wordings().items():
        found |= {
            f"rejection, {whose}": {status: tokens(rejection_text(status, wording.one)) for status in LOCKED},
            f"remediation, {whose}": {status: tokens(remediation_text(status, wording.any)) for status in LOCKED},
            f"load notice of one server, {whose}": {each: tokens(load_text(each, 1, wording.any)) for each in LOADS},
            f"load notice of eight servers, {whose}": {each: tokens(load_text(each, 8, wording.any)) for each in LOADS},
            f"enable result, {whose}": {each: enable_cost(each, wording.catalog) for each in ENABLES},
        }
    return found


def recorded() -> dict[str, dict[str, dict[str, int]]]:
    """Return the numbers of the file: those of the first texts, and the present ones."""
    held: dict[str, dict[str, dict[str, int]]] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return held


def table(before: Mapping[str, Mapping[str, int]], after: Mapping[str, Mapping[str, int]]) -> str:
    """Return both numbers of each text, a line a text."""
    lines = [
        f"{kind}: {name}: {before.get(kind, {}).get(name, 0)} -> {number}"
        for kind, numbers in after.items()
        for name, number in numbers.items()
    ]
    return "\n".join(lines)


def main() -> None:
    """Record the numbers, keep those of the first texts, and print both."""
    now = counts()
    before = recorded()["before"] if RECORDED.exists() else now
    RECORDED.write_text(json.dumps({"before": before, "now": now}, indent=1) + "\n", encoding="utf-8")
    print(table(before, now))


if __name__ == "__main__":
    main()
