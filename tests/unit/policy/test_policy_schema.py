"""The JSON Schemas of rule files and their tests take what `check` takes, and refuse much of what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it comes without types

from callability.compiler.forms import MAX_TEXT
from callability.compiler.questions import QUESTIONS
from callability.compiler.schema import schema_of_rules, schema_of_tests
from callability.files import document
from support.checkout import POLICY
from support.commands import callability
from support.policies import write_policy

FILES = [f"{name}{suffix}" for name in QUESTIONS for suffix in ("", "_test")]
RULES = """\
rules:
  - {id: off, when: {server.enabled: false}, status: server_disabled}
  - {id: open, status: callable}
words:
  server_disabled: {remediation: 'Please {enable_server}.', rejection: 'Tool {tool}: {enable_server}.'}
"""


def _schema(file: str) -> dict[str, Any]:
    question = QUESTIONS[file.removesuffix("_test")]
    return schema_of_tests(question) if file.endswith("_test") else schema_of_rules(question)


def _content(text: str) -> Any:
    return document.plain(document.parse(text.encode(), "x.yaml"))


@pytest.mark.parametrize("file", FILES)
def test_a_shipped_file_is_what_its_schema_says(file: str) -> None:
    """And names it in its first line, as editors look for it."""
    path = POLICY / f"{file}.yaml"
    header, _, _ = path.read_text().partition("\n")
    assert header == f"# yaml-language-server: $schema=schema/{file}.schema.json"
    beside = path.parent / header.partition("$schema=")[2]
    schema = json.loads(beside.read_text())
    assert schema == _schema(file), "run `make docs`"
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(_content(path.read_text()))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("server.enabled: false", "server.enabeld: false"),
        ("server.enabled: false", "server.enabled: 'false'"),
        ("server.enabled: false", "server.enabled: unknown"),
        ("server.enabled: false", "approval.status: [pending, pending]"),
        ("server.enabled: false", "any: []"),
        ("{server.enabled: false}", "{}"),
        ("status: callable", "status: allowed"),
        ("id: open", "id: Open"),
        ("id: open, ", ""),
        ("id: open", "id: open, wenn: {}"),
        ("{enable_server}.', rejection", "{enable_tol}.', rejection"),
        ("Please {enable_server}", "Please {tool}"),
        ("Please {enable_server}", "Please {"),
        ("Please {enable_server}.", "  "),
        ("words:", "laws: [{name: x, always: callable, never: callable}]\nwords:"),
        ("words:", "laws: [{always: callable}]\nwords:"),
        ("words:", "laws: []\nwords:"),
    ],
)
def test_a_fault_of_form_is_refused_by_the_schema_too(old: str, new: str, tmp_path: Path) -> None:
    """An editor then says so while the author types."""
    validator = Draft202012Validator(schema_of_rules(QUESTIONS["callability"]))
    assert validator.is_valid(_content(RULES))
    assert old in RULES
    assert not validator.is_valid(_content(RULES.replace(old, new, 1)))


def test_conditions_nest_and_take_numbers_and_lists() -> None:
    """As rule files do."""
    when = "{any: [{load.http_status: [401, '403']}, {not: {load.http_status: 404}}, {all: [{load.failure: tls}]}]}"
    text = f"rules: [{{id: a, when: {when}, status: denied}}]\nwords: {{}}\n"
    Draft202012Validator(schema_of_rules(QUESTIONS["load_outcome"])).validate(_content(text))


def test_a_test_may_write_unknown_and_a_rule_may_not() -> None:
    """And an asserted fact is never unknown."""
    validator = Draft202012Validator(schema_of_tests(QUESTIONS["callability"]))
    test = "tests: [{name: x, facts: {%s: unknown}, expect: {status: callable}}]"
    assert validator.is_valid(_content(test % "server.enabled"))
    assert not validator.is_valid(_content(test % "caller.refuses"))


@pytest.mark.parametrize("words", ["{remediation: %s}", "{rejection: [Ask, %s]}"])
def test_the_schema_of_tests_limits_words_as_check_does(words: str, tmp_path: Path) -> None:
    """A text has at most 2,000 characters, in a list or by itself: the schema and `check` refuse one more."""
    validator = Draft202012Validator(schema_of_tests(QUESTIONS["callability"]))
    for count, fits in ((MAX_TEXT, True), (MAX_TEXT + 1, False)):
        expected = f"{{status: server_disabled, words: {words % ('x' * count)}}}"
        tests = f"tests: [{{name: x, facts: {{server.enabled: false}}, expect: {expected}}}]\n"
        assert validator.is_valid(_content(tests)) is fits
        policy = tmp_path / str(count)
        policy.mkdir()
        write_policy(policy, RULES)
        (policy / "callability_test.yaml").write_text(tests)
        assert ("[text-too-long]" not in callability("check", str(policy)).stdout) is fits


def test_the_schemas_are_printed_and_written(tmp_path: Path) -> None:
    """One of them, or all as the shipped files name them."""
    for command, make in (("rules", schema_of_rules), ("tests", schema_of_tests)):
        printed = callability("schema", command, "load_outcome")
        assert json.loads(printed.stdout) == make(QUESTIONS["load_outcome"])
    assert callability("schema", "rules", "load_outcom").returncode == 2
    written = callability("schema", "policy", str(tmp_path / "schema"))
    assert written.returncode == 0
    assert sorted(path.name for path in (tmp_path / "schema").iterdir()) == sorted(
        f"{file}.schema.json" for file in FILES
    )
