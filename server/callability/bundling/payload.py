"""From a proved policy to the payload of a bundle."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from callability.bundle.v1 import bundle_pb2 as pb
from callability.bundling.condition_parts import ConditionParts
from callability.bundling.fact_messages import axis_message, fact_message, lifted_by_number, status_message
from callability.files.policy_source import PolicyFile
from callability.kernel.semantics import SEMANTICS
from callability.policy.deciding.confirmation import Confirmation, confirm
from callability.policy.deciding.diagram import InnerNode
from callability.policy.deciding.evaluation import Engine, evaluator
from callability.policy.loading import Policy, ProvedRuleSet
from callability.policy.questions.questions import QUESTIONS
from callability.policy.rules.rule_set import Rule, RuleSet
from callability.policy.rules.words import Templates, rule_words, status_words


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
                owner=lifted_by_number(action.owner),
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


def confirmed_rule_set(proved: ProvedRuleSet) -> pb.RuleSet:
    """Return a rule set as a bundle has it, with what confirmed it when it was checked; nothing confirms it again."""
    confirmation = proved.confirmation or Confirmation(Engine.REFERENCE, 0, 0, proved.diagram.regions)
    return rule_set_message(proved, lambda _: confirmation)


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
