"""What `GetPolicy` reports, of a policy that decides in this process."""

from __future__ import annotations

from collections.abc import Iterable

from callability.bundle.v1 import bundle_pb2
from callability.finding import Finding
from callability.kernel.fact import Fact
from callability.kernel.policy import LocalPolicy
from callability.kernel.rule_set import RuleSet
from callability.kernel.words import lifted_by_number, retry_number
from callability.v1 import policy_service_pb2 as pb
from callability.vocabulary import NO_LABEL, Action, LiftedBy

_SUBJECTS = {
    bundle_pb2.FACT_SUBJECT_SERVER: pb.FACT_SUBJECT_SERVER,
    bundle_pb2.FACT_SUBJECT_TOOL: pb.FACT_SUBJECT_TOOL,
    bundle_pb2.FACT_SUBJECT_AGENT: pb.FACT_SUBJECT_AGENT,
}
MAX_COMBINATIONS = 2**32 - 1
"""Combinations that the contract can count."""


def description(policy: LocalPolicy) -> pb.GetPolicyResponse:
    """Return what a bundle says of its policy; what only a service knows, such as its limits, is left out."""
    return pb.GetPolicyResponse(
        revision=policy.revision,
        semantics=policy.semantics,
        bundle_digest=policy.digest,
        rule_sets=[rule_set_message(name, each, policy.actions) for name, each in sorted(policy.rule_sets.items())],
        statuses=[
            pb.StatusInfo(
                status=status.number,  # type: ignore[arg-type]  # checked when the bundle was read
                name=status.name,
                lifted_by=lifted_by_number(status.lifted_by),
                retry=retry_number(status.retry),
            )
            for status in policy.callability.question.statuses
        ],
        actions=[
            pb.Action(
                name=action.name, owner=lifted_by_number(action.owner), fact=action.fact or "", phrase=action.phrase
            )
            for action in policy.actions
        ],
        load_statuses=[
            pb.LoadStatusInfo(
                status=status.number,  # type: ignore[arg-type]  # as above
                name=status.name,
                lifted_by=lifted_by_number(status.lifted_by),
                retry=retry_number(status.retry),
            )
            for status in policy.load_outcome.question.statuses
        ],
        enable_statuses=[
            pb.EnableStatusInfo(
                status=status.number,  # type: ignore[arg-type]  # as above
                name=status.name,
                lifted_by=lifted_by_number(status.lifted_by),
                retry=retry_number(status.retry),
                error=status.error,
                entry=status.entry,  # type: ignore[arg-type]  # as above
                tools_changed=status.tools_changed,
            )
            for status in policy.enable_outcome.question.statuses
        ],
    )


def rule_set_message(name: str, rules: RuleSet, actions: Iterable[Action]) -> pb.RuleSet:
    """Return what a bundle says of a rule set; `actions` are those of its policy."""
    phrases = {action.name: action.phrase for action in actions}
    reads = {fact for rule in rules.rules for fact in rule.reads}
    facts = rules.question.facts.values()
    return pb.RuleSet(
        name=name,
        rules=[rule.id for rule in rules.rules],
        facts=rules.facts,
        reads=[fact.name for fact in facts if fact.name in reads],
        labels=[
            pb.DeclaredLabel(fact=fact.name, values=[value for value in fact.values if value != NO_LABEL])
            for fact in facts
            if fact.kind == bundle_pb2.FACT_KIND_LABEL
        ],
        declared_facts=[
            _declared(fact, phrases.get(fact.action, ""))
            for fact in facts
            if fact.kind == bundle_pb2.FACT_KIND_DECLARED
        ],
        combinations=min(rules.counts.combinations, MAX_COMBINATIONS),
        inner_nodes=rules.inner_nodes,
        exact_combinations=str(rules.counts.combinations),
        regions=str(rules.counts.regions),
        tests_passed=rules.counts.tests,
        witnesses=rules.counts.witnesses,
    )


def _declared(fact: Fact, phrase: str) -> pb.DeclaredFact:
    return pb.DeclaredFact(
        fact=fact.name,
        subject=_SUBJECTS.get(fact.subject, pb.FACT_SUBJECT_UNSPECIFIED),
        values=fact.values,
        default_value=fact.open_value,
        owner=lifted_by_number(fact.opened_by or LiftedBy.NONE),
        action=fact.action,
        asserted=fact.asserted,
        phrase=phrase,
    )


def finding_message(finding: Finding) -> pb.PolicyFinding:
    """Return a finding as the contract has it."""
    return pb.PolicyFinding(
        file=finding.place.file,
        line=finding.place.line,
        column=finding.place.column,
        severity=pb.FindingSeverity.Value(f"FINDING_SEVERITY_{finding.severity.upper()}"),
        code=finding.code,
        sentence=finding.sentence,
        hint=finding.advice,
    )
