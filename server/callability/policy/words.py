"""The words of a policy: which placeholders they may hold, and how those of a rule join those of its status."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from callability.finding import Finding, Severity, did_you_mean, listed, shown
from callability.policy.rule_set import Rule, RuleSet, Text
from callability.vocabulary import ACTIONS, LiftedBy, ToolStatus

_ACTIONS = {action.name: action for action in ACTIONS}
_NAMES = ("tool", "server")
_BRACES = re.compile(r"\{([^{}]*)\}|[{}]")
_TOGGLES = re.compile(
    r"\b(toggle|switch|turn)(s|ed)?( it| the \w+)? (back )?on\b|\btoggle\b|\b(re-?)?enable\b|\bun-?quarantine\b"
    r"|\bapprove\b|\brelease\b|\bsettings\b|\bin the (UI|dashboard)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Spoken:
    """What to say: templates whose actions and names the caller fills."""

    remediation: str
    rejection: str


def spoken(rule_set: RuleSet, status: str) -> Spoken:
    """Return the words of a status."""
    words = rule_set.words[status]
    return Spoken(words.remediation.template, words.rejection.template)


def spoken_by_rule(rule_set: RuleSet, rule: Rule) -> Spoken | None:
    """Return the words of a rule that has its own: `because` before those of its status, `action` in place of them."""
    if rule.status == rule_set.question.open_status or not (rule.because or rule.action):
        return None
    words = spoken(rule_set, rule.status)
    because = [rule.because.template] if rule.because else []
    action = rule.action.template if rule.action else None
    return Spoken(
        " ".join([*because, action or words.remediation]),
        " ".join([*because, action or words.rejection]),
    )


def facts_opened(template: str) -> frozenset[str]:
    """Return the facts that the actions which a template names would open."""
    named = (_ACTIONS[match[1]] for match in _BRACES.finditer(template) if match[1] in _ACTIONS)
    return frozenset(action.fact for action in named if action.fact)


def check_words(rule_set: RuleSet) -> Iterator[Finding]:
    """Find placeholders that are unknown or not the status's to name (SC-003), and literal text that may be wrong."""
    for status, words in rule_set.words.items():
        reads = {fact for rule in rule_set.rules if rule.status == status for fact in rule.reads}
        where = f"the words of `{status}`"
        yield from _check(words.remediation, ToolStatus(status), reads, where, names=())
        yield from _check(words.rejection, ToolStatus(status), reads, where, names=_NAMES)
    for rule in rule_set.rules:
        for text in filter(None, (rule.because, rule.action)):
            yield from _check(text, ToolStatus(rule.status), rule.reads, f"rule `{rule.id}`", names=())


def _check(
    text: Text, status: ToolStatus, reads: Collection[str], where: str, *, names: Collection[str]
) -> Iterator[Finding]:
    for match in _BRACES.finditer(text.template):
        yield from _check_placeholder(match[1], text, status, reads, where, names=names)
    literal = _TOGGLES.search(_BRACES.sub(" ", text.template))
    if literal and status.lifted_by is not LiftedBy.USER:
        sentence = (
            f"`{literal[0]}` in {where} reads like a switch of the user's, and `{status}` is not the user's to lift"
        )
        yield Finding(text.place, "toggle-phrase", sentence, "name what to do by a placeholder", Severity.WARNING)


def _check_placeholder(
    name: str | None, text: Text, status: ToolStatus, reads: Collection[str], where: str, *, names: Collection[str]
) -> Iterator[Finding]:
    if name is None:
        sentence = f"a brace in {where} belongs to no placeholder"
        yield Finding(text.place, "stray-brace", sentence, "a placeholder is `{name}`; braces have no other use")
    elif name in _ACTIONS:
        yield from _check_action(name, text, status, reads, where)
    elif name not in names:
        elsewhere = name in _NAMES
        hint = "it stands in a `rejection` of a status only" if elsewhere else did_you_mean(name, (*names, *_ACTIONS))
        yield Finding(
            text.place, "unknown-placeholder", f"unknown placeholder {shown('{' + name + '}')} in {where}", hint
        )


def _check_action(name: str, text: Text, status: ToolStatus, reads: Collection[str], where: str) -> Iterator[Finding]:
    action = _ACTIONS[name]
    mine = [
        other.name for other in ACTIONS if other.owner is status.lifted_by and (not other.fact or other.fact in reads)
    ]
    hint = f"it may name {listed(mine)}" if mine else ""
    if action.owner is not status.lifted_by:
        lifted_by = _article(status.lifted_by)
        sentence = f"action `{{{name}}}` in {where} is the {action.owner}'s, and `{status}` is lifted by {lifted_by}"
        yield Finding(text.place, "action-not-owned", sentence, hint)
    elif action.fact and action.fact not in reads:
        sentence = f"action `{{{name}}}` in {where} opens `{action.fact}`, which no rule that gives `{status}` reads"
        yield Finding(text.place, "action-opens-nothing", sentence, hint)


def _article(owner: LiftedBy) -> str:
    return {LiftedBy.USER: "the user", LiftedBy.OPERATOR: "the operator", LiftedBy.NONE: "nobody"}.get(
        owner, "nobody known"
    )


def statuses_spoken(rules: Iterable[Rule], undetermined: str, open_status: str) -> tuple[str, ...]:
    """Return the statuses that need words: those that rules give and the undetermined one, but not the open one."""
    given = dict.fromkeys([*(rule.status for rule in rules), undetermined])
    return tuple(status for status in given if status != open_status)
