"""`docs/agents.md`: it shows what a gateway answers, and its lists are complete."""

from __future__ import annotations

import re

from callability.contract.vocabulary import ToolStatus
from callability.gateway.upstream.failure import MAY_HAVE_RUN, NOT_CARRIED_OUT, NOT_SENT
from support.agent_examples import rewritten
from support.checkout import DOCS

PAGE = (DOCS / "agents.md").read_text(encoding="utf-8")
FAILING = PAGE.split("### When the call fails")[1].split("\n#")[0]


def test_every_answer_on_the_page_is_what_a_gateway_answers() -> None:
    """To the byte; `make docs` writes them again."""
    assert PAGE.count("\n> ") >= 14
    assert rewritten(PAGE) == PAGE, "run `make docs`"


def test_every_status_is_on_the_page_with_who_lifts_it_and_whether_to_try_again() -> None:
    """Except `callable`, which no rejection has."""
    _, *rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| `(\w+)` \| .+ \|$", PAGE, re.MULTILINE)
    locked = [status for status in ToolStatus if status is not ToolStatus.CALLABLE]
    assert rows == [(status, status.lifted_by, status.retry) for status in locked]


def test_the_outcome_of_a_call_is_logged_in_the_words_of_the_page() -> None:
    """The endings of the sentences about an upstream that fails, and no others."""
    endings = re.findall(r"^\| `(the call .+?)` \|", FAILING, re.MULTILINE)
    assert {f"; {ending}" for ending in endings} == {NOT_SENT, NOT_CARRIED_OUT, MAY_HAVE_RUN}


def test_only_the_error_of_a_server_itself_has_none_of_these_endings() -> None:
    """If no connection exists, the sentence says that the call was not sent."""
    page = re.findall(r"^Not done: server `(\w+)` (.+?)(?: It said| Needs attention|$)", FAILING, re.MULTILINE)
    bare = [what for _, what in page if not what.endswith((f"{NOT_SENT}.", f"{NOT_CARRIED_OUT}.", f"{MAY_HAVE_RUN}."))]
    assert [what.partition(" -")[0] for what in bare] == ["refused the call with JSON-RPC error"]
    assert [what.endswith(f"{NOT_SENT}.") for server, what in page if server == "gone"] == [True]


def test_a_server_that_is_not_connected_may_have_what_is_not_found() -> None:
    """The page leads from an empty answer to the states of the servers, and explains each state."""
    finding, looking = (PAGE.split(heading)[1].split("\n## ")[0] for heading in ("\n## Finding", "\n## Looking"))
    assert "look at `upstream_servers`" in finding.partition("you can say that there is no such tool")[0]
    states = set(re.findall(r'"state": "(\w+)"', looking))
    assert states == {"connected", "disabled", "failed"}
    assert all(f"`{state}`" in looking for state in states)
