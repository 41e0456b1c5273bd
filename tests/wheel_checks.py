"""What an installation with one extra must be able to do: `wheel_checks.py EXTRA`, or `base`."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import grpc

from callability.adapter import NEUTRAL, rejection
from callability.v1.callability_service_pb2 import CheckToolRequest, CheckToolResponse
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from callability.v1.facts_pb2 import ToolFacts
from callability.v1.verdict_pb2 import TOOL_STATUS_DISABLED_BY_CONFIG, ToolVerdict, ToolWords
from support.running import COMMAND, callability_process, serving


def base() -> None:
    """The adapter writes a rejection beside an older MCP, and each command says which extra it needs."""
    assert importlib.metadata.version("mcp").startswith("1.")
    status = TOOL_STATUS_DISABLED_BY_CONFIG
    words = ToolWords(status=status, rejection="{edit_config} first.")
    answer = CheckToolResponse(verdict=ToolVerdict(status=status), words=words)
    rejected = rejection(answer, "git", "git_reset", phrases=NEUTRAL)
    assert rejected is not None
    assert rejected["structuredContent"]["status"] == "disabled_by_config", rejected
    assert "  gateway  " in callability_process("--help").stdout
    _needs("check", "policy")
    _needs("gateway", "gateway")
    _needs("studio", "studio")


def policy() -> None:
    """The shipped policy and an example are proved, and the service answers one decision."""
    assert callability_process("check").returncode == 0
    assert callability_process("policy", "export", "--example", "change-freeze", "freeze").returncode == 0
    done = callability_process("check", "--strict", "freeze")
    assert done.returncode == 0, done.stdout
    explained = json.loads(callability_process("explain", "tool.config_denied=true", "--json").stdout)
    assert explained["verdict"]["status"] == "disabled_by_config", explained
    request = CheckToolRequest(server="git", tool="git_reset", tool_facts=ToolFacts(config_denied=True))
    request.server_facts.enabled = True
    with serving() as address, grpc.insecure_channel(address) as channel:
        reply = CallabilityServiceStub(channel).CheckTool(request, timeout=120)
    assert reply.verdict.status == TOOL_STATUS_DISABLED_BY_CONFIG, reply
    _needs("gateway", "gateway")
    _needs("studio", "studio")


def gateway() -> None:
    """The gateway starts, with the policy in its own process, and ends with standard input."""
    assert callability_process("gateway", "--help").returncode == 0
    Path("mcp_config.json").write_text('{"mcpServers": {}}')
    command = [*COMMAND, "gateway", "--config", "mcp_config.json"]
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=120, check=True)


def studio() -> None:
    """The page is served."""
    with subprocess.Popen([*COMMAND, "studio"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().removeprefix("listening on ").strip()
            for path in ("", "main.js", "style.css", "icon.svg"):
                with urllib.request.urlopen(url + path, timeout=120) as answer:
                    assert answer.status == 200, path
        finally:
            process.terminate()
    _needs("gateway", "gateway")


def columns() -> None:
    """A table is decided."""
    facts = "server.enabled,tool.config_denied,server.quarantined,approval.disabled,approval.status,caller.refuses"
    Path("tools.csv").write_text(f"server.name,tool.name,{facts}\ngit,git_log,true,true,false,false,none,false\n")
    counted = json.loads(callability_process("inventory", "counts", "tools.csv", "--json").stdout)
    assert [each["status"] for each in counted["agents"][0]["counts"]] == ["disabled_by_config"], counted
    _needs("gateway", "gateway")


def otel() -> None:
    """The hooks of a client report a call as a span, beside the base alone."""
    hooks = importlib.import_module("callability.otel").TracingHooks()
    with hooks.span("callability.CheckTool", {"method": "CheckTool", "path": "a.B/CheckTool"}) as metadata:
        assert metadata == (), metadata
    importlib.import_module("callability.otel.tracing").Tracing("a proxy").stop()
    with hooks.span("callability.CheckTool", {"method": "CheckTool", "path": "a.B/CheckTool"}) as metadata:
        assert [key for key, _ in metadata] == ["traceparent"], metadata
    _needs("serve", "policy")


def semantic() -> None:
    """The gateway reads the table, and ends with standard input."""
    Path("mcp_config.json").write_text('{"mcpServers": {}}')
    command = [*COMMAND, "gateway", "--config", "mcp_config.json", "--by-meaning"]
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=120, check=True)


def _needs(command: str, extra: str) -> None:
    """Check that a command says in one line which extra it needs."""
    done = callability_process(command)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr.startswith(f"callability: `callability {command}` needs the extra `{extra}` "), done
    assert done.stderr.endswith(f"run pip install 'callability[{extra}]'\n"), done


if __name__ == "__main__":
    every = {each.__name__: each for each in (base, policy, gateway, studio, columns, otel, semantic)}
    every[sys.argv[1]]()
    print(f"the wheel works: {sys.argv[1]}")
