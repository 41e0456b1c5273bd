"""What `GetPolicy` reports, of a policy that decides in this process."""

from __future__ import annotations

from callability.bundle import LocalPolicy, RuleSet
from callability.bundle.fact import Fact
from callability.bundle.v1 import bundle_pb2
from callability.v1 import policy_service_pb2 as pb
from callability.v1 import verdict_pb2
from callability.vocabulary import LiftedBy, Retry

_SUBJECTS = {
    bundle_pb2.FACT_SUBJECT_SERVER: pb.FACT_SUBJECT_SERVER,
    bundle_pb2.FACT_SUBJECT_TOOL: pb.FACT_SUBJECT_TOOL,
    bundle_pb2.FACT_SUBJECT_AGENT: pb.FACT_SUBJECT_AGENT,
}
_NO_LABEL = "none"


def description(policy: LocalPolicy) -> pb.GetPolicyResponse:
    """Return what a bundle says of its policy; what only a service knows, such as its limits, is left out."""
    return pb.GetPolicyResponse(
        revision=policy.revision,
        semantics=policy.semantics,
        bundle_digest=policy.digest,
        rule_sets=[_rule_set(name, each, policy) for name, each in sorted(policy.rule_sets.items())],
        statuses=[
            pb.StatusInfo(
                status=status.number,  # type: ignore[arg-type]  # checked when the bundle was read
                name=status.name,
                lifted_by=_lifted_by(status.lifted_by),
                retry=_retry(status.retry),
            )
            for status in policy.callability.question.statuses
        ],
        actions=[
            pb.Action(name=action.name, owner=_lifted_by(action.owner), fact=action.fact or "", phrase=action.phrase)
            for action in policy.actions
        ],
    )


def _rule_set(name: str, rules: RuleSet, policy: LocalPolicy) -> pb.RuleSet:
    reads = {fact for rule in rules.rules for fact in rule.reads}
    facts = rules.question.facts.values()
    return pb.RuleSet(
        name=name,
        rules=[rule.id for rule in rules.rules],
        facts=rules.facts,
        reads=[fact.name for fact in facts if fact.name in reads],
        labels=[
            pb.DeclaredLabel(fact=fact.name, values=[value for value in fact.values if value != _NO_LABEL])
            for fact in facts
            if fact.kind == bundle_pb2.FACT_KIND_LABEL
        ],
        declared_facts=[_declared(fact, policy) for fact in facts if fact.kind == bundle_pb2.FACT_KIND_DECLARED],
        exact_combinations=str(rules.counts.combinations),
        regions=str(rules.counts.regions),
        tests_passed=rules.counts.tests,
        witnesses=rules.counts.witnesses,
    )


def _declared(fact: Fact, policy: LocalPolicy) -> pb.DeclaredFact:
    phrases = {action.name: action.phrase for action in policy.actions}
    return pb.DeclaredFact(
        fact=fact.name,
        subject=_SUBJECTS.get(fact.subject, pb.FACT_SUBJECT_UNSPECIFIED),
        values=fact.values,
        default_value=fact.open_value,
        owner=_lifted_by(fact.opened_by or LiftedBy.NONE),
        action=fact.action,
        asserted=fact.asserted,
        phrase=phrases.get(fact.action, ""),
    )


def _lifted_by(owner: LiftedBy) -> verdict_pb2.LiftedBy.ValueType:
    return verdict_pb2.LiftedBy.Value(f"LIFTED_BY_{owner.upper()}")


def _retry(retry: Retry) -> verdict_pb2.Retry.ValueType:
    return verdict_pb2.Retry.Value(f"RETRY_{retry.upper()}")
