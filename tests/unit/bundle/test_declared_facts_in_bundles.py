"""Facts that a rule file declares, in a compiled policy."""

from __future__ import annotations

from pathlib import Path

from callability.bundle.v1 import bundle_pb2 as pb
from callability.compiler.bundle_writing import payload_of
from callability.v1 import verdict_pb2
from support.declared_rules import declaring_policy


def test_a_bundle_has_declared_facts_and_their_actions(tmp_path: Path) -> None:
    """As they are sent, with who changes them to what, and the phrases of their actions."""
    payload = pb.Payload.FromString(payload_of(declaring_policy(tmp_path)))
    [rules] = [each for each in payload.rule_sets if each.question == "callability"]
    assert rules.facts[-1] == pb.Fact(
        name="proxy.license",
        kind=pb.FACT_KIND_DECLARED,
        subject=pb.FACT_SUBJECT_TOOL,
        key="proxy.license",
        values=["true", "false"],
        default_value=1,
        asserted=True,
        changed_by=verdict_pb2.LIFTED_BY_USER,
        action="accept_license",
        any_value=True,
    )
    assert [(each.name, each.phrase) for each in payload.actions[-2:]] == [
        ("raise_quota", "raise the quota"),
        ("accept_license", "accept the license"),
    ]
