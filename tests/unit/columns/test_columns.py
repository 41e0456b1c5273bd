"""Columns are decided as single requests are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given

from callability.bundle.v1 import bundle_pb2 as pb
from callability.compiler.bundle_writing import rule_set_message
from callability.compiler.diagram import DecisionDiagram
from callability.compiler.policy import ProvedRuleSet
from callability.compiler.question import LabelFact
from callability.compiler.questions import CALLABILITY
from callability.compiler.rule_file import read_rule_set
from callability.compiler.rule_set import RuleSet, Text
from callability.files import document
from callability.tables import ColumnPolicy, Columns, UnfitColumn, decide
from support.drawing import drawing
from support.drawn_policies import NOWHERE, any_rule_sets, diagram_of, rule_sets
from support.sql_rows import ODD_NAMES, ODD_POLICY, answer_of, drawn_states

_WORDS = {
    str(status): {name: Text("It is locked.", NOWHERE) for name in CALLABILITY.texts} for status in CALLABILITY.statuses
}


def _policy(rule_set: RuleSet, diagram: DecisionDiagram) -> ColumnPolicy:
    message = rule_set_message(ProvedRuleSet(replace(rule_set, words=_WORDS), diagram, 0))
    return ColumnPolicy(pb.Payload(revision="drawn", semantics=2, rule_sets=[message]), "digest")


def _rule_set(text: str) -> RuleSet:
    found, findings = read_rule_set(document.parse(text.encode(), "callability.yaml"), CALLABILITY)
    assert found, findings
    return found


def _batch(policy: ColumnPolicy, states: Sequence[Mapping[str, str]], *, encoded: bool = True) -> pa.RecordBatch:
    """Return a table of facts; `unknown` becomes null."""
    arrays = []
    for column in policy.facts:
        values = [None if state[column.name] == "unknown" else state[column.name] for state in states]
        if pa.types.is_boolean(column.type):
            arrays.append(pa.array([None if value is None else value == "true" for value in values], pa.bool_()))
        else:
            plain = pa.array(values, pa.string())
            arrays.append(plain.dictionary_encode() if encoded else plain)
    return pa.RecordBatch.from_arrays(arrays, names=policy.facts.names)


def _answers(batch: pa.RecordBatch) -> list[tuple[object, ...]]:
    names = ("status", "rule", "undetermined", "unread", "withhold_text", "lifted_by", "retry")
    return list(zip(*(batch.column(name).to_pylist() for name in names), strict=True))


_ALL = Columns()


def _decided(policy: ColumnPolicy, batch: pa.RecordBatch, columns: Columns = _ALL) -> list[tuple[object, ...]]:
    return _answers(next(decide([batch], policy, columns)))


@drawing(100)
@given(rule_sets())
def test_columns_are_decided_as_drawn_rules_decide(drawn: RuleSet) -> None:
    """In every combination of facts, nulls included."""
    diagram = diagram_of(drawn)
    policy, states = _policy(drawn, diagram), drawn_states(diagram, 1_000)
    assert _decided(policy, _batch(policy, states)) == [answer_of(diagram, state) for state in states]


@drawing(100)
@given(any_rule_sets())
def test_columns_are_decided_as_drawn_rules_about_names_labels_and_annotations_decide(drawn: RuleSet) -> None:
    """Whatever the patterns are."""
    diagram = diagram_of(drawn)
    policy, states = _policy(drawn, diagram), drawn_states(diagram, 1_000)
    assert _decided(policy, _batch(policy, states)) == [answer_of(diagram, state) for state in states]


def test_names_and_labels_may_hold_what_is_special_in_expressions() -> None:
    """Dots, brackets and backslashes are characters like any other."""
    rule_set = _rule_set(ODD_POLICY)
    diagram = diagram_of(rule_set)
    policy = _policy(rule_set, diagram)
    label = next(fact for fact in rule_set.question.facts.values() if isinstance(fact, LabelFact))
    states = [
        CALLABILITY.complete({"server.name": one, "tool.name": other, label.name: value})
        for one, other, value in product((*ODD_NAMES, "a\nb", "ünï"), (*ODD_NAMES, "50%_\n", "itüs"), label.readings)
    ]
    assert _decided(policy, _batch(policy, states)) == [answer_of(diagram, state) for state in states]
    assert _decided(policy, _batch(policy, states, encoded=False)) == [answer_of(diagram, state) for state in states]


_RULES = """
labels: {server: {stage: [trial, adopted]}}
rules:
  - {id: user-off, when: {approval.disabled: true}, status: disabled_by_user}
  - {id: pending, when: {approval.status: [pending, changed]}, status: pending_approval}
  - {id: destructive, when: {annotations.destructive: true}, status: disabled_by_config, action: "{edit_policy}."}
  - {id: trial, when: {server.label.stage: trial, not: {agent.name: bot}}, status: disabled_by_config}
  - {id: named, when: {tool.name: "delete_*"}, status: disabled_by_config, action: "{edit_policy}."}
  - {id: open, status: callable}
words:
  disabled_by_user: {remediation: "{enable_tool}.", rejection: "{enable_tool}."}
  pending_approval: {remediation: "{approve_tool}.", rejection: "{approve_tool}."}
  disabled_by_config: {remediation: "{edit_labels}.", rejection: "{edit_labels}."}
  disabled_unknown: {remediation: "{check_logs}.", rejection: "{check_logs}."}
"""
_OPEN: Mapping[str, object] = {
    "server.quarantined": False,
    "approval.disabled": False,
    "approval.status": "approved",
    "annotations.read_only": True,
    "annotations.destructive": False,
    "server.label.stage": "none",
    "agent.name": "assistant",
    "tool.name": "read",
}


@pytest.mark.parametrize("labels", [41, 58, 64])
def test_a_rule_may_read_as_many_labels_as_a_rule_file_declares(labels: int) -> None:
    """The unread facts of a row are the bits of a number, which may be one of more than 64 bits."""
    keys = [f"l{number:02}" for number in range(labels)]
    names = [f"server.label.{key}" for key in keys]
    rule_set = _rule_set(
        f"labels: {{server: {{{', '.join(f'{key}: [x]' for key in keys)}}}}}\n"
        f"rules:\n  - {{id: all, when: {{{', '.join(f'{name}: x' for name in names)}}}, status: disabled_by_config}}\n"
        "  - {id: open, status: callable}\n"
        "words:\n  disabled_by_config: {remediation: 'Ask.', rejection: 'Ask.'}\n"
        "  disabled_unknown: {remediation: 'Ask.', rejection: 'Ask.'}\n"
    )
    diagram, chance = diagram_of(rule_set), Random(1)
    policy = _policy(rule_set, diagram)
    readings = [
        ["unknown"] * labels,
        ["x"] * labels,
        *([chance.choice(("x", "unknown")) for _ in names] for _ in range(60)),
    ]
    states = [{**CALLABILITY.open_facts, **dict(zip(names, each, strict=True))} for each in readings]
    assert _decided(policy, _batch(policy, states)) == [answer_of(diagram, state) for state in states]


def test_patterns_may_hold_what_is_not_ascii() -> None:
    """Letters, and characters outside the basic plane, beside `*` and `?`."""
    rule_set = _rule_set(
        "rules:\n"
        "  - {id: odd, when: {tool.name: ['löschen_*', 'a?\U0001f600']}, status: disabled_by_config}\n"
        "  - {id: open, status: callable}\n"
        "words:\n  disabled_by_config: {remediation: 'Ask.', rejection: 'Ask.'}\n"
        "  disabled_unknown: {remediation: 'Ask.', rejection: 'Ask.'}\n"
    )
    policy = _policy(rule_set, diagram_of(rule_set))
    names = ["löschen_x", "loschen_x", "aé\U0001f600", "a\U0001f600"]
    states = [{**CALLABILITY.open_facts, "tool.name": name} for name in names]
    assert [rule for _, rule, *_ in _decided(policy, _batch(policy, states))] == ["odd", "open", "odd", "open"]


_NAMED = """
rules:
  - {id: early, when: {tool.name: 'a*'}, status: disabled_by_config}
  - {id: named, when: {tool.name: '?*', server.enabled: true}, status: callable}
  - {id: rest, status: disabled_by_config}
words:
  disabled_by_config: {remediation: 'Ask.', rejection: 'Ask.'}
  disabled_unknown: {remediation: 'Ask.', rejection: 'Ask.'}
"""


def test_an_empty_name_has_no_class_of_another() -> None:
    """It is an error if a row has it, and none if only the dictionary has it."""
    rule_set = _rule_set(_NAMED)
    policy = _policy(rule_set, diagram_of(rule_set))
    batch = _batch(policy, [{**CALLABILITY.open_facts, "tool.name": name} for name in ("a", "", "b")])
    with pytest.raises(UnfitColumn, match=r"^column `tool\.name`, row 2: found an empty name, wanted 1 to 512"):
        _decided(policy, batch)
    left = batch.filter(pa.array([True, False, True]))
    assert left.column("tool.name").dictionary.to_pylist() == ["a", "", "b"]
    assert [answer[1] for answer in _decided(policy, left)] == ["early", "named"]


def test_a_name_without_a_class_is_an_error() -> None:
    """Bundles of earlier versions may lack one."""
    rule_set = _rule_set(_NAMED)
    message = rule_set_message(ProvedRuleSet(replace(rule_set, words=_WORDS), diagram_of(rule_set), 0))
    name = next(fact for fact in message.facts if fact.name == "tool.name")
    place = next(number for number, each in enumerate(name.name_classes) if len(each.groups) == 1)
    name.name_classes[place].groups[:] = []
    policy = ColumnPolicy(pb.Payload(revision="drawn", semantics=2, rule_sets=[message]), "digest")
    batch = _batch(policy, [{**CALLABILITY.open_facts, "tool.name": name} for name in ("a", "b")])
    with pytest.raises(UnfitColumn, match=r"row 2: found the name `b`, for which the bundle has no class"):
        _decided(policy, batch)


def test_a_row_is_counted_from_the_first_batch_on() -> None:
    """From 1, as in a table that people read."""
    rule_set = _rule_set(_NAMED)
    policy = _policy(rule_set, diagram_of(rule_set))
    named, nameless = (_batch(policy, [{**CALLABILITY.open_facts, "tool.name": name}] * 1_200) for name in ("a", ""))
    with pytest.raises(UnfitColumn, match=r"^column `tool\.name`, row 2,401: found an empty name"):
        list(decide([named, named, nameless], policy))


@pytest.fixture(scope="module")
def policy() -> ColumnPolicy:
    """Rules about approvals, annotations, a label and names."""
    rule_set = _rule_set(_RULES)
    return _policy(rule_set, diagram_of(rule_set))


@pytest.mark.parametrize(
    ("row", "rule", "unread", "retry"),
    [
        ({}, "open", "", "now"),
        ({"annotations.destructive": True}, "open", "", "now"),
        ({"annotations.read_only": False, "annotations.destructive": True}, "destructive", "", "never"),
        ({"annotations.read_only": None}, "destructive", "annotations.destructive", None),
        ({"approval.status": "none", "approval.disabled": None}, "open", "", "now"),
        ({"approval.status": "none", "approval.disabled": True}, "user-off", "approval.disabled", None),
        ({"approval.status": "Approved"}, "pending", "approval.status", None),
        ({"server.label.stage": "trail"}, "trial", "server.label.stage", None),
        ({"server.label.stage": "trial", "agent.name": None}, "trial", "agent.name", None),
        ({"server.label.stage": None, "agent.name": "bot"}, "open", "", "now"),
        ({"tool.name": "delete_all"}, "named", "", "never"),
    ],
)
def test_what_a_row_holds_is_read_as_the_specification_says(
    policy: ColumnPolicy, row: Mapping[str, object], rule: str, unread: str, retry: str | None
) -> None:
    """A value that a fact does not have is unknown, and so are values that cannot occur together (spec A.2).

    Whether a later try can help with an undetermined row is not said.
    """
    answer = _decided(policy, pa.RecordBatch.from_pylist([{**_OPEN, **row}], _plain(policy)))[0]
    assert (answer[1], answer[3], answer[6]) == (rule, unread, retry)


def _plain(policy: ColumnPolicy) -> pa.Schema:
    """Return the schema of a table with texts that are not dictionary-encoded."""
    return pa.schema([(f.name, pa.bool_() if pa.types.is_boolean(f.type) else pa.string()) for f in policy.facts])


def test_values_that_a_fact_does_not_have_are_counted(policy: ColumnPolicy) -> None:
    """With the first few of them, and only as far as rows have them."""
    rows = [{**_OPEN, "server.label.stage": value} for value in ("trial", "trail", None, "trail", "Adopted")]
    reading = policy.reading(_plain(policy))
    reading.decide(pa.RecordBatch.from_pylist(rows, _plain(policy)))
    assert {name: (odd.rows, [*odd.values]) for name, odd in reading.odd.items()} == {
        "server.label.stage": (3, ["trail", "Adopted"])
    }


def test_a_boolean_column_of_a_fact_with_other_values_is_read_as_the_words_true_and_false(
    policy: ColumnPolicy,
) -> None:
    """A label without such values is unknown in these rows, and they are counted; a null is not."""
    rows = pa.RecordBatch.from_pylist([dict(_OPEN)] * 4, _plain(policy))
    place = rows.schema.get_field_index("server.label.stage")
    column = pa.array([None, False, True, None, True]).slice(1)
    reading = policy.reading(_plain(policy))
    decided = reading.decide(rows.set_column(place, "server.label.stage", column))
    assert decided.column("unread").to_pylist() == ["server.label.stage"] * 4
    assert {name: (odd.rows, [*odd.values]) for name, odd in reading.odd.items()} == {
        "server.label.stage": (3, ["false", "true"])
    }


@pytest.mark.parametrize("default", ["true", "false"])
def test_a_null_of_an_asserted_boolean_is_its_default(default: str) -> None:
    """Whichever of its values that is, in every combination with the other facts."""
    rule_set = _rule_set(
        f"facts: {{proxy.offline: {{of: server, values: [true, false], default: {default}, asserted: true}}}}\n"
        "rules:\n"
        f"  - {{id: first, when: {{proxy.offline: {default}}}, status: disabled_by_config}}\n"
        "  - {id: second, when: {server.enabled: false}, status: server_disabled}\n"
        "  - {id: open, status: callable}\n"
        "words:\n"
        "  server_disabled: {remediation: 'Ask.', rejection: 'Ask.'}\n"
        "  disabled_by_config: {remediation: 'Ask.', rejection: 'Ask.'}\n"
        "  disabled_unknown: {remediation: 'Ask.', rejection: 'Ask.'}\n"
    )
    diagram = diagram_of(rule_set)
    policy, states = _policy(rule_set, diagram), drawn_states(diagram, 5_000)
    batch = _batch(policy, [{**state, "proxy.offline": "unknown"} for state in states])
    assert batch.column("proxy.offline").null_count == len(states)
    assert _decided(policy, batch) == [answer_of(diagram, {**state, "proxy.offline": default}) for state in states]


def test_batches_may_have_different_dictionaries_slices_and_garbage_below_nulls(policy: ColumnPolicy) -> None:
    """A batch is read by its own dictionary."""
    stages = ["trial", "none", None, "adopted", "trial", None, "none", "trial"] * 5
    rows = [{**_OPEN, "server.label.stage": stage} for stage in stages]
    whole = pa.RecordBatch.from_pylist(rows, _plain(policy))
    wanted = _decided(policy, whole)
    place = whole.schema.get_field_index("server.label.stage")
    found: list[tuple[object, ...]] = []
    for start, stop, words in ((0, 7, ["none", "adopted", "trial"]), (7, 16, ["trial", "unused", "none", "adopted"])):
        part = whole.slice(start, stop - start)
        mask = [stage is None for stage in stages[start:stop]]
        numbers = [99 if stage is None else words.index(stage) for stage in stages[start:stop]]
        encoded = pa.DictionaryArray.from_arrays(
            pa.array(numbers, pa.int8(), mask=_numpy(mask)), pa.array(words), safe=False
        )
        found += _decided(policy, part.set_column(place, "server.label.stage", encoded))
    found += _decided(policy, whole.slice(16))
    assert found == wanted


@pytest.mark.parametrize(("words", "kind"), [(128, pa.int8()), (256, pa.uint8())])
def test_a_null_is_unknown_whatever_the_size_of_the_dictionary(
    policy: ColumnPolicy, words: int, kind: pa.DataType
) -> None:
    """Its place after the values may be too great for the type of the indices."""
    row = pa.RecordBatch.from_pylist([dict(_OPEN)] * 2, _plain(policy))
    column = pa.DictionaryArray.from_arrays(pa.array([0, None], kind), pa.array(["none", *map(str, range(1, words))]))
    decided = _decided(
        policy, row.set_column(row.schema.get_field_index("server.label.stage"), "server.label.stage", column)
    )
    assert [answer[3] for answer in decided] == ["", "server.label.stage"]


def _numpy(mask: list[bool]) -> object:
    return pa.array(mask).to_numpy(zero_copy_only=False)


def test_a_missing_column_is_an_error_that_names_it(policy: ColumnPolicy) -> None:
    """It can be asked for that its fact is unknown instead."""
    batch = pa.RecordBatch.from_pylist([dict(_OPEN)], _plain(policy)).drop_columns(["server.label.stage"])
    with pytest.raises(UnfitColumn, match=r"no column `server\.label\.stage`"):
        _decided(policy, batch)
    assert _decided(policy, batch, Columns(missing_unknown=True))[0][3] == "server.label.stage"


def test_the_agent_may_be_given_for_all_rows(policy: ColumnPolicy) -> None:
    """In place of a column, whether the table has one or not."""
    batch = pa.RecordBatch.from_pylist([{**_OPEN, "server.label.stage": "trial"}], _plain(policy))
    without = batch.drop_columns(["agent.name"])
    assert [_decided(policy, each, Columns(agent="bot"))[0][1] for each in (batch, without)] == ["open", "open"]
    assert [_decided(policy, each, Columns(agent="other"))[0][1] for each in (batch, without)] == ["trial", "trial"]


@pytest.mark.parametrize(
    ("column", "array", "sentence"),
    [
        ("server.quarantined", pa.array([1]), "column `server.quarantined` has the type int64, and boolean is needed"),
        ("server.label.stage", pa.array([1.5]), "column `server.label.stage` has the type double, and text"),
        ("tool.name", pa.array([None], pa.string()), "column `tool.name` is null in row 1:"),
        ("tool.name", pa.array([None], pa.null()), "column `tool.name` is null in row 1:"),
        (
            "tool.name",
            pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([None], pa.string())),
            "column `tool.name` is null in row 1:",
        ),
    ],
)
def test_a_column_of_another_type_is_an_error(
    policy: ColumnPolicy, column: str, array: pa.Array, sentence: str
) -> None:
    """The error says what was found, and what is needed."""
    batch = pa.RecordBatch.from_pylist([dict(_OPEN)], _plain(policy))
    with pytest.raises(UnfitColumn, match=sentence.replace(".", r"\.")):
        _decided(policy, batch.set_column(batch.schema.get_field_index(column), column, array))


def test_a_table_names_what_decided_it(policy: ColumnPolicy) -> None:
    """Revision, semantics and bundle are in the metadata of its schema."""
    batch = pa.RecordBatch.from_pylist([dict(_OPEN)], _plain(policy))
    decided = next(decide([batch], policy, Columns(kept=("tool.name",))))
    assert decided.schema.names[:2] == ["tool.name", "status"]
    assert decided.schema.metadata == {
        b"callability.revision": b"drawn",
        b"callability.semantics": b"2",
        b"callability.bundle": b"digest",
    }


def test_an_empty_batch_has_no_verdicts(policy: ColumnPolicy) -> None:
    """Its columns are there."""
    batch = pa.RecordBatch.from_pylist([], _plain(policy))
    decided = next(decide([batch], policy))
    assert (decided.num_rows, decided.schema.names[-1]) == (0, "retry")


def _bad_offsets() -> pa.Array:
    return pa.StringArray.from_buffers(
        2, pa.py_buffer(b"\0\0\0\0\xff\xff\xff\x7f\x08\0\0\0"), pa.py_buffer(b"readread")
    )


def _bad_indices() -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int8()), pa.array(["read"]), safe=False)


@pytest.mark.parametrize(
    ("column", "array", "sentence"),
    [
        ("tool.name", _bad_offsets(), "column `tool.name`: its data is damaged (Offset invariant failure"),
        ("tool.name", _bad_indices(), "column `tool.name`: its data is damaged (Dictionary indices invalid"),
    ],
)
def test_a_damaged_column_in_memory_is_an_error(
    policy: ColumnPolicy, column: str, array: pa.Array, sentence: str
) -> None:
    """It would be read as what lies beside it."""
    batch = pa.RecordBatch.from_pylist([dict(_OPEN)] * 2, _plain(policy))
    with pytest.raises(UnfitColumn) as caught:
        _decided(policy, batch.set_column(batch.schema.get_field_index(column), column, array))
    assert str(caught.value).startswith(sentence)
    assert str(caught.value).endswith("; write the table again")


def test_each_batch_of_a_dictionary_that_is_shared_is_validated(policy: ColumnPolicy) -> None:
    """The dictionary once, and what leads into it in every batch."""
    words = pa.array(["read", "write"])
    batch = pa.RecordBatch.from_pylist([dict(_OPEN)] * 2, _plain(policy))
    place, reading = batch.schema.get_field_index("tool.name"), policy.reading(batch.schema)
    for indices, sentence in (([0, 1], ""), ([1, 0], ""), ([0, 2], "index 2 of"), ([-1, 0], "index -1 of")):
        column = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), words, safe=False)
        shared = batch.set_column(place, "tool.name", column)
        if not sentence:
            assert reading.decide(shared).num_rows == 2
            continue
        with pytest.raises(
            UnfitColumn, match=rf"^column `tool\.name`: its data is damaged \({sentence} a dictionary of"
        ):
            reading.decide(shared)


def test_a_batch_may_have_more_columns_than_are_needed_and_not_fewer(policy: ColumnPolicy) -> None:
    """The error names both."""
    batch = pa.RecordBatch.from_pylist([{**_OPEN, "note": "x"}])
    reading = policy.reading(batch.schema, Columns(kept=("tool.name",)))
    assert {*reading.needed} == {*_OPEN}
    assert reading.decide(batch.drop_columns(["note"])).schema.names[:2] == ["tool.name", "status"]
    with pytest.raises(UnfitColumn, match=r"^a batch has the columns .*, not "):
        reading.decide(batch.drop_columns(["tool.name"]))


@pytest.mark.parametrize("kind", [pa.string_view(), pa.large_string()])
def test_text_is_read_in_every_form(policy: ColumnPolicy, kind: pa.DataType) -> None:
    """Also in slices of runs, and in dictionaries of booleans."""
    stages = ["trial", "trial", None, "adopted", "adopted"]
    rows = [{**_OPEN, "server.label.stage": stage} for stage in stages]
    plain = pa.RecordBatch.from_pylist(rows, _plain(policy))
    ends, values = pa.array([2, 3, 5], pa.int16()), pa.array(["trial", None, "adopted"], kind)
    runs = pa.RunEndEncodedArray.from_arrays(ends, values)
    flags = pa.DictionaryArray.from_arrays(pa.array([0] * 5, pa.int8()), pa.array([False]))
    place, other = (plain.schema.get_field_index(name) for name in ("server.label.stage", "server.quarantined"))
    batch = plain.set_column(place, "server.label.stage", runs).set_column(other, "server.quarantined", flags)
    assert _decided(policy, batch) == _decided(policy, plain)
    assert _decided(policy, batch.slice(1, 3)) == _decided(policy, plain.slice(1, 3))
