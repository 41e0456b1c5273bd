"""How many examples are drawn for a law: a tenth in the loop of a developer, a quarter before a change lands, twice as
many in a long round, ten times as many every night, and fifty times as many beside the engines of `make fleet`.

The profile decides, as in `pytest --hypothesis-profile=quick`. A law states how many it draws in `usual`.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings

USUAL = "usual"
_EXAMPLES = {"quick": 10, "quarter": 25, USUAL: 100, "long": 200, "nightly": 1_000, "engines": 5_000}


def register_profiles() -> None:
    """Make the profiles known, and load the usual one."""
    for name, examples in _EXAMPLES.items():
        # How long an example takes depends on the machine and its load, and says nothing about what is tested.
        settings.register_profile(
            name, max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        )
    settings.load_profile(USUAL)


def share(examples: int) -> int:
    """Return how many examples the loaded profile draws if the usual one draws so many: at least two."""
    loaded = settings.default
    assert loaded is not None
    return max(2, examples * loaded.max_examples // _EXAMPLES[USUAL])


def drawing(examples: int, law: settings | None = None, **options: Any) -> settings:
    """Return settings of a law that draws so many examples in the usual profile."""
    return settings(law, max_examples=share(examples), **options)
