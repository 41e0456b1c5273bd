"""Drawn steps of a catalog, and their prerequisites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from support.catalog_model import Model, Server, Step
from support.catalog_people import LOOKS
from support.catalog_real import RealWorld
from support.catalog_world import CATALOG, World

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
"""The steps that are drawn in each state of a server."""


KINDS = st.sampled_from(["mute", "waiting", "waiting", "returning", "returning"])


ANSWERS = st.sampled_from(["accepted", "accepted", "declined", None])


SENT = st.sampled_from(["code", "code", "access_denied", "server_error"])


LAW = settings(deadline=None, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))


def model_of(names: Iterable[str]) -> Model:
    """Return the model of a catalog with these servers."""
    entries = {name: CATALOG[name] for name in names}
    return Model({name: Server(oauth="oauth" in each, variable="headers" in each) for name, each in entries.items()})


def drawn(draw: Callable[..., Any], world: World | RealWorld, name: str, came: int) -> Step:
    """Draw a step that is likely to make progress, or any step; `came` is the next caller's number."""
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
