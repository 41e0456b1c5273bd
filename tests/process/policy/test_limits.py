"""The limits of a rule file: what exceeds one is refused by a finding that names it, quickly and with little memory."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from callability.compiler import check_worker, combination_sets, confirmation, diagram, forms, nodes, rule_file
from callability.compiler.combination_sets import space_of
from callability.compiler.diagram import NotDecided, build
from callability.compiler.question import BOOLEAN, Fact, axis_of, facts_by_name
from callability.compiler.questions import CALLABILITY
from callability.compiler.rule_set import Rule, RuleSet
from callability.contract import finding
from callability.contract.finding import Place, did_you_mean, line, list_names
from callability.files import document, policy_check, policy_source
from callability.files.policy_source import source_in
from callability.kernel.conditions import AllOf, AnyOf, Is
from callability.process.limits import MAX_MEMORY
from callability.service import edits
from support.checkout import POLICY, SUPPORT
from support.commands import callability
from support.policies import RULES, policy_text, write_policy

Setup = Callable[[Path], object]


def _rules(text: str) -> Setup:
    """Rules above those of a valid file."""
    return _file(policy_text({"rules": text + RULES}))


def _file(data: str | bytes) -> Setup:
    content = data if isinstance(data, bytes) else data.encode()
    return lambda directory: (directory / "callability.yaml").write_bytes(content)


def _laws(text: str) -> Setup:
    return _file(policy_text({"laws": text}))


def _tests(text: str) -> Setup:
    return lambda directory: (directory / "callability_test.yaml").write_text(text)


def _words(text: str) -> Setup:
    words = "disabled_unknown: {remediation: x, rejection: x}\n"
    return _file(policy_text({"words": f'server_disabled: {{remediation: "{text}", rejection: x}}\n{words}'}))


def _when(condition: str) -> Setup:
    return _rules(f"- {{id: much, when: {condition}, status: server_disabled, action: Wait.}}\n")


def _facts(default: str, **values: str) -> Setup:
    declared = (f"{name}: {{of: server, default: {default or 'a'}, values: [{each}]}}" for name, each in values.items())
    return _file(f"facts: {{{', '.join(declared)}}}\n" + policy_text({}))


def _labels(text: str) -> Setup:
    return _file(f"labels: {{{text}}}\n" + policy_text({}))


def _any(parts: Iterable[str]) -> str:
    return f"{{any: [{', '.join(parts)}]}}"


def _link(target: str) -> Setup:
    return lambda directory: (directory / "callability_test.yaml").symlink_to(target)


def _many_files(directory: Path) -> None:
    for number in range(1_000):
        (directory / f"more{number}.yaml").write_text("")


def _growing(directory: Path) -> None:
    """A file that never ends."""
    (directory / "callability_test.yaml").symlink_to("/proc/self/mem")


ALL = _any(
    f"{{approval.status: [{one}, {other}], {fact}: {truth}}}"
    for one in ("none", "approved", "pending", "changed")
    for other in ("none", "approved", "pending", "changed")
    if one != other
    for fact in ("server.enabled", "tool.config_denied", "server.quarantined", "approval.disabled")
    for truth in ("true", "false")
)
LAUGHS = "a0: &a0 [ha, ha]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 100))
STATES = "load.http_status: [400, 401, 403, 404, 405, 408, 409, 410], load.phase: [connect, tls, request, response]"
WIDE = f"{{{STATES}, load.failure: [timeout, refused, reset, closed], load.http_class: [4xx, 5xx]}}"


def _multiplying(directory: Path) -> None:
    rules = "".join(f"- {{id: r{number}, when: {WIDE}, status: permanent}}\n" for number in range(100))
    text = f"rules:\n{rules}- {{id: all, status: permanent}}\nwords: {{permanent: {{message: x}}}}\n"
    (directory / "load_outcome.yaml").write_text(text)


CASES: dict[str, tuple[Setup, str]] = {
    "aliases that double": (_file(LAUGHS), "1:5: this value is repeated by an alias"),
    "a file of 10 MB": (_file("x" * 10_000_000), "is larger than 524,288 bytes [file-too-large]"),
    "lists in lists": (_file("rules: " + "[" * 200_000), "1:56: is nested more than 48 levels deep [nested-too-deep]"),
    "mappings in mappings": (_file("{a: " * 100_000), "is nested more than 48 levels deep [nested-too-deep]"),
    "indents in indents": (
        _file("".join(f"{' ' * level}a:\n" for level in range(900))),
        "49:49: is nested more than 48 levels deep [nested-too-deep]",
    ),
    "keys of keys": (_file("? " * 100_000), "is nested more than 48 levels deep [nested-too-deep]"),
    "a condition of nots": (
        _when("{not: " * 500 + "{server.enabled: true}" + "}" * 500),
        "is nested more than 48 levels deep [nested-too-deep]",
    ),
    "values": (_file("rules: [" + "1," * 50_000), "has more than 50,000 values, keys among them [too-many-values]"),
    "10,000 rules": (
        _file("rules:\n" + "- a\n" * 10_000 + "words: {}\n"),
        "2:1: `rules` has 10,000 rules; the maximum is 1,000 [too-many-rules]",
    ),
    "10,000 laws": (
        _laws("- a\n" * 10_000),
        "9:1: `laws` has 10,000 laws; the maximum is 1,000 [too-many-laws]",
    ),
    "65 labels": (
        _labels(f"server: {{{', '.join(f'k{number}: [a]' for number in range(65))}}}"),
        "1:9: `labels` declares 65 labels; the maximum is 64 [too-many-labels]",
    ),
    "65 values of a label": (
        _labels(f"tool: {{k: [{', '.join(f'v{number}' for number in range(65))}]}}"),
        "1:20: `tool.label.k` has 65 values; the maximum is 64 [too-many-labels]",
    ),
    "65 declared facts": (
        _facts("", **{f"proxy.f{number}": "a, b" for number in range(65)}),
        "1:8: `facts` declares 65 facts; the maximum is 64 [too-many-facts]",
    ),
    "65 values of a declared fact": (
        _facts("v0", **{"proxy.f": ", ".join(f"v{number}" for number in range(65))}),
        "1:52: `proxy.f` has 65 values; the maximum is 64 [too-many-facts]",
    ),
    "1,001 patterns": (
        _when(_any(f"{{tool.name: 'p{number}*'}}" for number in range(1_001))),
        "the maximum is 1,000 (combine some in a pattern, or use a label) [too-many-patterns]",
    ),
    "patterns that are too complex": (
        _when(f"{{tool.name: '*a{'?' * 40}'}}"),
        "they need more than 20,000 states (use fewer `*` before other characters, and fewer `?`)",
    ),
    "a name of 513 bytes": (
        _when(f"{{agent.name: {'x' * 513}}}"),
        "has more than 512 bytes, the maximum of a name [name-too-long]",
    ),
    "10,000 tests": (
        _tests("tests:\n" + "- a\n" * 10_000),
        "callability_test.yaml:2:1: `tests` has 10,000 tests; the maximum is 5,000 [too-many-tests]",
    ),
    "3,000 parts": (
        _when(_any(["{server.enabled: true}"] * 3_000)),
        "`when` of rule `much` has 3,000 parts; the maximum is 2,000 [too-many-parts]",
    ),
    "parts of a law": (
        _laws(f"- {{name: a, when: {_any(['{server.enabled: true}'] * 3_000)}, never: callable}}\n"),
        "`when` of law `a` has 3,000 parts; the maximum is 2,000 [too-many-parts]",
    ),
    "20,000 values of a fact": (
        _when(f"{{approval.status: [{'none, ' * 20_000}]}}"),
        "value `none` of `approval.status` is repeated in rule `much` [duplicate-value]",
    ),
    "groups that multiply": (
        _when(f"{{all: [{', '.join([ALL] * 6)}]}}"),
        "the condition of rule `much` is too large to decide (it comes to more than 5,000 conjunctions: split the rule)"
        " [condition-too-large]",
    ),
    "rules that multiply": (
        _multiplying,
        "are too large to decide (they come to more than 20,000 conjunctions, and values in lists multiply)"
        " [rules-too-large]",
    ),
    "a word of half a megabyte": (
        _words("x" * 500_000),
        "`remediation` in the words of `server_disabled` has more than 2,000 characters [text-too-long]",
    ),
    "10,000 keys": (
        _file("rules: []\nwords:\n" + "".join(f" k{number}: 1\n" for number in range(10_000))),
        "unknown status `k9999` in `words`",
    ),
    "a long id": (_rules(f"- {{id: {'a' * 65}, status: callable}}\n"), "1 to 64 lower-case letters"),
    "a long key": (_when(f'{{? "{"k" * 300_000}" : true}}'), "…` in rule `much`"),
    "a long number": (
        _when(f"{{server.enabled: {'9' * 300_000}}}"),
        "unknown value of `server.enabled` in rule `much`",
    ),
    "a number beyond all": (_when(f"{{server.enabled: 1e{'9' * 300}}}"), "the number `1e999"),
    "1,000 files": (_many_files, "DIR: has 1,003 YAML files; the maximum is 16 (none is read) [too-many-files]"),
    "a pipe": (
        lambda directory: os.mkfifo(directory / "callability_test.yaml"),
        "callability_test.yaml: cannot be read: is not a regular file [unreadable-file]",
    ),
    "a directory": (
        lambda directory: (directory / "callability_test.yaml").mkdir(),
        "callability_test.yaml: cannot be read: is a directory [unreadable-file]",
    ),
    "a link to itself": (
        _link("callability_test.yaml"),
        "callability_test.yaml: cannot be read: too many levels of symbolic links [unreadable-file]",
    ),
    "a link to a device": (
        _link("/dev/zero"),
        "callability_test.yaml: cannot be read: is not a regular file [unreadable-file]",
    ),
    "a file that cannot be read": (_growing, "callability_test.yaml: cannot be read: input/output error"),
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The findings of each case, from one process with 1 GiB of memory and two minutes of processor time for all."""
    directories = {}
    for name, (setup, _) in CASES.items():
        directories[name] = write_policy(tmp_path_factory.mktemp("policy"), policy_text({}))
        setup(directories[name])
    command = [sys.executable, str(SUPPORT / "checking.py"), *map(str, directories.values())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    report = [json.loads(each) for each in done.stdout.splitlines()]
    assert not any(each["policy"] for each in report)
    return {name: each["findings"] for name, each in zip(CASES, report, strict=True)}


@pytest.mark.parametrize("name", CASES)
def test_what_exceeds_a_limit_is_refused_by_its_name_and_number(name: str, checked: dict[str, list[str]]) -> None:
    """Within limits of memory and time, in readable lines."""
    assert any(CASES[name][1] in each for each in checked[name]), checked[name][:5]
    assert max(map(len, checked[name])) < 3_000
    assert all(map(str.isprintable, checked[name]))


def test_patterns_may_have_any_number_of_combinations(tmp_path: Path) -> None:
    """With 400 of them that are distinguished, there are 303,156, which is more than could be kept one by one."""
    rules = "".join(
        f"  - {{id: r{number}, when: {{tool.name: 'p{number}-*', server.enabled: false}}, status: server_disabled}}\n"
        for number in range(400)
    )
    write_policy(tmp_path, (POLICY / "callability.yaml").read_text().replace("rules:\n", f"rules:\n{rules}", 1))
    done = callability("check", str(tmp_path))
    assert done.returncode == 0, done.stdout
    assert "\n  combinations  303,156, in " in done.stdout


def test_a_diagram_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the rule that makes it so, with the facts that multiply: each of the first must be kept until its partner.

    A tenth of the limit is reached in a fifteenth of the time.
    """
    monkeypatch.setattr(diagram, "MAX_NODES", combination_sets.MAX_NODES // 10)
    each, count = [f"more.{letter}{number}" for letter in "ab" for number in range(11)], 11
    more = tuple(Fact(name, BOOLEAN, "false") for name in each)
    wide = replace(
        CALLABILITY, facts=facts_by_name((*CALLABILITY.facts.values(), *more)), axes=tuple(map(axis_of, more))
    )
    true = {name: Is(name, frozenset({"true"})) for name in each}
    pairs = AnyOf(tuple(AllOf((true[one], true[other])) for one, other in zip(each[:count], each[count:], strict=True)))
    rules = (
        Rule("pairs", pairs, "server_disabled", Place("x.yaml", 7)),
        Rule("last", None, "callable", Place("x.yaml")),
    )
    rule_set = RuleSet(replace(wide, withholds=None), rules, {})
    with pytest.raises(NotDecided, match=r"x\.yaml:7.*`pairs`.*60,000 nodes.*multiply: `more\.a0` 3") as report:
        build(rule_set, space_of(rule_set))
    assert report.value.finding.code == "diagram-too-large"


def test_the_engine_is_limited_by_its_processor_time() -> None:
    """A busy machine delays an answer and does not refuse a policy."""
    pytest.importorskip("durable.engine")
    task = {"facts": ["f0"], "blocks": [[[["f0", "v0", True]]]], "events": [["v0"]] * 400_000}
    with pytest.raises(NotDecided) as refused:
        confirmation.run(json.dumps(task), Place("x.yaml"), 600, confirmation.no_progress, cpu_seconds=2)
    finding = refused.value.finding
    assert finding.code == "engine-timeout"
    assert finding.sentence == "the rules engine did not decide within 2 seconds of processor time"


def test_an_edit_that_cannot_be_checked_in_time_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service waits for it, and no longer than it states."""
    monkeypatch.setattr(policy_check, "CHECK_SECONDS", 0.001)
    refused = asyncio.run(policy_check.checked_source(source_in(write_policy(tmp_path, policy_text({})))))
    assert not refused.bundle
    [report] = refused.findings
    assert line(report) == f"{tmp_path}: could not be checked: it took longer than 0.001 seconds [check-failed]"


def test_the_first_of_very_many_findings_are_listed_and_the_rest_is_counted(tmp_path: Path) -> None:
    """In lines, in JSON and in SARIF alike."""
    text = "rules: []\nwords:\n" + "".join(f" k{number}: 1\n" for number in range(1_500))
    write_policy(tmp_path, text)
    lines = callability("check", str(tmp_path)).stdout.splitlines()
    assert sum("[unknown-status]" in each for each in lines) == 999
    assert "and 503 more" in lines
    assert lines[-1].endswith(": refused, 1,501 errors, 2 warnings")
    report = json.loads(callability("check", str(tmp_path), "--json").stdout)
    assert (len(report["findings"]), report["findings_more"]) == (1_000, 503)
    [run] = json.loads(callability("check", str(tmp_path), "--format", "sarif").stdout)["runs"]
    assert (len(run["results"]), run["properties"]["findingsMore"]) == (1_000, 503)


def test_a_list_of_names_is_short() -> None:
    """In any number; and the nearest name is found quickly."""
    names = [f"{'a' * 30}{number}{'b' * 30}" for number in range(1_000)]
    assert list_names(names).endswith("` and 980 more")
    assert all(did_you_mean(name.replace("b", "c", 1), names) == f"did you mean `{name}`?" for name in names)


ODD_NAMES = (b"a\n2026-01-01 ERROR x.yaml", b"\x1b[31mred.yaml", "a\u202elmay.yaml".encode(), b"\xff\xfe.yaml")


@pytest.fixture
def oddly_named(tmp_path: Path) -> Iterator[Path]:
    """A policy beside files with malformed names."""
    paths = [os.path.join(os.fsencode(tmp_path), name) for name in ODD_NAMES]
    for path in paths:
        os.close(os.open(path, os.O_CREAT))
    yield write_policy(tmp_path, policy_text({}))
    for path in paths:
        os.unlink(path)


@pytest.mark.parametrize("form", ["text", "json", "sarif"])
def test_the_name_of_a_file_cannot_play_with_a_terminal_or_a_log(form: str, oddly_named: Path) -> None:
    """It is printed escaped, in one line, also if it is not UTF-8."""
    done = callability("check", ".", "--format", form, cwd=oddly_named)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.count("is not a question") >= len(ODD_NAMES)
    assert all(map(str.isprintable, done.stdout.splitlines()))


LIMITS = {
    "16 YAML files": policy_source.MAX_FILES,
    "524,288 bytes": document.MAX_BYTES,
    "48 levels": document.MAX_DEPTH,
    "50,000 values": document.MAX_VALUES,
    "1,000 rules": rule_file.MAX_RULES,
    "1,000 laws": rule_file.MAX_LAWS,
    "5,000 tests": rule_file.MAX_TESTS,
    "2,000 parts": rule_file.MAX_PARTS,
    "5,000 conjunctions": confirmation.MAX_CONJUNCTIONS,
    "20,000 conjunctions": confirmation.MAX_ALTOGETHER,
    "50,000 inner nodes": diagram.MAX_INNER,
    "600,000 nodes": combination_sets.MAX_NODES,
    "20,000,000 steps": nodes.MAX_STEPS,
    "2,000 characters": forms.MAX_TEXT,
    "60 seconds of processor time": confirmation.CPU_LIMIT,
    "300 seconds": int(confirmation.TIME_LIMIT),
    "120 seconds": int(policy_check.CHECK_SECONDS),
    "120 seconds of processor time": check_worker.MAX_CPU,
    "4 GiB": MAX_MEMORY // 1024**3,
    "first 1,000": finding.MAX_FINDINGS,
    "first 100": edits.MAX_LOGGED,
}


def test_the_page_has_every_limit_with_its_number() -> None:
    """As in the program."""
    page = " ".join((POLICY.parent / "docs/policy.md").read_text().split("## Limits")[1].split())
    for words, number in LIMITS.items():
        assert words in page
        assert f"{number:,}" in words
