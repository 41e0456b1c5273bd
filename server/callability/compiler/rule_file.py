"""Reading a rule file, its conditions, laws and tests: into a rule set, or into findings about its form."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from callability.compiler import forms
from callability.compiler.question import Fact, NameFact, Question
from callability.compiler.rule_set import Law, Rule, RuleSet, Text, Words, check_words, statuses_with_words
from callability.contract.finding import (
    Finding,
    Place,
    Severity,
    as_code,
    did_you_mean,
    has_errors,
    joined_hints,
    list_names,
)
from callability.contract.vocabulary import UNKNOWN
from callability.files.document import DocumentMapping, DocumentSequence, Node, Scalar
from callability.kernel.conditions import AllOf, AnyOf, Condition, Is, Not, atoms

MAX_PARTS = 2_000
"""Parts of one condition that read a fact."""
_CONNECTIVES = ("any", "all", "not")


def read_when(node: Node, question: Question, rule: str, form: forms.Form) -> Condition | None:
    """Return the whole condition that a node writes, or None after a finding, also where it has too many parts."""
    condition = read_condition(node, question, rule, form)
    parts = sum(1 for _ in atoms(condition))
    if parts > MAX_PARTS:
        form.find(node.place, "too-many-parts", f"`when` of {rule} has {parts:,} parts; the maximum is {MAX_PARTS:,}")
        return None
    return condition


def read_condition(node: Node, question: Question, rule: str, form: forms.Form) -> Condition | None:
    """Return the condition that a node writes, or None after a finding."""
    entries = form.entries(node, f"`when` of {rule}")
    if entries is None:
        return None
    if not entries:
        form.find(
            node.place,
            "empty-condition",
            f"a condition of {rule} is empty",
            "leave `when` out if the rule always matches",
        )
        return None
    parts = [_part(key, value, question, rule, form) for key, value in entries.items()]
    sound = tuple(part for part in parts if part is not None)
    if len(sound) < len(parts):
        return None
    return sound[0] if len(sound) == 1 else AllOf(sound)


def read_value(node: Node, fact: Fact, where: str, form: forms.Form, *, unknown: bool = False) -> str | None:
    """Return a value of a fact, or None after a finding; `unknown` where it may be written.

    Where it may not be, it is a condition that is read, and a name may be a pattern. A whole number is the text that is
    written, quoted or not.
    """
    found, value = (node.value, node.word) if isinstance(node, Scalar) else (None, None)
    if isinstance(fact, NameFact) and value != UNKNOWN:
        return forms.read_name(node, fact, where, form, pattern=not unknown)
    if fact.boolean and isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value == UNKNOWN:
        if not unknown:
            hint = "a rule that reaches an unknown fact is undetermined by itself"
            form.find(node.place, "names-unknown", f"{where} names `unknown`, which no condition can read", hint)
        elif fact.asserted:
            form.find(node.place, "unknown-value", f"`{fact.name}` is never unknown, as {where} has it")
        return UNKNOWN if unknown and not fact.asserted else None
    if isinstance(value, str) and not fact.boolean and value in fact.values:
        return value
    if fact.boolean and value in fact.values:
        hint = "without quotes"
    elif isinstance(value, bool) and str(value).lower() in fact.values:
        hint = "in quotes"
    else:
        hint = did_you_mean(str(found), fact.values)
    form.find(
        node.place, "unknown-value", f"unknown value of `{fact.name}` in {where}: {forms.describe_node(node)}", hint
    )
    return None


def find_fact(
    key: Scalar, value: Node, question: Question, where: str, form: forms.Form, others: tuple[str, ...] = ()
) -> Fact | None:
    """Return the fact that a key names, or None after a finding that suggests a fact or one of the other keys."""
    name = str(key.value)
    fact = question.facts.get(name)
    if fact is None:
        hint = _nesting_hint(name, value, question) or _label_hint(name, question)
        near = did_you_mean(name, (*question.facts, *others))
        hint = (
            hint or joined_hints(near if near.startswith("did") else "", forms.undeclared_fact(name, question)) or near
        )
        form.find(key.place, "unknown-fact", f"unknown fact {as_code(name)} in {where}", hint)
    return fact


def _label_hint(name: str, question: Question) -> str:
    """Say what to do about a label that is not declared; nothing if the name is none of a label."""
    prefix = next((each for each in question.labels.values() if name.startswith(each)), None)
    if prefix is None:
        return ""
    near = did_you_mean(name, (fact for fact in question.facts if fact.startswith(prefix)))
    return joined_hints(near, "a label is declared under `labels`, at the head of the rule file")


def _nesting_hint(name: str, value: Node, question: Question) -> str:
    """Say how to write facts whose names are written as mappings in each other."""
    if not isinstance(value, DocumentMapping):
        return ""
    labels = tuple(question.labels.values())
    meant = [each for each in _paths(name, value) if each in question.facts or each.startswith(labels or ".")]
    return f"write {list_names(meant)}" if meant else ""


def _paths(name: str, value: Node) -> Iterator[str]:
    if isinstance(value, DocumentMapping):
        for key, inner in value.entries:
            yield from _paths(f"{name}.{key.value}", inner)
    else:
        yield name


def read_status(node: Node, question: Question, where: str, form: forms.Form) -> str | None:
    """Return the status that a node names, or None after a finding."""
    status = form.text(node, f"`status` of {where}")
    if status is not None and status not in question.statuses:
        hint = did_you_mean(status, question.statuses)
        form.find(node.place, "unknown-status", f"unknown status {as_code(status)} in {where}", hint)
        return None
    return status


def written_part(part: Is, question: Question) -> str:
    """Write a part of a condition that reads one fact, as a rule file has it."""
    values = question.facts[part.fact].spell(part.values)
    return f"{part.fact}: {values[0]}" if len(values) == 1 else f"{part.fact}: [{', '.join(values)}]"


def _part(key: Scalar, value: Node, question: Question, rule: str, form: forms.Form) -> Condition | None:
    match key.value:
        case "not":
            part = read_condition(value, question, rule, form)
            return Not(part) if part else None
        case "any" | "all":
            items = form.items(value, f"`{key.value}` in {rule}")
            parts = [read_condition(item, question, rule, form) for item in items]
            sound = tuple(part for part in parts if part is not None)
            if not sound or len(sound) < len(parts):
                return None
            return AnyOf(sound) if key.value == "any" else AllOf(sound)
    fact = find_fact(key, value, question, rule, form, _CONNECTIVES)
    return _is(fact, value, rule, form) if fact else None


def _is(fact: Fact, node: Node, rule: str, form: forms.Form) -> Condition | None:
    nodes = form.items(node, f"`{fact.name}` in {rule}") if isinstance(node, DocumentSequence) else (node,)
    values = [read_value(item, fact, rule, form) for item in nodes]
    sound = [value for value in values if value is not None]
    if not sound or len(sound) < len(values):
        return None
    twice = sorted(value for value, count in Counter(sound).items() if count > 1)
    if twice:
        form.find(node.place, "duplicate-value", f"value {list_names(twice)} of `{fact.name}` is repeated in {rule}")
        return None
    return Is(fact.name, frozenset(sound), node.place)


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
    form = forms.Form()
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
    _find_repeated(cases, "duplicate-test", form)
    return cases, tuple(form.findings)


def _find_repeated(named: Iterable[Case | Law], code: str, form: forms.Form) -> None:
    kind, lines = code.removeprefix("duplicate-"), dict[str, int]()
    for each in named:
        if first := lines.get(each.name):
            form.find(each.place, code, f"{kind} {as_code(each.name)} is repeated", f"first in line {first}")
        lines.setdefault(each.name, each.place.line)


def _case(node: Node, question: Question, form: forms.Form) -> Case | None:
    entries = form.mapping(node, "a test", required=("name", "expect"), optional=("facts",))
    if entries is None:
        return None
    name = form.text(entries["name"], "`name` of a test")
    where = f"test {as_code(name)}" if name else "a test"
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
    words = _read_expected_words(expect["words"], question, where, form) if "words" in expect else {}
    return Case(
        " ".join(name.split()), question.complete(given), status, rule, undetermined, withhold_text, words, node.place
    )


def _read_expected_words(node: Node, question: Question, where: str, form: forms.Form) -> dict[str, tuple[str, ...]]:
    """Read for each text what must stand in it: one text, or a list of them."""
    words = {}
    given = form.mapping(node, f"`words` of {where}", required=(), optional=question.texts) or {}
    for name, value in ((name, given[name]) for name in question.texts if name in given):
        items = form.items(value, f"`{name}` of {where}") if isinstance(value, DocumentSequence) else (value,)
        texts = (form.text(item, f"`{name}` of {where}") for item in items)
        words[name] = tuple(" ".join(text.split()) for text in texts if text)
    return words


def _facts(node: Node, question: Question, where: str, form: forms.Form) -> dict[str, str]:
    facts = {}
    for key, value in (form.entries(node, f"`facts` of {where}") or {}).items():
        fact = find_fact(key, value, question, where, form)
        if fact:
            read = read_value(value, fact, where, form, unknown=True)
            if read is not None:
                facts[fact.name] = read
    return facts


MAX_LAWS = 1_000
_KINDS = ("always", "never")


def read_laws(node: Node, question: Question, form: forms.Form) -> tuple[Law, ...]:
    """Return the laws that a node writes, as far as they have the form of one."""
    items = form.items(node, "`laws`")
    if len(items) > MAX_LAWS:
        form.find(node.place, "too-many-laws", f"`laws` has {len(items):,} laws; the maximum is {MAX_LAWS:,}")
        return ()
    laws = tuple(law for item in items if (law := _law(item, question, form)))
    _find_repeated(laws, "duplicate-law", form)
    return laws


def _law(node: Node, question: Question, form: forms.Form) -> Law | None:
    entries = form.mapping(node, "a law", required=("name",), optional=("when", *_KINDS))
    if entries is None:
        return None
    name = form.text(entries["name"], "`name` of a law")
    where = f"law {as_code(name)}" if name else "a law"
    when = read_when(entries["when"], question, where, form) if "when" in entries else None
    kinds = [kind for kind in _KINDS if kind in entries]
    if len(kinds) != 1:
        wanted = "one of `always` and `never`"
        form.find(node.place, "law-of-no-kind", f"{where} must have {wanted}, but has {'both' if kinds else 'neither'}")
        return None
    statuses = _statuses(entries[kinds[0]], question, where, form)
    if name is None or not statuses or ("when" in entries and when is None):
        return None
    return Law(" ".join(name.split()), when, statuses, node.place, always=kinds == ["always"])


def _statuses(node: Node, question: Question, where: str, form: forms.Form) -> tuple[str, ...]:
    nodes = form.items(node, f"the statuses of {where}") if isinstance(node, DocumentSequence) else (node,)
    read = [read_status(item, question, where, form) for item in nodes]
    return () if None in read else tuple(dict.fromkeys(status for status in read if status))


MAX_RULES = 1_000
ID = re.compile(r"[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?")
"""What the id of a rule may be."""


def read_rule_set(root: Node, question: Question) -> tuple[RuleSet | None, tuple[Finding, ...]]:
    """Return the rule set that a file writes, and what is to be said of it; None where it has errors of form."""
    form = forms.Form()
    heads = (*(("labels",) if question.labels else ()), *(("facts",) if question.declares else ()))
    entries = form.mapping(root, "the file", required=("rules", "words"), optional=(*heads, "laws"))
    if entries is None:
        return None, tuple(form.findings)
    question = read_head(root, question, form)
    rules = _rules(entries["rules"], question, form)
    words = _read_words(entries["words"], question, form)
    laws = read_laws(entries["laws"], question, form) if "laws" in entries else ()
    question = forms.with_names(question, (*rules, *laws), form)
    if form.findings:
        return None, tuple(form.findings)
    rule_set = RuleSet(question, rules, words, laws, forms.fact_places(root))
    findings = (
        *_check_order(rule_set),
        *_check_labels(rule_set, root),
        *_check_facts(rule_set),
        *_check_hints(rule_set),
        *_check_spoken(rule_set, entries["words"]),
        *check_words(rule_set),
    )
    errors = has_errors(findings)
    return (None if errors else rule_set), findings


def read_head(root: Node, question: Question, form: forms.Form) -> Question:
    """Return the question of a rule file: with the labels and the facts that are declared at its head."""
    return forms.read_facts(root, forms.read_labels(root, question, form), form)


def _rules(node: Node, question: Question, form: forms.Form) -> tuple[Rule, ...]:
    items = form.items(node, "`rules`")
    if len(items) > MAX_RULES:
        form.find(node.place, "too-many-rules", f"`rules` has {len(items):,} rules; the maximum is {MAX_RULES:,}")
        return ()
    rules = tuple(rule for item in items if (rule := _rule(item, question, form)))
    seen: dict[str, Rule] = {}
    for rule in rules:
        first = seen.setdefault(rule.id, rule)
        if first is not rule:
            form.find(
                rule.place, "duplicate-id", f"rule id `{rule.id}` is repeated", f"first in line {first.place.line}"
            )
    return rules


def _rule(node: Node, question: Question, form: forms.Form) -> Rule | None:
    entries = form.mapping(node, "a rule", required=("id", "status"), optional=("when", "because", "action"))
    if entries is None:
        return None
    rule_id = _id(entries["id"], form)
    where = f"rule `{rule_id}`" if rule_id else "a rule"
    when: Condition | None = None
    if "when" in entries:
        when = read_when(entries["when"], question, where, form)
    status = read_status(entries["status"], question, where, form)
    because, action = (_text(entries.get(key), f"`{key}` of {where}", form) for key in ("because", "action"))
    if rule_id is None or status is None:
        return None
    return Rule(rule_id, when, status, node.place, because, action)


def _id(node: Node, form: forms.Form) -> str | None:
    text = form.text(node, "`id` of a rule")
    if text is not None and not ID.fullmatch(text):
        hint = "1 to 64 lower-case letters, digits, `.`, `_` and `-`, with a letter or digit at both ends"
        form.find(node.place, "bad-id", f"{as_code(text)} cannot be the id of a rule", hint)
        return None
    return text


def _text(node: Node | None, what: str, form: forms.Form) -> Text | None:
    template = form.text(node, what) if node else None
    return Text(" ".join(template.split()), node.place) if template and node else None


def _read_words(node: Node, question: Question, form: forms.Form) -> dict[str, Words]:
    words: dict[str, Words] = {}
    for key, value in (form.entries(node, "`words`") or {}).items():
        status = str(key.value)
        where = f"the words of `{status}`"
        if status not in question.statuses:
            hint = did_you_mean(status, question.statuses)
            form.find(key.place, "unknown-status", f"unknown status {as_code(status)} in `words`", hint)
            continue
        entries = form.mapping(value, f"entry `{status}` of `words`", required=tuple(question.texts))
        if entries is None:
            continue
        read = {name: _text(entries[name], f"`{name}` in {where}", form) for name in question.texts}
        texts = {name: text for name, text in read.items() if text}
        if len(texts) == len(read):
            words[status] = texts
    return words


def _check_order(rule_set: RuleSet) -> tuple[Finding, ...]:
    """The last rule, and no other, has no condition."""
    *others, last = rule_set.rules
    findings = []
    if last.when is not None:
        sentence = f"facts can fall through: the last rule, `{last.id}`, has a condition"
        question = rule_set.question
        such = "{id: open, status: %s}" if question.open_status else "{id: everything-else, status: %s}"
        hint = f"end with a rule without `when`, such as `{such % (question.open_status or question.undetermined)}`"
        findings.append(Finding(last.place, "can-fall-through", sentence, hint))
    first = next((rule for rule in others if rule.when is None), None)
    if first:
        below = [rule.id for rule in rule_set.rules[rule_set.rules.index(first) + 1 :]]
        sentence = f"rule `{first.id}` has no condition, so no rule below it ever decides"
        findings.append(Finding(first.place, "never-decides", sentence, f"below it: {list_names(below)}"))
    return tuple(findings)


def _check_labels(rule_set: RuleSet, root: Node) -> Iterator[Finding]:
    """Find labels that are declared, and that no rule and no law reads."""
    for fact, place in forms.label_places(root, rule_set.question):
        if fact not in rule_set.reads:
            yield Finding(place, "unused-label", f"no rule and no law reads `{fact}`", "remove it", Severity.WARNING)


def _check_facts(rule_set: RuleSet) -> Iterator[Finding]:
    """Find facts that are declared, and that no rule and no law reads."""
    for fact, place in rule_set.fact_places.items():
        if fact not in rule_set.reads:
            yield Finding(place, "unused-fact", f"no rule and no law reads `{fact}`", "remove it", Severity.WARNING)


def _check_hints(rule_set: RuleSet) -> Iterator[Finding]:
    """Find rules that make a tool callable on the upstream's own word."""
    facts = rule_set.question.facts
    for rule in rule_set.rules:
        hints = [fact for fact in rule.reads if facts[fact].hint]
        if hints and rule.status == rule_set.question.open_status:
            of_upstream = list_names(hints)
            sentence = (
                f"rule `{rule.id}` makes tools callable because of {of_upstream}, which the upstream itself claims"
            )
            hint = "use annotations only to lock, and a label of your own to make tools callable"
            yield Finding(rule.place, "callable-on-hint", sentence, hint, Severity.WARNING)


def _check_spoken(rule_set: RuleSet, node: Node) -> tuple[Finding, ...]:
    """Every status that can be given has words, and no other."""
    question = rule_set.question
    wanted = statuses_with_words(rule_set)
    give = f"give {' and '.join(f'`{name}`' for name in question.texts)}"
    findings = [
        Finding(node.place, "missing-words", f"`words` has no entry for status `{status}`", give)
        for status in wanted
        if status not in rule_set.words
    ]
    for rule in rule_set.rules:
        for text in filter(None, (rule.because, rule.action)):
            if rule.status in question.wordless:
                sentence = f"the words of rule `{rule.id}` are never used: status `{rule.status}` has no words"
                findings.append(Finding(text.place, "unused-words", sentence, "remove them", Severity.WARNING))
    keys: dict[str, Scalar] = (
        {str(key.value): key for key, _ in node.entries} if isinstance(node, DocumentMapping) else {}
    )
    for status in rule_set.words:
        if status not in wanted:
            sentence = f"the words of `{status}` are never used: no rule gives this status"
            if status in question.wordless:
                sentence = f"the words of `{status}` are never used: this status has no words"
            findings.append(Finding(keys[status].place, "unused-words", sentence, "remove them", Severity.WARNING))
    return tuple(findings)
