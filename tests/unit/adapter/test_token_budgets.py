"""Agents pay for texts by the token: the budgets of the texts, and what each must still say."""

from __future__ import annotations

import re

import pytest

from callability.adapter import NEUTRAL, load_messages, rejection
from callability.adapter.texts import MAX_PARTS, abridge, shorten
from callability.contract.vocabulary import EnableStatus, LiftedBy, LoadStatus, ToolStatus
from callability.gateway.tools.decisions import phrases
from callability.v1 import callability_service_pb2 as pb
from support.judging import CHANGED, LOCKED, OPEN, PENDING, checked, judgement_of, text_of
from support.token_counts import (
    CONFIG,
    ENABLES,
    LOADS,
    LOCKS,
    REASON,
    SERVER,
    TOOL,
    VARIABLES,
    counts,
    enable_cost,
    enable_text,
    entry_cost,
    load_response,
    load_text,
    recorded,
    rejection_text,
    remediation_text,
    tokens,
    wordings,
)

REJECTION, REMEDIATION, ENTRY, ENABLE = 70, 35, 14, 56
STATUS, EACH_SERVER, EACH_REASON = 40, 8, 20
NAMED = 5
WORDINGS = wordings()
KINDS = (
    "server.enabled",
    "tool.config_denied",
    "approval.status",
    "annotations.destructive",
    "agent.name",
    "server.label.stage",
    "quiet_hours",
)
"""A fact of each kind that may be unread."""
REASONS = (
    REASON,
    "could not be started: command `no-such-command` was not found",
    "could not be started: command `no-such-command-anywhere` was not found",
    "could not be started: command `/home/ada/.local/share/servers/bin/server-filesystem` was not found",
    "exited with code 7 before it answered",
    "was not reached: the name `internal.example.com` could not be resolved",
    "answered with something that is not MCP: the content type is `text/html; charset=utf-8`",
    "did not answer in time",
)
whose = pytest.mark.parametrize("whose", WORDINGS)
locked = pytest.mark.parametrize("status", LOCKED)


@whose
@locked
def test_a_rejection_costs_at_most_70_tokens(whose: str, status: str) -> None:
    """With the neutral phrases, and with the commands of a gateway whose config is in the default place."""
    assert tokens(rejection_text(status, WORDINGS[whose].one)) <= REJECTION


@whose
@pytest.mark.parametrize("fact", KINDS)
def test_a_rejection_for_an_unread_fact_costs_no_more(whose: str, fact: str) -> None:
    """For any kind of fact."""
    response = checked(*LOCKED["disabled_unknown"], server=SERVER, tool=TOOL)
    response.verdict.unread[:] = [fact]
    assert tokens(text_of(rejection(response, SERVER, TOOL, phrases=WORDINGS[whose].one))) <= REJECTION


@whose
@locked
def test_a_remediation_costs_at_most_35_tokens(whose: str, status: str) -> None:
    """It is in each list with a tool of its status."""
    assert tokens(remediation_text(status, WORDINGS[whose].any)) <= REMEDIATION


@whose
def test_a_changed_tool_has_words_of_its_own_that_cost_no_more(whose: str) -> None:
    """A.5: it has changed since it was approved, and the change is compared first."""
    rejected = text_of(
        rejection(checked(OPEN, CHANGED, server=SERVER, tool=TOOL), SERVER, TOOL, phrases=WORDINGS[whose].one)
    )
    judgement = judgement_of({SERVER: (OPEN, {TOOL: CHANGED})})
    remediation = judgement.remediation(judgement.locked, WORDINGS[whose].any)["pending_approval"]
    assert tokens(rejected) <= REJECTION
    assert tokens(remediation) <= REMEDIATION
    for text, phrases_of in ((rejected, WORDINGS[whose].one), (remediation, WORDINGS[whose].any)):
        said = "This tool has changed since it was approved. Ask the user to compare the change first, then to {}."
        assert said.format(phrases_of["approve_tool"]) in text
    both = judgement_of({SERVER: (OPEN, {TOOL: CHANGED, "other": PENDING})})
    mixed = both.remediation(both.locked, WORDINGS[whose].any)["pending_approval"]
    assert mixed.startswith(f"For `{SERVER}:{TOOL}`: This tool has changed since it was approved. ")
    assert f" For `{SERVER}:other`: Nobody has approved this tool yet. " in mixed


@locked
def test_an_entry_of_a_locked_tool_costs_at_most_14_tokens_beyond_its_values(status: str) -> None:
    """In compact JSON."""
    assert entry_cost(status) <= ENTRY


@whose
@pytest.mark.parametrize("servers", [1, 2, 5, 6, 200])
@pytest.mark.parametrize("message", LOADS)
def test_a_load_notice_costs_at_most_40_tokens_and_8_a_server(message: str, servers: int, whose: str) -> None:
    """Plus the reasons; from six servers on, their number does not matter."""
    text = load_text(message, servers, WORDINGS[whose].any)
    named = min(servers, NAMED)
    reasons = tokens(REASON) * text.count(REASON)
    assert tokens(text) <= STATUS + EACH_SERVER * named + reasons


@whose
def test_servers_with_and_without_a_retry_share_the_budget_of_their_status(whose: str) -> None:
    """The two have words of their own."""
    responses = {f"server{each}": load_response("transient") for each in range(4)}
    responses |= {f"server{each}": load_response("transient, retry scheduled") for each in range(4, 9)}
    [text] = load_messages(responses, {}, phrases=WORDINGS[whose].any).values()
    assert re.findall(r'"(\w+)"', text) == ["server0", "server1", "server2", "server3", "server4"]
    assert tokens(text) <= STATUS + EACH_SERVER * NAMED


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_costs_at_most_20_tokens(reason: str) -> None:
    """It is cut; `upstream_servers` has all of it."""
    text = load_text("permanent", 1, NEUTRAL, reason)
    shown = re.search(r'"server0" \((.*)\)\.', text)
    assert shown is not None
    assert tokens(shown[1]) <= EACH_REASON
    assert reason.startswith(shown[1].removesuffix("…"))
    assert shown[1].endswith("…") == (shown[1] != reason)


@pytest.mark.parametrize(
    "reason", [*REASONS, "answered with something that is not MCP: tool `a.b` has no `inputSchema`"]
)
def test_a_reason_of_the_gateway_keeps_its_end(reason: str) -> None:
    """It begins with what happened and ends with why: what is cut is between them, and costs no more."""
    text = load_text("permanent", 1, NEUTRAL, abridge(reason))
    shown = re.search(r'"server0" \((.*)\)\.', text)
    assert shown is not None
    assert tokens(shown[1]) <= EACH_REASON
    start, _, end = shown[1].partition("…")
    assert reason.startswith(start)
    assert reason.endswith(end or start)
    assert len(end or start) >= min(len(reason), 15)


def test_a_short_reason_is_not_cut() -> None:
    """A sign and a word are one part each."""
    assert shorten("a " * MAX_PARTS) == "a " * MAX_PARTS
    assert shorten("a " * (MAX_PARTS + 1)) == "a " * (MAX_PARTS - 2) + "a…"
    assert shorten("") == ""


@whose
@pytest.mark.parametrize("outcome", ENABLES)
def test_an_enable_result_costs_at_most_56_tokens(whose: str, outcome: str) -> None:
    """Beyond locks, reasons and variables."""
    assert enable_cost(outcome, WORDINGS[whose].catalog) <= ENABLE


def test_another_place_of_the_config_costs_its_option_alone() -> None:
    """The text is the same except for `--config` in each command."""
    elsewhere = phrases(CONFIG.with_name("other.yaml"), None)
    option = f" --config {CONFIG.with_name('other.yaml')}"
    for status in ("server_disabled", "server_quarantined", "disabled_by_user", "pending_approval"):
        text = rejection_text(status, elsewhere.about(SERVER, TOOL))
        assert option in text
        assert text.replace(option, "") == rejection_text(status, WORDINGS["gateway"].one)


@whose
@locked
def test_a_rejection_says_all_that_it_must(whose: str, status: str) -> None:
    """A.5: the status, whether it is by policy, who can lift it, whether to retry, how, and where to look."""
    text, known = rejection_text(status, WORDINGS[whose].one), ToolStatus(status)
    assert status in text
    assert (", by policy." in text) is (status != "disabled_unknown")
    assert {
        LiftedBy.USER: "The user can lift this.",
        LiftedBy.OPERATOR: "Only the operator can lift this.",
        LiftedBy.UNDETERMINED: "Who can lift this is unknown.",
    }[known.lifted_by] in text
    assert {"never": "Do not retry until then.", "later": "A later retry may succeed."}[known.retry] in text
    assert text.endswith("See `retrieve_tools` with `include_disabled: true`.")
    assert WORDINGS[whose].one[ACTIONS[status]] in text
    assert SERVER in text or status == "disabled_unknown"
    if status == "disabled_unknown":
        assert "The reason could not be determined; held back rather than guessed." in text
        assert "Could not be read: the tool's approval." in text


ACTIONS = {
    "server_disabled": "enable_server",
    "disabled_by_config": "edit_config",
    "server_quarantined": "release_server",
    "disabled_by_user": "enable_tool",
    "pending_approval": "approve_tool",
    "disabled_unknown": "check_logs",
}
"""What lifts each status."""


@whose
@locked
def test_a_remediation_says_what_is_wrong_and_who_can_do_what(whose: str, status: str) -> None:
    """The action, and its owner; the status is its key."""
    text, known = remediation_text(status, WORDINGS[whose].any), ToolStatus(status)
    assert WORDINGS[whose].any[ACTIONS[status]] in text
    assert {LiftedBy.USER: "user to", LiftedBy.OPERATOR: "operator must", LiftedBy.UNDETERMINED: "Tell the user"}[
        known.lifted_by
    ] in text


@whose
def test_the_three_load_notices_say_all_that_they_must(whose: str) -> None:
    """L-7: servers, reasons, who can grant access; a retry only if one is scheduled."""
    about = WORDINGS[whose].any
    texts = {message: load_text(message, 7, about) for message in LOADS}
    names = ", ".join(f'"server{each}"' for each in range(NAMED))
    for message in ("transient", "transient, retry scheduled", "denied"):
        assert f"{names} and 2 more" in texts[message]
    for message, text in texts.items():
        assert ("Will retry" in text) is ("scheduled" in message)
        assert ("Starting up: " in text) is message.startswith("transient")
    assert "Access denied: " in texts["denied"]
    assert f"Only the operator can {about['grant_access']}." in texts["denied"]
    assert f'"server0" ({REASON}), ' in texts["permanent"]
    assert f"({REASON}) and 2 more. " in texts["permanent"]
    assert texts["permanent"].startswith("Needs attention: ")
    assert f"The operator must {about['check_server']}." in texts["permanent"]


def test_no_server_is_named_twice_and_all_are_counted() -> None:
    """Even if the first five by name leave none for the other words of a status."""
    responses = {name: load_response("transient") for name in "edcba"}
    responses |= {name: load_response("transient, retry scheduled") for name in ("x", "y")}
    [text] = load_messages(responses, {}, phrases=NEUTRAL).values()
    assert '"a", "b", "c", "d", "e".' in text
    assert "Will retry automatically. Starting up: 2 servers." in text
    only = pb.ClassifyLoadResponse()
    only.CopyFrom(load_response("denied"))
    assert list(load_messages({"a": only}, {}, phrases=NEUTRAL)) == [LoadStatus.DENIED]


@whose
@pytest.mark.parametrize("outcome", ENABLES)
def test_an_enable_result_says_all_that_it_must(whose: str, outcome: str) -> None:
    """Table C: whether the server is connected, what is missing, locked or wrong, and who can do what."""
    text, about = enable_text(outcome, WORDINGS[whose].catalog), WORDINGS[whose].catalog
    status = EnableStatus(outcome.partition(",")[0])
    assert text.startswith(f"Connected: {status}." if status.connected else f"Not connected: {status}.")
    assert text.endswith("Do not claim that it is connected or call its tools.") is not status.connected
    expected = {
        "unknown_server": ("Only the operator can add",),
        "already_enabled": ("the user's original request",),
        "missing_credentials": (*VARIABLES, "The operator must set them", "Nothing was connected"),
        "enabled": ("Continue with the user's original request",),
        "enabled, all locked": (*LOCKS, *LOCKS.values(), "continue with the user's original request"),
        "declined": ("was declined", "Retry only if the user asks"),
        "authorization_required": ("cannot show", "from a client that can"),
        "cancelled": ("was stopped", "Retry only if the user asks"),
        "connect_failed": (REASON, about["check_logs"]),
        "connect_failed, dialog expired": (REASON, "expired", "Retry only if the user asks"),
        "connect_failed, transient": (REASON, "Retry later"),
        "connect_failed, denied": (REASON, "Only the operator can", about["grant_access"]),
        "connect_failed, permanent": (REASON, "The operator must", about["check_server"]),
    }[outcome]
    assert [part for part in expected if part not in text] == []


def test_the_recorded_numbers_are_those_of_the_texts() -> None:
    """`python tests/support/token_counts.py` records them again, beside those of the first texts."""
    assert recorded()["now"] == counts()
