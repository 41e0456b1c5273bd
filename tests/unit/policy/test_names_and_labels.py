"""Rules that read names, annotations, the agent and labels: their meaning, and their findings."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from string import ascii_letters, ascii_lowercase, digits, punctuation

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from callability.compiler.combination_sets import CombinationSets
from callability.compiler.confirmation import Engine
from callability.compiler.difference import NotComparable, compared_space, differences
from callability.compiler.forms import Form, with_names
from callability.compiler.names import (
    MAX_STATES,
    SinglesOutUnknown,
    TooManyStates,
    name_classes,
    needless_patterns,
    shortest_names,
)
from callability.compiler.policy import Check, Policy, ProvedRuleSet, check_files
from callability.compiler.question import LabelFact
from callability.compiler.questions import CALLABILITY
from callability.compiler.rule_set import Rule, RuleSet
from callability.compiler.table import rows_of
from callability.contract.finding import line
from callability.contract.vocabulary import UNKNOWN
from callability.files.policy_source import policy_files
from callability.kernel.conditions import AllOf, Condition, Is, Not, decide, holds
from support.commands import callability
from support.drawing import drawing
from support.drawn_policies import NOWHERE, diagram_of
from support.policies import write_policy

IDEOGRAPHS = "".join(map(chr, range(0x4E00, 0xA000)))
# `r` is a letter of `other`, the name that a tool has by default.
NAMES = st.text("ar[-", min_size=1, max_size=6)
PATTERNS = st.text("ar[-*?", min_size=1, max_size=5)
LISTS = st.lists(st.frozensets(PATTERNS, min_size=1, max_size=3), min_size=1, max_size=3)
LABEL = LabelFact("server.label.environment", ("none", "production", "staging"), "none")
LABELLED = CALLABILITY.having([LABEL])


def _is(fact: str) -> st.SearchStrategy[Condition]:
    values: st.SearchStrategy[frozenset[str]]
    if fact.endswith(".name"):
        values = st.frozensets(PATTERNS, min_size=1, max_size=2)
    else:
        values = st.frozensets(st.sampled_from(LABELLED.facts[fact].values), min_size=1)
    return st.builds(Is, st.just(fact), values, st.just(NOWHERE))


_facts = st.sampled_from(["tool.name", "agent.name", "server.label.environment", "annotations.destructive"]).flatmap(
    _is
)
_conditions = st.one_of(
    _facts, st.builds(Not, _facts), st.builds(AllOf, st.lists(_facts, min_size=2, max_size=3).map(tuple))
)
_drawn = st.lists(st.tuples(_conditions, st.sampled_from(CALLABILITY.statuses)), min_size=1, max_size=3)
_raw = st.fixed_dictionaries(
    {
        "tool.name": NAMES,
        "agent.name": st.one_of(st.just(""), st.just(UNKNOWN), NAMES),
        "server.label.environment": st.sampled_from((*LABEL.values, UNKNOWN)),
        "annotations.destructive": st.sampled_from(("true", "false", UNKNOWN)),
    }
)


def _rule_set(drawn: Sequence[tuple[Condition, str]]) -> RuleSet | None:
    """Return a rule set; None if the patterns distinguish `unknown`, or are too tangled."""
    rules = tuple(Rule(f"r{number}", when, status, NOWHERE) for number, (when, status) in enumerate(drawn))
    form = Form()
    question = with_names(LABELLED, rules, form)
    if form.findings:
        return None
    return RuleSet(question, (*rules, Rule("last", None, "callable", NOWHERE)), {})


def _proved(rule_set: RuleSet) -> ProvedRuleSet:
    return ProvedRuleSet(rule_set, diagram_of(rule_set), 0)


@given(pattern=PATTERNS, name=NAMES)
def test_a_pattern_matches_whole_names_and_a_bracket_is_a_character(pattern: str, name: str) -> None:
    """`*` and `?` mean the same as in the standard library, where a bracket means more."""
    plain = pattern.replace("[", "_")
    assert holds(frozenset((pattern,)), name) is fnmatch.fnmatchcase(name.replace("[", "_"), plain)


@given(lists=LISTS, name=NAMES)
def test_the_representative_of_a_class_is_distinguished_by_no_list(lists: list[frozenset[str]], name: str) -> None:
    """From any name of the class; and it is not the word for an unknown fact."""
    classes = name_classes(lists, "other")
    member = classes.representative(name)
    assert [holds(each, member) for each in lists] == [holds(each, name) for each in lists]
    assert member != UNKNOWN
    assert classes.representative(member) == member


@given(lists=LISTS)
def test_no_class_is_there_that_no_name_has(lists: list[frozenset[str]]) -> None:
    """Each has a name that stands for it, and no two have the same."""
    classes = name_classes(lists, "other")
    for units, name in classes.members.items():
        assert units == {number for number, unit in enumerate(classes.units) if holds(unit, name)}
    assert len(set(classes.members.values())) == len(classes.members)


@given(
    lists=st.lists(st.frozensets(st.text("a日*?", min_size=1, max_size=5), min_size=1, max_size=2), max_size=3),
    name=st.text("a日z", max_size=6),
)
@example(lists=[frozenset(("*日a*",)), frozenset(("*a日*",))], name="a日a")
def test_no_name_of_a_class_has_fewer_bytes_than_its_representative(lists: list[frozenset[str]], name: str) -> None:
    """The limit of a name is one of bytes."""
    representative = name_classes(lists, "").representative(name)
    assert len(representative.encode()) <= len(name.encode())


@pytest.mark.parametrize(
    ("one", "other", "decides"),
    [
        ("日" * 170 + "*", "*" + "本" * 170, False),
        ("日" * 128 + "*", "*" + "本" * 43, False),
        ("日" * 128 + "*", "*" + "本" * 42, True),
        ("é" * 254 + "*", "*aaé", True),
        ("é" * 254 + "*", "*aaaé", False),
    ],
)
def test_a_rule_that_only_names_of_more_than_512_bytes_match_never_decides(
    one: str, other: str, *, decides: bool, tmp_path: Path
) -> None:
    """No request can hold such a name; a character that is not ASCII has two to four bytes."""
    both = f"all: [{{tool.name: '{one}'}}, {{tool.name: '{other}'}}]"
    rule = f"  - {{id: both, when: {{{both}}}, status: disabled_by_config, action: Ask the operator.}}\n"
    findings = _checked(tmp_path, LOCKS + rule, head="rules:\n").findings
    assert any(finding.code == "never-decides" for finding in findings) is not decides


@given(patterns=st.frozensets(PATTERNS, min_size=1, max_size=4), name=NAMES)
def test_a_needless_pattern_is_one_without_which_the_same_names_match(patterns: frozenset[str], name: str) -> None:
    """Each by itself."""
    for needless in needless_patterns(patterns):
        assert holds(patterns - {needless}, name) is holds(patterns, name)


@drawing(60)
@given(drawn=_drawn, raw=st.lists(_raw, min_size=1, max_size=10))
def test_the_table_decides_names_as_the_reference_does(
    drawn: list[tuple[Condition, str]], raw: list[dict[str, str]]
) -> None:
    """The table reads classes, and the reference the names themselves."""
    rule_set = _rule_set(drawn)
    if rule_set is None:
        return
    table = diagram_of(rule_set)
    for given_facts in raw:
        facts = rule_set.question.open_facts | given_facts
        decision, verdict = decide(rule_set.conditions, facts), table.verdict(facts)
        assert (verdict.rule, verdict.undetermined) == (rule_set.rules[decision.rule].id, decision.undetermined)


@drawing(30)
@given(one=_drawn, other=_drawn, raw=st.lists(_raw, min_size=1, max_size=10))
def test_a_change_is_reported_for_each_name_that_is_decided_differently(
    one: list[tuple[Condition, str]], other: list[tuple[Condition, str]], raw: list[dict[str, str]]
) -> None:
    """Even if the two files distinguish other names."""
    sets = [_rule_set(one), _rule_set(other)]
    if sets[0] is None or sets[1] is None:
        return
    old, new = _proved(sets[0]), _proved(sets[1])
    space = compared_space(old, new)
    for given_facts in raw:
        facts = space.question.open_facts | given_facts
        joined = {name: space.question.facts[name].reading(facts[name]) for name in space.facts}
        for each in (old, new):
            assert each.diagram.verdict(facts) == each.diagram.verdict(space.question.open_facts | joined)


@drawing(30)
@given(drawn=_drawn)
def test_the_rows_of_a_table_describe_names_by_patterns(drawn: list[tuple[Condition, str]]) -> None:
    """A row names the patterns that its names match, and never the name that stands for a class."""
    rule_set = _rule_set(drawn)
    if rule_set is None:
        return
    written = {value for rule in rule_set.rules if rule.when for value in _values(rule.when)}
    for row in rows_of(rule_set, diagram_of(rule_set)):
        for fact, described in row.facts.items():
            if fact.endswith(".name") and not any("other" in each for each in described):
                parts = {part for each in described for part in _parts(each)}
                assert parts <= {*written, UNKNOWN, '""'} or "more" in " ".join(described)


def _values(condition: Condition) -> frozenset[str]:
    match condition:
        case Is(values=values):
            return values
        case Not(part=part):
            return _values(part)
        case _:
            return frozenset().union(*(_values(part) for part in condition.parts))


def _parts(described: str) -> list[str]:
    for word in (", but not ", ", and "):
        described = described.replace(word, " or ")
    return described.split(" or ")


def test_patterns_that_are_too_tangled_are_refused() -> None:
    """By the number of states, long before they take long."""
    with pytest.raises(TooManyStates, match=f"{MAX_STATES:,}"):
        list(shortest_names([frozenset(("*a" + "?" * 30,))], empty=False))


@pytest.mark.parametrize(
    ("used", "left"),
    [
        (ascii_lowercase + digits + IDEOGRAPHS[:1_000], "A"),
        (ascii_letters + digits + punctuation.replace("*", "").replace("?", ""), "?"),
    ],
    ids=["small letters and ideographs", "every printable character"],
)
def test_names_may_use_every_ordinary_character(used: str, left: str) -> None:
    """A name that none of them matches consists of a character that is left, of one byte."""
    found = {name: units for units, name in shortest_names([frozenset(_names_of(used))], empty=False)}
    assert found[left] == frozenset()


def test_names_that_use_all_ideographs_are_a_finding(tmp_path: Path) -> None:
    """They are refused as any other names that are too many together."""
    names = ", ".join(_names_of(ascii_lowercase + digits + IDEOGRAPHS))
    rule = f"  - {{id: one, when: {{tool.name: [{names}]}}, status: disabled_by_config, action: Ask the operator.}}\n"
    [finding] = _checked(tmp_path, LOCKS + rule, head="rules:\n").findings
    assert finding.code == "patterns-too-tangled"


def _names_of(characters: str) -> list[str]:
    """Return names of up to 160 characters, in which each of some characters stands once."""
    return [characters[start : start + 160] for start in range(0, len(characters), 160)]


def test_the_name_for_what_could_not_be_read_cannot_be_distinguished() -> None:
    """Two patterns that share only this name are refused."""
    with pytest.raises(SinglesOutUnknown):
        name_classes([frozenset(("unknow?",)), frozenset(("*n",))], "other")


@pytest.mark.parametrize("pattern", ["unknow?", "unknown*", "*unknown", "*unknown*", "un*known", "*n", "u*"])
@pytest.mark.parametrize("open_name", ["other", ""])
def test_a_pattern_may_match_the_name_for_what_could_not_be_read(pattern: str, open_name: str) -> None:
    """Along with others, one of which stands for them all."""
    member = name_classes([frozenset((pattern,))], open_name).representative(UNKNOWN)
    assert member != UNKNOWN
    assert holds(frozenset((pattern,)), member)


HEAD = """\
labels:
  server: {environment: [production, staging]}
rules:
"""
TAIL = """\
  - {id: open, status: callable}
words:
  disabled_by_config: {remediation: 'The operator {edit_config}.', rejection: 'Tool {tool}: {edit_config}.'}
  disabled_unknown: {remediation: 'Tell the user: {check_logs}.', rejection: 'Tool {tool}: {check_logs}.'}
"""


def _checked(directory: Path, rules: str, head: str = HEAD) -> Check:
    write_policy(directory, head + rules + TAIL)
    return check_files(policy_files(directory), directory, engine=Engine.REFERENCE)


LOCKS = """\
  - id: lock
    when: {any: [{server.quarantined: true}, {approval.status: [pending, changed]}]}
    status: disabled_unknown
  - {id: denied, when: {tool.config_denied: true}, status: disabled_by_config}
"""


def _policy(directory: Path, *conditions: str, head: str = HEAD) -> Policy:
    rules = "".join(
        f"  - {{id: r{number}, when: {{{each}}}, status: disabled_by_config, action: Ask the operator.}}\n"
        for number, each in enumerate(conditions)
    )
    directory.mkdir()
    check = _checked(directory, LOCKS + rules, head=head if "label" in rules else "rules:\n")
    assert check.policy is not None, [str(each) for each in check.findings]
    return check.policy


@pytest.mark.parametrize("pattern", ["*r", "*o*", "*e*", "o*r"])
def test_a_pattern_that_matches_the_default_name_distinguishes_others(pattern: str, tmp_path: Path) -> None:
    """A tool that it does not match is decided by a rule below."""
    decided = _policy(tmp_path / "policy", f"tool.name: '{pattern}'").rule_sets["callability"].diagram
    found = [decided.verdict(CALLABILITY.open_facts | {"tool.name": name}).rule for name in ("other", "git_push")]
    assert found == ["r0", "open"]


def test_a_policy_that_names_what_another_does_not_can_be_compared(tmp_path: Path) -> None:
    """By labels, by patterns, and by both; changes are printed by the patterns."""
    by_name = _policy(tmp_path / "a", "tool.name: '*delete*'")
    by_label = _policy(tmp_path / "b", "server.label.environment: production")
    where = [condition for change in differences(by_name, by_label) for condition in change.where]
    described = {(fact, value) for condition in where for fact, values in condition.items() for value in values}
    assert {("tool.name", "*delete*"), ("server.label.environment", "production")} <= described
    assert differences(by_name, by_name) == ()


@pytest.mark.parametrize("declares", ["old", "new"])
def test_a_label_value_that_only_one_policy_declares_is_unknown_to_the_other(declares: str, tmp_path: Path) -> None:
    """Declaring it opens tools, and no longer declaring it locks them, although no rule changes."""
    with_test = HEAD.replace("staging]", "staging, test]")
    old, new = (
        _policy(tmp_path / each, "server.label.environment: production", head=with_test if each == declares else HEAD)
        for each in ("old", "new")
    )
    changes = [change for change in differences(old, new) if not change.unknown]
    statuses = [(change.before.status, change.after.status) for change in changes]
    assert statuses == [("callable", "disabled_unknown") if declares == "old" else ("disabled_unknown", "callable")]
    assert [condition["server.label.environment"] for condition in changes[0].where] == [("test",)]


def test_what_is_too_much_together_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the two can be proved; the diagrams of both together would have too many nodes."""
    monkeypatch.setattr("callability.compiler.difference.CombinationSets", partial(CombinationSets, most=60))
    one, other = (
        _policy(tmp_path / fact, *(f"{fact}: n{number}" for number in range(60)))
        for fact in ("tool.name", "server.name")
    )
    with pytest.raises(NotComparable, match=r"these facts multiply: `server\.name` 61, `tool\.name` 61"):
        differences(one, other)


def test_changes_with_too_many_conditions_are_not_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command says what is too much, and which facts multiply."""
    before = _policy(tmp_path / "before", "tool.name: n0")
    after = _policy(tmp_path / "after", *(f"tool.name: n{n}, server.name: s{n}" for n in range(1, 20)))
    assert differences(before, after)
    monkeypatch.setattr("callability.compiler.difference.MAX_LOOKS", 50)
    with pytest.raises(
        NotComparable, match=r"50 looks at nodes; these facts multiply: `tool\.name` 21, `server\.name` 20"
    ):
        differences(before, after)


def test_patterns_that_distinguish_unknown_together_are_not_compared(tmp_path: Path) -> None:
    """Those of each policy are few, and the command says so in a line."""
    one, other = _policy(tmp_path / "one", "tool.name: unknow?"), _policy(tmp_path / "other", "tool.name: '*n'")
    with pytest.raises(NotComparable, match="distinguish the name `unknown`"):
        differences(one, other)
    done = callability("diff", str(tmp_path / "one"), str(tmp_path / "other"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "the two policies cannot be compared: the patterns of both policies distinguish" in done.stderr


def test_a_label_that_no_rule_reads_is_reported(tmp_path: Path) -> None:
    """As a warning: the config may have the label anyway."""
    check = _checked(tmp_path, LOCKS)
    assert [line(each).rpartition(": ")[2] for each in check.findings] == [
        "no rule and no law reads `server.label.environment` (remove it) [unused-label]"
    ]


def test_a_rule_that_opens_by_the_upstreams_own_word_is_a_warning(tmp_path: Path) -> None:
    """A rule that locks by it gets no warning (spec A.2)."""
    rule = "  - {id: reads, when: {annotations.read_only: true}, status: callable}\n"
    check = _checked(tmp_path, LOCKS + rule, head="rules:\n")
    assert [each.code for each in check.findings] == ["callable-on-hint"]
    assert check.policy is not None


def test_a_test_names_names(tmp_path: Path) -> None:
    """Not patterns; and every tool and server has a name."""
    rule = "  - {id: one, when: {tool.name: 'a*'}, status: disabled_by_config, action: Ask the operator.}\n"
    cases = """\
tests:
  - {name: one, facts: {tool.name: a*}, expect: {status: callable}}
  - {name: two, facts: {tool.name: unknown}, expect: {status: callable}}
  - {name: three, facts: {tool.name: about, agent.name: unknown}, expect: {status: disabled_by_config, rule: one}}
"""
    write_policy(tmp_path, "rules:\n" + LOCKS + rule + TAIL)
    (tmp_path / "callability_test.yaml").write_text(cases)
    check = check_files(policy_files(tmp_path), tmp_path, engine=Engine.REFERENCE)
    described = [line(each).removeprefix(f"{tmp_path}/callability_test.yaml:") for each in check.findings]
    assert [each for each in described if each.startswith(("2:", "3:"))] == [
        "2:36: a value of `tool.name` in test `one` is a pattern, but must be a name (write a name that it matches)"
        " [pattern-in-test]",
        "3:36: `tool.name` is never unknown, as test `two` has it [unknown-value]",
    ]
    assert not any("three" in each for each in described)
