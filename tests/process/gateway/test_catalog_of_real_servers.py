"""The catalog against a model of it, with real servers and a real provider."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.catalog_draws import LAW, drawn, model_of
from support.catalog_real import real_world
from support.drawing import drawing

BY_THEMSELVES = (("accept", "plain"), ("challenge", "guarded"), ("accept", "guarded"))
"""What real servers do if no test holds them back."""


@drawing(20, LAW)
@given(data=st.data())
def test_real_servers_and_a_real_provider_are_as_the_model_too(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """One step after another, over real sockets; a look sends no request to a server (E-1 to E-7)."""

    async def story() -> None:
        model = model_of(("plain", "guarded"))
        async with asyncio.timeout(600), real_world(tmp_path_factory.getbasetemp()) as world:
            for came in range(data.draw(st.integers(3, 7), label="how long")):
                step = drawn(data.draw, world, data.draw(st.sampled_from(["plain", "guarded", "guarded"])), came)
                if step[0] not in ("challenge", "accept", "refuse", "variable"):
                    data.draw(st.just(step), label="step")
                    [model] = model.after((step, *BY_THEMSELVES))
                    await world.do(step)
                    await world.settle(model.seen)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left

    asyncio.run(story())
