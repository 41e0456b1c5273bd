"""Facts, axes and statuses of a question as a bundle has them."""

from __future__ import annotations

from collections.abc import Mapping

from callability.bundle.v1 import bundle_pb2 as pb
from callability.policy.questions.fact import Axis, DeclaredFact, Fact, LabelFact, NameFact
from callability.policy.questions.question import Question
from callability.v1 import outcome_pb2, verdict_pb2
from callability.vocabulary import EnableStatus, LiftedBy, LoadStatus, Retry, Status, ToolStatus

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


def lifted_by_number(owner: LiftedBy | None) -> verdict_pb2.LiftedBy.ValueType:
    """Return the number of who can lift or change something; unspecified if nobody can."""
    return verdict_pb2.LiftedBy.Value(f"LIFTED_BY_{owner.upper()}") if owner else verdict_pb2.LIFTED_BY_UNSPECIFIED


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
        changed_by=lifted_by_number(fact.opened_by),
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
        lifted_by=lifted_by_number(status.lifted_by),
        retry=_retry_number(status.retry),
    )
    if isinstance(status, EnableStatus):
        message.error = status.error
        message.entry = outcome_pb2.EnableEntry.Value(f"ENABLE_ENTRY_{status.entry.upper()}")
        message.tools_changed = status.tools_changed
    return message


def _retry_number(retry: Retry) -> verdict_pb2.Retry.ValueType:
    return verdict_pb2.Retry.Value(f"RETRY_{retry.upper()}")


def _number(status: Status) -> int:
    match status:
        case ToolStatus():
            return verdict_pb2.ToolStatus.Value(f"TOOL_STATUS_{status.upper()}")
        case LoadStatus():
            return outcome_pb2.LoadStatus.Value(f"LOAD_STATUS_{status.upper()}")
        case EnableStatus():
            return outcome_pb2.EnableStatus.Value(f"ENABLE_STATUS_{status.upper()}")
