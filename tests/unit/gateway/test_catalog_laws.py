"""The catalog against a model of it: whatever comes in whatever order, it is as if each had come after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from support.catalog_model import Model, Server, Step
from support.catalog_people import LOOKS
from support.catalog_real import RealWorld, real_world
from support.catalog_world import CATALOG, Loop, World

ANYTHING = (
    "enable",
    "enable",
    "again",
    "cancel",
    "dialog",
    "page",
    "challenge",
    "accept",
    "refuse",
    "crash",
    "disable",
)
LIKELY: Mapping[str, tuple[str, ...]] = {
    "absent": ("enable",) * 6 + ("disable", "variable"),
    "failed": ("enable",) * 4 + ("disable", "look", "variable", "again"),
    "connecting": ("challenge",) * 4 + ("enable", "enable", "accept", "accept", "refuse", "cancel", "disable", "look"),
    "asked": ("enable", "enable", "again", "again", "dialog", "dialog", "page", "page", "cancel", "disable", "look"),
    "connected": ("crash", "crash", "disable", "enable", "again", "look", "look"),
}
"""What is drawn where a server is."""
KINDS = st.sampled_from(["mute", "waiting", "waiting", "returning", "returning"])
ANSWERS = st.sampled_from(["accepted", "accepted", "declined", None])
SENT = st.sampled_from(["code", "code", "access_denied", "server_error"])
SECONDS = st.sampled_from([30, 90, 630])
TOGETHER = 3
BY_THEMSELVES = (("accept", "plain"), ("challenge", "guarded"), ("accept", "guarded"))
"""What real servers do when nobody holds them back."""
PROMPTED = (("enable", 0, "waiting", "guarded"), ("challenge", "guarded"))
RETURNED = (("enable", 0, "returning", "guarded"), ("challenge", "guarded"))

# Each example opens servers or plays a long story: a smaller one of a failure is not worth the minutes.
LAW = settings(deadline=None, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))


def _model(names: Iterable[str]) -> Model:
    entries = {name: CATALOG[name] for name in names}
    return Model({name: Server(oauth="oauth" in each, variable="headers" in each) for name, each in entries.items()})


def _drawn(draw: Callable[..., Any], world: World | RealWorld, name: str, came: int) -> Step:
    """Draw a step that is likely to lead on, or any; `came` is the next caller's number."""
    verb: str = draw(st.sampled_from(LIKELY[world.stage(name)] * 3 + ANYTHING))
    match verb:
        case "enable":
            return verb, came, draw(KINDS), name
        case "again" if world.callers.returned:
            return verb, came, draw(st.sampled_from(world.callers.returned)), draw(ANSWERS)
        case "cancel" if world.callers.waiting:
            return verb, draw(st.sampled_from(world.callers.waiting))
        case "dialog" if world.callers.dialogs:
            return verb, draw(st.sampled_from(world.callers.dialogs)), draw(ANSWERS)
        case "page":
            return verb, name, draw(SENT)
        case "variable":
            return verb, draw(st.booleans())
        case "challenge" | "accept" | "refuse" | "crash" | "disable":
            return verb, name
    return "look", draw(st.sampled_from(sorted(LOOKS))), name


@st.composite
def _steps(draw: st.DrawFn, world: World, names: tuple[str, ...], came: int) -> tuple[Step, ...]:
    """Draw up to three steps that come together, or time that passes."""
    count = draw(st.sampled_from([1, 1, 2, 2, TOGETHER, 0]))
    if count == 0:
        return (("wait", draw(SECONDS)),)
    steps = [_drawn(draw, world, draw(st.sampled_from(names)), came + place) for place in range(count)]
    if steps[0][0] == "enable" and draw(st.integers(0, 5)) == 0:
        steps.append(("cancel", steps[0][1]))
    return tuple(steps)


def _explained(models: list[Model], steps: tuple[Step, ...], seen: object, dials: Mapping[str, int]) -> list[Model]:
    """Return what may be, where the steps came one after the other in some order; without any it is not explained."""
    possible = [after for order in permutations(steps) for model in models for after in model.after(order)]
    fitting = {after.key: after for after in possible if after.seen == seen and after.dials == dials}
    results = dict.fromkeys(f"{after.seen} {after.dials}" for after in possible)
    assert fitting, "\n".join(["seen:", f"{seen} {dials}", "possible:", *results])
    return list(fitting.values())


async def _story(world: World, data: st.DataObject) -> None:
    models, came = [_model(CATALOG)], 0
    names = tuple(data.draw(st.permutations(sorted(CATALOG)), label="names")[: data.draw(st.integers(1, 3))])
    for _ in range(data.draw(st.integers(4, 16), label="how long")):
        steps = data.draw(_steps(world, names, came), label="together")
        came += TOGETHER
        for step in steps:
            await world.do(step)
            for _ in range(data.draw(st.integers(0, 9), label="turns") if len(steps) > 1 else 0):
                await asyncio.sleep(0)
        await world.settle()
        models = _explained(models, steps, await world.seen(), world.dials)
    await world.end()


def _played(directory: Path, play: Callable[[World], Awaitable[Any]]) -> Any:
    """Tell a story of a world, to its end."""

    async def story(patch: pytest.MonkeyPatch) -> Any:
        world = World(directory, patch)
        results = await play(world)
        await world.end()
        return results

    with pytest.MonkeyPatch.context() as patch, asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(story(patch))


async def _seen_after(world: World, *steps: Step) -> dict[str, Any]:
    for step in steps:
        await world.do(step)
        await world.settle()
    return await world.seen()


@settings(LAW, max_examples=150)
@given(data=st.data())
def test_whatever_comes_together_is_as_if_it_had_come_one_after_the_other(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """States, outcomes and dialogs are the model's, no look dials, and at the end nothing is left (E-1 to E-7)."""
    _played(tmp_path_factory.getbasetemp(), lambda world: _story(world, data))


def test_a_dialog_that_nobody_answers_keeps_no_attempt_from_its_end(tmp_path: Path) -> None:
    """It ends by another's `disable_server`, and by the authorization itself (E-5, E-6)."""
    stopped = _played(tmp_path, lambda world: _seen_after(world, *PROMPTED, ("disable", "guarded")))
    assert (stopped["states"]["guarded"], stopped["callers"]) == ("absent", {0: "cancelled"})
    granted = (*PROMPTED, ("page", "guarded", "code"), ("accept", "guarded"))
    connected = _played(tmp_path, lambda world: _seen_after(world, *granted))
    assert (connected["states"]["guarded"], connected["callers"]) == ("connected", {0: "enabled"})


@pytest.mark.parametrize(
    ("first", "then", "outcome"),
    [
        (("enable", 0, "waiting", "guarded"), ("cancel", 0), "gone"),
        (("enable", 0, "mute", "guarded"), ("challenge", "guarded"), "authorization_required"),
    ],
)
def test_who_comes_to_the_end_of_an_attempt_for_a_reason_of_others_has_another(
    tmp_path: Path, first: Step, then: Step, outcome: str
) -> None:
    """Of callers who left before it knew, and of sessions without dialogs; at whatever moment it comes (E-2, E-3)."""

    async def play(world: World, turns: int) -> dict[str, Any]:
        await _seen_after(world, first)
        await world.do(then)
        for _ in range(turns):
            await asyncio.sleep(0)
        return await _seen_after(world, ("enable", 1, "waiting", "guarded"))

    results = [_played(tmp_path, lambda world, turns=turns: play(world, turns)) for turns in range(12)]  # type: ignore[misc]
    assert [
        each["callers"][1] for each in results if each["callers"][0] == outcome and each["callers"][1] != "waiting"
    ] == []
    assert [each["states"]["guarded"] for each in results] == ["connecting"] * 12


def test_a_connection_that_was_lost_before_its_caller_returned_is_not_reported(tmp_path: Path) -> None:
    """Of what happened between the question and its answer, the answer tells the end (E-9)."""
    lost = (*RETURNED, ("page", "guarded", "code"), ("accept", "guarded"), ("crash", "guarded"))
    seen = _played(tmp_path, lambda world: _seen_after(world, *lost, ("again", 1, 0, "accepted")))
    assert (seen["states"]["guarded"], seen["callers"]) == ("failed", {0: "returned", 1: "connect_failed"})


@settings(LAW, max_examples=20)
@given(data=st.data())
def test_real_servers_and_a_real_provider_are_as_the_model_too(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """One thing after the other, over real sockets; a look asks no server for anything (E-1 to E-7)."""

    async def story() -> None:
        model = _model(("plain", "guarded"))
        async with asyncio.timeout(60), real_world(tmp_path_factory.getbasetemp()) as world:
            for came in range(data.draw(st.integers(3, 7), label="how long")):
                step = _drawn(data.draw, world, data.draw(st.sampled_from(["plain", "guarded", "guarded"])), came)
                if step[0] not in ("challenge", "accept", "refuse", "variable"):
                    data.draw(st.just(step), label="step")
                    [model] = model.after((step, *BY_THEMSELVES))
                    await world.do(step)
                    await world.settle(model.seen)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left

    asyncio.run(story())
