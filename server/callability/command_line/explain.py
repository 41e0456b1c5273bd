"""`callability explain`: decide given facts and show how."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from callability.command_line.compiled_policy import viewed
from callability.command_line.options import JsonOption, PolicyOrBundleOption, leave
from callability.finding import did_you_mean, shown
from callability.kernel.explanation import Explanation
from callability.kernel.explanation import explain as explanation_of
from callability.kernel.path import Path, sentences
from callability.kernel.semantics import SEMANTICS
from callability.policy.loading import Policy
from callability.policy.names.automaton import NAME_BYTES
from callability.policy.questions.callability import CALLABILITY
from callability.policy.questions.fact import NameFact
from callability.policy.questions.question import Question
from callability.policy.questions.questions import QUESTIONS
from callability.policy.reporting.plain_data import of_path, of_trial, of_verdict
from callability.policy.rules.retry import retry_of
from callability.policy.rules.rule_set import RuleSet
from callability.policy.rules.verdict import Verdict
from callability.policy.rules.words import Templates, verdict_words
from callability.vocabulary import Retry, Status


def explain(
    facts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FACT=VALUE]...",
            help="The facts, such as `server.enabled=false`, `tool.name=drop_table` or `approval.status=unknown`. A"
            " fact that is left out has its default.",
        ),
    ] = None,
    question: Annotated[
        str, typer.Option(metavar="QUESTION", help=f"The question that the facts are about: {', '.join(QUESTIONS)}.")
    ] = CALLABILITY.name,
    policy: PolicyOrBundleOption = None,
    agent: Annotated[str | None, typer.Option("--agent", hidden=True)] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the answer for given facts, the rules that were tried, and what would make a tool callable.

    A fact that was given and changes nothing is marked: no rule reads it, or no name or pattern of the rules matches
    it. Exit code 0: answered. 1: the policy is refused. 2: a question, fact or value is not known.
    """
    if agent is not None:
        leave(f"`--agent` is not an option of `explain`: facts are arguments, here `agent.name={agent}`", 2)
    if question not in QUESTIONS:
        leave(f"unknown question {shown(question)} ({did_you_mean(question, QUESTIONS)})", 2)
    answer = _answer(viewed(policy), question, facts or [])
    typer.echo((_json if as_json else _text)(answer))


@dataclass(frozen=True, slots=True)
class ExplainReport:
    """A verdict with everything that the command prints about it."""

    policy: Policy
    rule_set: RuleSet
    verdict: Verdict
    unread: tuple[str, ...]
    retry: Retry
    explanation: Explanation
    given: Mapping[str, str]
    facts: Mapping[str, str]
    notes: Mapping[str, str]
    """Why facts of the call change nothing, by their names."""

    @property
    def status(self) -> Status:
        """The status with its owner."""
        return self.rule_set.question.status(self.verdict.status)

    @property
    def words(self) -> Templates | None:
        """The words of the verdict, if it has any."""
        said = verdict_words(self.rule_set, self.verdict)
        return said.texts if said else None


def _answer(policy: Policy, question: str, texts: Iterable[str]) -> ExplainReport:
    """Decide the facts of the call, or exit with code 2 if they are not facts of the question."""
    proved = policy.rule_sets[question]
    subject = proved.rule_set.question
    written = _given(texts, subject)
    given = subject.completed(written)
    if contradicted := subject.contradicted(given):
        leave(f"these facts cannot occur together: {contradicted.impossible}", 2)
    verdict = proved.diagram.verdict(given)
    read = {fact: given[fact] for fact in proved.diagram.space.facts}
    return ExplainReport(
        policy,
        proved.rule_set,
        verdict,
        proved.diagram.unread(verdict, given),
        retry_of(proved.rule_set, proved.diagram, verdict, given),
        explanation_of(proved.rule_set, proved.diagram, given),
        given,
        read,
        dict(_notes(written, subject, read)),
    )


def _given(texts: Iterable[str], question: Question) -> dict[str, str]:
    """Return the facts of the call, or exit with code 2 if one is given twice."""
    given: dict[str, str] = {}
    for text in texts:
        name, value = _read(text, question)
        if name in given:
            leave(f"`{name}` is given twice: each fact has one value", 2)
        given[name] = value
    return given


def _read(text: str, question: Question) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    fact = question.facts.get(name)
    if not equals:
        leave(f"`{text}` is not FACT=VALUE", 2)
    if fact is None:
        leave(_unknown_fact(name, question), 2)
    if isinstance(fact, NameFact):
        if not 0 < len(value.encode(errors="surrogateescape")) <= NAME_BYTES and value != fact.open_value:
            leave(f"`{name}` has 1 to {NAME_BYTES} bytes", 2)
        value = fact.of_name(value) if fact.asserted else value
    elif value not in fact.readings:
        leave(_unknown(f"unknown value `{value}` of `{name}`", value, fact.readings), 2)
    return name, value


def _notes(written: Mapping[str, str], question: Question, read: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the facts of the call that change nothing, each with the reason."""
    # A fact on the axis of one that is read may decide what that one can be.
    matter = {name for axis in question.axes if not set(axis.facts).isdisjoint(read) for name in axis.facts}
    for name, value in written.items():
        fact = question.facts[name]
        if name not in matter:
            yield name, "which no rule reads"
        elif isinstance(fact, NameFact) and fact.is_unmatched(value):
            yield name, "which no name or pattern of the rules matches"


def _unknown_fact(name: str, question: Question) -> str:
    """Return what is wrong with the name of a fact; of a label that is not declared, which labels are."""
    kind, is_label, _ = name.partition(".label.")
    if not is_label or kind not in question.labels:
        return _unknown(f"unknown fact `{name}`", name, question.facts)
    labels = [each for each in question.facts if each.startswith(f"{kind}.label.")]
    if not labels:
        return f"unknown fact `{name}` (the policy declares no labels for {'an' if kind == 'agent' else 'a'} {kind})"
    return _unknown(f"unknown fact `{name}`", name, labels)


def _unknown(sentence: str, found: str, wanted: Iterable[str]) -> str:
    hint = did_you_mean(found, wanted)
    return f"{sentence} ({hint})" if hint else sentence


def _text(answer: ExplainReport) -> str:
    verdict, explanation, status = answer.verdict, answer.explanation, answer.status
    unread = answer.unread
    how = "undetermined at" if verdict.undetermined else "by"
    lines = [f"{status}, {how} rule `{verdict.rule}`"]
    lines.append(f"  lifted by      {status.lifted_by}")
    lines.append(f"  retry          {answer.retry}")
    if unread:
        lines.append(f"  unread         {', '.join(unread)}")
    if verdict.withhold_text is not None:
        lines.append(f"  upstream text  {'withheld' if verdict.withhold_text else 'may be shown'}")
    lines += [f"  {name:<13}  {text}" for name, text in (answer.words or {}).items()]
    lines += ["", "facts", *_fact_lines(answer)]
    lines += ["", "rules tried, in order", *(f"  {trial.rule.id} {trial.why}" for trial in explanation.trials)]
    if explanation.path:
        lines += ["", "path to callable", *(f"  {step}" for step in _steps(explanation.path))]
    lines += ["", f"revision {answer.policy.revision}"]
    return "\n".join(lines)


def _fact_lines(answer: ExplainReport) -> Iterator[str]:
    unread = {fact: answer.given[fact] for fact in answer.notes if fact not in answer.facts}
    for fact, value in {**answer.facts, **unread}.items():
        note = answer.notes.get(fact)
        yield f"  {fact}: {value}, {note}" if note else f"  {fact}: {value}"


def _steps(path: Path) -> list[str]:
    *changes, end = sentences(path)
    return [*(f"{number}. {change}" for number, change in enumerate(changes, 1)), end]


def _json(answer: ExplainReport) -> str:
    path = answer.explanation.path
    return json.dumps(
        {
            "revision": answer.policy.revision,
            "semantics": SEMANTICS,
            "engine": answer.policy.engine,
            "facts": answer.facts,
            "verdict": of_verdict(answer.verdict, answer.unread, answer.retry, answer.rule_set),
            "words": answer.words,
            "trials": list(map(of_trial, answer.explanation.trials)),
            **({"path": of_path(path)} if path else {}),
        },
        indent=2,
    )
