"""The form of a rule file, checked node by node: its declared facts, labels, names and patterns."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from callability.compiler.names import NAME_BYTES, SinglesOutUnknown, TooManyStates, name_classes
from callability.compiler.question import BOOLEAN, DeclaredFact, LabelFact, NameFact, Question
from callability.compiler.rule_set import Law, Rule
from callability.contract.finding import Finding, Place, as_code, did_you_mean, list_names, nearest
from callability.contract.vocabulary import ACTIONS, NO_LABEL, RESERVED_PREFIXES, UNKNOWN, LiftedBy
from callability.files.document import DocumentMapping, DocumentSequence, Node, Scalar, entries_of, node_at
from callability.kernel.conditions import Is, atoms, is_glob

MAX_TEXT = 2_000
"""Characters of one text of an author's."""


class Form:
    """Reads nodes and collects what is wrong with them."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def find(self, place: Place, code: str, sentence: str, hint: str = "") -> None:
        """Add an error."""
        self.findings.append(Finding(place, code, sentence, hint))

    def mapping(
        self, node: Node, what: str, *, required: Collection[str], optional: Collection[str] = ()
    ) -> dict[str, Node] | None:
        """Return the entries of a mapping that has all the required keys and none but the known ones."""
        entries = self.entries(node, what)
        if entries is None:
            return None
        known = (*required, *optional)
        misspelled = set()
        for key in entries:
            if key.value not in known:
                hint = did_you_mean(str(key.value), known)
                self.find(key.place, "unknown-key", f"unknown key {as_code(str(key.value))} in {what}", hint)
                misspelled.add(nearest(str(key.value), known))
        found = {str(key.value): value for key, value in entries.items()}
        missing = [name for name in required if name not in found]
        for name in missing:
            # The hint of the misspelled key names it already.
            if name not in misspelled:
                self.find(node.place, "missing-key", f"{what} has no `{name}`")
        return None if missing else found

    def entries(self, node: Node, what: str) -> dict[Scalar, Node] | None:
        """Return the entries of a mapping."""
        if not isinstance(node, DocumentMapping):
            self._find_unwanted(node, what, "a mapping (`key: value`)")
            return None
        return dict(node.entries)

    def items(self, node: Node, what: str) -> tuple[Node, ...]:
        """Return the items of a list that is not empty."""
        if not isinstance(node, DocumentSequence):
            self._find_unwanted(node, what, "a list")
            return ()
        if not node.items:
            self.find(node.place, "empty-list", f"{what} is an empty list")
        return node.items

    def text(self, node: Node, what: str) -> str | None:
        """Return a text that is not blank."""
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            hint = "put a sentence that begins with `{` in quotes" if isinstance(node, DocumentMapping) else ""
            self._find_unwanted(node, what, "text", hint)
            return None
        if not node.value.strip():
            self.find(node.place, "empty-text", f"{what} is blank")
            return None
        if any(not character.isprintable() and not character.isspace() for character in node.value):
            self.find(node.place, "control-character", f"{what} contains a control character")
            return None
        if len(node.value) > MAX_TEXT:
            self.find(node.place, "text-too-long", f"{what} has more than {MAX_TEXT:,} characters")
            return None
        return node.value

    def truth(self, node: Node, what: str) -> bool | None:
        """Return true or false."""
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return node.value
        self._find_unwanted(node, what, "`true` or `false`")
        return None

    def _find_unwanted(self, node: Node, what: str, wanted: str, hint: str = "") -> None:
        self.find(node.place, "wrong-type", f"{what} is {describe_node(node)}, but must be {wanted}", hint)


def describe_node(node: Node) -> str:
    """Say what a node is, in the author's words."""
    match node:
        case DocumentMapping():
            return "a mapping"
        case DocumentSequence():
            return "a list"
        case Scalar(value=None):
            return "empty"
        case Scalar(value=bool() as value):
            return f"`{str(value).lower()}`"
        case Scalar(value=str() as value):
            return f"the text {as_code(value)}"
        case Scalar(written=written):
            return f"the number {as_code(written)}"


MAX_FACTS = 64
"""Facts that may be declared, and values of one."""
MAX_BYTES = 128
"""Bytes of the name of a declared fact, and of a value of one."""
MAX_PHRASE = 200
"""Characters of the phrase of an action."""
NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
"""What the name of a declared fact may be."""
ACTION = re.compile(r"[a-z]{1,20}(_[a-z]{1,20}){0,5}")
"""What the name of an action may be. Clients fill placeholders of this form."""
OWNERS = (LiftedBy.USER, LiftedBy.OPERATOR)
PLACEHOLDERS = frozenset({"server", "tool", "agent", "variables", "locks", "reason"})
"""Placeholders of some question that are no actions."""
TAKEN_ACTIONS = PLACEHOLDERS | {action.name for action in ACTIONS}
"""Placeholders that have a meaning already."""
_KEYS = ("of", "values", "default")
_OPTIONAL = ("owner", "action", "phrase", "asserted")
_OPENING = ("owner", "action", "phrase")


def read_facts(root: Node, question: Question, form: Form) -> Question:
    """Return the question of a rule file: with the facts that are declared at its head, and their actions."""
    node = node_at(root, "facts") if question.declares else None
    entries = form.entries(node, "`facts`") if node else None
    if node is None or entries is None:
        return question
    if len(entries) > MAX_FACTS:
        sentence = f"`facts` declares {len(entries):,} facts; the maximum is {MAX_FACTS}"
        form.find(node.place, "too-many-facts", sentence)
        return question
    facts = [fact for key, value in entries.items() if (fact := _fact(key, value, question, form))]
    places = {str(key.value): value.place for key, value in entries.items()}
    _check_actions(facts, places, form)
    return question.having(facts)


def fact_places(root: Node) -> dict[str, Place]:
    """Return the facts that are declared at the head of a rule file, each with its place."""
    return {str(key.value): key.place for key, _ in entries_of(node_at(root, "facts"))}


def _fact(key: Scalar, node: Node, question: Question, form: Form) -> DeclaredFact | None:
    name = str(key.value)
    where = f"fact {as_code(name)}"
    named = _check_name(key, name, form)
    entries = form.mapping(node, where, required=_KEYS, optional=_OPTIONAL)
    if entries is None or not named:
        return None
    of = _one_of(entries["of"], f"`of` of {where}", question.declares, form)
    values = _values(entries["values"], name, form)
    default = _fact_value(entries["default"], f"`default` of {where}", form) if values else None
    if values and default is not None and default not in values:
        found = f"`default` of {where} is {as_code(default)}, which is none of its values"
        form.find(entries["default"].place, "unknown-value", found, did_you_mean(default, values))
    asserted = form.truth(entries["asserted"], f"`asserted` of {where}") if "asserted" in entries else False
    opening = _opening(entries, node, where, form)
    if values is None:
        return None
    owner, action, phrase = opening or (None, "", "")
    # What is wrong here refuses the file; conditions that name the fact are not wrong for it.
    open_value = default if default in values else values[0]
    return DeclaredFact(
        name,
        values,
        str(open_value),
        owner,
        action,
        asserted=bool(asserted),
        of=of or question.declares[0],
        phrase=phrase,
    )


def _check_name(key: Scalar, name: str, form: Form) -> bool:
    if not NAME.fullmatch(name) or len(name) > MAX_BYTES:
        most = f"at most {MAX_BYTES} bytes"
        hint = f"words of lower-case letters, digits and `_`, joined by `.`, such as `proxy.quota`; {most}"
        form.find(key.place, "bad-fact-name", f"{as_code(name)} cannot be the name of a declared fact", hint)
        return False
    prefix = name.partition(".")[0]
    if prefix in RESERVED_PREFIXES:
        sentence = f"a declared fact cannot be named {as_code(name)}: `{prefix}.` begins the contract's own facts"
        form.find(key.place, "reserved-fact", sentence, "begin it with a word of your own, such as `proxy.`")
        return False
    return True


def _one_of(node: Node, what: str, wanted: tuple[str, ...], form: Form) -> str | None:
    text = form.text(node, what)
    if text is not None and text not in wanted:
        hint = did_you_mean(text, wanted) or f"one of {list_names(wanted)}"
        form.find(node.place, "unknown-value", f"{what} is {as_code(text)}", hint)
        return None
    return text


def _values(node: Node, name: str, form: Form) -> tuple[str, ...] | None:
    items = form.items(node, f"the values of `{name}`")
    if len(items) > MAX_FACTS:
        form.find(node.place, "too-many-facts", f"`{name}` has {len(items):,} values; the maximum is {MAX_FACTS}")
        return None
    values = [value for item in items if (value := _fact_value(item, f"a value of `{name}`", form)) is not None]
    if len(values) < len(items) or not items:
        return None
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        form.find(node.place, "duplicate-value", f"value {list_names(twice)} of `{name}` is repeated in `facts`")
    elif len(values) < 2:
        hint = "a fact has at least two values, and `unknown` is not one of them"
        form.find(node.place, "too-few-values", f"`{name}` has one value", hint)
    if any(_is_truth(item) for item in items) and set(values) != set(BOOLEAN):
        hint = "put it in quotes, or write `[true, false]`"
        form.find(node.place, "wrong-type", f"the values of `{name}` mix a truth value with others", hint)
    return BOOLEAN if set(values) == set(BOOLEAN) else tuple(dict.fromkeys(values))


def _fact_value(node: Node, what: str, form: Form) -> str | None:
    """Return a value as a text: a truth value, a whole number as it is written, or a text."""
    value = node.word if isinstance(node, Scalar) else None
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        hint = "put it in quotes" if isinstance(value, float) else ""
        sentence = f"{what} is {describe_node(node)}, but must be text, a whole number or a truth value"
        form.find(node.place, "wrong-type", sentence, hint)
        return None
    if form.text(Scalar(value, node.place), what) is None:
        return None
    if value == UNKNOWN or is_glob(value):
        means = "it stands for a fact that could not be read" if value == UNKNOWN else "it is a pattern"
        form.find(node.place, "reserved-value", f"{as_code(value)} cannot be {what}: {means}")
        return None
    if len(value.encode()) > MAX_BYTES:
        form.find(node.place, "text-too-long", f"{what} has more than {MAX_BYTES} bytes")
        return None
    return value


def _is_truth(node: Node) -> bool:
    return isinstance(node, Scalar) and isinstance(node.value, bool)


def _opening(
    entries: Mapping[str, Node], node: Node, where: str, form: Form
) -> tuple[LiftedBy | None, str, str] | None:
    """Return who changes the fact, by which action, and its phrase: all three, or none of them."""
    given = [key for key in _OPENING if key in entries]
    missing = [key for key in _OPENING if key not in entries]
    if not given:
        return None, "", ""
    if missing:
        hint = "`owner`, `action` and `phrase` belong together; leave all three out if nobody can change the fact"
        form.find(node.place, "missing-key", f"{where} has no {list_names(missing)}", hint)
        return None
    owner = _one_of(entries["owner"], f"`owner` of {where}", tuple(map(str, OWNERS)), form)
    action, phrase = _action(entries["action"], where, form), _phrase(entries["phrase"], where, form)
    if owner is None or action is None or phrase is None:
        return None
    return LiftedBy(owner), action, phrase


def _action(node: Node, where: str, form: Form) -> str | None:
    text = form.text(node, f"`action` of {where}")
    if text is not None and not ACTION.fullmatch(text):
        hint = "1 to 6 words of lower-case letters, joined by `_`, such as `raise_quota`"
        form.find(node.place, "bad-action", f"{as_code(text)} cannot be the name of an action", hint)
        return None
    return text


def _phrase(node: Node, where: str, form: Form) -> str | None:
    text = form.text(node, f"`phrase` of {where}")
    if text is None:
        return None
    phrase = " ".join(text.split())
    if set(phrase) & set("{}"):
        hint = "write the verb phrase itself, such as `raise the quota`"
        form.find(node.place, "stray-brace", f"`phrase` of {where} has a brace", hint)
        return None
    if len(phrase) > MAX_PHRASE:
        form.find(node.place, "text-too-long", f"`phrase` of {where} has more than {MAX_PHRASE} characters")
        return None
    return phrase


def _check_actions(facts: list[DeclaredFact], places: Mapping[str, Place], form: Form) -> None:
    """Find actions that another fact has, or that the contract or a placeholder has already."""
    seen: dict[str, str] = {}
    for fact in facts:
        if fact.action in TAKEN_ACTIONS:
            sentence = f"action {as_code(fact.action)} of fact `{fact.name}` is a placeholder of the contract's own"
            form.find(places[fact.name], "reserved-action", sentence, "give it a name of your own")
        elif fact.action and fact.action in seen:
            sentence = f"action {as_code(fact.action)} of fact `{fact.name}` is that of `{seen[fact.action]}` too"
            form.find(places[fact.name], "duplicate-action", sentence, "give each fact an action of its own")
        seen.setdefault(fact.action, fact.name)


def undeclared_fact(name: str, question: Question) -> str:
    """Return what to do about a fact that a rule file could declare; nothing if it could not."""
    if not question.declares or not NAME.fullmatch(name) or name.partition(".")[0] in RESERVED_PREFIXES:
        return ""
    return "a fact of your own is declared under `facts`, at the head of the rule file"


MAX_LABELS = 64
"""Labels that may be declared, and values of one."""
KEY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,126}[A-Za-z0-9])?")
"""What the key of a label may be."""


def read_labels(root: Node, question: Question, form: Form) -> Question:
    """Return the question of a rule file: with the labels that stand at its head."""
    node = node_at(root, "labels")
    if node is None:
        return question
    kinds = form.mapping(node, "`labels`", required=(), optional=question.labels) or {}
    declared = [
        (question.labels[kind] + str(key.value), key, value)
        for kind in question.labels
        if kind in kinds
        for key, value in (form.entries(kinds[kind], f"`{kind}` in `labels`") or {}).items()
    ]
    if len(declared) > MAX_LABELS:
        sentence = f"`labels` declares {len(declared):,} labels; the maximum is {MAX_LABELS}"
        form.find(node.place, "too-many-labels", sentence)
        return question
    facts = [_label(fact, key, value, form) for fact, key, value in declared]
    return question.having(fact for fact in facts if fact)


def label_places(root: Node, question: Question) -> Iterator[tuple[str, Place]]:
    """Yield the facts of the labels at the head of a rule file, each with its place."""
    for kind, labels in entries_of(node_at(root, "labels")):
        for key, _ in entries_of(labels):
            yield question.labels[str(kind.value)] + str(key.value), key.place


def _label(fact: str, key: Scalar, node: Node, form: Form) -> LabelFact | None:
    if not isinstance(key.value, str) or not KEY.fullmatch(key.value):
        hint = "1 to 128 letters, digits, `.`, `_`, `-` and `/`, with a letter or digit at both ends"
        form.find(key.place, "bad-label-key", f"{as_code(str(key.value))} cannot be the key of a label", hint)
        return None
    items = form.items(node, f"the values of `{fact}`")
    if len(items) > MAX_LABELS:
        sentence = f"`{fact}` has {len(items):,} values; the maximum is {MAX_LABELS}"
        form.find(node.place, "too-many-labels", sentence)
        return None
    values = [value for item in items if (value := _label_value(item, fact, form)) is not None]
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        form.find(node.place, "duplicate-value", f"value {list_names(twice)} of `{fact}` is repeated in `labels`")
    # What is wrong here refuses the file; conditions that name the label are not wrong for it.
    return LabelFact(fact, (NO_LABEL, *dict.fromkeys(values)), NO_LABEL)


def _label_value(node: Node, fact: str, form: Form) -> str | None:
    value = form.text(node, f"a value of `{fact}`")
    if value in {NO_LABEL, UNKNOWN}:
        means = "a label that is not there" if value == NO_LABEL else "one that could not be read"
        form.find(node.place, "reserved-value", f"`{value}` cannot be a value of `{fact}`: it stands for {means}")
        return None
    if value is not None and is_glob(value):
        hint = "write out each value"
        form.find(
            node.place, "reserved-value", f"{as_code(value)} cannot be a value of `{fact}`: it is a pattern", hint
        )
        return None
    return value


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
            facts += _classes_of(fact, mine, form)
    return question.having(facts)


def _classes_of(fact: NameFact, parts: list[Is], form: Form) -> Iterator[NameFact]:
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
