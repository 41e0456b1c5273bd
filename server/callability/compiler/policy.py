"""Loading a policy: as a whole or not at all, with all findings in all files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path, PurePath
from types import MappingProxyType

from callability.compiler.combination_sets import space_of
from callability.compiler.confirmation import (
    TIME_LIMIT,
    Confirmation,
    Engine,
    Evaluator,
    OnProgress,
    confirm,
    evaluator,
    no_progress,
)
from callability.compiler.diagram import DecisionDiagram, NotDecided, build, too_large
from callability.compiler.forms import Form
from callability.compiler.nodes import TooManyNodes
from callability.compiler.proof import CaseResult, Decided, prove, rule_coverage, run_case
from callability.compiler.question import Question
from callability.compiler.questions import QUESTIONS
from callability.compiler.rule_file import Case, read_cases, read_head, read_rule_set
from callability.compiler.rule_set import RuleSet
from callability.contract.finding import (
    Finding,
    Place,
    Severity,
    as_code,
    did_you_mean,
    has_errors,
    in_order,
    list_names,
)
from callability.contract.vocabulary import ACTIONS, Action
from callability.files import document
from callability.files.document import Node
from callability.files.policy_origin import BundleOrigin, is_bundle
from callability.files.policy_source import TESTS, PolicyFile, PolicySource, policy_files, read_source, source_in


@dataclass(frozen=True, slots=True)
class ProvedRuleSet:
    """A rule set with its decision diagram, the number of tests that passed, the result of each test, and what
    confirmed the diagram; nothing where that was not asked for.
    """

    rule_set: RuleSet
    diagram: DecisionDiagram
    tests: int
    results: tuple[CaseResult, ...] = ()
    confirmation: Confirmation | None = None

    @property
    def engine(self) -> str:
        """What confirmed the diagram; an empty string if nothing did."""
        return self.confirmation.engine if self.confirmation else ""


@dataclass(frozen=True, slots=True)
class Policy:
    """Proved rule sets by name, under one revision. It is never changed."""

    revision: str
    rule_sets: Mapping[str, ProvedRuleSet]
    warnings: tuple[Finding, ...]

    @property
    def engine(self) -> str:
        """What confirmed the decision diagrams; an empty string if nothing did."""
        return engines(self.rule_sets.values())

    @property
    def actions(self) -> tuple[Action, ...]:
        """Every action that words may name: the contract's own, and those that rule files declare."""
        return actions_of(self.rule_sets.values())


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check: what was proved, all findings in order, and the policy unless a finding refuses it."""

    proved: Mapping[str, ProvedRuleSet]
    findings: tuple[Finding, ...]
    policy: Policy | None


def actions_of(proved: Iterable[ProvedRuleSet]) -> tuple[Action, ...]:
    """Return every action that the words of some rule sets may name."""
    declared = (fact.declared_action for each in proved for fact in each.rule_set.declared_facts)
    return (*ACTIONS, *filter(None, declared))


def engines(proved: Iterable[ProvedRuleSet]) -> str:
    """Return what confirmed the diagrams of some rule sets, each once."""
    return ", ".join(sorted({each.engine for each in proved} - {""}))


class PolicyRefused(Exception):
    """A policy with errors. It carries the findings; its text is their lines."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__("\n".join(map(str, findings)))
        self.findings = findings


def load(directory: Path, *, engine: Engine | None = Engine.AUTO) -> Policy:
    """Load the policy in a directory; without an engine, its diagrams are not confirmed by one.

    Raises:
        PolicyRefused: it has errors.
    """
    check = check_source(source_in(directory), engine=engine)
    if check.policy is None:
        raise PolicyRefused(check.findings)
    return check.policy


def check_files(
    paths: Iterable[Path], directory: Path, *, engine: Engine | None = Engine.AUTO, seconds: float = TIME_LIMIT
) -> Check:
    """Check the files of a policy, in any order; `seconds` is the engine's time limit for one rule set."""
    return check_source(read_source(paths, directory), engine=engine, seconds=seconds)


def rules_in(directory: Path) -> Check:
    """Check the rules of the policy in a directory, to look at them.

    Its tests are not read, its diagrams are not confirmed, and nothing is said about parts of rules that never matter.
    """
    files = [path for path in policy_files(directory) if not path.stem.endswith(TESTS)]
    return rules_of(read_source(files, directory))


def rules_of(source: PolicySource) -> Check:
    """Check the rules of a source, as `rules_in` does those in a directory."""
    files = tuple(file for file in source.files if not file.tests)
    return check_source(replace(source, files=files), engine=None, advice=False)


def rules_at(path: Path) -> Check:
    """Check the rules of the policy in a directory or a bundle, to look at them, as `rules_in` does."""
    return rules_of(BundleOrigin(path).source()) if is_bundle(path) else rules_in(path)


def check_source(
    source: PolicySource,
    *,
    engine: Engine | None = Engine.AUTO,
    seconds: float = TIME_LIMIT,
    progress: OnProgress = no_progress,
    advice: bool = True,
    wants_tests: bool = False,
) -> Check:
    """Check the source of a policy; `seconds` is the engine's time limit for one rule set.

    Without an engine, the policy is for looking at: its diagrams are not confirmed, and nothing may be served from it.
    Several threads call `progress` as the engine decides witnesses. Without `advice`, parts of rules that never matter
    are not looked for. With `wants_tests`, a rule set without tests has a warning.
    """
    by = partial(evaluator, by=engine, seconds=seconds, progress=progress) if engine else None
    files = source.files
    findings = [*source.findings, *_check_names(source)]
    # Each rule set is decided in a process of its own, so that one need not wait for another.
    with ThreadPoolExecutor(max_workers=len(QUESTIONS)) as pool:
        checked = tuple(pool.map(partial(_check_question, files, by, advice, wants_tests), QUESTIONS.values()))
    findings += chain.from_iterable(found for _, found in checked)
    proved = {name: one for name, (one, _) in zip(QUESTIONS, checked, strict=True) if one}
    ordered = in_order(findings)
    policy = None
    if not has_errors(ordered):
        policy = Policy(source.revision, MappingProxyType(proved), ordered)
    return Check(MappingProxyType(proved), ordered, policy)


_SHIPPED = "`callability policy export DIR` writes the shipped one"


def _check_names(source: PolicySource) -> list[Finding]:
    if source.findings and not source.names:
        # None of its files was looked at.
        return []
    findings = [
        Finding(Place(source.shown), "missing-rule-set", f"has no rule set `{name}.yaml`", _SHIPPED)
        for name in QUESTIONS
        if name not in source.names
    ]
    for file in source.files:
        if file.path.suffix != ".yaml":
            findings.append(Finding(Place(file.shown), "bad-ending", "the name of a policy file must end in `.yaml`"))
        elif file.question not in QUESTIONS:
            hint = did_you_mean(file.question, QUESTIONS) or f"one of {list_names(QUESTIONS)}"
            findings.append(
                Finding(Place(file.shown), "unknown-question", f"{as_code(file.question)} is not a question", hint)
            )
    return findings


def _check_question(
    files: tuple[PolicyFile, ...], by: _EvaluatorOf | None, advice: bool, wants_tests: bool, question: Question
) -> tuple[ProvedRuleSet | None, list[Finding]]:
    mine = [file for file in files if file.question == question.name and file.path.suffix == ".yaml"]
    rules, tests = (next((file for file in mine if file.tests is kind), None) for kind in (False, True))
    root, findings = _parse(rules)
    rule_set, found = read_rule_set(root, question) if root else (None, ())
    # Tests may use labels and facts that the rule file declares; their findings are reported even if its rules are
    # refused.
    declared = read_head(root, question, Form()) if root else question
    with ThreadPoolExecutor(max_workers=1) as pool:
        # A diagram is built while the tests are read, and the engine confirms it, in a process, while it is proved.
        diagram = pool.submit(_build, rule_set) if rule_set else None
        node, malformed = _parse(tests)
        cases, misread = read_cases(node, declared) if node else ((), ())
        findings += (*malformed, *misread, *found)
        if rule_set is None or diagram is None or rules is None:
            return None, [*findings]
        try:
            confirmed = pool.submit(_confirm, rule_set, diagram.result(), by, rules.shown)
            proved, unproved = _prove(rule_set, diagram.result(), cases, advice=advice)
            if wants_tests and tests is None:
                findings = (*findings, _no_tests(rules))
            return replace(proved, confirmation=confirmed.result()), [*findings, *unproved]
        except NotDecided as error:
            return None, [*findings, error.finding]


def _parse(file: PolicyFile | None) -> tuple[Node | None, tuple[Finding, ...]]:
    if file is None:
        return None, ()
    try:
        return document.parse(file.data, file.shown), ()
    except document.Refused as error:
        return None, error.findings


_EvaluatorOf = Callable[..., Evaluator]
"""An `evaluator` to which the rule set is still to be given."""


def _build(rule_set: RuleSet) -> DecisionDiagram:
    return build(rule_set, space_of(rule_set))


def _confirm(rule_set: RuleSet, diagram: DecisionDiagram, by: _EvaluatorOf | None, file: str) -> Confirmation | None:
    return confirm(diagram, by(rule_set, diagram.space, file)) if by else None


def _prove(
    rule_set: RuleSet, diagram: DecisionDiagram, cases: tuple[Case, ...], *, advice: bool
) -> tuple[ProvedRuleSet, tuple[Finding, ...]]:
    results = tuple(run_case(case, rule_set, diagram) for case in cases)
    failed = [result.finding for result in results if result.finding]
    proved = ProvedRuleSet(rule_set, diagram, len(cases) - len(failed), results)
    try:
        decided = Decided(rule_set, diagram)
        return proved, (*prove(rule_set, decided, advice=advice), *failed, *_find_untested(rule_set, decided, results))
    except TooManyNodes:
        raise NotDecided(too_large(rule_set.rules[-1], diagram.space)) from None


def _no_tests(rules: PolicyFile) -> Finding:
    """Warn of rules that no test is about: whatever an edit makes of them, nothing fails."""
    hint = f"write `{PurePath(rules.shown).stem}{TESTS}.yaml` beside it, or restore it"
    return Finding(Place(rules.shown), "no-tests", "has no tests", hint, Severity.WARNING)


def _find_untested(rule_set: RuleSet, decided: Decided, results: tuple[CaseResult, ...]) -> Iterator[Finding]:
    """Find rules that decide in no test, if there are tests."""
    if results:
        reached = rule_coverage(rule_set, decided, (result.case.facts for result in results if result.verdict))
        for goal in reached.missed:
            sentence = f"rule `{goal.rule}` decides in no test"
            yield Finding(goal.place, "rule-not-tested", sentence, "add one", Severity.WARNING, goal.witness)
