"""Reading the tests of a policy: cases with facts and the expected verdict, in a file beside the rule file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from callability.document import Node, Sequence
from callability.finding import Finding, Place, shown
from callability.policy.questions.question import Question
from callability.policy.reading.form import Form
from callability.policy.reading.when import find_fact, read_status, read_value

MAX_TESTS = 5_000


@dataclass(frozen=True, slots=True)
class Case:
    """A name that is a sentence, all facts of the question, and what the verdict must be; None: not looked at.

    `words` are for each text of the question what must stand in it, placeholders as the author writes them.
    """

    name: str
    facts: Mapping[str, str]
    status: str
    rule: str | None
    undetermined: bool | None
    withhold_text: bool | None
    words: Mapping[str, tuple[str, ...]]
    place: Place


def read_cases(root: Node, question: Question) -> tuple[tuple[Case, ...], tuple[Finding, ...]]:
    """Return the cases that a test file writes, and every error of form in it."""
    form = Form()
    entries = form.mapping(root, "the file", required=("tests",))
    if entries is None:
        return (), tuple(form.findings)
    items = form.items(entries["tests"], "`tests`")
    if len(items) > MAX_TESTS:
        form.find(
            entries["tests"].place, "too-many-tests", f"`tests` has {len(items):,} tests; the maximum is {MAX_TESTS:,}"
        )
        return (), tuple(form.findings)
    cases = tuple(case for item in items if (case := _case(item, question, form)))
    names: set[str] = set()
    for case in cases:
        if case.name in names:
            form.find(case.place, "duplicate-test", f"test {shown(case.name)} is repeated")
        names.add(case.name)
    return cases, tuple(form.findings)


def _case(node: Node, question: Question, form: Form) -> Case | None:
    entries = form.mapping(node, "a test", required=("name", "expect"), optional=("facts",))
    if entries is None:
        return None
    name = form.text(entries["name"], "`name` of a test")
    where = f"test {shown(name)}" if name else "a test"
    given = _facts(entries["facts"], question, where, form) if "facts" in entries else {}
    optional = ("rule", "undetermined", "words", *(["withhold_text"] if question.withholds else []))
    expect = form.mapping(entries["expect"], f"`expect` of {where}", required=("status",), optional=optional)
    status = read_status(expect["status"], question, where, form) if expect else None
    if name is None or expect is None or status is None:
        return None
    rule = form.text(expect["rule"], f"`rule` of {where}") if "rule" in expect else None
    undetermined, withhold_text = (
        form.truth(expect[key], f"`{key}` of {where}") if key in optional and key in expect else None
        for key in ("undetermined", "withhold_text")
    )
    words = _words(expect["words"], question, where, form) if "words" in expect else {}
    return Case(
        " ".join(name.split()), question.completed(given), status, rule, undetermined, withhold_text, words, node.place
    )


def _words(node: Node, question: Question, where: str, form: Form) -> dict[str, tuple[str, ...]]:
    """Read for each text what must stand in it: one text, or a list of them."""
    words = {}
    given = form.mapping(node, f"`words` of {where}", required=(), optional=question.texts) or {}
    for name, value in ((name, given[name]) for name in question.texts if name in given):
        items = form.items(value, f"`{name}` of {where}") if isinstance(value, Sequence) else (value,)
        texts = (form.text(item, f"`{name}` of {where}") for item in items)
        words[name] = tuple(" ".join(text.split()) for text in texts if text)
    return words


def _facts(node: Node, question: Question, where: str, form: Form) -> dict[str, str]:
    facts = {}
    for key, value in (form.entries(node, f"`facts` of {where}") or {}).items():
        fact = find_fact(key, value, question, where, form)
        if fact:
            read = read_value(value, fact, where, form, unknown=True)
            if read is not None:
                facts[fact.name] = read
    return facts
