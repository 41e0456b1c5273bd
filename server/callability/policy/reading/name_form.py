"""Reading names and patterns, and finding the classes of names that a rule file distinguishes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from callability.document import Node, Scalar
from callability.kernel.condition import Is, atoms
from callability.kernel.glob import is_glob
from callability.policy.names.automaton import NAME_BYTES, TooManyStates
from callability.policy.names.classes import SinglesOutUnknown, name_classes
from callability.policy.questions.fact import NameFact
from callability.policy.questions.question import Question
from callability.policy.reading.form import Form
from callability.policy.rules.law import Law
from callability.policy.rules.rule_set import Rule

MAX_PATTERNS = 1_000
"""Different names and patterns that a rule file may have for one fact."""


def read_name(node: Node, fact: NameFact, where: str, form: Form, *, pattern: bool) -> str | None:
    """Return a name, or a `pattern` where there may be one, or None after a finding."""
    what = f"a value of `{fact.name}` in {where}"
    if fact.open_value == "" and isinstance(node, Scalar) and node.value == "":
        return ""
    text = form.text(node, what)
    if text is None:
        return None
    if len(text.encode(errors="surrogatepass")) > NAME_BYTES:
        form.find(node.place, "name-too-long", f"{what} has more than {NAME_BYTES} bytes, the maximum of a name")
        return None
    if is_glob(text) and not pattern:
        form.find(
            node.place, "pattern-in-test", f"{what} is a pattern, but must be a name", "write a name that it matches"
        )
        return None
    return text


def with_names(question: Question, readers: Iterable[Rule | Law], form: Form) -> Question:
    """Return a question whose names have the classes that rules and laws distinguish."""
    parts = [part for reader in readers for part in atoms(reader.when)]
    facts: list[NameFact] = []
    for fact in question.facts.values():
        mine = [part for part in parts if part.fact == fact.name]
        if isinstance(fact, NameFact) and mine:
            facts += _classed(fact, mine, form)
    return question.having(facts)


def _classed(fact: NameFact, parts: list[Is], form: Form) -> Iterator[NameFact]:
    lists = [part.values for part in parts]
    place = parts[0].place
    assert place is not None
    patterns = len(frozenset[str]().union(*lists))
    if patterns > MAX_PATTERNS:
        sentence = f"`{fact.name}` is compared with {patterns:,} names and patterns; the maximum is {MAX_PATTERNS:,}"
        form.find(place, "too-many-patterns", sentence, "combine some in a pattern, or use a label")
        return
    try:
        yield fact.of(name_classes(lists, fact.open_value))
    except TooManyStates as error:
        sentence = f"the patterns of `{fact.name}` are too complex to distinguish: they need more than {error} states"
        form.find(place, "patterns-too-tangled", sentence, "use fewer `*` before other characters, and fewer `?`")
    except SinglesOutUnknown:
        sentence = f"the patterns of `{fact.name}` single out the name `unknown`, which is not possible"
        form.find(place, "names-unknown", sentence, "`unknown` stands for a name that could not be read")
