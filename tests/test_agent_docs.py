"""`docs/agents.md`: what it shows is what a gateway answers, and what it lists is all that there is."""

from __future__ import annotations

import re
from pathlib import Path

from agent_examples import rewritten
from callability.gateway.upstream.failure import MAY_HAVE_RUN, NOT_CARRIED_OUT, NOT_SENT
from callability.vocabulary import ToolStatus

PAGE = (Path(__file__).parents[1] / "docs/agents.md").read_text(encoding="utf-8")


def test_every_answer_on_the_page_is_what_a_gateway_answers() -> None:
    """To the byte; `make docs` writes them anew."""
    assert PAGE.count("\n> ") >= 14
    assert rewritten(PAGE) == PAGE, "run `make docs`"


def test_every_status_is_on_the_page_with_who_lifts_it_and_whether_to_try_again() -> None:
    """But for `callable`, which no rejection has."""
    _, *rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| `(\w+)` \| .+ \|$", PAGE, re.MULTILINE)
    locked = [status for status in ToolStatus if status is not ToolStatus.CALLABLE]
    assert rows == [(status, status.lifted_by, status.retry) for status in locked]


def test_what_became_of_a_call_is_told_in_the_words_of_the_page() -> None:
    """The endings of the sentences about an upstream that fails, and no others."""
    section = PAGE.split("### When the call fails")[1].split("\n#")[0]
    endings = re.findall(r"^\| `(the call .+?)` \|", section, re.MULTILINE)
    assert {f"; {ending}" for ending in endings} == {NOT_SENT, NOT_CARRIED_OUT, MAY_HAVE_RUN}
