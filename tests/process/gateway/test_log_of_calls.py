"""The log of a gateway as JSON: the lines about a call, and the id of its request, which no agent reads."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from support.gateways import READ, SEND, call, http_gateway_process, retrieve, shelf, write_config
from support.running import serving


def test_the_lines_about_a_call_have_its_fields_and_the_id_of_its_request(tmp_path: Path) -> None:
    """The id is that of the HTTP header; it is in no answer, and the arguments are in no line."""
    answers: list[str] = []

    async def story() -> None:
        async with (
            httpx2.AsyncClient(headers={"X-Request-Id": "id-of-the-agent"}, timeout=120) as http_client,
            Client(streamable_http_client(url, http_client=http_client)) as client,
        ):
            answers.append(json.dumps(await retrieve(client, "read", include_disabled=True)))
            for tool in ("read_file", "send_mail"):
                answers.append((await call(client, f"it:{tool}", path="very-secret")).model_dump_json())

    config = write_config(tmp_path, {"it": shelf(tmp_path, "it", READ, SEND, disabled_tools=["send_mail"])})
    json_lines, of_service = ("--log-format", "json", "--log-calls"), tmp_path / "service.log"
    with (
        serving(*json_lines, log=of_service) as address,
        http_gateway_process(config, *json_lines, "--policy-address", address) as url,
    ):
        asyncio.run(story())
    text = (tmp_path / "gateway.log").read_text()
    lines: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    of_calls = [line for line in lines if "outcome" in line]
    assert [(line["server"], line["tool"], line["outcome"]) for line in of_calls] == [
        ("it", "read_file", "answered"),
        ("it", "send_mail", "refused as disabled_by_config"),
    ]
    assert {line["request_id"] for line in of_calls} == {"id-of-the-agent"}
    checks = [
        line for line in map(json.loads, of_service.read_text().splitlines()) if line.get("method") == "CheckTool"
    ]
    assert {line["request_id"] for line in checks} == {"id-of-the-agent"}
    assert next(line for line in lines if "is connected" in line["message"])["server"] == "it"
    assert "very-secret" not in text
    assert "id-of-the-agent" not in "".join(answers)
