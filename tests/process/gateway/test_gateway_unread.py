"""Facts that could not be read: agents read their kind, and the log names the fact, once for each change."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from callability.gateway.observability import UnreadFacts
from support.edits import edit
from support.gateway_in_process import client_of, http_gateway
from support.gateways import agents_of, call, client_with, retrieve, shelf, text_of, token_of, write_config
from support.policies import write_policy
from support.waiting import becomes, status

RULES = """\
labels:
  server: {environment: [production, staging]}
rules:
  - id: lock
    when: {any: [{server.quarantined: true}, {approval.status: [pending, changed]}, {caller.refuses: true}]}
    status: disabled_unknown
  - {id: freeze, when: {server.label.environment: production}, status: disabled_by_config}
  - {id: open, status: callable}
words:
  disabled_by_config: {remediation: Ask the operator., rejection: 'Tool {tool}: ask the operator.'}
  disabled_unknown: {remediation: 'Tell the user: {check_logs}.', rejection: 'Tool {tool}: {check_logs}.'}
"""
READ = {"name": "read_file", "description": "Reads a file."}
WRITE = {"name": "write_file", "description": "Writes a file."}
LABEL = ("a", "read_file", ("server.label.environment",))


def _messages(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    found = [(record.levelname, record.getMessage()) for record in caplog.records]
    caplog.clear()
    return found


def test_a_fact_that_holds_back_tools_is_logged_once_for_each_change(caplog: pytest.LogCaptureFixture) -> None:
    """With server, fact and tools; not for every request, and again if it could be read in between."""
    caplog.set_level(logging.INFO, logger="callability")
    unread = UnreadFacts()
    tools = [("files", name, ("approval.status",)) for name in ("read", "write\n")]
    started = (
        "WARNING",
        "`files`: `approval.status` could not be read, and the policy holds back `read`, `write\\u000a`",
    )
    unread.log_judgement("", tools)
    assert _messages(caplog) == [started]
    unread.log_judgement("", tools)
    unread.log_judgement("", tools[:1])
    assert _messages(caplog) == []
    unread.log_judgement("", [("files", "read", ())])
    assert _messages(caplog) == [("INFO", "`files`: `approval.status` no longer holds back `read`")]
    unread.log_judgement("", [("files", "read", ("server.enabled", "approval.status")), tools[1]])
    assert _messages(caplog) == [
        ("WARNING", "`files`: `server.enabled` could not be read, and the policy holds back `read`"),
        ("WARNING", "`files`: `approval.status` could not be read, and the policy holds back `read`"),
    ]


def test_agents_for_whom_other_rules_are_reached_do_not_repeat_a_line(caplog: pytest.LogCaptureFixture) -> None:
    """A fact is logged when it starts to hold back a tool of any agent, and when it holds back none any more."""
    caplog.set_level(logging.INFO, logger="callability")
    unread = UnreadFacts()
    for _ in range(3):
        unread.log_judgement("one", [LABEL])
        unread.log_judgement("two", [("a", "read_file", ())])
        unread.log_judgement("three", [LABEL])
    said = "`a`: `server.label.environment` has a value that the policy does not declare, and the policy holds back"
    assert _messages(caplog) == [("WARNING", f"{said} `read_file`")]
    unread.log_judgement("one", [("a", "read_file", ())])
    assert _messages(caplog) == []
    unread.log_judgement("three", [("a", "read_file", ())])
    assert _messages(caplog) == [("INFO", "`a`: `server.label.environment` no longer holds back `read_file`")]


def _gateway(directory: Path, **labels: str) -> tuple[Path, Path]:
    """Write a config whose server `files` has labels, and a policy that reads one; return both."""
    policy = directory / "policy"
    policy.mkdir()
    config = write_config(directory, {"files": shelf(directory, "files", READ, WRITE, labels=labels)})
    return config, write_policy(policy, RULES)


def test_a_label_with_an_undeclared_value_is_a_final_rejection_that_does_not_show_the_label(tmp_path: Path) -> None:
    """The agent reads which kind of fact is missing, and the log has server, tool and fact, once."""
    config, policy = _gateway(tmp_path, environment="prod")

    async def story() -> None:
        async with client_of(config, "--policy", str(policy)) as client:
            for _ in range(3):
                rejected = await call(client, "files:read_file")
                found = await retrieve(client, "file", include_disabled=True)
            assert rejected.is_error
            assert rejected.structured_content == {
                "status": "disabled_unknown",
                "server": "files",
                "tool": "read_file",
                "lifted_by": "undetermined",
                "retry": "never",
            }
            text = text_of(rejected)
            assert "Could not be read: a label set by the operator. " in text
            assert "Who can lift this is unknown. Retrying does not help. " in text
            assert "later" not in text
            assert [entry["status"] for entry in found["disabled"]] == ["disabled_unknown"] * 2
            for answer_text in (text, str(found)):
                assert "environment" not in answer_text
                assert "prod" not in answer_text

    asyncio.run(story())
    log = (tmp_path / "gateway.log").read_text()
    held = "`files`: `server.label.environment` has a value that the policy does not declare, and the policy holds back"
    assert [line.split(held)[1] for line in log.splitlines() if held in line] == [" `read_file`", " `write_file`"]


def test_a_tool_that_is_gone_is_no_longer_held_back(tmp_path: Path) -> None:
    """The log says so, and nothing is kept of the tools that a server no longer lists."""
    config, policy = _gateway(tmp_path, environment="prod")

    async def story() -> None:
        async with client_of(config, "--policy", str(policy)) as client:
            assert len((await retrieve(client, "file", include_disabled=True))["disabled"]) == 2
            edit(config, servers={"files": shelf(tmp_path, "newer", WRITE)})

            async def held_back() -> int:
                return len((await retrieve(client, "file", include_disabled=True))["disabled"])

            await becomes(held_back, 1)

    asyncio.run(story())
    log = (tmp_path / "gateway.log").read_text()
    assert log.count("`files`: `server.label.environment` no longer holds back `read_file`\n") == 1


def test_an_agent_that_is_gone_hides_no_change_of_what_is_held_back(tmp_path: Path) -> None:
    """A line for the label that is corrected, and one for the label that is wrong again."""
    config, policy = _gateway(tmp_path, environment="prod")
    both, one = agents_of({"gone": ["files"], "stays": ["files"]}), agents_of({"stays": ["files"]})
    edit(config, agents=both)

    async def reads(url: str, agent: str) -> str | None:
        async with client_with(url, token_of(agent)) as client:
            return await status(client, "files:read_file")()

    with http_gateway(config, "--policy", str(policy)) as url:

        async def story() -> None:
            for agent in both:
                assert await reads(url, agent) == "disabled_unknown"
            edit(config, agents=one, servers={"files": {"labels": {"environment": "staging"}}})
            await becomes(lambda: reads(url, "stays"), None)
            edit(config, servers={"files": {"labels": {"environment": "prod"}}})
            await becomes(lambda: reads(url, "stays"), "disabled_unknown")

        asyncio.run(story())
    log = (tmp_path / "gateway.log").read_text()
    assert log.count("`server.label.environment` no longer holds back `read_file`") == 1
    assert log.count("and the policy holds back `read_file`") == 2


def test_an_approval_that_could_not_be_read_may_be_read_later(tmp_path: Path) -> None:
    """The text and the field say so, and so does the log."""
    config, policy = _gateway(tmp_path)
    config.write_text(config.read_text().replace('{\n  "mcpServers"', '{\n  "approvals": "gone.yaml",\n  "mcpServers"'))

    async def story() -> None:
        async with client_of(config, "--policy", str(policy)) as client:
            rejected = await call(client, "files:read_file")
            assert (rejected.structured_content or {})["retry"] == "later"
            assert "Could not be read: the tool's approval. " in text_of(rejected)
            assert "A later retry may succeed. " in text_of(rejected)

    asyncio.run(story())
    log = (tmp_path / "gateway.log").read_text()
    assert log.count("`files`: `approval.status` could not be read, and the policy holds back `read_file`") == 1


@pytest.mark.parametrize("record", ["{status: aproved}", "{disabled: 'yes'}"])
def test_an_approval_record_with_a_value_that_means_nothing_is_a_final_rejection(tmp_path: Path, record: str) -> None:
    """Only a person can correct the file, so no retry helps until then."""
    config = write_config(tmp_path, {"files": shelf(tmp_path, "files", READ)}, approvals="approvals.yaml")
    (tmp_path / "approvals.yaml").write_text(f"files: {{read_file: {record}}}\n")

    async def story() -> None:
        async with client_of(config) as client:
            rejected = await call(client, "files:read_file")
            assert (rejected.structured_content or {})["retry"] == "never"
            assert "Could not be read: the tool's approval. " in text_of(rejected)
            assert "Who can lift this is unknown. Retrying does not help. " in text_of(rejected)

    asyncio.run(story())


def test_an_agent_learns_nothing_of_what_could_not_be_read_of_a_server_out_of_its_scope(tmp_path: Path) -> None:
    """Every answer is as if the server did not exist (FR-007), even after other agents asked about it."""
    policy = tmp_path / "policy"
    policy.mkdir()
    write_policy(policy, RULES)
    seen: list[list[str]] = []
    for there in (True, False):
        directory = tmp_path / str(there)
        directory.mkdir()
        servers = {"files": shelf(directory, "files", READ)}
        if there:
            servers["held"] = shelf(directory, "held", WRITE, labels={"environment": "prod"})
        agents = agents_of({"small": ["files"], "large": [*servers]})
        config = write_config(directory, servers, agents=agents)

        async def story(config: Path = config, there: bool = there) -> None:
            with http_gateway(config, "--policy", str(policy)) as url:
                if there:
                    async with client_with(url, token_of("large")) as large:
                        rejected = await call(large, "held:write_file")
                        assert (rejected.structured_content or {})["status"] == "disabled_unknown"
                async with client_with(url, token_of("small")) as small:
                    seen.append(await _answers(small))

        asyncio.run(story())
    assert seen[0] == seen[1]


async def _answers(client: Client) -> list[str]:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("retrieve_tools", {"query": "write file", "include_disabled": True}),
        ("call_tool", {"name": "held:write_file"}),
        ("upstream_servers", {}),
    ]
    return [(await client.call_tool(tool, arguments)).model_dump_json() for tool, arguments in calls]
