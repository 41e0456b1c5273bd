"""From a proved policy to its bundle: the payload, message by message. A policy without a bundle is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from callability.bundle.v1 import bundle_pb2 as pb
from callability.compiler.confirmation import Confirmation, Engine, confirm, evaluator
from callability.compiler.diagram import InnerNode, NotDecided
from callability.compiler.policy import Check, Policy, ProvedRuleSet
from callability.compiler.question import Axis, DeclaredFact, Fact, LabelFact, NameFact, Question
from callability.compiler.questions import QUESTIONS
from callability.compiler.rule_set import Rule, RuleSet, Templates, rule_words, status_words
from callability.contract.enum_words import ENABLE_ENTRY, ENABLE_STATUS, LIFTED_BY, LOAD_STATUS, RETRY, TOOL_STATUS
from callability.contract.finding import Finding, Place, in_order
from callability.contract.vocabulary import EnableStatus, LoadStatus, Status, ToolStatus
from callability.files.policy_source import PolicyFile
from callability.kernel.conditions import SEMANTICS, AllOf, AnyOf, Condition, Is, Not
from callability.kernel.envelope import MAX_BYTES, cost_of_payload, envelop, max_cost
from callability.kernel.policy import CheckedPolicy, rule_set_of
from callability.kernel.rule_set import RuleSet as CompiledRuleSet
from callability.v1 import verdict_pb2


class ConditionParts:
    """Collects the parts of the conditions of a rule set. `written` are all of them so far."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._places: Mapping[str, int] = {name: place for place, name in enumerate(question.facts)}
        self.written: list[pb.ConditionPart] = []

    def add(self, condition: Condition | None) -> int | None:
        """Add the parts of a condition, and return its place; None if there is no condition."""
        return None if condition is None else self._add(condition)

    def _add(self, condition: Condition) -> int:
        part = self._part(condition)
        self.written.append(part)
        return len(self.written) - 1

    def _part(self, condition: Condition) -> pb.ConditionPart:
        match condition:
            case Is(fact=name, values=values):
                fact = self._question.facts[name]
                held = frozenset(fact.held_by(values))
                return pb.ConditionPart(
                    kind=pb.CONDITION_KIND_FACT_IS,
                    fact=self._places[name],
                    readings=[number for number, value in enumerate(fact.values) if value in held],
                    written=sorted(values),
                )
            case Not(part=part):
                return pb.ConditionPart(kind=pb.CONDITION_KIND_NOT, parts=[self._add(part)])
            case AllOf(parts=parts):
                return pb.ConditionPart(kind=pb.CONDITION_KIND_ALL, parts=[self._add(part) for part in parts])
            case AnyOf(parts=parts):
                return pb.ConditionPart(kind=pb.CONDITION_KIND_ANY, parts=[self._add(part) for part in parts])


_SUBJECTS = {
    "server": pb.FACT_SUBJECT_SERVER,
    "tool": pb.FACT_SUBJECT_TOOL,
    "approval": pb.FACT_SUBJECT_TOOL,
    "caller": pb.FACT_SUBJECT_TOOL,
    "annotations": pb.FACT_SUBJECT_TOOL,
    "agent": pb.FACT_SUBJECT_AGENT,
    "load": pb.FACT_SUBJECT_LOAD,
    "enable": pb.FACT_SUBJECT_ENABLE,
}


def fact_message(fact: Fact, question: Question) -> pb.Fact:
    """Return a fact as a bundle has it."""
    message = pb.Fact(
        name=fact.name,
        kind=pb.FACT_KIND_FIELD,
        subject=_SUBJECTS[fact.of if isinstance(fact, DeclaredFact) else fact.name.partition(".")[0]],
        values=fact.values,
        default_value=fact.values.index(fact.open_value) if fact.open_value in fact.values else 0,
        asserted=fact.asserted,
        hint=fact.hint,
        stays_unknown=fact.stays_unknown,
        changed_by=LIFTED_BY.numbers[fact.opened_by] if fact.opened_by else verdict_pb2.LIFTED_BY_UNSPECIFIED,
        action=fact.action,
        any_value=fact.opened_by_any_value,
    )
    if isinstance(fact, DeclaredFact):
        message.MergeFrom(pb.Fact(kind=pb.FACT_KIND_DECLARED, key=fact.name))
    if isinstance(fact, LabelFact):
        prefix = next(prefix for prefix in question.labels.values() if fact.name.startswith(prefix))
        message.MergeFrom(pb.Fact(kind=pb.FACT_KIND_LABEL, key=fact.name.removeprefix(prefix)))
    if isinstance(fact, NameFact):
        groups = [pb.PatternGroup(patterns=sorted(unit)) for unit in fact.classes.units]
        classes = [pb.NameClass(groups=sorted(each)) for each in fact.classes.members]
        message.MergeFrom(pb.Fact(kind=pb.FACT_KIND_NAME, pattern_groups=groups, name_classes=classes))
    return message


def axis_message(axis: Axis, facts: Mapping[str, Fact], places: Mapping[str, int]) -> pb.Axis:
    """Return an axis as a bundle has it; a reading is the place of a value, or the number of values if unknown."""
    readings = [{value: number for number, value in enumerate(facts[name].readings)} for name in axis.facts]
    return pb.Axis(
        facts=[places[name] for name in axis.facts],
        readings=[
            numbers[value] for point in axis.points for numbers, value in zip(readings, point.values, strict=True)
        ],
    )


def status_message(status: Status) -> pb.Status:
    """Return a status as a bundle has it."""
    message = pb.Status(
        name=status,
        number=_number(status),
        lifted_by=LIFTED_BY.numbers[status.lifted_by],
        retry=RETRY.numbers[status.retry],
    )
    if isinstance(status, EnableStatus):
        message.error = status.error
        message.entry = ENABLE_ENTRY.numbers[status.entry]
        message.tools_changed = status.tools_changed
    return message


def _number(status: Status) -> int:
    match status:
        case ToolStatus():
            return TOOL_STATUS.numbers[status]
        case LoadStatus():
            return LOAD_STATUS.numbers[status]
        case EnableStatus():
            return ENABLE_STATUS.numbers[status]


def payload_of(policy: Policy, sequence: int = 0, files: Iterable[PolicyFile] = ()) -> bytes:
    """Return the payload of a policy, always the same for the same rule set files, whatever engine confirmed it.

    `files` are the files of the policy, if the payload is to have them. The reference evaluator confirms each diagram
    here, since its witnesses are the same everywhere.

    Raises:
        NotDecided: the reference evaluator decides otherwise than a diagram.
    """
    return _payload(policy, sequence, _confirmation, files)


def largest_payload(policy: Policy) -> bytes:
    """Return a payload of a policy that no other is larger than; the reference evaluator decides nothing for it."""
    return _payload(policy, 2**64 - 1, _largest_confirmation)


_ConfirmationOf = Callable[[ProvedRuleSet], Confirmation]


def _payload(
    policy: Policy, sequence: int, confirmation_of: _ConfirmationOf, files: Iterable[PolicyFile] = ()
) -> bytes:
    payload = pb.Payload(
        revision=policy.revision,
        semantics=SEMANTICS,
        sequence=sequence,
        actions=[
            pb.Action(
                name=action.name,
                owner=LIFTED_BY.numbers[action.owner],
                fact=action.fact or "",
                phrase=action.phrase,
                labels=action.labels,
            )
            for action in policy.actions
        ],
        rule_sets=[rule_set_message(policy.rule_sets[name], confirmation_of) for name in QUESTIONS],
        rule_files=[pb.RuleFile(name=file.path.name, content=file.data) for file in files],
    )
    return payload.SerializeToString(deterministic=True)


def _confirmation(proved: ProvedRuleSet) -> Confirmation:
    file = f"{proved.rule_set.question.name}.yaml"
    return confirm(proved.diagram, evaluator(proved.rule_set, proved.diagram.space, file, by=Engine.REFERENCE))


def _largest_confirmation(proved: ProvedRuleSet) -> Confirmation:
    regions = proved.diagram.regions
    return Confirmation(Engine.REFERENCE, 2**32 - 1, regions, regions)


def rule_set_message(proved: ProvedRuleSet, confirmation_of: _ConfirmationOf = _confirmation) -> pb.RuleSet:
    """Return a rule set as a bundle has it."""
    rule_set, diagram = proved.rule_set, proved.diagram
    question = rule_set.question
    places = {name: place for place, name in enumerate(question.facts)}
    numbers = {str(status): number for number, status in enumerate(question.statuses)}
    rules = {rule.id: number for number, rule in enumerate(rule_set.rules)}
    parts = ConditionParts(question)
    message = pb.RuleSet(
        question=question.name,
        facts=[fact_message(fact, question) for fact in question.facts.values()],
        statuses=map(status_message, question.statuses),
        undetermined_status=numbers[question.undetermined],
        open_status=None if question.open_status is None else numbers[question.open_status],
        rules=[_rule(rule, rule_set, parts.add(rule.when), numbers) for rule in rule_set.rules],
        laws=[
            pb.Law(
                name=law.name,
                condition=parts.add(law.when),
                statuses=[numbers[status] for status in law.statuses],
                always=law.always,
                line=law.place.line,
                column=law.place.column,
            )
            for law in rule_set.laws
        ],
        text_names=question.texts,
        status_words=[
            pb.StatusWords(status=numbers[status], texts=_texts(status_words(rule_set, status), question.texts))
            for status in question.statuses
            # No words are needed for a status that no rule gives.
            if status in rule_set.words
        ],
        axes=[axis_message(axis, question.facts, places) for axis in diagram.axes],
        verdicts=[
            pb.Verdict(
                status=numbers[verdict.status],
                rule=rules[verdict.rule],
                undetermined=verdict.undetermined,
                withhold_text=bool(verdict.withhold_text),
            )
            for verdict in diagram.verdicts
        ],
        diagram=_diagram(diagram.inner),
        unread_diagram=_diagram(diagram.unread_nodes.inner),
        unread_starts=[
            pb.UnreadStart(rule=rules[rule], fact=places[fact], start=start)
            for rule in sorted(diagram.unread_nodes.first, key=rules.__getitem__)
            for fact, start in sorted(diagram.unread_nodes.first[rule].items(), key=lambda each: places[each[0]])
        ],
        counts=_counts(proved, confirmation_of(proved)),
        listed_facts=[places[name] for name in diagram.space.facts],
    )
    message.condition_parts.extend(parts.written)
    return message


def compile_rule_set(proved: ProvedRuleSet) -> CompiledRuleSet:
    """Return a rule set as a bundle of it is read, with what confirmed it when it was checked.

    Nothing confirms it again. Whatever explains a verdict for people does so by this, as a service does.
    """
    confirmation = proved.confirmation or Confirmation(Engine.REFERENCE, 0, 0, proved.diagram.regions)
    return rule_set_of(rule_set_message(proved, lambda _: confirmation))


def _rule(rule: Rule, rule_set: RuleSet, condition: int | None, statuses: dict[str, int]) -> pb.Rule:
    own = rule_words(rule_set, rule)
    return pb.Rule(
        id=rule.id,
        condition=condition,
        status=statuses[rule.status],
        line=rule.place.line,
        column=rule.place.column,
        words=_texts(own, rule_set.question.texts) if own else (),
    )


def _texts(words: Templates, names: Iterable[str]) -> list[str]:
    return [words[name] for name in names]


def _diagram(inner: Iterable[InnerNode]) -> pb.Diagram:
    nodes = tuple(inner)
    return pb.Diagram(
        places=[node.place for node in nodes], children=[child for node in nodes for child in node.children]
    )


def _counts(proved: ProvedRuleSet, confirmation: Confirmation) -> pb.Counts:
    return pb.Counts(
        combinations=str(proved.diagram.space.size),
        regions=str(proved.diagram.regions),
        witnesses=confirmation.witnesses,
        confirmed_regions=str(confirmation.regions),
        tests=proved.tests,
        laws=len(proved.rule_set.laws),
    )


ROOM = 4_096
"""Bytes that are left for signatures."""
_SHORTEN = "shorten lists of names and values"
_LEAVE_OUT = f"{_SHORTEN}, or leave its rule files out"


class NotWritten(Exception):
    """A policy that has no bundle. It carries the finding; its text is the finding's line."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(str(finding))
        self.finding = finding


def checked_payload(policy: Policy, shown: str, sequence: int = 0, files: Sequence[PolicyFile] = ()) -> bytes:
    """Return the payload of a policy, with its files if they are given; `shown` is its directory as findings name it.

    Raises:
        NotWritten: the reference evaluator decides otherwise than a diagram, or a bundle would be too large.
    """
    try:
        payload = payload_of(policy, sequence, files)
    except NotDecided as error:
        raise NotWritten(error.finding) from None
    if too_large := _too_large(payload, shown, hint=_LEAVE_OUT if files else _SHORTEN):
        raise NotWritten(too_large)
    return payload


def with_size(check: Check, shown: str) -> Check:
    """Return a check that refuses a policy whose bundle would be too large, since nothing serves such a policy.

    It is stricter than `checked_payload` by a few bytes, so that what passes can be served.
    """
    too_large = _too_large(largest_payload(check.policy), shown) if check.policy else None
    return _refuse(check, too_large) if too_large else check


def with_bundle(check: Check, shown: str) -> CheckedPolicy:
    """Return the result of a check with the bundle of its policy, unsigned. A policy without a bundle is refused."""
    if check.policy is None:
        return CheckedPolicy(b"", check.findings)
    try:
        return checked_policy(check.policy, shown)
    except NotWritten as error:
        return CheckedPolicy(b"", in_order((*check.findings, error.finding)))


def checked_policy(policy: Policy, shown: str = "the policy") -> CheckedPolicy:
    """Return a policy that was accepted, with its bundle, as what serves it takes it.

    Raises:
        NotWritten: the reference evaluator decides otherwise than a diagram, or the bundle would be too large.
    """
    tests = tuple(f"{name}: {each.case.name}" for name, proved in policy.rule_sets.items() for each in proved.results)
    return CheckedPolicy(envelop(checked_payload(policy, shown)), policy.warnings, policy.engine, tests)


def _too_large(payload: bytes, shown: str, hint: str = _SHORTEN) -> Finding | None:
    if len(payload) > MAX_BYTES - ROOM:
        sentence = f"its bundle would have {len(payload):,} bytes; the maximum is {MAX_BYTES - ROOM:,}"
    elif (cost := cost_of_payload(payload)) > (most := max_cost(len(payload))):
        sentence = f"the parts of its bundle would cost a reader {cost:,} bytes; the maximum is {most:,}"
    else:
        return None
    return Finding(Place(shown), "bundle-too-large", sentence, hint)


def _refuse(check: Check, finding: Finding) -> Check:
    return replace(check, findings=in_order((*check.findings, finding)), policy=None)
