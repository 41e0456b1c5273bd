"""A policy decides from its bundle as its rule files say."""

from __future__ import annotations

from pathlib import Path

import pytest

from callability.compiler.bundle_writing import payload_of
from callability.compiler.confirmation import Engine
from callability.compiler.policy import load
from callability.kernel.calls import LocalCalls
from callability.kernel.envelope import envelop
from callability.kernel.policy import read
from callability.v1 import callability_service_pb2 as pb
from support.bundles import POLICIES, compared_with_the_reference
from support.drawing import share
from support.policies import policy_text, write_policy


def test_a_policy_without_words_for_statuses_that_no_rule_gives_has_a_bundle(tmp_path: Path) -> None:
    """It says what it has to say; the words of other statuses are none."""
    policy = load(write_policy(tmp_path, policy_text({})), engine=Engine.REFERENCE)
    local = LocalCalls(read(envelop(payload_of(policy))))
    answer = local.check_tool(pb.CheckToolRequest(server="s", tool="t"))
    assert (answer.verdict.rule, answer.words.rejection) == ("one", "{check_logs}")
    assert local.policy.load_outcome.status_words.keys() == {"permanent"}


@pytest.mark.parametrize("name", POLICIES)
def test_every_decision_is_that_of_the_reference_evaluator(name: str) -> None:
    """At drawn points of each rule set: status, rule, withheld text, and unread facts that are unknown."""
    differences = compared_with_the_reference(name, share(4_000))
    assert differences == []
