"""The id of a request: what of a caller's is used, and how far it goes."""

from __future__ import annotations

import asyncio

import pytest

from callability.process.logs import current, current_id, note, request_id, usable_id
from callability.service.admission import Turns
from callability.service.edge import Places


@pytest.mark.parametrize("given", ["1", "a" * 128, "00-ab/cd:ef@host=x+y_z.1"])
def test_an_id_of_a_caller_is_used_as_it_is(given: str) -> None:
    """Whatever is usual in one."""
    assert usable_id(given) == given


@pytest.mark.parametrize("given", [None, "", "a" * 129, "a b", 'a"b', "a\n", "é"])
def test_another_id_is_made_for_one_that_a_log_cannot_take(given: str | None) -> None:
    """32 hexadecimal digits, each time others."""
    made = {usable_id(given) for _ in range(100)}
    assert len(made) == 100
    assert all(len(each) == 32 and int(each, 16) >= 0 for each in made)


def test_an_id_holds_inside_its_context() -> None:
    """Outside, each call has one of its own, and nothing is noted."""
    with request_id("outer"):
        with request_id() as inner:
            assert current_id() == inner != "outer"
        assert current_id() == "outer"
    assert current_id() != current_id()
    note(server="git")
    assert current() is None


def test_a_call_that_waits_for_its_turn_goes_on_under_its_own_id() -> None:
    """The task that decides the calls was started by another one."""
    seen: dict[bytes, str] = {}

    async def method(request: bytes) -> bytes:
        await asyncio.sleep(0)
        seen[request] = current_id()
        return request

    async def requesting(answer: object, name: str) -> None:
        with request_id(name):
            await answer(name.encode(), name)  # type: ignore[operator]

    async def story() -> None:
        answer = Turns().answer(method, Places(8), at_once_bytes=0)
        await asyncio.gather(*(requesting(answer, name) for name in ("a", "b", "c")))

    asyncio.run(story())
    assert seen == {b"a": "a", b"b": "b", b"c": "c"}
