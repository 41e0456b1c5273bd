"""Names that users rely on are never removed or renamed; new ones are recorded."""

from __future__ import annotations

import json
from functools import cache

import pytest

from support.public_surface import RECORDED, surface

# An older one does not say which values an option takes.
pytest.importorskip("typer", minversion="0.29")
_RECORDED = json.loads(RECORDED.read_text(encoding="utf-8"))


@cache
def _current() -> dict[str, list[str]]:
    return surface()


def test_every_kind_of_name_is_recorded() -> None:
    """None is empty."""
    assert _current().keys() == _RECORDED.keys()
    assert all(_RECORDED.values())


@pytest.mark.parametrize("kind", _RECORDED)
def test_no_public_name_is_gone(kind: str) -> None:
    """Commands, options, codes, metrics, exported names and keys stay within a major version."""
    assert sorted({*_RECORDED[kind]} - {*_current()[kind]}) == []


@pytest.mark.parametrize("kind", _RECORDED)
def test_every_new_public_name_is_recorded(kind: str) -> None:
    """`python tests/public_surface.py` records them; from then on they stay."""
    assert sorted({*_current()[kind]} - {*_RECORDED[kind]}) == []
