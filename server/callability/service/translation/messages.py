"""From verdicts, explanations and policies to the messages of the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from callability import __version__
from callability.finding import MAX_FINDINGS, Finding
from callability.policy.loading import Policy, ProvedRuleSet
from callability.policy.questions.fact import NO_LABEL, DeclaredFact, LabelFact
from callability.policy.questions.question import Question
from callability.policy.rules.verdict import Verdict
from callability.policy.rules.words import Templates, VerdictWords
from callability.reasoning.explanation import Explanation, Trial
from callability.reasoning.path import Path, Step
from callability.reasoning.semantics import SEMANTICS
from callability.service.requests import limits
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import outcome_pb2, policy_service_pb2, verdict_pb2
from callability.vocabulary import EnableEntry, EnableStatus, LiftedBy, LoadStatus, Retry, ToolStatus


def status_number(status: str) -> verdict_pb2.ToolStatus.ValueType:
    """Return the number of a status in the contract."""
    return verdict_pb2.ToolStatus.Value(f"TOOL_STATUS_{status.upper()}")


MAX_COMBINATIONS = 2**32 - 1
"""Combinations that the contract can count."""


def verdict_message(verdict: Verdict, retry: Retry, unread: Sequence[str] = ()) -> verdict_pb2.ToolVerdict:
    """Return a verdict as the contract has it, with whether trying again can help and the facts that are unread."""
    status = ToolStatus(verdict.status)
    return verdict_pb2.ToolVerdict(
        status=status_number(status),
        rule=verdict.rule,
        undetermined=verdict.undetermined,
        lifted_by=_lifted_by(status.lifted_by),
        retry=_retry(retry),
        withhold_text=bool(verdict.withhold_text),
        unread=unread,
    )


def words_message(
    status: str, rule: str, said: Templates, phrases: Mapping[str, str] | None = None
) -> verdict_pb2.ToolWords:
    """Return the words of a status, or of a rule of its own words, as the contract has them.

    `phrases` are the neutral ones of the declared actions that the words name.
    """
    return verdict_pb2.ToolWords(
        status=status_number(status),
        rule=rule,
        remediation=said["remediation"],
        rejection=said["rejection"],
        phrases=phrases,
    )


def load_reply(revision: str, verdict: Verdict, said: VerdictWords | None) -> pb.ClassifyLoadResponse:
    """Return the answer about a load as the contract has it."""
    status = LoadStatus(verdict.status)
    number = outcome_pb2.LoadStatus.Value(f"LOAD_STATUS_{status.upper()}")
    message = outcome_pb2.LoadVerdict(
        status=number,
        rule=verdict.rule,
        undetermined=verdict.undetermined,
        lifted_by=_lifted_by(status.lifted_by),
        retry=_retry(status.retry),
    )
    words = outcome_pb2.LoadWords(status=number, rule=said.rule, **said.texts) if said else None
    return pb.ClassifyLoadResponse(revision=revision, verdict=message, words=words)


def enable_reply(revision: str, verdict: Verdict, said: VerdictWords | None) -> pb.ClassifyEnableResponse:
    """Return the answer about an enable as the contract has it."""
    status = EnableStatus(verdict.status)
    number = outcome_pb2.EnableStatus.Value(f"ENABLE_STATUS_{status.upper()}")
    message = outcome_pb2.EnableVerdict(
        status=number,
        rule=verdict.rule,
        undetermined=verdict.undetermined,
        lifted_by=_lifted_by(status.lifted_by),
        retry=_retry(status.retry),
        error=status.error,
        entry=_entry(status.entry),
        tools_changed=status.tools_changed,
    )
    words = outcome_pb2.EnableWords(status=number, rule=said.rule, **said.texts) if said else None
    return pb.ClassifyEnableResponse(revision=revision, verdict=message, words=words)


def explanation_message(
    explanation: Explanation, facts: Mapping[str, str], question: Question
) -> pb.ExplainToolResponse:
    """Return the explanation of a verdict as the contract has it, without the verdict."""
    return pb.ExplainToolResponse(
        facts=[pb.FactValue(fact=fact, value=value) for fact, value in facts.items()],
        trials=[_trial(trial) for trial in explanation.trials],
        path=_path(explanation.path, question) if explanation.path else None,
    )


def _trial(trial: Trial) -> pb.RuleTrial:
    truths = {True: pb.TRUTH_TRUE, False: pb.TRUTH_FALSE, None: pb.TRUTH_UNDETERMINED}
    return pb.RuleTrial(
        rule=trial.rule.id,
        status=status_number(trial.rule.status),
        truth=truths[trial.truth],
        reads=[pb.FactValue(fact=fact, value=value) for fact, value in trial.reads],
        why=trial.why,
    )


def _path(path: Path, question: Question) -> pb.PathToCallable:
    return pb.PathToCallable(
        steps=[_step(step, question) for step in path.steps],
        end=pb.PathEnd.Value(f"PATH_END_{path.end.upper()}"),
        find_out=path.find_out,
    )


def _step(step: Step, question: Question) -> pb.PathStep:
    changes = []
    for change in step.changes:
        action = question.action(change.fact.action)
        message = pb.FactChange(
            fact=change.fact.name,
            current=change.value,
            wanted=change.wanted,
            wanted_values=change.wanted_values,
            changed_by=_lifted_by(change.fact.opened_by or LiftedBy.NONE),
            action=change.fact.action,
            phrase=action.phrase if action else "",
        )
        changes.append(message)
    return pb.PathStep(rule=step.rule.id, status=status_number(step.rule.status), changes=changes)


def policy_message(policy: Policy, bundle_digest: str = "") -> policy_service_pb2.GetPolicyResponse:
    """Return what `GetPolicy` reports about a policy, its bundle and the service."""
    return policy_service_pb2.GetPolicyResponse(
        revision=policy.revision,
        bundle_digest=bundle_digest,
        semantics=SEMANTICS,
        engine=policy.engine,
        version=__version__,
        rule_sets=[rule_set_message(name, proved) for name, proved in sorted(policy.rule_sets.items())],
        statuses=[_status_info(status) for status in ToolStatus],
        actions=[
            policy_service_pb2.Action(
                name=action.name,
                owner=_lifted_by(action.owner),
                fact=action.fact or "",
                phrase=action.phrase,
            )
            for action in policy.actions
        ],
        limits=policy_service_pb2.Limits(
            tools=limits.TOOLS,
            servers=limits.SERVERS,
            name_bytes=limits.NAME_BYTES,
            message_bytes=limits.MESSAGE_BYTES,
            labels=limits.LABELS,
            label_key_bytes=limits.LABEL_KEY_BYTES,
            label_value_bytes=limits.LABEL_VALUE_BYTES,
            declared_facts=limits.DECLARED_FACTS,
            declared_fact_name_bytes=limits.DECLARED_FACT_NAME_BYTES,
            declared_fact_value_bytes=limits.DECLARED_FACT_VALUE_BYTES,
            error_text_bytes=limits.ERROR_TEXT_BYTES,
            policy_files=limits.POLICY_FILES,
            policy_bytes=limits.POLICY_BYTES,
            policy_findings=limits.POLICY_FINDINGS,
            validations=limits.VALIDATIONS,
            validation_seconds=limits.VALIDATION_SECONDS,
        ),
        warnings=[str(warning) for warning in policy.warnings[:MAX_FINDINGS]],
        load_statuses=[_load_status_info(status) for status in LoadStatus],
        enable_statuses=[_enable_status_info(status) for status in EnableStatus],
    )


def rule_set_message(name: str, proved: ProvedRuleSet) -> policy_service_pb2.RuleSet:
    """Return what was proved of a rule set as the contract has it."""
    return policy_service_pb2.RuleSet(
        name=name,
        rules=[rule.id for rule in proved.rule_set.rules],
        facts=proved.diagram.space.facts,
        combinations=min(proved.diagram.space.size, MAX_COMBINATIONS),
        tests_passed=proved.tests,
        reads=proved.rule_set.read_by_rules,
        labels=map(_declared_label, proved.rule_set.declared_labels),
        declared_facts=map(_declared_fact, proved.rule_set.declared_facts),
        exact_combinations=str(proved.diagram.space.size),
        inner_nodes=len(proved.diagram.inner),
        regions=str(proved.diagram.regions),
        witnesses=proved.confirmation.witnesses if proved.confirmation else 0,
    )


def _declared_label(label: LabelFact) -> policy_service_pb2.DeclaredLabel:
    values = (value for value in label.values if value != NO_LABEL)
    return policy_service_pb2.DeclaredLabel(fact=label.name, values=values)


def _declared_fact(fact: DeclaredFact) -> policy_service_pb2.DeclaredFact:
    return policy_service_pb2.DeclaredFact(
        fact=fact.name,
        subject=policy_service_pb2.FactSubject.Value(f"FACT_SUBJECT_{fact.of.upper()}"),
        values=fact.values,
        default_value=fact.open_value,
        owner=_lifted_by(fact.opened_by or LiftedBy.NONE),
        action=fact.action,
        asserted=fact.asserted,
        phrase=fact.phrase,
    )


def finding_message(finding: Finding) -> policy_service_pb2.PolicyFinding:
    """Return a finding as the contract has it."""
    return policy_service_pb2.PolicyFinding(
        file=finding.place.file,
        line=finding.place.line,
        column=finding.place.column,
        severity=policy_service_pb2.FindingSeverity.Value(f"FINDING_SEVERITY_{finding.severity.upper()}"),
        code=finding.code,
        sentence=finding.sentence,
        hint=finding.advice,
    )


def _status_info(status: ToolStatus) -> policy_service_pb2.StatusInfo:
    return policy_service_pb2.StatusInfo(
        status=status_number(status),
        name=status,
        lifted_by=_lifted_by(status.lifted_by),
        retry=_retry(status.retry),
    )


def _load_status_info(status: LoadStatus) -> policy_service_pb2.LoadStatusInfo:
    return policy_service_pb2.LoadStatusInfo(
        status=outcome_pb2.LoadStatus.Value(f"LOAD_STATUS_{status.upper()}"),
        name=status,
        lifted_by=_lifted_by(status.lifted_by),
        retry=_retry(status.retry),
    )


def _enable_status_info(status: EnableStatus) -> policy_service_pb2.EnableStatusInfo:
    return policy_service_pb2.EnableStatusInfo(
        status=outcome_pb2.EnableStatus.Value(f"ENABLE_STATUS_{status.upper()}"),
        name=status,
        lifted_by=_lifted_by(status.lifted_by),
        retry=_retry(status.retry),
        error=status.error,
        entry=_entry(status.entry),
        tools_changed=status.tools_changed,
    )


def _entry(entry: EnableEntry) -> outcome_pb2.EnableEntry.ValueType:
    return outcome_pb2.EnableEntry.Value(f"ENABLE_ENTRY_{entry.upper()}")


def _lifted_by(owner: LiftedBy) -> verdict_pb2.LiftedBy.ValueType:
    return verdict_pb2.LiftedBy.Value(f"LIFTED_BY_{owner.upper()}")


def _retry(retry: Retry) -> verdict_pb2.Retry.ValueType:
    return verdict_pb2.Retry.Value(f"RETRY_{retry.upper()}")
