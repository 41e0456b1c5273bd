"""Reading a rule file: into a rule set, or into findings about its form."""

from __future__ import annotations

import re
from collections.abc import Iterator

from callability.document import Mapping, Node, Scalar
from callability.finding import Finding, Severity, did_you_mean, has_errors, listed, shown
from callability.kernel.condition import Condition
from callability.policy.questions.question import Question
from callability.policy.reading.fact_form import fact_places, read_facts
from callability.policy.reading.form import Form
from callability.policy.reading.label_form import label_places, read_labels
from callability.policy.reading.law_form import read_laws
from callability.policy.reading.name_form import with_names
from callability.policy.reading.when import read_status, read_when
from callability.policy.rules.rule_set import Rule, RuleSet, Text, Words
from callability.policy.rules.words import check_words, statuses_with_words

MAX_RULES = 1_000
ID = re.compile(r"[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?")
"""What the id of a rule may be."""


def read_rule_set(root: Node, question: Question) -> tuple[RuleSet | None, tuple[Finding, ...]]:
    """Return the rule set that a file writes, and what is to be said of it; None where it has errors of form."""
    form = Form()
    heads = (*(("labels",) if question.labels else ()), *(("facts",) if question.declares else ()))
    entries = form.mapping(root, "the file", required=("rules", "words"), optional=(*heads, "laws"))
    if entries is None:
        return None, tuple(form.findings)
    question = read_head(root, question, form)
    rules = _rules(entries["rules"], question, form)
    words = _words(entries["words"], question, form)
    laws = read_laws(entries["laws"], question, form) if "laws" in entries else ()
    question = with_names(question, (*rules, *laws), form)
    if form.findings:
        return None, tuple(form.findings)
    rule_set = RuleSet(question, rules, words, laws, fact_places(root))
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


def read_head(root: Node, question: Question, form: Form) -> Question:
    """Return the question of a rule file: with the labels and the facts that are declared at its head."""
    return read_facts(root, read_labels(root, question, form), form)


def _rules(node: Node, question: Question, form: Form) -> tuple[Rule, ...]:
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


def _rule(node: Node, question: Question, form: Form) -> Rule | None:
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


def _id(node: Node, form: Form) -> str | None:
    text = form.text(node, "`id` of a rule")
    if text is not None and not ID.fullmatch(text):
        hint = "1 to 64 lower-case letters, digits, `.`, `_` and `-`, with a letter or digit at both ends"
        form.find(node.place, "bad-id", f"{shown(text)} cannot be the id of a rule", hint)
        return None
    return text


def _text(node: Node | None, what: str, form: Form) -> Text | None:
    template = form.text(node, what) if node else None
    return Text(" ".join(template.split()), node.place) if template and node else None


def _words(node: Node, question: Question, form: Form) -> dict[str, Words]:
    words: dict[str, Words] = {}
    for key, value in (form.entries(node, "`words`") or {}).items():
        status = str(key.value)
        where = f"the words of `{status}`"
        if status not in question.statuses:
            hint = did_you_mean(status, question.statuses)
            form.find(key.place, "unknown-status", f"unknown status {shown(status)} in `words`", hint)
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
        findings.append(Finding(first.place, "never-decides", sentence, f"below it: {listed(below)}"))
    return tuple(findings)


def _check_labels(rule_set: RuleSet, root: Node) -> Iterator[Finding]:
    """Find labels that are declared, and that no rule and no law reads."""
    for fact, place in label_places(root, rule_set.question):
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
            sentence = (
                f"rule `{rule.id}` makes tools callable because of {listed(hints)}, which the upstream itself claims"
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
    keys: dict[str, Scalar] = {str(key.value): key for key, _ in node.entries} if isinstance(node, Mapping) else {}
    for status in rule_set.words:
        if status not in wanted:
            sentence = f"the words of `{status}` are never used: no rule gives this status"
            if status in question.wordless:
                sentence = f"the words of `{status}` are never used: this status has no words"
            findings.append(Finding(keys[status].place, "unused-words", sentence, "remove them", Severity.WARNING))
    return tuple(findings)
