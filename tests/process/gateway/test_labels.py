"""Labels of the gateway's config compared with those that the policy declares: a typo never opens a lock silently."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from mcp import Client

from callability import adapter
from callability.adapter import InputFault, UnreadInput
from callability.cli.gateway_process import status
from callability.compiler.bundle_writing import checked_policy
from callability.compiler.policy import load
from callability.gateway.observability import Metrics
from callability.kernel.calls import description
from callability.kernel.policy import read
from callability.v1 import callability_service_pb2 as pb
from callability.v1.policy_service_pb2 import GetPolicyResponse
from support.checkout import ROOT
from support.commands import callability
from support.edits import edit, replace
from support.gateway_in_process import http_gateway
from support.gateways import shelf, write_config
from support.running import serving
from support.waiting import becomes, file_status

DROP = {"name": "drop_table", "description": "Drops a table."}
TYPO = "label `enviroment` of server `db` is not declared by the policy, so no rule reads it"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """The directory of a policy that declares `server.label.environment`, and locks production."""
    directory = tmp_path / "policy"
    shutil.copytree(ROOT / "policy", directory, ignore=shutil.ignore_patterns("schema", "examples"))
    for path in (ROOT / "policy/examples/change-freeze").iterdir():
        shutil.copy(path, directory)
    return directory


def _config(directory: Path, label: str = "enviroment", value: str = "production", **keys: Any) -> Path:
    return write_config(directory, {"db": {"command": "x", "enabled": False, "labels": {label: value}}}, **keys)


def _log(directory: Path) -> str:
    return (directory / "gateway.log").read_text()


def _metric(directory: Path, name: str) -> Callable[[], Coroutine[Any, Any, float]]:
    """Return what reads a metric of the gateway whose log is in a directory."""

    async def look() -> float:
        found = re.search(r"metrics are on (\S+)", _log(directory))
        assert found, _log(directory)

        def read() -> str:
            with urllib.request.urlopen(found[1], timeout=120) as answer:
                return str(answer.read().decode())

        measured = re.search(rf"^{name} (\S+)$", await asyncio.to_thread(read), re.MULTILINE)
        assert measured
        return float(measured[1])

    return look


METRICS = ("--metrics-address", "127.0.0.1:0")


def test_a_label_key_that_the_policy_does_not_declare_is_a_warning(policy: Path, tmp_path: Path) -> None:
    """In the log with file and line, and in a metric; an edit that fixes it ends it, and no agent reads about it."""
    config = _config(tmp_path)

    async def story(url: str) -> None:
        undeclared = _metric(tmp_path, "callability_undeclared_labels")
        assert await undeclared() == 1
        assert await _metric(tmp_path, "callability_labels_checked")() == 1
        assert f"{config}:7:9: warning: {TYPO} (did you mean `environment`?) [undeclared-label]" in _log(tmp_path)
        async with Client(url) as client:
            before = (await client.call_tool("upstream_servers", {})).model_dump_json()
            edit(config, servers={"db": {"labels": {"environment": "production"}}})
            await becomes(undeclared, 0)
            assert (await client.call_tool("upstream_servers", {})).model_dump_json() == before
            edit(config, servers={"db": {"labels": {"environment": "prod"}}})
            await becomes(undeclared, 1)
            assert (await client.call_tool("upstream_servers", {})).model_dump_json() == before

    with http_gateway(config, "--policy", str(policy), *METRICS) as url:
        asyncio.run(story(url))
    assert "label `environment` of server `db` is `prod`, a value that the policy does not declare" in _log(tmp_path)


def test_strict_labels_refuse_a_start_and_an_edit(policy: Path, tmp_path: Path) -> None:
    """No server is started, and the last good state stays."""
    config = _config(tmp_path, strict_labels=True)
    done = callability("gateway", "--config", str(config), "--policy", str(policy), stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{config}:7:9: {TYPO} (did you mean `environment`?) [undeclared-label]" in done.stderr.splitlines()
    config = _config(tmp_path, "environment", strict_labels=True)

    async def story(url: str) -> None:
        async with Client(url) as client:
            edit(config, servers={"db": {"labels": {"enviroment": "production"}}})
            await becomes(file_status(client), {"config"})
            edit(config, servers={"db": {"labels": {"environment": "staging"}}})
            await becomes(file_status(client), set())

    with http_gateway(config, "--policy", str(policy)) as url:
        asyncio.run(story(url))
    assert "[undeclared-label]" in _log(tmp_path)


def _undeclare(policy: Path) -> None:
    """Edit a policy so that it declares `env` in place of `environment`."""
    for path in (policy / "callability_test.yaml", policy / "callability.yaml"):
        replace(path, path.read_text().replace("environment", "env"))


def test_a_policy_that_is_edited_is_compared_again(policy: Path, tmp_path: Path) -> None:
    """At once, without a call; under `strict_labels` the gateway keeps serving, and the log has an error."""
    config = _config(tmp_path, "environment", strict_labels=True)

    async def story() -> None:
        undeclared = _metric(tmp_path, "callability_undeclared_labels")
        assert await undeclared() == 0
        _undeclare(policy)
        await becomes(undeclared, 1)

    with http_gateway(config, "--policy", str(policy), *METRICS):
        asyncio.run(story())
    log = _log(tmp_path)
    assert re.search(r"ERROR .*label `environment` of server `db` is not declared .*one of `env`", log)
    assert "the labels of the config do not match the policy; the gateway keeps running with both" in log


def test_an_edit_that_was_refused_for_its_labels_is_applied_once_the_policy_declares_them(
    policy: Path, tmp_path: Path
) -> None:
    """The config need not be written again."""
    config = _config(tmp_path, "environment", strict_labels=True)

    async def story(url: str) -> None:
        async with Client(url) as client:
            edit(config, servers={"db": {"labels": {"env": "production"}}})
            await becomes(file_status(client), {"config"})
            _undeclare(policy)
            await becomes(file_status(client), set())

    with http_gateway(config, "--policy", str(policy)) as url:
        asyncio.run(story(url))


def test_a_policy_of_a_service_that_changes_is_compared_again(policy: Path, tmp_path: Path) -> None:
    """An answer of another revision says so."""
    config = write_config(tmp_path, {"db": shelf(tmp_path, "db", DROP, labels={"environment": "production"})})

    async def story(url: str) -> None:
        undeclared = _metric(tmp_path, "callability_undeclared_labels")
        async with Client(url) as client:

            async def undeclared_labels() -> float:
                await client.call_tool("retrieve_tools", {"query": "drop table"})
                return await undeclared()

            assert await undeclared_labels() == 0
            _undeclare(policy)
            await becomes(undeclared_labels, 1)

    with (
        serving("--policy", str(policy)) as address,
        http_gateway(config, "--policy-address", address, *METRICS) as url,
    ):
        asyncio.run(story(url))
    assert "label `environment` of server `db` is not declared by the policy" in _log(tmp_path)


@contextmanager
def _older_service() -> Iterator[str]:
    """Run a service from before labels were published, and yield its address."""

    def answer(request: bytes, context: object) -> bytes:
        return GetPolicyResponse(revision="0" * 64).SerializeToString()

    methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {"GetPolicy": grpc.unary_unary_rpc_method_handler(answer)}
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("callability.v1.PolicyService", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


NOT_CHECKED = "the labels of the config are not checked: the policy service does not say which labels it declares"


def test_labels_that_an_older_service_does_not_publish_are_not_checked(tmp_path: Path) -> None:
    """The log and a metric say so; under `strict_labels` the gateway does not start, and the check refuses."""
    with _older_service() as address:
        address_options = ("--policy-address", address)
        with http_gateway(_config(tmp_path), *address_options, *METRICS):
            assert asyncio.run(_metric(tmp_path, "callability_labels_checked")()) == 0
        assert f"warning: {NOT_CHECKED}" in _log(tmp_path)
        for command in (("config", "check"), ("gateway", "--check")):
            done = callability(*command, "--config", str(_config(tmp_path)), *address_options)
            assert (done.returncode, f"warning: {NOT_CHECKED}" in done.stdout) == (0, True), done.stdout
        strict = _config(tmp_path, strict_labels=True)
        done = callability("gateway", "--config", str(strict), *address_options, stdin=subprocess.DEVNULL)
        assert (done.returncode, f"{strict}:11:20: {NOT_CHECKED}" in done.stderr) == (1, True), done.stderr


def test_a_service_that_answers_later_is_compared_then(policy: Path, tmp_path: Path) -> None:
    """The gateway starts without it, and asks again."""
    socket = f"unix:{tmp_path}/s"

    async def story() -> None:
        assert await _metric(tmp_path, "callability_labels_checked")() == 0
        with serving("--policy", str(policy), address=socket):
            await becomes(_metric(tmp_path, "callability_undeclared_labels"), 1)
        assert await _metric(tmp_path, "callability_labels_checked")() == 1

    with http_gateway(_config(tmp_path), "--policy-address", socket, *METRICS):
        asyncio.run(story())
    log = _log(tmp_path)
    assert log.count("are not checked: the policy service gave no answer (start the service)") == 1
    assert "does not say" not in log


def test_a_check_says_that_no_policy_service_answers(tmp_path: Path) -> None:
    """Also for a config without labels; under `strict_labels`, labels that cannot be checked refuse it."""
    dead = ("--policy-address", f"unix:{tmp_path}/none")
    unanswered = "gave no answer (UNAVAILABLE), so the policy is not checked"
    plain = tmp_path / "plain.yaml"
    plain.write_text("mcpServers: {}\n")
    cases = ((plain, ("config", "check"), 0), (_config(tmp_path, strict_labels=True), ("gateway", "--check"), 1))
    for config, command, code in cases:
        done = callability(*command, "--config", str(config), *dead)
        assert (done.returncode, f"{config}: warning: the policy service at" in done.stdout) == (code, True)
        assert unanswered in done.stdout
        assert "does not say" not in done.stdout


def test_strict_labels_that_are_compared_with_no_policy_are_a_warning(tmp_path: Path) -> None:
    """A note is not enough for an operator who asked for strictness; without strictness, it is."""
    strict = _config(tmp_path, strict_labels=True)
    done = callability("config", "check", "--config", str(strict))
    assert done.returncode == 0
    assert f"{strict}:11:20: warning: the labels of the config are not compared with a policy, although" in done.stdout
    assert callability("config", "check", "--config", str(strict), "--strict").returncode == 1


def test_a_check_names_every_label_of_servers_and_tools_at_its_place(policy: Path, tmp_path: Path) -> None:
    """Of the catalog too; a key has the place of the key, and a value that of the value."""
    config = tmp_path / "servers.yaml"
    config.write_text(
        "mcpServers:\n"
        "  db: {command: sh, labels: {environment: prod, team: a}}\n"
        "catalog:\n"
        "  web: {url: 'http://h/mcp', labels: {environment: test}, tool_labels: {wipe: {environment: test}}}\n"
    )
    done = callability("config", "check", "--config", str(config), "--policy", str(policy))
    wanted = [
        "2:43: warning: label `environment` of server `db` is `prod`, a value that the policy does not declare, so that"
        " every rule that reads it is undetermined (did you mean `production`?) [undeclared-label-value]",
        "2:49: warning: label `team` of server `db` is not declared by the policy, so no rule reads it"
        " (one of `environment`) [undeclared-label]",
        "4:80: warning: label `environment` of tool `wipe` of server `web` is not declared by the policy, so no rule"
        " reads it [undeclared-label]",
    ]
    _, *found, of_policy, of_config = done.stdout.splitlines()
    assert found == [f"{config}:{line}" for line in wanted]
    assert of_policy.startswith(f"policy {policy}: accepted, revision ")
    assert of_config == f"{config}: accepted, 0 errors, 3 warnings"
    assert done.returncode == 0
    done = callability("config", "check", "--config", str(config), "--policy", str(policy), "--strict")
    assert done.returncode == 1
    note = "note: the labels of the config are not compared with a policy (give `--policy` or `--policy-address`)"
    done = callability("config", "check", "--config", str(config))
    assert (done.returncode, note in done.stdout) == (0, True)
    done = callability("gateway", "--check", "--config", str(config))
    assert (done.returncode, done.stdout.count("[undeclared-label]")) == (0, 4), "the shipped policy declares none"


def test_the_status_line_says_how_many_labels_are_not_declared() -> None:
    """And that they are not checked."""
    metrics = Metrics()
    assert "label" not in status(metrics)
    metrics.labels_compared(2, checked=True)
    assert " | undeclared labels or facts: 2 | " in status(metrics)
    metrics.labels_compared(0, checked=False)
    assert " | labels not checked | " in status(metrics)


REQUEST: dict[str, Any] = {
    "servers": [
        {
            "name": "db",
            "facts": {"enabled": True, "quarantined": False, "labels": {"values": {"enviroment": "production"}}},
            "tools": [
                {"name": "wipe", "facts": {"configDenied": False, "approval": {}, "annotations": {}, "labels": {}}},
                {"name": "read", "facts": {"approval": {}, "labels": {"values": {"risk": "low"}}}},
            ],
        },
        {
            "name": "web",
            "facts": {"enabled": True, "labels": {"values": {"environment": "prod"}}},
            "tools": [{"name": "get", "facts": {"configDenied": False, "annotations": {}}}],
        },
    ]
}


def test_a_proxy_learns_which_of_its_facts_the_policy_cannot_read(policy: Path) -> None:
    """Labels and values that are not declared, with the nearest one, and groups that are read and not sent."""
    response = description(read(checked_policy(load(policy)).bundle))
    request = json_format.ParseDict(REQUEST, pb.CheckToolsRequest())
    assert adapter.unread_inputs(response, request) == (
        UnreadInput(
            InputFault.UNDECLARED_LABEL, "server.label.enviroment", "db", value="production", near="environment"
        ),
        UnreadInput(InputFault.MISSING_GROUP, "tool.config_denied", "db", "read"),
        UnreadInput(InputFault.MISSING_GROUP, "annotations", "db", "read"),
        UnreadInput(InputFault.UNDECLARED_LABEL, "tool.label.risk", "db", "read", value="low"),
        UnreadInput(InputFault.MISSING_GROUP, "server.quarantined", "web"),
        UnreadInput(InputFault.UNDECLARED_VALUE, "server.label.environment", "web", value="prod", near="production"),
        UnreadInput(InputFault.MISSING_GROUP, "approval", "web", "get"),
    )


def test_a_group_is_missing_only_if_a_rule_reads_it(policy: Path) -> None:
    """The shipped policy reads no annotations, no labels and no agent; another one reads the agent."""
    request = json_format.ParseDict(REQUEST, pb.CheckToolsRequest())
    shipped = description(read(checked_policy(load(ROOT / "policy")).bundle))
    missing = {each.fact for each in adapter.unread_inputs(shipped, request) if each.fault is InputFault.MISSING_GROUP}
    assert missing == {"tool.config_denied", "server.quarantined", "approval"}
    for path in (ROOT / "policy/examples/agents-allowed").iterdir():
        shutil.copy(path, policy)
    named = description(read(checked_policy(load(policy)).bundle))
    assert adapter.unread_inputs(named, request)[0] == UnreadInput(InputFault.MISSING_GROUP, "agent")
    request.agent.name = ""
    assert "agent" not in {each.fact for each in adapter.unread_inputs(named, request)}


def test_a_proxy_learns_that_a_service_does_not_publish_labels() -> None:
    """An older service: no label counts as declared, and none as undeclared."""
    with pytest.raises(adapter.NotPublished, match="does not publish"):
        adapter.unread_inputs(GetPolicyResponse(revision="0" * 64), pb.CheckToolsRequest())
