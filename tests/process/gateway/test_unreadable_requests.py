"""Messages that cannot be read: each is answered, and over stdio the session goes on."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import httpx2

from support.gateway_in_process import http_gateway
from support.gateway_requests import INITIALIZE
from support.gateways import write_config
from support.running import start
from support.waiting import SECONDS

PING = {"jsonrpc": "2.0", "id": "last", "method": "ping"}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
INVALID, MALFORMED = -32600, -32700
CASES: dict[str, tuple[bytes, Any, int]] = {
    "a method that is no string": (b'{"jsonrpc": "2.0", "id": 5, "method": 5}', 5, INVALID),
    "parameters that are a list": (
        b'{"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": [1]}',
        "x",
        INVALID,
    ),
    "another version of JSON-RPC": (b'{"jsonrpc": "1.0", "id": 6, "method": "tools/list"}', 6, INVALID),
    "no version of JSON-RPC": (b'{"id": 7, "method": "tools/list"}', 7, INVALID),
    "an id that is a fraction": (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', None, INVALID),
    "an id that is true": (b'{"jsonrpc": "2.0", "id": true, "method": 5}', None, INVALID),
    "several requests in one line": (json.dumps([PING, PING]).encode(), None, INVALID),
    "half a surrogate pair": (
        b'{"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": {"name": "\\ud83d"}}',
        8,
        MALFORMED,
    ),
    "half a surrogate pair in the id": (b'{"jsonrpc": "2.0", "id": "\\ud83d", "method": "ping"}', None, MALFORMED),
    "parameters that are too deep": (
        b'{"jsonrpc": "2.0", "id": "deep", "method": "tools/call", "params": %b1%b}' % (b'{"a":' * 300, b"}" * 300),
        "deep",
        MALFORMED,
    ),
    "a number without an end": (
        b'{"jsonrpc": "2.0", "id": 9, "method": "ping", "x": %b}' % (b"9" * 5000),
        None,
        MALFORMED,
    ),
    "no JSON": (b"tools/list", None, MALFORMED),
    "no UTF-8": (b"\xff\xfe", None, MALFORMED),
    "JSON that is too deep": (b"[" * 5_000, None, MALFORMED),
}


def _answers(directory: Path, *lines: bytes) -> list[dict[str, Any]]:
    """Send lines to a gateway in a session, and return its answers."""
    command = ("gateway", "--config", str(write_config(directory, {})))
    sent = [json.dumps(INITIALIZE).encode(), json.dumps(INITIALIZED).encode(), *lines, json.dumps(PING).encode()]
    with start(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as gateway:
        assert gateway.stdin is not None
        assert gateway.stdout is not None
        gateway.stdin.write(b"".join(line + b"\n" for line in sent))
        gateway.stdin.flush()
        answers = []
        for line in gateway.stdout:
            answers.append(json.loads(line))
            if answers[-1]["id"] == PING["id"]:
                break
        gateway.stdin.close()
        assert gateway.wait(SECONDS) == 0
    first, *answers, last = answers
    assert (first["id"], last["result"]) == (INITIALIZE["id"], {})
    return answers


def test_a_request_that_cannot_be_read_is_answered_with_an_error(tmp_path: Path) -> None:
    """With its id if that can be read; otherwise the agent would wait for an answer that never comes."""
    answers = _answers(tmp_path, *(line for line, _, _ in CASES.values()))
    found = [(answer["id"], answer["error"]["code"]) for answer in answers]
    assert found == [(request, code) for _, request, code in CASES.values()]
    assert answers[0]["error"]["message"].endswith("`method`: Input should be a valid string")


def test_what_needs_no_answer_gets_none(tmp_path: Path) -> None:
    """An error with the id of a response could be taken for the answer to a request of the client."""
    response, notification = {"id": 1, "result": 5}, {"method": "notifications/x"}
    messages = (json.dumps({"jsonrpc": "2.0", **each}).encode() for each in (response, notification))
    assert _answers(tmp_path, b"", b"  ", *messages) == []


def test_over_http_the_error_is_one_line_without_names_of_the_program(tmp_path: Path) -> None:
    """And the session goes on; nothing of the request is sent back but its id."""
    headers = {"Accept": "application/json, text/event-stream"}
    with http_gateway(write_config(tmp_path, {})) as url, httpx2.Client() as client:
        opened = client.post(url, json=INITIALIZE, headers=headers)
        headers["Mcp-Session-Id"] = opened.headers["Mcp-Session-Id"]
        client.post(url, json=INITIALIZED, headers=headers)
        for name, (body, request, code) in CASES.items():
            answer = client.post(url, content=body, headers={**headers, "Content-Type": "application/json"})
            assert answer.status_code == 400, name
            error = answer.json()["error"]
            assert (error["code"], answer.json().get("id")) == (code, None if code == MALFORMED else request), name
            assert "\n" not in error["message"], name
            assert not re.search("pydantic|JSONRPC[A-Z]|input_value", error["message"]), name
        assert client.post(url, json=PING, headers=headers).status_code == 200
