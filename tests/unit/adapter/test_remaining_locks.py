"""A rejection of a tool with several locks: every combination of the shipped policy, and policies that open less."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from callability.adapter import NEUTRAL, rejection
from callability.contract.vocabulary import LiftedBy, ToolStatus
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import verdict_pb2
from support.judging import DENIED, OPEN, PENDING, checked, matrix, text_of

LONGEST = 480
"""Characters of a rejection by the shipped words, with neutral phrases and names of 20 letters."""
LONGER = 80
"""Characters more for each further lock."""
NAME = "a" * 20
DO = {action: f"DO<{action}>" for action in NEUTRAL}
_Facts = dict[str, Any]


def _server_enabled(server: _Facts, tool: _Facts) -> None:
    server["enabled"] = True


def _config_edited(server: _Facts, tool: _Facts) -> None:
    tool["configDenied"] = False


def _server_released(server: _Facts, tool: _Facts) -> None:
    server["quarantined"] = False


def _tool_enabled(server: _Facts, tool: _Facts) -> None:
    tool["approval"]["record"]["disabled"] = False


def _tool_approved(server: _Facts, tool: _Facts) -> None:
    tool["approval"]["record"]["status"] = "APPROVAL_STATUS_APPROVED"


DOING = {
    "enable_server": _server_enabled,
    "edit_config": _config_edited,
    "release_server": _server_released,
    "enable_tool": _tool_enabled,
    "approve_tool": _tool_approved,
}
"""What each action changes."""


def _answered(
    server: Mapping[str, Any], tool: Mapping[str, Any], phrases: Mapping[str, str]
) -> tuple[pb.CheckToolResponse, str]:
    response = checked(server, tool)
    refused = rejection(response, NAME, NAME, phrases=phrases)
    return response, text_of(refused) if refused else ""


def test_doing_what_a_rejection_says_in_its_order_makes_the_tool_callable() -> None:
    """SC-003, for each of the 756 combinations whose rule is known; otherwise it says what the rest depends on."""
    seen: Counter[str] = Counter()
    for one, other in matrix():
        server, tool = json.loads(json.dumps([one, other]))
        response, text = _answered(server, tool, DO)
        if not text or response.verdict.undetermined:
            continue
        actions = re.findall(r"DO<(\w+)>", text)
        for action in actions:
            if action != "check_logs":
                DOING[action](server, tool)
        after = checked(server, tool).verdict
        if "Then the proxy itself still refuses it." in text:
            assert (after.status, after.undetermined) == (verdict_pb2.TOOL_STATUS_DISABLED_UNKNOWN, False)
            seen["refused"] += 1
        elif "Then it depends on " in text:
            assert after.undetermined
            seen["depends"] += 1
        elif response.verdict.status == verdict_pb2.TOOL_STATUS_DISABLED_UNKNOWN:
            assert actions == ["check_logs"]
            seen["refused"] += 1
        else:
            assert after.status == verdict_pb2.TOOL_STATUS_CALLABLE, (one, other, text)
            seen["callable"] += 1
            owners = {"user" if action != "edit_config" else "operator" for action in actions}
            assert ("The user can lift this." in text) is (owners == {"user"})
            assert ("Only the operator can lift this." in text) is (owners == {"operator"})
            assert ("Both the user and the operator must act." in text) is (len(owners) == 2)
    assert seen == {"callable": 54, "depends": 268, "refused": 56}


def test_a_rejection_stays_short_however_many_locks_are_on() -> None:
    """It is paid for by the token."""
    for server, tool in matrix():
        response, text = _answered(server, tool, NEUTRAL)
        locks = len(response.remaining.steps) + (response.remaining.end > pb.PATH_END_CALLABLE)
        assert len(text) <= LONGEST + LONGER * locks, text


def test_a_server_that_is_disabled_does_not_hide_the_operators_lock() -> None:
    """The user would enable it, and a process would start for nothing."""
    response, text = _answered({"enabled": False, "quarantined": False}, DENIED, DO)
    assert [change.action for step in response.remaining.steps for change in step.changes] == ["edit_config"]
    assert "DO<enable_server>" in text.split(" Then ")[0]
    assert " Then the operator must DO<edit_config>. Both the user and the operator must act. " in text
    assert "The user can lift this." not in text


def test_the_user_lifts_two_locks() -> None:
    """Both are the user's."""
    _, text = _answered({"enabled": False, "quarantined": False}, PENDING, DO)
    assert " Then the user must DO<approve_tool>. The user can lift this. Do not retry until then. " in text


def test_nothing_remains_of_a_single_lock_and_of_a_callable_tool() -> None:
    """The reply is as it was."""
    assert not checked(OPEN, DENIED).HasField("remaining")
    assert not checked(OPEN, {"configDenied": False, "approval": {}}).HasField("remaining")


@pytest.mark.parametrize("end", [pb.PATH_END_POLICY_CHANGE, pb.PATH_END_FIND_OUT, 9])
def test_who_can_lift_a_lock_is_not_said_if_more_remains_than_a_person_can_lift(end: int) -> None:
    """By policy, since a fact is unknown, or for a reason of a newer version."""
    rest = pb.PathToCallable(end=end, find_out=["approval.status"] if end == pb.PATH_END_FIND_OUT else [])  # type: ignore[arg-type]  # of any version
    text = text_of(rejection(_user_lock(rest), "git", "reset", phrases=DO))
    said = {
        pb.PATH_END_POLICY_CHANGE: "Then only a change of the policy lifts it.",
        pb.PATH_END_FIND_OUT: "Then it depends on the tool's approval, which could not be read.",
    }
    assert f" {said.get(end, 'Then another lock may remain.')} Do not retry until then. " in text  # type: ignore[call-overload]  # as above


def test_steps_beyond_five_are_counted() -> None:
    """A policy may have hundreds of rules."""
    step = pb.PathStep(changes=[pb.FactChange(action="edit_config", changed_by=verdict_pb2.LIFTED_BY_OPERATOR)])
    text = text_of(
        rejection(_user_lock(pb.PathToCallable(steps=[step] * 7, end=pb.PATH_END_CALLABLE)), "g", "t", phrases=DO)
    )
    assert text.count("Then the operator must DO<edit_config>.") == 5
    assert " Then 2 more locks remain. Both the user and the operator must act. " in text


def test_an_action_that_is_needed_twice_in_a_step_is_said_once() -> None:
    """Such as two labels; a fact that the rule file declares has the service's phrase."""
    changes = [
        pb.FactChange(action="edit_labels", changed_by=verdict_pb2.LIFTED_BY_OPERATOR),
        pb.FactChange(action="edit_labels", changed_by=verdict_pb2.LIFTED_BY_OPERATOR),
        pb.FactChange(action="raise_quota", changed_by=verdict_pb2.LIFTED_BY_OPERATOR, phrase="raise the quota"),
    ]
    rest = pb.PathToCallable(steps=[pb.PathStep(changes=changes)], end=pb.PATH_END_CALLABLE)
    text = text_of(rejection(_user_lock(rest), "g", "t", phrases=DO))
    assert " Then the operator must DO<edit_labels> and raise the quota. " in text


def _user_lock(remaining: pb.PathToCallable) -> pb.CheckToolResponse:
    """Return the answer about a tool that a user has disabled, with what remains."""
    response = checked(OPEN, {"configDenied": False, "approval": {"record": {"disabled": True}}})
    assert ToolStatus.DISABLED_BY_USER.lifted_by is LiftedBy.USER
    response.remaining.CopyFrom(remaining)
    return response
