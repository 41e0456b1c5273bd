"""The difference of two policies: every combination whose answer changes, in a few conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from callability.policy.deciding.space import MAX_COMBINATIONS, Combination, Space, space_of_facts
from callability.policy.loading import Policy, ProvedRuleSet
from callability.policy.names.automaton import TooManyStates
from callability.policy.names.classes import SinglesOutUnknown
from callability.policy.questions.question import joined
from callability.policy.questions.questions import QUESTIONS
from callability.policy.reporting.region import Region, described
from callability.policy.rules.verdict import Verdict
from callability.policy.rules.words import Templates, verdict_words


@dataclass(frozen=True, slots=True)
class Reply:
    """What a caller receives: the status and its words, which a rule may change."""

    status: str
    words: Templates | None

    def __hash__(self) -> int:
        return hash((self.status, tuple((self.words or {}).items())))


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """Combinations whose reply changed from one to another; `where` are conditions for them.

    A condition maps facts to the values that they may have; each combination meets at least one condition. `rules`
    are those that decide before and after, and `example` is one combination with all its facts.
    """

    question: str
    before: Reply
    after: Reply
    combinations: int
    where: tuple[Mapping[str, tuple[str, ...]], ...]
    rules: tuple[tuple[str, ...], tuple[str, ...]]
    example: Mapping[str, str]

    @property
    def words_only(self) -> bool:
        """Whether only the words change, and not the status."""
        return self.before.status == self.after.status


class TooMuch(Exception):
    """Two policies that are too large to compare. Its text says what is too large, and the limit."""


def differences(old: Policy, new: Policy) -> tuple[PolicyChange, ...]:
    """Return every change between two policies, those of a status before those of words, the largest first.

    Raises:
        TooMuch: they are too large to compare.
    """
    found = [change for name in QUESTIONS for change in changes_of(name, old.rule_sets[name], new.rule_sets[name])]
    order = tuple(QUESTIONS)
    return tuple(sorted(found, key=lambda each: (order.index(each.question), each.words_only, -each.combinations)))


def compared_space(old: ProvedRuleSet, new: ProvedRuleSet) -> Space:
    """Return the space of the facts that either of two rule sets reads, with the distinctions of both.

    Raises:
        TooMuch: together they are too large.
    """
    facts = frozenset((*old.table.space.facts, *new.table.space.facts))
    try:
        question = joined(old.rule_set.question, new.rule_set.question)
    except TooManyStates as error:
        raise TooMuch(f"the patterns of both policies have more than {error} states together") from None
    except SinglesOutUnknown:
        raise TooMuch("the patterns of both policies distinguish the name `unknown` from every other") from None
    space = space_of_facts(question, facts)
    if space.size > MAX_COMBINATIONS:
        raise TooMuch(f"the facts of both policies have {space.size:,} combinations, and may have {MAX_COMBINATIONS:,}")
    return space


def changes_of(name: str, old: ProvedRuleSet, new: ProvedRuleSet) -> Iterator[PolicyChange]:
    """Yield every change of the answers to one question.

    Raises:
        TooMuch: they are too large to compare.
    """
    space = compared_space(old, new)
    answers = _Replies(old), _Replies(new)
    changed: dict[tuple[Reply, Reply], list[tuple[Combination, Verdict, Verdict]]] = {}
    for combination in space.combinations():
        facts = space.named(combination)
        before, after = old.table.verdict(facts), new.table.verdict(facts)
        pair = answers[0].of(before), answers[1].of(after)
        if pair[0] != pair[1]:
            changed.setdefault(pair, []).append((combination, before, after))
    possible = Region.of(space.combinations()) if changed else Region()
    domains = {fact: tuple(map(str, space.question.facts[fact].readings)) for fact in space.facts}
    for (reply_before, reply_after), found in changed.items():
        combinations, before_each, after_each = zip(*found, strict=True)
        wanted = Region.of(combinations)
        boxes = described(wanted, wanted, possible, tuple(domains.values()))
        yield PolicyChange(
            question=name,
            before=reply_before,
            after=reply_after,
            combinations=len(found),
            where=tuple(space.question.describe(dict(zip(space.facts, box, strict=True))) for box in boxes),
            rules=(_rules(old, before_each), _rules(new, after_each)),
            example=space.named(combinations[0]),
        )


def _rules(proved: ProvedRuleSet, verdicts: Iterable[Verdict]) -> tuple[str, ...]:
    deciding = {verdict.rule for verdict in verdicts}
    return tuple(rule.id for rule in proved.rule_set.rules if rule.id in deciding)


class _Replies:
    """The replies of a rule set, each created once."""

    def __init__(self, proved: ProvedRuleSet) -> None:
        self._rule_set = proved.rule_set
        self._made: dict[Verdict, Reply] = {}

    def of(self, verdict: Verdict) -> Reply:
        if verdict not in self._made:
            said = verdict_words(self._rule_set, verdict)
            self._made[verdict] = Reply(verdict.status, said.texts if said else None)
        return self._made[verdict]
