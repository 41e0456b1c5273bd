"""Rule files as somebody with bad intent would write them, and what must hold whatever is in one."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from callability.cli.check import CheckReport, as_json, as_sarif, as_text
from callability.compiler.confirmation import Engine
from callability.compiler.finding_meanings import MEANINGS
from callability.compiler.policy import Check, ProvedRuleSet, check_source
from callability.compiler.question import LabelFact, NameFact
from callability.compiler.questions import CALLABILITY
from callability.contract.finding import Finding, Severity, has_errors, line
from callability.files.policy_source import PolicyFile, PolicySource
from callability.kernel.conditions import decide
from support.checkout import POLICY
from support.drawing import share
from support.drawn_policies import CORE, drawn_facts
from support.policies import SMALLEST

DIRECTORY = "policy"
LONGEST = 3_000
"""Characters of a finding's line: 128 of each word that is shown."""
SHIPPED = {path.name: path.read_text() for path in sorted(POLICY.glob("*.yaml"))}


def judged(files: Mapping[str, bytes]) -> Check:
    """Check a policy by what the service checks one by, and return the check, having seen that what must hold does."""
    every = {name: text.encode() for name, text in SMALLEST.items()} | dict(files)
    read = tuple(PolicyFile(PurePosixPath(name), name, data) for name, data in sorted(every.items()))
    written = PolicySource(DIRECTORY, read, names=frozenset(file.path.stem for file in read))
    check = check_source(written, engine=Engine.REFERENCE)
    assert (check.policy is None) is has_errors(check.findings)
    for finding in check.findings:
        _check_finding(finding, every)
    if check.policy:
        assert check.policy.revision == written.revision
        for proved in check.policy.rule_sets.values():
            _check_proof(proved)
    report = CheckReport(Path(DIRECTORY), check, strict=False)
    assert all(each.isprintable() for each in as_text(report, verbose=True).splitlines())
    json.loads(as_json(report))
    json.loads(as_sarif(report))
    return check


def _check_finding(finding: Finding, files: Mapping[str, bytes]) -> None:
    assert MEANINGS[finding.code].severity is finding.severity
    assert line(finding).isprintable()
    assert len(line(finding)) < LONGEST
    place = finding.place
    assert place.file in {*files, DIRECTORY}
    if place.line:
        lines = _lines(files[place.file])
        assert 1 <= place.line <= len(lines)
        assert 1 <= place.column <= len(lines[place.line - 1]) + 1
    else:
        assert place.column == 0


def _lines(data: bytes) -> list[str]:
    return re.split("\r\n|[\n\r]", data.decode("utf-8-sig", errors="replace"))


def _check_proof(proved: ProvedRuleSet) -> None:
    """What is accepted decides as the reference does, keeps its laws, and makes nothing callable that is withheld."""
    rule_set, diagram = proved.rule_set, proved.diagram
    for facts in drawn_facts(diagram.space, 500):
        verdict, decision = diagram.verdict(facts), decide(rule_set.conditions, facts)
        assert (rule_set.rules[decision.rule].id, decision.undetermined) == (verdict.rule, verdict.undetermined)
        assert not (verdict.withhold_text and verdict.status == rule_set.question.open_status)
        for law in rule_set.laws:
            truth = law.when.truth(facts) if law.when else True
            assert not law.always or truth is not True or verdict.status in law.statuses
            assert law.always or truth is False or verdict.status not in law.statuses


ODD = (
    *("yes", "no", "on", "off", "True", "FALSE", "tRUE", "null", "~", ".nan", ".inf", "-.inf", "0x1F", "0o17", "017"),
    *("0b11", "1_000", "1e999", "1:30", "-0", "2026-11-22", "<<: *a", "&a", "!!str", "!!python/object/apply:os.system"),
    *("!x", "!!binary", "?", "|", ">", "-", "--- ", "...", "%", "@", "`", "{", "}", "[", "]", ",", ":", "#", "'", '"'),
    *("rules", "words", "laws", "tests", "when", "id", "status", "any", "all", "not", "never", "always", "because"),
    *("action", "unknown", "callable", "\uff54rue", "\ufb01le", "\u0430pproval.status", "server.enabled\u200b"),
)
"""What YAML or its readers may take for something else."""
UNSEEN = ("", " ", "\t", "\n", "\0", "\x07", "\x1b[31m", "\x7f", "\x85", "\u2028", "\u202e", "\ufeff", "\ufffe")
odd = st.one_of(
    st.sampled_from((*ODD, *UNSEEN, "\U0001f600")),
    st.integers(-(10**80), 10**80).map(str),
    st.floats().map(repr),
    st.dates().map(str),
    st.text(max_size=12),
    st.sampled_from(["{enable_server}", "{edit_config}", "{tool}", "{", "}", "{}", "{{}}", "\\ud800", "\\x41", "\\"]),
    st.sampled_from(ODD).map(lambda each: each * 200),
)


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, bytes]:
    """Return a shipped file, or its tests, with a few changes anywhere, and perhaps otherwise encoded."""
    name = draw(st.sampled_from(sorted(SHIPPED)))
    text = SHIPPED[name]
    for _ in range(draw(st.integers(0, 3))):
        text = draw(st.sampled_from(_CHANGES))(draw, text)
    if draw(st.booleans()):
        text = text.replace("\n", draw(st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\x85", "\u2028"])))
    encode = draw(st.sampled_from(_ENCODINGS))
    files = {name: encode(text)}
    if name.endswith("_test.yaml"):
        rules = name.replace("_test", "")
        files[rules] = SHIPPED[rules].encode()
    return files


def _token(draw: st.DrawFn, text: str) -> str:
    """Put something odd in the place of a word, a mark or a space."""
    tokens = [token.span() for token in re.finditer(r"[\w.-]+|[^\w\s]|[ ]+|\n", text)]
    begin, end = draw(st.sampled_from(tokens or [(0, 0)]))
    return f"{text[:begin]}{draw(odd)}{text[end:]}"


def _between(draw: st.DrawFn, text: str) -> str:
    at = draw(st.integers(0, len(text)))
    return f"{text[:at]}{draw(odd)}{text[at:]}"


def _lines_moved(draw: st.DrawFn, text: str) -> str:
    lines = text.splitlines(keepends=True)
    one, other = (draw(st.integers(0, len(lines))) for _ in range(2))
    taken = lines[min(one, other) : max(one, other)]
    return "".join(draw(st.sampled_from([taken, lines + taken, taken + lines, lines[: min(one, other)] + taken * 2])))


def _cut(draw: st.DrawFn, text: str) -> str:
    return text[: draw(st.integers(0, len(text)))]


_CHANGES = (_token, _token, _token, _between, _lines_moved, _cut)
_ENCODINGS = (
    *[lambda text: text.encode(errors="surrogatepass")] * 6,
    lambda text: text.encode("utf-8-sig", errors="surrogatepass"),
    lambda text: text.encode("utf-16", errors="surrogatepass"),
    lambda text: text.encode("utf-32", errors="surrogatepass"),
    lambda text: text.encode("latin-1", errors="replace"),
)

LABELS = {"server": {"tier": ["gold", "other"]}}
LABELLED = CALLABILITY.having([LabelFact("server.label.tier", ("none", "gold", "other"), "none")])
OTHERS = ("annotations.destructive", "tool.name", "agent.name", "server.label.tier")
"""Facts that a rule file reads in the stead of most that the shipped one reads: together they are too many."""
_status = st.sampled_from(CALLABILITY.statuses)


def _values(fact: str) -> st.SearchStrategy[Any]:
    known = LABELLED.facts[fact]
    one: st.SearchStrategy[Any] = st.booleans() if known.boolean else st.sampled_from(known.values or ("",))
    if isinstance(known, NameFact):
        one = st.text("ab[*?", min_size=1, max_size=4) | st.sampled_from(
            ["unknown", "*", "u*n", "?nknown", "other", ""]
        )
    return one | st.lists(one, min_size=1, max_size=3, unique=True)


def _conditions(facts: Sequence[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.sampled_from(facts).flatmap(lambda fact: st.fixed_dictionaries({fact: _values(fact)})),
        lambda inner: st.one_of(
            st.fixed_dictionaries({"not": inner}),
            st.fixed_dictionaries({"any": st.lists(inner, min_size=1, max_size=3)}),
            st.fixed_dictionaries({"all": st.lists(inner, min_size=1, max_size=3)}),
            st.tuples(inner, inner).map(lambda both: both[0] | both[1]),
        ),
        max_leaves=6,
    )


def _rule(condition: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"when": condition, "status": _status}, optional={"because": _text, "action": _text})


def _law(condition: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"when": condition}) | st.just({})


_CONDITIONS = tuple(map(_conditions, (tuple(fact.name for fact in CORE), OTHERS)))
_text = st.sampled_from(["Wait.", "{check_logs}", "Ask to {enable_server}.", "{tool} of {server}", "Enable it."])
_words = st.fixed_dictionaries({"remediation": _text, "rejection": _text})
GATE = {
    "id": "gate",
    "when": {"not": {"server.quarantined": False, "approval.status": ["none", "approved"]}},
    "status": "server_quarantined",
    "action": "Wait.",
}


@st.composite
def drawn(draw: st.DrawFn) -> dict[str, Any]:
    """Return a rule file of the form of one, about tools."""
    condition = draw(st.sampled_from(_CONDITIONS))
    rules = [{"id": f"r{number}", **rule} for number, rule in enumerate(draw(st.lists(_rule(condition), max_size=6)))]
    laws = [
        {
            "name": f"law {number}",
            **law,
            draw(st.sampled_from(["always", "never"])): draw(st.lists(_status, min_size=1)),
        }
        for number, law in enumerate(draw(st.lists(_law(condition), max_size=3)))
    ]
    given = {rule["status"] for rule in rules} | {"server_quarantined", "disabled_unknown"}
    words = {status: draw(_words) for status in sorted(given) if status != "callable"}
    file = {"labels": LABELS, "rules": [*rules, GATE, {"id": "open", "status": "callable"}], "words": words}
    return file | ({"laws": laws} if laws else {})


def written_as(file: Mapping[str, Any]) -> bytes:
    """Write a rule file with each rule, law and word of a status in a line of its own."""
    parts = []
    for key, value in file.items():
        each = [json.dumps(item) for item in value] if isinstance(value, Sequence) else [*_entries(value)]
        opening, closing = "[]" if isinstance(value, Sequence) else "{}"
        parts.append(f'"{key}": {opening}\n' + ",\n".join(each) + f"\n{closing}")
    return ("{\n" + ",\n".join(parts) + "\n}\n").encode()


def _entries(mapping: Mapping[str, Any]) -> Iterator[str]:
    return (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in mapping.items())


def valid(file: dict[str, Any], check: Check) -> dict[str, Any]:
    """Return a rule file without the drawn rules and laws in which there is an error, and with words that are right.

    Where no drawn rule is to blame, the last of them is left out: at the end there are none, and the file is sound.
    """
    wrong = {finding.place.line for finding in check.findings if finding.severity is Severity.ERROR}
    places = {text.removesuffix(","): number for number, text in enumerate(written_as(file).decode().splitlines(), 1)}
    laws = [law for law in file.get("laws", ()) if places[json.dumps(law)] not in wrong]
    *rules, gate, last = file["rules"]
    kept = [rule for rule in rules if places[json.dumps(rule)] not in wrong]
    if kept == rules and laws == file.get("laws", []):
        kept = kept[:-1]
    given = {rule["status"] for rule in (*kept, gate)} | {"disabled_unknown"}
    words = {status: {"remediation": "Wait.", "rejection": "Wait."} for status in sorted(given - {"callable"})}
    return {"labels": LABELS, "rules": [*kept, gate, last], "words": words} | ({"laws": laws} if laws else {})


MORE = int(os.environ.get("CALLABILITY_FUZZ", "1"))
"""How many times as much is tried as CI has time for; more than that is drawn again each time."""


def bounded(examples: int) -> settings:
    """Return settings under which the same is drawn each time, unless more is asked for."""
    return settings(
        max_examples=share(examples) * MORE,
        derandomize=MORE == 1,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
    )
