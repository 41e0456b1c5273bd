"""A rule set: ordered rules, words and laws, and its answer to one combination of facts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from callability.compiler.question import DeclaredFact, LabelFact, Placeholder, Question
from callability.contract.finding import Finding, Place, Severity, as_code, did_you_mean, has_errors, list_names
from callability.contract.vocabulary import Action, LiftedBy, Status
from callability.kernel.conditions import Condition, facts_read


@dataclass(frozen=True, slots=True)
class Law:
    """A name that is a sentence, a condition, and the statuses that must be the only ones there, or must not be.

    `always`: wherever the condition is certainly true, the status is one of these. Otherwise, *never*: wherever it is
    true or undetermined, the status is none of them. So a law holds an unknown fact to be whatever it may be, where
    that is the careful reading. Without a condition a law is about every combination of facts.
    """

    name: str
    when: Condition | None
    statuses: tuple[str, ...]
    place: Place
    always: bool

    @property
    def reads(self) -> tuple[str, ...]:
        """The facts that its condition reads, in the order of the text."""
        return facts_read(self.when) if self.when else ()


@dataclass(frozen=True, slots=True)
class Text:
    """A template of the author's, and where it stands."""

    template: str
    place: Place


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition and the status that it gives; without a condition it always holds."""

    id: str
    when: Condition | None
    status: str
    place: Place
    because: Text | None = None
    action: Text | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """The facts that its condition reads, in the order of the text."""
        return facts_read(self.when) if self.when else ()


Words = Mapping[str, Text]
"""What to say about a status: each of the question's texts, by name."""


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules in order, the words of each status, and the laws that the rules must keep."""

    question: Question
    rules: tuple[Rule, ...]
    words: Mapping[str, Words]
    laws: tuple[Law, ...] = ()
    fact_places: Mapping[str, Place] = field(default_factory=dict, compare=False)
    """Where the file declares each of its own facts."""

    @property
    def conditions(self) -> tuple[Condition | None, ...]:
        """The conditions of the rules, in order."""
        return tuple(rule.when for rule in self.rules)

    @property
    def reads(self) -> frozenset[str]:
        """Every fact that some rule or law reads: a law is about each value of its facts, whether a rule reads it or
        not.
        """
        by_rules = chain.from_iterable(rule.reads for rule in self.rules)
        return frozenset(by_rules).union(*(law.reads for law in self.laws))

    @property
    def declared_facts(self) -> tuple[DeclaredFact, ...]:
        """The facts of its own that the file declares, whether a rule reads them or not, in their order."""
        return tuple(fact for fact in self.question.facts.values() if isinstance(fact, DeclaredFact))

    def rule(self, rule_id: str) -> Rule:
        """Return the rule of an id."""
        return next(rule for rule in self.rules if rule.id == rule_id)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A status and the rule that gave it, or, undetermined, that was reached; and whether upstream text is withheld,
    where the question is about such text.
    """

    status: str
    rule: str
    undetermined: bool
    withhold_text: bool | None


_BRACES = re.compile(r"\{([^{}]*)\}|[{}]")
_TOGGLES = re.compile(
    r"\b(toggle|switch|turn)(s|ed)?( it| the \w+)? (back )?on\b|\btoggle\b|\b(re-?)?enable\b|\bun-?quarantine\b"
    r"|\bapprove\b|\brelease\b|\bsettings\b|\bin the (UI|dashboard)\b",
    re.IGNORECASE,
)

Templates = Mapping[str, str]
"""A template for each text of the question; the caller fills in actions and names."""


@dataclass(frozen=True, slots=True)
class VerdictWords:
    """The templates for a verdict, and the rule that they belong to; empty: they are those of the status."""

    rule: str
    texts: Templates


@dataclass(frozen=True, slots=True)
class _Words:
    """Words of an author's, with what they may name."""

    where: str
    status: Status
    reads: Collection[str]
    placeholders: Collection[Placeholder]
    question: Question
    of_rule: bool = False

    def names(self, owner: LiftedBy) -> bool:
        """Say whether they may name an action of somebody: a rule that decided may know more than its status says."""
        more = self.question.owners_by_rule.get(self.status, ()) if self.of_rule else ()
        return owner is self.status.lifted_by or owner in more


def status_words(rule_set: RuleSet, status: str) -> Templates:
    """Return the words of a status."""
    return {name: text.template for name, text in rule_set.words[status].items()}


def rule_words(rule_set: RuleSet, rule: Rule) -> Templates | None:
    """Return the words of a rule that has its own: `because` before those of its status, `action` in place of them."""
    if rule.status in rule_set.question.wordless or not (rule.because or rule.action):
        return None
    because = [rule.because.template] if rule.because else []
    action = rule.action.template if rule.action else None
    return {name: " ".join([*because, action or text]) for name, text in status_words(rule_set, rule.status).items()}


def verdict_words(rule_set: RuleSet, verdict: Verdict) -> VerdictWords | None:
    """Return the words for a verdict; None where nothing has to be said about its status."""
    if verdict.status in rule_set.question.wordless:
        return None
    rule = rule_set.rule(verdict.rule)
    own = None if verdict.undetermined else rule_words(rule_set, rule)
    return VerdictWords(rule.id, own) if own else VerdictWords("", status_words(rule_set, verdict.status))


def actions_named(template: str, question: Question) -> tuple[Action, ...]:
    """Return the actions of a question that a template names, each once, in the order of the text."""
    named = (question.action(match[1]) for match in _BRACES.finditer(template) if match[1])
    return tuple(dict.fromkeys(filter(None, named)))


def declared_phrases(said: Templates, question: Question) -> dict[str, str]:
    """Return the neutral phrases of the actions of declared facts that some texts name, by action."""
    declared = {fact.action for fact in question.facts.values() if isinstance(fact, DeclaredFact)}
    named = (action for text in said.values() for action in actions_named(text, question))
    return {action.name: action.phrase for action in named if action.name in declared}


def check_words(rule_set: RuleSet) -> tuple[Finding, ...]:
    """Find placeholders that are unknown or not the status's to name (SC-003), and literal text that may be wrong."""
    findings = tuple(_check_placeholders(rule_set))
    if has_errors(findings):
        return findings
    return (*findings, *_check_operators(rule_set))


def _check_placeholders(rule_set: RuleSet) -> Iterator[Finding]:
    question = rule_set.question
    for name, words in rule_set.words.items():
        reads = {fact for rule in rule_set.rules if rule.status == name for fact in rule.reads}
        for text_name, text in words.items():
            placeholders = question.texts[text_name]
            yield from _check(
                text, _Words(f"the words of `{name}`", question.status(name), reads, placeholders, question)
            )
    for rule in rule_set.rules:
        for own in filter(None, (rule.because, rule.action)):
            yield from _check(own, _words_of(rule, question))


def _words_of(rule: Rule, question: Question) -> _Words:
    status = question.status(rule.status)
    return _Words(f"rule `{rule.id}`", status, rule.reads, question.shared_placeholders, question, True)


def _check_operators(rule_set: RuleSet) -> Iterator[Finding]:
    """Find words that result for a status that the operator lifts and name nothing that the operator can do."""
    question = rule_set.question
    theirs = [action for action in question.actions if action.owner is LiftedBy.OPERATOR]
    for rule in rule_set.rules if question.operator_acts else ():
        words = rule_set.words.get(rule.status)
        if words is None or question.status(rule.status).lifted_by is not LiftedBy.OPERATOR:
            continue
        fitting = [action.name for action in theirs if _changes_something(action, _words_of(rule, question))]
        hint = f"name one by a placeholder: {list_names('{' + name + '}' for name in fitting)}"
        for name, template in (rule_words(rule_set, rule) or status_words(rule_set, rule.status)).items():
            if not any(action in theirs for action in actions_named(template, question)):
                sentence = f"the `{name}` of rule `{rule.id}` names nothing that the operator can do"
                place = (rule.action or rule.because or words[name]).place
                yield Finding(place, "no-operator-action", sentence, hint, Severity.WARNING)


def _check(text: Text, words: _Words) -> Iterator[Finding]:
    for match in _BRACES.finditer(text.template):
        yield from _check_placeholder(match[1], text, words)
    literal = _TOGGLES.search(_BRACES.sub(" ", text.template))
    if literal and words.status.lifted_by is not LiftedBy.USER:
        sentence = (
            f"`{literal[0]}` in {words.where} reads like a switch of the user's, and `{words.status}` is not the"
            " user's to lift"
        )
        yield Finding(text.place, "toggle-phrase", sentence, "name what to do by a placeholder", Severity.WARNING)


def _check_placeholder(name: str | None, text: Text, words: _Words) -> Iterator[Finding]:
    if name is None:
        sentence = f"a brace in {words.where} belongs to no placeholder"
        yield Finding(text.place, "stray-brace", sentence, "a placeholder is `{name}`; braces have no other use")
    elif action := words.question.action(name):
        yield from _check_action(action, text, words)
    elif not any(each.name == name and each.fits(words.status) for each in words.placeholders):
        sentence = f"unknown placeholder {as_code('{' + name + '}')} in {words.where}"
        yield Finding(text.place, "unknown-placeholder", sentence, _elsewhere(name, words) or _near(name, words))


def _elsewhere(name: str, words: _Words) -> str:
    """Say where a placeholder may stand that may not stand here."""
    for text, placeholders in words.question.texts.items():
        for each in placeholders:
            if each.name == name and not each.fits(words.status):
                return f"it stands in the words of {list_names(sorted(each.statuses or ()))} only"
            if each.name == name:
                return f"it stands in a `{text}` of a status only"
    return ""


def _near(name: str, words: _Words) -> str:
    fitting = [each.name for each in words.placeholders if each.fits(words.status)]
    return did_you_mean(name, (*fitting, *(action.name for action in words.question.actions)))


def _check_action(action: Action, text: Text, words: _Words) -> Iterator[Finding]:
    status = words.status
    mine = [
        other.name for other in words.question.actions if words.names(other.owner) and _changes_something(other, words)
    ]
    hint = f"it may name {list_names(mine)}" if mine else ""
    if not words.names(action.owner):
        sentence = (
            f"action `{{{action.name}}}` in {words.where} is the {action.owner}'s, and `{status}` is lifted by"
            f" {_article(status.lifted_by)}"
        )
        yield Finding(text.place, "action-not-owned", sentence, hint)
    elif not _changes_something(action, words):
        opens = "changes labels, of which" if action.labels else f"opens `{action.fact}`, which"
        readers = "this rule does not read" if words.of_rule else f"no rule that gives `{status}` reads"
        sentence = f"action `{{{action.name}}}` in {words.where} {opens} {readers}" + (" any" if action.labels else "")
        yield Finding(text.place, "action-opens-nothing", sentence, hint)


def _changes_something(action: Action, words: _Words) -> bool:
    """Say whether an action is about no fact at all, or about one that is read."""
    if action.labels:
        return any(isinstance(words.question.facts[fact], LabelFact) for fact in words.reads)
    return action.fact is None or action.fact in words.reads


def _article(owner: LiftedBy) -> str:
    return {LiftedBy.USER: "the user", LiftedBy.OPERATOR: "the operator", LiftedBy.NONE: "nobody"}.get(
        owner, "nobody known"
    )


def statuses_with_words(rule_set: RuleSet) -> tuple[str, ...]:
    """Return the statuses that need words: those that rules give and the undetermined one, without the wordless."""
    question = rule_set.question
    given = dict.fromkeys([*(rule.status for rule in rule_set.rules), question.undetermined])
    return tuple(status for status in given if status not in question.wordless)
