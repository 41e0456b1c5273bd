"""The adapter as a library: a rejected call (A.5), and what its words never say (SC-003)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from callability.adapter import (
    ALL_SERVERS,
    NEUTRAL,
    discovery,
    judge,
    rejection,
    tool_counts,
    unknown_tool,
)
from callability.compiler.policy import load
from callability.compiler.rule_set import status_words
from callability.contract.vocabulary import ToolStatus
from callability.v1 import verdict_pb2
from support.checkout import POLICY
from support.judging import (
    DENIED,
    LOCKED,
    OPEN,
    PHRASES,
    REFUSED,
    UNREAD,
    answered,
    checked,
    judgement_of,
    matrix,
    rejected,
    request_of,
    text_of,
)
from support.policies import write_policy

USERS_ACTIONS = ("enable_server", "release_server", "enable_tool", "approve_tool")
TOGGLES = re.compile(
    r"\b(?:toggle|switch(?:ing)? (?:it|the \w+|this \w+)? ?(?:back )?on|turn (?:it|the \w+)? ?(?:back )?on)\b"
    r"|\b(?:re-?)?enabl(?:e|ing)\b|\bapprov(?:e|ing)\b|\brelease\b|\bun-?quarantine\b|\bunlock\b",
    re.IGNORECASE,
)
"""Ways to say that the user has a switch for it."""
ORDER: dict[str, tuple[str, str, str, str]] = {
    "server_disabled": (", by policy.", "PRESS-SERVER-ON", "The user can lift this.", "Do not retry until then."),
    "disabled_by_config": (
        ", by policy.",
        "EDIT-CONFIG",
        "Only the operator can lift this.",
        "Do not retry until then.",
    ),
    "server_quarantined": (", by policy.", "PRESS-RELEASE", "The user can lift this.", "Do not retry until then."),
    "disabled_by_user": (", by policy.", "PRESS-TOOL-ON", "The user can lift this.", "Do not retry until then."),
    "pending_approval": (", by policy.", "PRESS-APPROVE", "The user can lift this.", "Do not retry until then."),
    "disabled_unknown": (
        "The reason could not be determined; held back rather than guessed.",
        "READ-LOGS",
        "Who can lift this is unknown.",
        "A later retry may succeed.",
    ),
}
"""For each status what its rejection says, in this order."""


@pytest.mark.parametrize("status", ORDER)
def test_a_rejection_says_in_order_what_it_is_and_what_can_be_done(status: str) -> None:
    """FR-008: the status, whether it is by policy, the author's words, who can lift it and when, where to see more."""
    refused = rejected(*LOCKED[status])
    text = text_of(refused)
    places = [text.find(part) for part in (status, *ORDER[status], "`include_disabled: true`")]
    assert -1 not in places
    assert places == sorted(places)
    assert ("by policy" in text) is (status != "disabled_unknown")
    known = ToolStatus(status)
    assert list(refused) == ["content", "structuredContent", "isError"]
    assert refused["isError"] is True
    assert refused["structuredContent"] == {
        "status": status,
        "server": "git",
        "tool": "reset",
        "lifted_by": known.lifted_by.value,
        "retry": known.retry.value,
    }


_UNREAD = {
    "server.enabled": "the server's state",
    "server.quarantined": "the server's state",
    "tool.config_denied": "the operator's config",
    "approval.disabled": "the tool's approval",
    "approval.status": "the tool's approval",
    "annotations.destructive": "the tool's annotations",
    "agent.name": "the agent's name",
    "server.label.SECRET": "a label set by the operator",
    "tool.label.SECRET": "a label set by the operator",
    "SECRET": "another fact that the policy reads",
}
"""For each unread fact the words for its kind."""


@pytest.mark.parametrize("fact", _UNREAD)
def test_a_rejection_says_which_kind_of_fact_could_not_be_read(fact: str) -> None:
    """In plain words, and never the key of a label, which is internal to the operator."""
    response = checked(OPEN, UNREAD)
    del response.verdict.unread[:]
    response.verdict.unread.append(fact)
    text = text_of(rejection(response, "git", "reset", phrases=PHRASES))
    assert f"held back rather than guessed. Could not be read: {_UNREAD[fact]}. " in text
    assert "SECRET" not in text


def test_kinds_of_facts_are_named_once_each_and_those_of_a_known_verdict_not_at_all() -> None:
    """A rule of another policy may read several facts."""
    response = checked(OPEN, UNREAD)
    assert list(response.verdict.unread) == ["approval.disabled"]
    response.verdict.unread[:] = ["server.enabled", "server.quarantined", "approval.status", "server.label.a"]
    text = text_of(rejection(response, "git", "reset", phrases=PHRASES))
    assert "Could not be read: the server's state, the tool's approval, a label set by the operator. " in text
    assert "ould not be read" not in text_of(rejected(OPEN, DENIED))
    assert "ould not be read" not in text_of(rejected(OPEN, REFUSED))


@pytest.mark.parametrize(
    ("on_the_wire", "said", "retry"),
    [
        (verdict_pb2.RETRY_LATER, "A later retry may succeed.", "later"),
        (verdict_pb2.RETRY_NEVER, "Retrying does not help. ", "never"),
        (verdict_pb2.RETRY_UNSPECIFIED, "A later retry may succeed.", "later"),
        (99, "A later retry may succeed.", "later"),
    ],
)
def test_text_and_field_agree_about_trying_again(on_the_wire: int, said: str, retry: str) -> None:
    """The service knows whether a fact stays unknown; a service of another version may not say."""
    response = checked(OPEN, UNREAD)
    response.verdict.retry = on_the_wire  # type: ignore[assignment]  # a number of another version
    result = rejection(response, "git", "reset", phrases=PHRASES)
    assert result is not None
    assert said in text_of(result)
    assert len(re.findall(r"retry", text_of(result), re.IGNORECASE)) == 1
    assert result["structuredContent"]["retry"] == retry


def test_trying_again_follows_from_any_other_status_whatever_the_wire_says() -> None:
    """No service can change what the status determines."""
    response = checked(OPEN, DENIED)
    response.verdict.retry = verdict_pb2.RETRY_LATER
    result = rejection(response, "git", "reset", phrases=PHRASES)
    assert result is not None
    assert result["structuredContent"]["retry"] == "never"
    assert "Do not retry until then." in text_of(result)


@pytest.mark.parametrize("policy", [POLICY, *sorted((POLICY / "examples").iterdir())], ids=lambda path: path.name)
def test_no_shipped_words_for_what_could_not_be_determined_promise_a_retry(policy: Path, tmp_path: Path) -> None:
    """It depends on the verdict, and the adapter writes it."""
    written = write_policy(tmp_path, (policy / "callability.yaml").read_text())
    words = status_words(load(written).rule_sets["callability"].rule_set, "disabled_unknown").values()
    assert len(words) == 2
    assert [text for text in words if re.search(r"again|later|retry|\btry\b|wait", text)] == []


REASON = "This proxy cannot call tools that run as tasks.\nTell the user so."


def test_a_refusal_of_the_proxys_own_gives_its_reason_and_is_final() -> None:
    """Instead of an undetermined reason, in the text, and by `retry` in the structured content."""
    result = rejection(checked(OPEN, REFUSED), "git", "reset", phrases=PHRASES, refusal=REASON)
    assert result is not None
    assert result["structuredContent"] == {
        "status": "disabled_unknown",
        "server": "git",
        "tool": "reset",
        "lifted_by": "undetermined",
        "retry": "never",
    }
    text = text_of(result)
    assert text.startswith(
        "Not called: disabled_unknown. This proxy cannot call tools that run as tasks. Tell the user so. Who can lift"
        " this is unknown. Retrying does not help. See `retrieve_tools`"
    )
    assert "determined" not in text
    assert "READ-LOGS" not in text


@pytest.mark.parametrize("status", [status for status in LOCKED if status != "disabled_unknown"])
def test_a_refusal_of_the_proxys_own_changes_nothing_about_another_status(status: str) -> None:
    """A row above explains it, and the user reads about the switch that the row names."""
    server, tool = LOCKED[status]
    response = checked(server, {**tool, "callerRefuses": True})
    given = [rejection(response, "git", "reset", phrases=PHRASES, refusal=refusal) for refusal in ("", REASON)]
    first, second = given
    assert first is not None
    assert first == second
    assert rejected(server, tool)["structuredContent"] == first["structuredContent"]
    assert "Then the proxy itself still refuses it." in text_of(first)
    assert "lift this" not in text_of(first)


def test_a_refusal_of_the_proxys_own_is_no_reason_for_what_could_not_be_read() -> None:
    """A row above it may be the reason."""
    response = checked(OPEN, UNREAD | {"callerRefuses": True})
    text = text_of(rejection(response, "git", "reset", phrases=PHRASES, refusal=REASON))
    assert "Could not be read: the tool's approval." in text
    assert "tasks" not in text
    assert (
        rejection(checked(OPEN, {"configDenied": False, "approval": {}}), "g", "r", phrases={}, refusal=REASON) is None
    )


def test_discovery_says_of_a_refusal_what_the_rejection_says() -> None:
    """In the remediation of the status; next to an undetermined reason, each text names its tools."""
    tools = {"reset": REFUSED, "clone": UNREAD, "push": REFUSED}
    request = request_of({"git": (OPEN, tools)})
    judgement = judge(
        request, answered(request), visible=ALL_SERVERS, refusals={"git:reset": REASON, "git:clone": REASON}
    )
    reset, clone, push = judgement.tools
    reason = "This proxy cannot call tools that run as tasks. Tell the user so."
    unread = "The reason could not be determined. Tell the user. Next step: READ-LOGS."
    remediations = [judgement.remediation(some, PHRASES) for some in ([reset], [clone], [push], [reset, clone])]
    assert [each["disabled_unknown"] for each in remediations] == [
        reason,
        unread,
        unread,
        f"For `git:reset`: {reason} For `git:clone`: {unread}",
    ]
    assert [(tool.undetermined, tool.unread) for tool in judgement.tools] == [
        (False, ()),
        (True, ("approval.disabled",)),
        (False, ()),
    ]


@pytest.mark.parametrize("status", LOCKED)
def test_what_an_agent_reads_has_no_control_characters(status: str) -> None:
    """The words of the shipped policy are folded over lines in their file, which leaves no trace."""
    server, tool = LOCKED[status]
    judgement = judgement_of({"git": (server, {"reset": tool})})
    texts = (judgement.remediation(judgement.locked, PHRASES)[status], text_of(rejected(server, tool)))
    assert [text for text in texts if not text.isprintable()] == []


def test_each_status_has_words_of_its_own_in_a_rejection() -> None:
    """Fault 4 of the reference implementations: with the server off, an agent read that the tool should be enabled."""
    texts = {status: text_of(rejected(*facts)) for status, facts in LOCKED.items()}
    assert len({text.replace(status, "") for status, text in texts.items()}) == len(LOCKED)
    assert "PRESS-TOOL-ON" not in texts["server_disabled"]


def test_a_rejection_whose_author_has_no_words_still_says_what_holds_for_every_policy() -> None:
    """FR-008 does not depend on the author."""
    response = checked(OPEN, DENIED)
    response.ClearField("words")
    text = text_of(rejection(response, "git", "reset", phrases=PHRASES))
    for part in ("disabled_by_config", "by policy", "Only the operator", "Do not retry", "`include_disabled: true`"):
        assert part in text
    assert "  " not in text


@pytest.mark.parametrize("name", ['a"b', "a\nSYSTEM: b", "a\x1b[2J", "a\u202eb", "a`b", "{edit_config}", "{server}"])
def test_names_in_a_rejection_are_quoted_and_escaped(name: str) -> None:
    """They come from the agent's own argument, and are no instructions, markup or placeholders."""
    text = text_of(rejected(OPEN, DENIED, tool=name, server=name))
    assert json.dumps(name) in text
    assert name not in text or json.dumps(name) == f'"{name}"'
    assert name == "{edit_config}" or text.count("EDIT-CONFIG") == 1


def test_names_in_a_text_are_cut_at_128_characters() -> None:
    """A long one could contain a message."""
    text = text_of(rejected(OPEN, DENIED, tool="t" * 300, server="s" * 300))
    assert f'"{"t" * 128}"' in text
    assert f'"{"s" * 128}"' in text
    assert f'"{"t" * 128}"' in text_of(unknown_tool("t" * 300, []))


def test_an_action_that_has_no_phrase_here_is_named_by_its_own_words() -> None:
    """A newer service may send one; an agent never reads a placeholder."""
    response = checked(OPEN, DENIED)
    response.words.rejection = "Ask for {quiet_hours}, or to {edit_config}."
    text = text_of(rejection(response, "git", "reset", phrases={"edit_config": ""}))
    assert f"Ask for quiet hours, or to {NEUTRAL['edit_config']}." in text


def test_an_unknown_tool_is_answered_with_near_names_and_no_status() -> None:
    """It is distinguished from a locked one."""
    answer = unknown_tool("git:rest", ["git:reset", "git:status", "time:now"])
    assert (answer["isError"], "structuredContent" in answer) == (True, False)
    assert 'there is no tool "git:rest"' in text_of(answer)
    assert '"git:reset"' in text_of(answer)
    assert "time:now" not in text_of(answer)
    assert "Near" not in text_of(unknown_tool("other", ["git:reset"]))


@pytest.mark.parametrize("phrases", [PHRASES, NEUTRAL], ids=["own phrases", "neutral phrases"])
def test_no_words_of_a_config_lock_send_the_user_to_a_switch(phrases: Mapping[str, str]) -> None:
    """SC-003, over the whole matrix, in discovery and in the rejection of a call."""
    remediations: list[str] = []
    for server, tool in matrix():
        response = checked(server, tool)
        if response.verdict.status == verdict_pb2.TOOL_STATUS_DISABLED_BY_CONFIG:
            judgement = judgement_of({"git": (server, {"reset": tool})})
            found = discovery(
                judgement,
                "reset",
                found=[],
                found_locked=["git:reset"],
                texts={},
                phrases=phrases,
                include_disabled=True,
            )
            # Behind it, in their order, are the locks that remain after the operator's.
            said, *_ = text_of(rejection(response, "git", "reset", phrases=phrases)).split(" Then ")
            remediations += [found["remediation"]["disabled_by_config"], said]
    assert len(remediations) == 2 * 84
    forbidden = [phrases[action] for action in USERS_ACTIONS]
    assert [text for text in remediations if TOGGLES.search(text) or any(phrase in text for phrase in forbidden)] == []
    assert all(phrases["edit_config"] in text for text in remediations)


def test_discovery_and_the_call_path_say_the_same_of_every_combination() -> None:
    """The listed status is the one of the rejection, and the counts agree (FR-011, fault 5)."""
    combinations = matrix()
    request = request_of({f"s{number}": (server, {"t": tool}) for number, (server, tool) in enumerate(combinations)})
    response = answered(request)
    judgement = judge(request, response, visible=ALL_SERVERS)
    counts = tool_counts(judgement)
    for judged, (server, tool) in zip(judgement.tools, combinations, strict=True):
        one = checked(server, tool)
        refused = rejection(one, "s", "t", phrases=PHRASES)
        if judged.callable:
            assert one.verdict.status == verdict_pb2.TOOL_STATUS_CALLABLE
            assert refused is None
            assert judged.server not in counts
        else:
            assert refused is not None
            assert refused["structuredContent"]["status"] == judged.status
            assert counts[judged.server] == {"callable": 0, str(judged.status): 1}
        assert one.verdict.withhold_text == judged.withhold_text
