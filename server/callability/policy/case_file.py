"""Tests of a policy: cases beside a rule file, with facts and what is expected of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from callability.document import Node
from callability.finding import Finding, Place, did_you_mean, shown
from callability.policy.form import Form
from callability.policy.question import Question
from callability.policy.rule_set import RuleSet
from callability.policy.table import DecisionTable, Verdict
from callability.policy.when import find_fact, read_value


@dataclass(frozen=True, slots=True)
class Case:
    """A name that is a sentence, all facts of the question, and what the verdict must be; None: not looked at."""

    name: str
    facts: Mapping[str, str]
    status: str
    rule: str | None
    undetermined: bool | None
    withhold_text: bool | None
    place: Place


def read_cases(root: Node, question: Question) -> tuple[tuple[Case, ...], tuple[Finding, ...]]:
    """Return the cases that a test file writes, and every error of form in it."""
    form = Form()
    entries = form.mapping(root, "the file", required=("tests",))
    items = form.items(entries["tests"], "`tests`") if entries else ()
    cases = tuple(case for item in items if (case := _case(item, question, form)))
    names: set[str] = set()
    for case in cases:
        if case.name in names:
            form.find(case.place, "duplicate-test", f"test {shown(case.name)} stands twice")
        names.add(case.name)
    return cases, tuple(form.findings)


def run_case(case: Case, rule_set: RuleSet, table: DecisionTable) -> Finding | None:
    """Return what is wrong with a case, or None where the policy does what it expects."""
    ids = [rule.id for rule in rule_set.rules]
    if case.rule is not None and case.rule not in ids:
        sentence = f"test {shown(case.name)} expects unknown rule {shown(case.rule)}"
        return Finding(case.place, "unknown-rule", sentence, did_you_mean(case.rule, ids))
    try:
        verdict = table.verdict(case.facts)
    except KeyError:
        sentence = f"test {shown(case.name)} has facts that cannot occur together"
        return Finding(case.place, "impossible-facts", sentence, rule_set.question.impossible)
    differences = [
        f"{what} `{_written(found)}` where `{_written(wanted)}` is expected"
        for what, found, wanted in _compared(case, verdict)
        if wanted is not None and found != wanted
    ]
    if not differences:
        return None
    return Finding(case.place, "test-failed", f"test {shown(case.name)} fails: {'; '.join(differences)}")


def _case(node: Node, question: Question, form: Form) -> Case | None:
    entries = form.mapping(node, "a test", required=("name", "expect"), optional=("facts",))
    if entries is None:
        return None
    name = form.text(entries["name"], "`name` of a test")
    where = f"test {shown(name)}" if name else "a test"
    facts = question.open_facts
    if "facts" in entries:
        facts |= _facts(entries["facts"], question, where, form)
    optional = ("rule", "undetermined", *(["withhold_text"] if question.withholds else []))
    expect = form.mapping(entries["expect"], f"`expect` of {where}", required=("status",), optional=optional)
    if name is None or expect is None:
        return None
    status = form.text(expect["status"], f"`status` of {where}")
    if status is None or status not in question.statuses:
        if status is not None:
            hint = did_you_mean(status, question.statuses)
            form.find(expect["status"].place, "unknown-status", f"unknown status {shown(status)} in {where}", hint)
        return None
    rule = form.text(expect["rule"], f"`rule` of {where}") if "rule" in expect else None
    undetermined, withhold_text = (
        form.truth(expect[key], f"`{key}` of {where}") if key in optional and key in expect else None
        for key in ("undetermined", "withhold_text")
    )
    return Case(name, facts, status, rule, undetermined, withhold_text, node.place)


def _facts(node: Node, question: Question, where: str, form: Form) -> dict[str, str]:
    facts = {}
    for key, value in (form.entries(node, f"`facts` of {where}") or {}).items():
        fact = find_fact(key, question, where, form)
        if fact:
            read = read_value(value, fact, where, form, unknown=True)
            if read is not None:
                facts[fact.name] = read
    return facts


def _compared(case: Case, verdict: Verdict) -> tuple[tuple[str, str | bool | None, str | bool | None], ...]:
    return (
        ("status", verdict.status, case.status),
        ("rule", verdict.rule, case.rule),
        ("undetermined", verdict.undetermined, case.undetermined),
        ("withhold_text", verdict.withhold_text, case.withhold_text),
    )


def _written(value: str | bool | None) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
