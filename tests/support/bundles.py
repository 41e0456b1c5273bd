"""Bundles of the shipped policy and of the examples, and requests that are drawn for them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from callability.bundle.v1 import bundle_pb2
from callability.compiler.bundle_writing import checked_policy, payload_of
from callability.compiler.confirmation import Engine
from callability.compiler.policy import Policy, load
from callability.contract.vocabulary import UNKNOWN
from callability.kernel.conditions import decide
from callability.kernel.envelope import envelop
from callability.kernel.policy import CheckedPolicy, read
from callability.kernel.rule_set import RuleSet
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2, outcome_pb2
from support.checkout import POLICY
from support.declared_rules import RULES

SHIPPED = "shipped"
EXAMPLES = tuple(sorted(path.name for path in (POLICY / "examples").iterdir() if path.is_dir()))
DECLARING = "declared-facts"
"""A policy whose rules read labels of agents, and facts that its rule file declares."""
POLICIES = (SHIPPED, *EXAMPLES, DECLARING)


def write_policy_of(name: str, directory: Path) -> Path:
    """Write the shipped policy, or other rules about tools with its other rule sets, and return the directory."""
    for source in (POLICY, *([POLICY / "examples" / name] if name in EXAMPLES else [])):
        for file in source.glob("*.yaml"):
            shutil.copy(file, directory)
    if name == DECLARING:
        (directory / "callability.yaml").write_text(RULES)
        (directory / "callability_test.yaml").unlink()
    return directory


@cache
def policy_of(name: str) -> Policy:
    """Return the shipped policy or an example, confirmed by the reference evaluator."""
    with TemporaryDirectory() as directory:
        return load(write_policy_of(name, Path(directory)), engine=Engine.REFERENCE)


@cache
def bundle_of(name: str) -> bytes:
    """Return the bundle of the shipped policy or of an example, unsigned."""
    return envelop(payload_of(policy_of(name)))


@cache
def checked_of(name: str) -> CheckedPolicy:
    """Return the shipped policy or an example as a service takes it."""
    return checked_policy(policy_of(name))


class DrawnRequests:
    """Draws requests whose facts reach every part of the rules of a bundle."""

    def __init__(self, rule_set: RuleSet, seed: int) -> None:
        self._random = Random(seed)
        self._names = _by_subject(rule_set, bundle_pb2.FACT_KIND_NAME)
        self._labels = _by_subject(rule_set, bundle_pb2.FACT_KIND_LABEL)
        self._declared = _by_subject(rule_set, bundle_pb2.FACT_KIND_DECLARED)

    def check_tool(self) -> pb.CheckToolRequest:
        """Draw a request about one tool."""
        request = pb.CheckToolRequest(
            server=self.name(bundle_pb2.FACT_SUBJECT_SERVER), tool=self.name(bundle_pb2.FACT_SUBJECT_TOOL)
        )
        if self._random.random() < 0.9:
            request.agent.CopyFrom(self.agent())
        if self._random.random() < 0.95:
            request.server_facts.CopyFrom(self.server_facts())
        if self._random.random() < 0.95:
            request.tool_facts.CopyFrom(self.tool_facts())
        return request

    def agent(self) -> facts_pb2.Agent:
        """Draw an agent."""
        agent = facts_pb2.Agent(
            name=self._random.choice(["", *self._classes(bundle_pb2.FACT_SUBJECT_AGENT), "unknown"])
        )
        self._groups(agent, bundle_pb2.FACT_SUBJECT_AGENT)
        return agent

    def server_facts(self) -> facts_pb2.ServerFacts:
        """Draw the facts of a server, most of which lock nothing: so the rules below the first decide too."""
        facts = facts_pb2.ServerFacts(enabled=self._mostly(True), quarantined=self._mostly(False))
        self._groups(facts, bundle_pb2.FACT_SUBJECT_SERVER)
        return facts

    def tool_facts(self) -> facts_pb2.ToolFacts:
        """Draw the facts of a tool, most of which lock nothing."""
        facts = facts_pb2.ToolFacts(config_denied=self._mostly(False), caller_refuses=self._random.random() < 0.1)
        if self._random.random() < 0.95:
            facts.approval.SetInParent()
            if self._random.random() < 0.8:
                status = self._random.choice([None, 0, 1, 1, 1, 1, 1, 2, 3, 9])
                facts.approval.record.SetInParent()
                facts.approval.record.MergeFrom(facts_pb2.ApprovalRecord(disabled=self._mostly(False), status=status))  # type: ignore[arg-type]
                facts.approval.record.disabled_unspecified = self._random.random() < 0.3
        if self._random.random() < 0.9:
            facts.annotations.SetInParent()
            hints = {name: self._mostly(self._random.random() < 0.5) for name in _HINTS}
            facts.annotations.MergeFrom(facts_pb2.Annotations(**hints))
        self._groups(facts, bundle_pb2.FACT_SUBJECT_TOOL)
        return facts

    def open_server_facts(self) -> facts_pb2.ServerFacts:
        """Draw the facts of a server for which none of the shipped rules decides; the rest is drawn."""
        facts = self.server_facts()
        facts.MergeFrom(facts_pb2.ServerFacts(enabled=True, quarantined=False))
        return facts

    def open_tool_facts(self) -> facts_pb2.ToolFacts:
        """Draw the facts of a tool for which none of the shipped rules decides; the rest is drawn."""
        facts = self.tool_facts()
        facts.MergeFrom(facts_pb2.ToolFacts(config_denied=False))
        facts.caller_refuses = False
        record = facts_pb2.ApprovalRecord(disabled=False, status=facts_pb2.APPROVAL_STATUS_APPROVED)
        facts.approval.CopyFrom(self._random.choice([facts_pb2.Approval(), facts_pb2.Approval(record=record)]))
        return facts

    def load(self) -> pb.ClassifyLoadRequest:
        """Draw a load."""
        pick = self._random.choice
        signals = outcome_pb2.LoadSignals(
            phase=pick([None, *outcome_pb2.LoadPhase.values()]),
            failure=pick([None, *outcome_pb2.LoadFailure.values()]),
            http_status=pick([None, None, 200, 302, 401, 403, 404, 408, 418, 429, 500, 503, 599, 700]),
            timeout_signature=bool(self._mostly(False)),
            in_session=bool(self._mostly(False)),
            tries_left=pick([0, 1, 2]),
            retry_scheduled=bool(self._mostly(False)),
        )
        return pb.ClassifyLoadRequest(signals=signals, error_text=pick(["", "", "401 Unauthorized", "timed out"]))

    def enable(self) -> pb.ClassifyEnableRequest:
        """Draw an enable."""
        pick = self._random.choice
        facts = outcome_pb2.EnableFacts(
            known=self._mostly(True),
            was_connected=self._mostly(False),
            credentials=pick([None, *outcome_pb2.EnableCredentials.values()]),
            authorization=pick([None, *outcome_pb2.EnableAuthorization.values()]),
            ended=pick([None, *outcome_pb2.EnableEnd.values()]),
            load_status=pick([None, *outcome_pb2.LoadStatus.values()]),
            dialog_expired=self._mostly(False),
            callable_tools=self._mostly(True),
        )
        return pb.ClassifyEnableRequest(facts=facts)

    def _mostly(self, value: bool) -> bool | None:
        drawn = self._random.random()
        return value if drawn < 0.8 else not value if drawn < 0.93 else None

    def name(self, subject: int) -> str:
        """Draw the name of a server or a tool."""
        return self._random.choice([*self._classes(subject), "unknown", "git", "prod-1", "delete_x"]) or "x"

    def _classes(self, subject: int) -> list[str]:
        """Return a name of each class."""
        return [name for names in self._names[subject].values() for name in names]

    def _groups(self, message: facts_pb2.ServerFacts | facts_pb2.ToolFacts | facts_pb2.Agent, subject: int) -> None:
        if self._random.random() < 0.9:
            message.labels.SetInParent()
            for key, values in self._labels[subject].items():
                if self._random.random() < 0.8:
                    message.labels.values[key] = self._random.choice([*values, *values, "elsewhere", "unknown"])
            message.labels.values["stranger"] = "1"
        for key, values in self._declared[subject].items():
            if self._random.random() < 0.8:
                message.declared_facts.values[key] = self._random.choice([*values, *values, "elsewhere", "unknown"])


def _by_subject(rule_set: RuleSet, kind: int) -> Mapping[int, Mapping[str, Sequence[str]]]:
    """Return the values of the facts of a kind, by subject and by key."""
    facts = [fact for fact in rule_set.question.facts.values() if fact.kind == kind]
    return {
        subject: {fact.key: fact.values for fact in facts if fact.subject == subject}
        for subject in bundle_pb2.FactSubject.values()
    }


_HINTS = ("read_only", "destructive", "idempotent", "open_world")


def compared_with_the_reference(name: str, count: int) -> list[str]:
    """Return where a bundle decides otherwise than the reference evaluator, at so many drawn points of a rule set."""
    random, found = Random(count), []
    policy = read(bundle_of(name))
    for question, proved in policy_of(name).rule_sets.items():
        local, rules = policy.rule_sets[question], proved.rule_set.rules
        withholds = proved.rule_set.question.withholds
        states = [{number: state for state, number in axis.points.items()} for axis in local.axes]
        possible = [tuple(each) for each in states]
        for _ in range(count):
            points = [random.choice(each) for each in possible]
            facts = {
                fact.name: (*fact.values, UNKNOWN)[reading]
                for axis, at, point in zip(local.axes, states, points, strict=True)
                for fact, reading in zip(axis.facts, at[point], strict=True)
            }
            verdict, decision = local.decide(points), decide(proved.rule_set.conditions, facts)
            rule = rules[decision.rule]
            status = proved.rule_set.question.undetermined if decision.undetermined else rule.status
            expected = (str(status), rule.id, decision.undetermined, bool(withholds and withholds(facts)))
            unread = local.unread(verdict, points)
            unknown = all(facts[fact] == UNKNOWN and fact in rule.reads for fact in unread)
            given = (verdict.status.name, verdict.rule, verdict.undetermined, verdict.withhold_text)
            if given != expected or bool(unread) is not decision.undetermined or not unknown:
                found.append(f"{question}: {facts}: {given}, unread {unread}; the reference: {expected}")
    return found
