"""Concurrent requests about a server of the catalog: callers share an attempt, leave, and disable it (spec C)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitResult

from callability.gateway.catalog import attempt
from callability.gateway.catalog.attempt import ConsentAnswer
from support.catalogs import (
    MODES,
    Agent,
    HeldPolicy,
    HeldTokens,
    Mode,
    Person,
    agent,
    entry,
    gateway,
    has_no_trace,
    is_connection,
    is_no_connection,
    plain,
    until,
    works,
)
from support.edits import edit
from support.gateways import agents_of
from support.upstreams.bad_http import BadHttp
from support.upstreams.oauth_provider import OAuthProvider, browse

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("mode", MODES)]


@pytest.fixture
def anyio_backend() -> str:
    """Gateways run on asyncio."""
    return "asyncio"


@pytest.fixture
async def provider() -> AsyncIterator[OAuthProvider]:
    """A provider at which the person authorizes."""
    async with OAuthProvider(tools=("greet",)) as it:
        yield it


def started(call: Awaitable[Any]) -> asyncio.Task[Any]:
    """Begin a call."""
    return asyncio.ensure_future(call)


@pytest.mark.parametrize(
    ("does", "status", "connections"), [("goes", "enabled", 1), ("declines", "declined", 0), (None, "", 0)]
)
async def test_fifty_callers_share_one_attempt_and_its_outcome(
    does: Any, status: str, connections: int, mode: Mode, provider: OAuthProvider, tmp_path: Path
) -> None:
    """One connection, one dialog, and fifty answers that are the same (E-2)."""
    person = Person(does) if does else None
    async with (
        gateway(tmp_path, {"greeter": entry(provider)}) as gateways,
        agent(gateways, mode, person) as one,
        agent(gateways, mode, person) as other,
    ):
        answers = await asyncio.gather(*(each.enable() for each in (one, other) for _ in range(25)))
        assert len({answer.model_dump_json() for answer in answers}) == 1
        assert (answers[0].structured_content or {})["status"] == (status or "authorization_required")
        assert provider.connections == connections
        assert provider.requests.count("POST /register") == 1
        assert person is None or len(person.dialogs) == 1
        for each in (one, other):
            await each.notified(connections)


@pytest.mark.parametrize("left", [["second"], []], ids=["another one is left", "none is left"])
async def test_an_enable_whose_server_is_taken_from_the_agent_meanwhile_is_answered_as_without_the_server(
    left: list[str], mode: Mode, provider: OAuthProvider, tmp_path: Path
) -> None:
    """To the byte, although the user has authorized it."""
    person, scopes = Person("waits"), {"clerk": ["greeter", "second"], "other": ["greeter"]}
    catalog = {"greeter": entry(provider), "second": entry(provider)}
    async with (
        gateway(tmp_path, catalog, agents=agents_of(scopes)) as gateways,
        agent(gateways, mode, person, "clerk") as it,
    ):
        call = started(it.enable())
        await person.prompted.wait()
        edit(tmp_path / "mcp_config.json", agents=agents_of({**scopes, "clerk": left}))
        await until(lambda: not gateways.gateway_of("clerk").sees("greeter"))
        person.may.set()
        answer = await call
        assert answer.model_dump_json() == (await it.enable()).model_dump_json()
        assert ("unknown_server" if left else "the tools are") in answer.model_dump_json()


async def _while_connecting(mode: Mode, directory: Path) -> None:
    upstream = BadHttp(answers={"greet": "ok"})
    async with upstream.listening():
        upstream.opening = "hang"
        async with gateway(directory, {"greeter": plain(upstream)}) as gateways, agent(gateways, mode) as it:
            call = started(it.enable())
            await upstream.waiting.wait()
            await _switched_off(it, call)
            upstream.opening = None
            await works(it)


async def _while_the_dialog_is_open(mode: Mode, directory: Path) -> None:
    person = Person("waits")
    async with (
        OAuthProvider(tools=("greet",)) as provider,
        gateway(directory, {"greeter": entry(provider)}) as gateways,
        agent(gateways, mode, person) as it,
    ):
        call = started(it.enable())
        await person.prompted.wait()
        assert await it.state() == "connecting"
        assert "the attempt to connect it was cancelled" in await it.disable()
        if mode == "auto":
            # The client knows nothing of it until its user has answered.
            person.answers = ElicitResult(action="accept", content={})
            person.may.set()
        is_no_connection(await call, "cancelled")
        assert await it.state() == "absent"
        # It is taken away beside the answer.
        await until(lambda: person.left == (mode == "legacy"))
        person.does = "goes"
        await works(it)


async def _after_the_person_came_back(mode: Mode, directory: Path) -> None:
    async with (
        HeldTokens() as provider,
        gateway(directory, {"greeter": entry(provider)}) as gateways,
        agent(gateways, mode, Person("goes")) as it,
    ):
        call = started(it.enable())
        await provider.gate.reached.wait()
        await _switched_off(it, call)
        provider.gate.open.set()
        assert provider.connections == 0
        await works(it)


async def _while_the_policy_decides(mode: Mode, directory: Path, number: int, heard: int) -> None:
    policy, upstream = HeldPolicy(number), BadHttp(answers={"greet": "ok"})
    async with (
        upstream.listening(),
        gateway(directory, {"greeter": plain(upstream)}, policy=policy) as gateways,
        agent(gateways, mode) as it,
    ):
        call = started(it.enable())
        await policy.gate.reached.wait()
        off = started(it.disable())
        # Before the server has joined, the answer to this waits for the policy, too.
        await until(lambda: off.done() or number == 1)
        await it.client.list_tools()
        policy.gate.open.set()
        await off
        is_no_connection(await call, "cancelled")
        await it.notified(heard)
        await has_no_trace(it)
        await works(it, heard=heard)


async def _switched_off(it: Agent, call: asyncio.Task[Any]) -> None:
    assert await it.state() == "connecting"
    assert "the attempt to connect it was cancelled" in await it.disable()
    is_no_connection(await call, "cancelled")
    assert await it.state() == "absent"
    await has_no_trace(it)


MOMENTS: dict[str, Callable[[Mode, Path], Awaitable[Any]]] = {
    "while it connects": _while_connecting,
    "while the dialog is open": _while_the_dialog_is_open,
    "after the person came back": _after_the_person_came_back,
    "when it is connected and not yet there": lambda mode, path: _while_the_policy_decides(mode, path, 1, 0),
    "when it is there and the caller has no answer yet": lambda mode, path: _while_the_policy_decides(mode, path, 2, 2),
}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_disable_during_an_enable_ends_it_and_the_enable_says_so(
    moment: str, mode: Mode, tmp_path: Path
) -> None:
    """Fault 13: at any moment, the enable answers `cancelled`, nothing is connected, and a retry works (E-6)."""
    async with asyncio.timeout(120):
        await MOMENTS[moment](mode, tmp_path)


async def test_a_server_that_is_disabled_is_not_reported_as_connected_before(mode: Mode, tmp_path: Path) -> None:
    """The answer does not report a state that has changed since the call came (E-9)."""
    policy, upstream = HeldPolicy(3), BadHttp(answers={"greet": "ok"})
    async with (
        upstream.listening(),
        gateway(tmp_path, {"greeter": plain(upstream)}, policy=policy) as gateways,
        agent(gateways, mode) as it,
    ):
        is_connection(await it.enable())
        call = started(it.enable())
        await policy.gate.reached.wait()
        await it.disable()
        policy.gate.open.set()
        is_no_connection(await call, "cancelled")


@pytest.mark.parametrize("session_ends", [False, True])
async def test_where_the_caller_that_shows_the_dialog_goes_another_asks(
    session_ends: bool, mode: Mode, provider: OAuthProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt continues, and ends with one connection (E-2)."""
    monkeypatch.setattr(attempt, "HELD_SECONDS", 0.2)
    first, second = Person("waits"), Person("goes")
    async with (
        gateway(tmp_path, {"greeter": entry(provider)}) as gateways,
        agent(gateways, mode, second) as it,
    ):
        async with agent(gateways, mode, first) as leaving:
            going = started(leaving.enable())
            await first.prompted.wait()
            call = started(it.enable())
            await it.client.list_tools()
            assert second.dialogs == []
            if not session_ends:
                going.cancel()
                await asyncio.wait({going})
                is_connection(await call)
        is_connection(await call)
        going.cancel()
        await asyncio.wait({going})
        assert (len(first.dialogs), len(second.dialogs), provider.connections) == (1, 1, 1)
        await it.notified(1)


async def test_where_one_that_only_waits_goes_nothing_changes(
    mode: Mode, provider: OAuthProvider, tmp_path: Path
) -> None:
    """The dialog stays open, and its answer counts (E-2)."""
    first, second = Person("waits"), Person("goes")
    async with (
        gateway(tmp_path, {"greeter": entry(provider)}) as gateways,
        agent(gateways, mode, first) as it,
        agent(gateways, mode, second) as leaving,
    ):
        call = started(it.enable())
        await first.prompted.wait()
        waiting = started(leaving.enable())
        await leaving.client.list_tools()
        waiting.cancel()
        await asyncio.wait({waiting})
        await leaving.client.list_tools()
        first.may.set()
        is_connection(await call)
        assert (len(first.dialogs), first.left, second.dialogs, provider.connections) == (1, 0, [], 1)


async def test_an_attempt_whose_last_caller_has_gone_ends(
    mode: Mode, provider: OAuthProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it remains, even if somebody opens the page later, and no new dialog opens by itself (E-7)."""
    person, back = Person("accepts"), asyncio.Event()
    answered = attempt.Attempt.take_answer

    def noted(it: attempt.Attempt, answer: ConsentAnswer) -> None:
        answered(it, answer)
        back.set()

    monkeypatch.setattr(attempt.Attempt, "take_answer", noted)
    async with gateway(tmp_path, {"greeter": entry(provider)}) as gateways, agent(gateways, mode, person) as it:
        call = started(it.enable())
        await (person.prompted if mode == "legacy" else back).wait()
        call.cancel()
        await asyncio.wait({call})
        async with asyncio.timeout(120):
            while await it.state() != "absent":
                pass
        await has_no_trace(it)
        with pytest.raises(Exception, match="connect"):
            await browse(person.url)
        assert (len(person.dialogs), provider.connections, it.heard) == (1, 0, 0)
        person.does = "goes"
        await works(it)


async def test_nothing_waits_for_a_dialog_that_nobody_answers(
    mode: Mode, provider: OAuthProvider, tmp_path: Path
) -> None:
    """Fault 12: other requests of the same and of other agents are answered meanwhile; a second enable shares (E-5)."""
    person, upstream = Person("waits"), BadHttp(answers={"greet": "ok"})
    async with (
        upstream.listening(),
        gateway(
            tmp_path, {"greeter": entry(provider), "other": plain(upstream)}, servers={"on": plain(upstream)}
        ) as gateways,
        agent(gateways, mode, person) as it,
        agent(gateways, mode) as mute,
    ):
        call, second = started(it.enable()), None
        await person.prompted.wait()
        async with asyncio.timeout(120):
            for each in (it, mute):
                assert await each.state() == "connecting"
                assert await each.finds() == ["on:greet"]
                assert not (await each.ask("call_tool", name="on:greet")).is_error
                assert not (await each.ask("upstream_servers")).is_error
                is_connection(await each.enable("other"))
                assert await each.finds() == ["on:greet", "other:greet"]
                second = second or started(mute.enable())
                assert "is disabled now" in await each.disable("other")
        assert not call.done()
        assert second is not None
        assert not second.done()
        person.may.set()
        assert is_connection(await call) == is_connection(await second)
        assert (len(person.dialogs), provider.connections) == (1, 1)


async def test_declining_a_dialog_of_an_old_attempt_opens_no_other(
    mode: Mode, provider: OAuthProvider, tmp_path: Path
) -> None:
    """Even after others have got their answers, a late decline is a decline (E-2)."""
    first, second = Person("waits"), Person("declines")
    async with (
        gateway(tmp_path, {"greeter": entry(provider)}) as gateways,
        agent(gateways, mode, first) as late,
        agent(gateways, mode, second) as it,
    ):
        call = started(late.enable())
        await first.prompted.wait()
        await it.disable()
        is_no_connection(await it.enable(), "declined")
        first.answers = ElicitResult(action="decline")
        first.may.set()
        is_no_connection(await call, "cancelled" if mode == "legacy" else "declined")
        assert (len(first.dialogs), len(second.dialogs)) == (1, 1)
        assert await it.state() == "absent"
