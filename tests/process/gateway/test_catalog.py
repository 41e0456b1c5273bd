"""The outcome of enabling a server of the catalog, as agents read it in both revisions of MCP (spec C)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import ClientSession
from mcp_types import ClientCapabilities, ElicitationCapability, ElicitRequestFormParams, FormElicitationCapability

from support.catalogs import (
    MODES,
    Mode,
    Person,
    agent,
    entry,
    gateway,
    has_no_trace,
    is_connection,
    is_no_connection,
    plain,
    works,
)
from support.gateways import shelf, text_of
from support.upstreams.bad_http import BadHttp, Cut, Step, reply
from support.upstreams.oauth_provider import OAuthProvider
from support.waiting import becomes, loads

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("mode", MODES)]

GREET = {"name": "greet", "description": "Greets."}


@pytest.fixture
def anyio_backend() -> str:
    """Gateways run on asyncio."""
    return "asyncio"


@pytest.fixture
async def provider() -> AsyncIterator[OAuthProvider]:
    """A provider at which the person authorizes."""
    async with OAuthProvider(tools=("greet",)) as it:
        yield it


@dataclass(frozen=True, slots=True)
class Case:
    """Authorizations that fail, by what the person or the provider does."""

    status: str
    says: str
    does: Literal["goes", "declines", "cancels"] = "goes"
    provider: dict[str, Any] = field(default_factory=dict)


CASES = {
    "the user declines": Case("declined", "was declined", "declines"),
    "the user closes the dialog": Case("declined", "was declined", "cancels"),
    "the user declines at the provider": Case("declined", "was declined", provider={"person": "decline"}),
    "the provider fails": Case("connect_failed", "its provider refused (permanent)", provider={"person": "fail"}),
    "the provider registers nobody": Case(
        "connect_failed", "does not register this gateway (permanent)", provider={"register_status": 400}
    ),
    "the provider gives no token": Case("connect_failed", "gave no token (permanent)", provider={"token_status": 400}),
    "the provider sends another state back": Case(
        "connect_failed", "was not authorized within 10 s (transient)", provider={"wrong_state": True}
    ),
    "nobody is at the provider": Case(
        "connect_failed", "was not authorized within 10 s (transient)", provider={"person": "nobody"}
    ),
    "the server takes no token": Case("connect_failed", "HTTP status 401 (denied)", provider={"mcp_status": 401}),
    "the server refuses": Case("connect_failed", "HTTP status 403 (denied)", provider={"mcp_status": 403}),
    "the server has a fault": Case("connect_failed", "HTTP status 500 (transient)", provider={"mcp_status": 500}),
}


STEPS = {
    "was not authorized within": "Retry only if the user asks.",
    "(transient)": "Retry later if the request still needs it.",
    "(denied)": "Only the operator can grant access at the server or correct its entry",
    "(permanent)": "The operator must check the gateway's log, fix the server or its entry",
}


def says_what_to_do(text: str) -> bool:
    """Return whether the text has the step that fits a failed connection, no other step, and no useless command."""
    [step, *_] = [step for failure, step in STEPS.items() if failure in text]
    return [other for other in STEPS.values() if other in text] == [step] and "callability servers" not in text


@pytest.mark.parametrize("name", CASES)
async def test_an_authorization_that_fails_is_reported_and_removed(
    name: str, mode: Mode, provider: OAuthProvider, tmp_path: Path
) -> None:
    """No second dialog opens, nothing remains, nothing dials by itself, and a retry works (E-3, E-4, E-7, E-8)."""
    case = CASES[name]
    for setting, value in case.provider.items():
        setattr(provider, setting, value)
    person = Person(case.does)
    dialogs = 0 if "register_status" in case.provider else 1
    deadlines = {"dialog_seconds": 10 if "within" in case.says else 120}
    async with (
        gateway(tmp_path, {"greeter": entry(provider)}, deadlines=deadlines) as gateways,
        agent(gateways, mode, person) as it,
    ):
        async with asyncio.timeout(120):
            text = is_no_connection(await it.enable(), case.status)
        assert case.says in text
        assert case.status != "connect_failed" or says_what_to_do(text)
        assert len(person.dialogs) == dialogs
        assert await it.state() == "absent"
        requests = len(provider.requests)
        for _ in range(100):
            await it.ask("search_servers")
            await it.ask("upstream_servers")
        await has_no_trace(it)
        assert (len(person.dialogs), len(provider.requests)) == (dialogs, requests)
        assert it.heard == 0
        person.does, provider.person, provider.wrong_state = "goes", "authorize", False
        provider.register_status = provider.token_status = provider.mcp_status = 0
        await works(it)


@dataclass(frozen=True, slots=True)
class Opening:
    """A server on HTTP that does not open, and the expected words."""

    answer: Step | None
    says: str


STALLED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 100\r\n\r\nno"
OPENINGS = {
    "nothing listens": Opening(None, "refused the connection (nothing listens there) (permanent)"),
    "it resets": Opening("reset", "closed the connection before it answered (transient)"),
    "it refuses": Opening(reply(b"{}", status="403 Forbidden"), "HTTP status 403 (denied)"),
    "it is not there": Opening(reply(b"{}", status="404 Not Found"), "HTTP status 404 (permanent)"),
    "it has a fault": Opening(reply(b"{}", status="503 Service Unavailable"), "HTTP status 503 (transient)"),
    "it is a web page": Opening(reply(b"<p>", kind="text/html"), "that is not MCP (permanent)"),
    "it never answers": Opening("hang", "within 10 s (transient)"),
    "it refuses and stalls": Opening(Cut(STALLED, "hang"), "HTTP status 403 (denied)"),
}


@pytest.mark.parametrize("name", OPENINGS)
async def test_a_server_that_does_not_open_is_reported_and_removed(name: str, mode: Mode, tmp_path: Path) -> None:
    """The answer has the reason and its meaning; after the server has recovered, it can be enabled."""
    case, upstream = OPENINGS[name], BadHttp(answers={"greet": "ok"})
    stalls = case.answer == "hang" or isinstance(case.answer, Cut)
    deadlines = {"enable_seconds": 10 if stalls else 120}
    async with upstream.listening():
        catalog = {"greeter": plain(upstream)}
        async with (
            gateway(tmp_path, catalog, deadlines=deadlines) as gateways,
            agent(gateways, mode) as it,
        ):
            if case.answer is None:
                upstream.deafen()
            upstream.opening = case.answer
            text = is_no_connection(await it.enable(), "connect_failed")
            assert case.says in text
            assert says_what_to_do(text)
            assert await it.state() == "absent"
            await has_no_trace(it)
            upstream.opening = None
            if case.answer is None:
                await upstream.listen()
            await works(it)


async def test_a_program_that_is_missing_or_ends_is_reported_and_removed(mode: Mode, tmp_path: Path) -> None:
    """A server over stdio fails like one over HTTP, and works as soon as its program works."""
    tools = shelf(tmp_path, "greeter", GREET)
    program = tmp_path / "greeter"
    async with gateway(tmp_path, {"greeter": {"command": str(program)}}) as gateways, agent(gateways, mode) as it:
        assert "(permanent)" in is_no_connection(await it.enable(), "connect_failed")
        _write_program(program, "exit 3")
        text = is_no_connection(await it.enable(), "connect_failed")
        assert "exited with code 3 before it answered (permanent)" in text
        assert says_what_to_do(text)
        _write_program(program, f"exec {tools['command']} {' '.join(tools['args'])}")
        await works(it)


async def test_a_program_that_says_only_what_is_not_mcp_is_permanent(mode: Mode, tmp_path: Path) -> None:
    """The process stays alive, but waiting does not help; a silent one may just be slow."""
    program, deadlines = tmp_path / "greeter", {"enable_seconds": 10}
    catalog = {"greeter": {"command": str(program)}}
    async with gateway(tmp_path, catalog, deadlines=deadlines) as gateways, agent(gateways, mode) as it:
        _write_program(program, "echo welcome; exec sleep 600")
        text = is_no_connection(await it.enable(), "connect_failed")
        assert "was not connected within 10 s, and wrote only what is not MCP (permanent)" in text
        _write_program(program, "echo welcome; exec sleep 600 >/dev/null")
        text = is_no_connection(await it.enable(), "connect_failed")
        assert "closed the connection before it answered, and wrote only what is not MCP (permanent)" in text
        _write_program(program, "exec sleep 600")
        text = is_no_connection(await it.enable(), "connect_failed")
        assert "was not connected within 10 s (transient)" in text


def _write_program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


async def test_each_variable_that_is_not_set_is_named_and_nothing_is_connected(
    mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of headers and of the environment; after the operator has set them, the server can be enabled."""
    upstream = BadHttp(answers={"greet": "ok"})
    ran = tmp_path / "ran"
    async with upstream.listening():
        headers = {"X-Key": "${FIRST_KEY}", "X-Other": "Basic ${SECOND_KEY}"}
        local = {"command": "touch", "args": [str(ran)], "env": {"KEY": "${THIRD_KEY}"}}
        catalog = {"greeter": plain(upstream, headers=headers), "local": local}
        async with gateway(tmp_path, catalog) as gateways, agent(gateways, mode) as it:
            monkeypatch.setenv("SECOND_KEY", "")
            text = is_no_connection(await it.enable(), "missing_credentials")
            assert "`FIRST_KEY`, `SECOND_KEY`." in text or '"FIRST_KEY", "SECOND_KEY".' in text
            assert "THIRD_KEY" in is_no_connection(await it.enable("local"), "missing_credentials")
            assert (upstream.head, ran.exists()) == ("", False)
            assert (await it.state(), await it.state("local")) == ("absent", "absent")
            monkeypatch.setenv("FIRST_KEY", "one")
            monkeypatch.setenv("SECOND_KEY", "two")
            await works(it)
            assert "x-key: one\r\nx-other: Basic two\r\n" in upstream.head.lower().replace("basic", "Basic")


async def test_a_catalog_server_out_of_scope_is_unknown(mode: Mode, tmp_path: Path) -> None:
    """To the byte like a server that does not exist (FR-007); an agent does not lift a user's lock (E-10)."""
    ran = tmp_path / "ran"
    catalog = {"greeter": shelf(tmp_path, "greeter", GREET), "mine": shelf(tmp_path, "mine", GREET)}
    servers = {"off": {"command": "touch", "args": [str(ran)], "enabled": False}, "on": shelf(tmp_path, "on", GREET)}
    answers = []
    for there in (["greeter", "mine"], ["mine"]):
        keys = {"servers": servers, "agents": {"clerk": {"servers": ["mine", "on", "off"]}}}
        some = {name: catalog[name] for name in there}
        async with gateway(tmp_path, some, **keys) as gateways, agent(gateways, mode, Person(), "clerk") as it:
            is_no_connection(await it.enable(), "unknown_server")
            results = [await it.enable(), await it.ask("disable_server", id="greeter"), await it.ask("search_servers")]
            tools = await it.client.list_tools()
            answers.append([each.model_dump_json() for each in (*results, tools)])
            for name in ("off", "on"):
                await it.enable(name)
            assert (await it.ask("disable_server", id="on")).is_error
            assert await it.finds() == ["on:greet"]
            assert not ran.exists()
            await it.notified(0)
    assert answers[0] == answers[1]


async def test_enable_server_says_how_a_server_of_the_owner_stands_and_never_dials_it(
    mode: Mode, tmp_path: Path
) -> None:
    """Connected (quarantined too); disabled, with the owner's command; not loaded, with the reason (spec C, E-10)."""
    ran = tmp_path / "ran"
    gone = tmp_path / "gone"
    _write_program(gone, f"echo started >> {ran}; exit 3")
    servers = {
        "on": shelf(tmp_path, "on", GREET),
        "held": shelf(tmp_path, "held", GREET, quarantined=True),
        "off": {"command": "touch", "args": [str(tmp_path / "off-ran")], "enabled": False},
        "gone": {"command": str(gone)},
    }
    catalog = {"greeter": shelf(tmp_path, "greeter", GREET)}
    async with gateway(tmp_path, catalog, servers=servers) as gateways, agent(gateways, mode) as it:
        for name in ("on", "held"):
            result = await it.enable(name)
            assert (result.structured_content or {})["status"] == "already_enabled"
            assert text_of(result).startswith("Connected: already_enabled. ")
            assert not result.is_error
        off = await it.enable("off")
        assert (off.is_error, off.structured_content) == (True, None)
        command = f"run `callability servers enable off --config {tmp_path / 'mcp_config.json'}`."
        assert text_of(off).startswith("Not done: server `off` is disabled in the gateway's config, ")
        assert text_of(off).endswith(f"Ask the user to {command}")
        for _ in range(3):
            failed = await it.enable("gone")
            assert (failed.is_error, failed.structured_content) == (True, None)
            assert text_of(failed).startswith("Not done: server `gone` is not connected. ")
            assert 'Needs attention: "gone" (exited with code 3 before it answered).' in text_of(failed)
        # Once for each handshake, when the gateway began.
        assert ran.read_text() == "started\n" * 2
        assert not (tmp_path / "off-ran").exists()
        await it.notified(0)


async def test_enable_server_says_why_the_opening_that_it_waited_for_failed(mode: Mode, tmp_path: Path) -> None:
    """And not why an earlier one did: the server was starting up, and refuses access now."""
    async with BadHttp().listening() as server:
        server.opening = reply(b"", status="503 Service Unavailable")
        servers = {"it": {"url": server.url}}
        catalog = {"greeter": shelf(tmp_path, "greeter", GREET)}
        deadlines = {"open_seconds": 1, "reopen_seconds": 1}
        async with (
            gateway(tmp_path, catalog, servers=servers, deadlines=deadlines) as gateways,
            agent(gateways, mode) as it,
        ):
            await becomes(loads(it.client, "it"), [("failed", "transient")])
            server.opening = Cut(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 9\r\n\r\nno", "hang")
            await server.waiting.wait()
            text = text_of(await it.enable("it"))
            assert text.startswith("Not done: server `it` is not connected. ")
            assert "Starting up" not in text
            assert 'Access denied: "it".' in text


async def test_a_call_of_a_server_that_is_not_enabled_says_how_to_enable_it(mode: Mode, tmp_path: Path) -> None:
    """As after a restart of the gateway, or a `disable_server`; out of the scope of the agent, the tool is unknown."""
    catalog = {name: shelf(tmp_path, name, GREET) for name in ("greeter", "mine")}
    agents = {"clerk": {"servers": ["mine"]}}
    async with gateway(tmp_path, catalog, agents=agents) as gateways, agent(gateways, mode, Person(), "clerk") as it:
        text = text_of(await it.ask("call_tool", name="mine:greet"))
        assert text == (
            "Not done: server `mine` is in the catalog and not enabled, so its tools are not known;"
            " the call was not sent. `enable_server` connects it."
        )
        await it.enable("mine")
        assert not (await it.ask("call_tool", name="mine:greet")).is_error
        assert text_of(await it.ask("call_tool", name="mine:great")).startswith("Not called: there is no tool")
        await it.ask("disable_server", id="mine")
        assert text_of(await it.ask("call_tool", name="mine:greet")) == text
        answers = [text_of(await it.ask("call_tool", name=f"{name}:greet")) for name in ("greeter", "nowhere")]
        assert answers[0].replace("greeter", "nowhere") == answers[1]


async def test_search_servers_takes_null_for_what_is_left_out(mode: Mode, tmp_path: Path) -> None:
    """Some clients send every argument of a schema."""
    catalog = {"greeter": shelf(tmp_path, "greeter", GREET)}
    async with gateway(tmp_path, catalog) as gateways, agent(gateways, mode) as it:
        left_out = await it.ask("search_servers")
        assert await it.ask("search_servers", query=None, limit=None) == left_out
        assert not left_out.is_error
        assert "must be text" in text_of(await it.ask("search_servers", query=1))


async def test_a_server_of_the_owner_out_of_scope_is_answered_for_as_one_that_does_not_exist(
    mode: Mode, tmp_path: Path
) -> None:
    """Whether it is connected, disabled or failed: to the byte (E-9, FR-007)."""
    hidden = {
        "on": shelf(tmp_path, "on", GREET),
        "off": shelf(tmp_path, "off", GREET, enabled=False),
        "gone": {"command": "no-such-command"},
    }
    catalog, answers = {"mine": shelf(tmp_path, "mine", GREET)}, []
    for servers in (hidden, {}):
        keys = {"servers": servers, "agents": {"clerk": {"servers": ["mine"]}}}
        async with gateway(tmp_path, catalog, **keys) as gateways, agent(gateways, mode, Person(), "clerk") as it:
            results = [await it.enable(name) for name in hidden]
            assert all(is_no_connection(each, "unknown_server") for each in results)
            answers.append([each.model_dump_json() for each in results])
    assert answers[0] == answers[1]


async def test_an_agent_without_a_catalog_gets_every_answer_of_a_gateway_without_one(
    mode: Mode, tmp_path: Path
) -> None:
    """Its tools and their answers are the same to the byte, whatever others enable."""
    answers = []
    for catalog in ({"greeter": shelf(tmp_path, "greeter", GREET)}, {}):
        servers = {"on": shelf(tmp_path, "on", GREET)}
        agents = {"clerk": {"servers": ["on"]}}
        async with (
            gateway(tmp_path, catalog, servers=servers, agents=agents) as gateways,
            agent(gateways, mode) as everybody,
            agent(gateways, mode, Person(), "clerk") as it,
        ):
            if catalog:
                is_connection(await everybody.enable())
                await everybody.notified(1)
            await it.finds()
            calls = [("enable_server", {"id": "greeter"}), ("search_servers", {}), ("upstream_servers", {})]
            calls += [("retrieve_tools", {"query": "greet"}), ("call_tool", {"name": "greeter:greet"})]
            results = [await it.ask(tool, **arguments) for tool, arguments in calls]
            answers.append([each.model_dump_json() for each in (await it.client.list_tools(), *results)])
            await it.notified(0)
    assert answers[0] == answers[1]


async def test_if_no_tool_can_be_called_the_remaining_lock_is_named(mode: Mode, tmp_path: Path) -> None:
    """The server is connected anyway, and the words about the lock are right for a server of the catalog."""
    locked = {
        "denied": shelf(tmp_path, "denied", GREET, disabled_tools=["greet"]),
        "waiting": shelf(tmp_path, "waiting", GREET, trust="manual"),
        "off": shelf(tmp_path, "off", GREET),
        "empty": shelf(tmp_path, "empty"),
    }
    (tmp_path / "approvals.yaml").write_text("off: {greet: {disabled: true}}\n")
    wanted = {
        "denied": ("disabled_by_config: ", "edit `enabled_tools` or `disabled_tools` in "),
        "waiting": ("pending_approval: ", "`callability approvals approve "),
        "off": ("disabled_by_user: ", "`callability approvals enable "),
        "empty": ("It lists no tools.",),
    }
    async with (
        gateway(tmp_path, locked, approvals="approvals.yaml") as gateways,
        agent(gateways, mode) as it,
    ):
        for results, (name, parts) in enumerate(wanted.items(), start=1):
            text = is_connection(await it.enable(name))
            assert [part for part in parts if part not in text] == []
            assert "can be found and called" not in text
            assert "`mcpServers`" not in text
            assert await it.state(name) == "connected"
            await it.notified(results)
        assert await it.finds() == []


async def test_a_session_without_dialogs_says_so_and_one_with_them_goes_on(
    mode: Mode, provider: OAuthProvider, tmp_path: Path
) -> None:
    """The entry is kept, and the next enable of any agent starts it again: there is no dead end (E-3)."""
    async with gateway(tmp_path, {"greeter": entry(provider)}) as gateways, agent(gateways, mode) as mute:
        for _ in range(2):
            text = is_no_connection(await mute.enable(), "authorization_required", error=False)
            assert "from a client that can." in text
            assert await mute.state() == "failed"
            await has_no_trace(mute)
        requests = len(provider.requests)
        assert "it was not connected" in await mute.disable()
        assert await mute.state() == "absent"
        assert len(provider.requests) == requests
        is_no_connection(await mute.enable(), "authorization_required", error=False)
        async with agent(gateways, mode, Person()) as it:
            await works(it)
        await mute.notified(2)


async def test_a_client_with_forms_alone_is_shown_the_address(
    mode: Mode, provider: OAuthProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message contains the URL for the user to open."""
    declared = ClientCapabilities(elicitation=ElicitationCapability(form=FormElicitationCapability()))
    monkeypatch.setattr(ClientSession, "_build_capabilities", lambda *_: declared)
    person = Person()
    async with gateway(tmp_path, {"greeter": entry(provider)}) as gateways, agent(gateways, mode, person) as it:
        await works(it)
    [dialog] = person.dialogs
    assert isinstance(dialog, ElicitRequestFormParams)
    assert dialog.requested_schema == {"type": "object", "properties": {}}
    assert person.url.startswith(f"{provider.issuer}/authorize?")
