"""The other two questions: the outcome of a load (spec B), and of enabling a server (spec C)."""

from __future__ import annotations

import asyncio
import re
import shutil
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callability.compiler.confirmation import Engine
from callability.compiler.policy import Policy, check_files, load
from callability.compiler.questions import ENABLE_OUTCOME
from callability.compiler.rule_set import VerdictWords, status_words, verdict_words
from callability.contract.finding import Severity, line
from callability.contract.vocabulary import EnableStatus
from callability.files.policy_source import policy_files
from callability.kernel.conditions import decide
from callability.kernel.facts import enable_facts, load_facts
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import outcome_pb2, verdict_pb2
from support.checkout import POLICY
from support.commands import callability
from support.drawing import drawing
from support.policies import write_policy
from support.service_stub import ServiceStub

REFUSED = outcome_pb2.LoadSignals(
    phase=outcome_pb2.LOAD_PHASE_CONNECT, failure=outcome_pb2.LOAD_FAILURE_REFUSED, tries_left=2, retry_scheduled=True
)
SMALL = {
    "load_outcome": "words:\n  permanent: {message: '{check_server}'}\nrules:\n- {id: all, status: permanent}\n",
    "enable_outcome": "words:\n  connect_failed: {message: x}\nrules:\n- {id: all, status: connect_failed}\n",
}
_numbers = st.integers(min_value=-1, max_value=15)
_signals = st.builds(
    outcome_pb2.LoadSignals,
    phase=st.none() | _numbers,
    failure=st.none() | _numbers,
    http_status=st.none() | st.sampled_from([0, 200, 204, 302, 401, 403, 404, 408, 429, 499, 500, 599, 600, 2**32 - 1]),
    timeout_signature=st.booleans(),
    in_session=st.booleans(),
    tries_left=st.sampled_from([0, 1, 2**32 - 1]),
    retry_scheduled=st.booleans(),
)
_enables = st.builds(
    outcome_pb2.EnableFacts,
    known=st.none() | st.booleans(),
    was_connected=st.none() | st.booleans(),
    credentials=st.none() | _numbers,
    authorization=st.none() | _numbers,
    ended=st.none() | _numbers,
    callable_tools=st.none() | st.booleans(),
    load_status=st.none() | _numbers,
    dialog_expired=st.none() | st.booleans(),
)


@cache
def _shipped() -> Policy:
    return load(POLICY)


def _classified(signals: outcome_pb2.LoadSignals, policy: Policy, text: str = "") -> pb.ClassifyLoadResponse:
    async def ask() -> pb.ClassifyLoadResponse:
        return await ServiceStub(policy).ClassifyLoad(pb.ClassifyLoadRequest(signals=signals, error_text=text))

    return asyncio.run(ask())


@pytest.mark.parametrize("question", ["load_outcome", "enable_outcome"])
def test_the_shipped_rules_mean_in_the_engine_what_they_mean_to_the_reference(question: str) -> None:
    """Every combination of facts, whatever decided it."""
    proved = _shipped().rule_sets[question]
    rules = proved.rule_set.rules
    for combination, verdict in proved.diagram:
        decision = decide(proved.rule_set.conditions, proved.diagram.space.named(combination))
        status = proved.rule_set.question.undetermined if decision.undetermined else rules[decision.rule].status
        assert (verdict.status, verdict.rule, verdict.undetermined, verdict.withhold_text) == (
            status,
            rules[decision.rule].id,
            decision.undetermined,
            None,
        )


@drawing(300)
@given(signals=_signals, text=st.sampled_from(["", "HTTP 403", "timed out", "nothing known"]) | st.text(max_size=40))
def test_any_signals_are_facts_that_can_occur(signals: outcome_pb2.LoadSignals, text: str) -> None:
    """Contradictory signals are decided too, and like the reference decides them."""
    facts = load_facts(signals, text)
    proved = _shipped().rule_sets["load_outcome"]
    decision = decide(proved.rule_set.conditions, facts)
    assert proved.diagram.verdict(facts).rule == proved.rule_set.rules[decision.rule].id


@drawing(300)
@given(signals=_signals)
def test_a_denial_is_never_retried(signals: outcome_pb2.LoadSignals) -> None:
    """L-1: no 401 or 403 without a timeout's signature is transient or available, whatever the other signals."""
    if signals.http_status in {401, 403} and not signals.timeout_signature:
        verdict = _classified(signals, _shipped()).verdict
        assert verdict.status in {outcome_pb2.LOAD_STATUS_DENIED, outcome_pb2.LOAD_STATUS_PERMANENT}
        assert verdict.retry == verdict_pb2.RETRY_NEVER


@drawing(300)
@given(facts=_enables)
def test_nothing_is_called_connected_that_is_not_known_to_be(facts: outcome_pb2.EnableFacts) -> None:
    """E-9: only a connection that exists."""
    proved = _shipped().rule_sets["enable_outcome"]
    status = EnableStatus(proved.diagram.verdict(enable_facts(facts)).status)
    stands = facts.was_connected or facts.ended == outcome_pb2.ENABLE_END_CONNECTED
    assert stands or not status.connected


def test_a_refused_connection_is_made_transient_by_an_edit_of_one_line(tmp_path: Path) -> None:
    """L-9: the classification is a rule file."""
    assert _classified(REFUSED, _shipped()).verdict.status == outcome_pb2.LOAD_STATUS_PERMANENT
    shutil.copytree(POLICY, tmp_path / "mine")
    path = tmp_path / "mine/load_outcome.yaml"
    before = path.read_text()
    line_of_timeouts = "{id: timed-out,       when: {load.failure: timeout},"
    after = before.replace(line_of_timeouts, "{id: timed-out, when: {load.failure: [timeout, refused]},")
    assert sum(one != other for one, other in zip(before.splitlines(), after.splitlines(), strict=True)) == 1
    path.write_text(after)
    (tmp_path / "mine/load_outcome_test.yaml").unlink()
    reply = _classified(REFUSED, load(tmp_path / "mine"))
    assert (reply.verdict.status, reply.verdict.rule) == (outcome_pb2.LOAD_STATUS_TRANSIENT, "timed-out")


def test_only_a_retry_that_is_scheduled_is_mentioned() -> None:
    """L-7: in the words of the rule that reads the fact, and in no others."""
    rule_set = _shipped().rule_sets["load_outcome"].rule_set
    own_words = {rule.id for rule in rule_set.rules if rule.because and "Will retry" in rule.because.template}
    assert own_words == {rule.id for rule in rule_set.rules if rule.when and "load.retry_scheduled" in rule.reads}
    promise = re.compile(r"will (?:be )?(?:retr|tr(?:y|ied) again)", re.IGNORECASE)
    assert not any(promise.search(text.template) for words in rule_set.words.values() for text in words.values())


def test_the_words_of_an_enable_that_did_not_connect_say_so() -> None:
    """And the words of a decline, a cancellation or a missing dialog leave a retry to the user."""
    words = _shipped().rule_sets["enable_outcome"].rule_set.words
    for status in EnableStatus:
        text = words[status]["message"].template
        claims = re.search(r"\bis connected\b|\bnow active\b|\bwas already connected\b", text)
        assert bool(claims) is status.connected, status
    assert "only if the user asks" in words["declined"]["message"].template
    assert "only if the user asks" in words["cancelled"]["message"].template
    assert not re.search(r"\b(?:the user|you|operator)\b[^.]*\bstopped\b", words["cancelled"]["message"].template)


@drawing(300)
@given(facts=_enables)
def test_any_facts_of_an_enable_can_occur(facts: outcome_pb2.EnableFacts) -> None:
    """Contradictory facts are decided too, and like the reference decides them."""
    proved = _shipped().rule_sets["enable_outcome"]
    read = enable_facts(facts)
    assert ENABLE_OUTCOME.contradiction(read) is None
    decision = decide(proved.rule_set.conditions, read)
    assert proved.diagram.verdict(read).rule == proved.rule_set.rules[decision.rule].id


@drawing(300)
@given(facts=_enables)
def test_a_caller_that_does_not_send_the_newer_facts_gets_the_same_status_and_words_that_are_true(
    facts: outcome_pb2.EnableFacts,
) -> None:
    """The words of the status, which fit every failure, and no rule's own, which would be a guess."""
    older = outcome_pb2.EnableFacts()
    older.CopyFrom(facts)
    older.ClearField("load_status")
    older.ClearField("dialog_expired")
    proved = _shipped().rule_sets["enable_outcome"]
    before, now = (proved.diagram.verdict(enable_facts(each)) for each in (older, facts))
    assert before.status == now.status
    if before.status == "connect_failed":
        assert before.undetermined
        assert verdict_words(proved.rule_set, before) == VerdictWords(
            "", status_words(proved.rule_set, "connect_failed")
        )


def test_the_words_of_a_failed_connection_differ_by_why_it_failed() -> None:
    """Each has its own next step, and only an unknown failure leads to the logs."""
    rule_set = _shipped().rule_sets["enable_outcome"].rule_set
    own = {rule.id: rule.action.template for rule in rule_set.rules if rule.status == "connect_failed" and rule.action}
    assert list(own) == ["dialog-expired", "may-work-later", "access-refused", "needs-attention"]
    steps = ("Retry only if the user asks", "Retry later", "{grant_access}", "{check_server}")
    for step, own_words in zip(steps, own, strict=True):
        assert [rule for rule, text in own.items() if step in text] == [own_words]
    assert not any("{check_logs}" in text for text in own.values())
    assert "{check_logs}" in rule_set.words["connect_failed"]["message"].template


def test_only_the_own_words_of_a_rule_may_say_that_the_operator_lifts_a_failed_connection(tmp_path: Path) -> None:
    """The words of the status are also for an unknown failure."""
    write_policy(tmp_path, (POLICY / "callability.yaml").read_text())
    text = (POLICY / "enable_outcome.yaml").read_text()
    assert text.count("{check_logs}") == 1
    (tmp_path / "enable_outcome.yaml").write_text(text.replace("{check_logs}", "{grant_access}"))
    found = check_files(policy_files(tmp_path), tmp_path, engine=Engine.REFERENCE).findings
    assert [finding.code for finding in found if finding.severity is Severity.ERROR] == ["action-not-owned"]


FAULTY = [
    (
        "load_outcome",
        "- {id: one, when: {load.http_status: [403, '403']}, status: denied}",
        "duplicate-value",
        "value `403` of `load.http_status` is repeated in rule `one`",
    ),
    (
        "load_outcome",
        "- {id: one, when: {load.http_status: 418}, status: denied}",
        "unknown-value",
        "unknown value of `load.http_status` in rule `one`: the number `418`",
    ),
    (
        "load_outcome",
        "- {id: one, when: {load.failure: timeout}, status: pending_approval}",
        "unknown-status",
        "unknown status `pending_approval` in rule `one`",
    ),
    (
        "load_outcome",
        "- {id: one, when: {load.failure: timeout}, status: permanent, action: 'Ask to {edit_config}.'}",
        "unknown-placeholder",
        "unknown placeholder `{edit_config}` in rule `one`",
    ),
    (
        "load_outcome",
        "- {id: one, when: {load.failure: timeout}, status: transient}",
        "missing-words",
        "`words` has no entry for status `transient` (give `message`)",
    ),
    (
        "load_outcome",
        "- {id: one, when: {load.failure: none, load.phase: connect}, status: permanent}",
        "never-decides",
        "rule `one` never decides: its condition never holds",
    ),
    (
        "enable_outcome",
        "- {id: one, when: {enable.ended: failed}, status: connect_failed, action: 'Set {variables}.'}",
        "unknown-placeholder",
        "(it stands in the words of `missing_credentials` only)",
    ),
    (
        "enable_outcome",
        "- {id: one, when: {enable.ended: connected, enable.load_status: denied}, status: connect_failed}",
        "never-decides",
        "only an attempt that failed has a load status, and only a dialog that nobody answered can have expired",
    ),
    (
        "enable_outcome",
        "- {id: one, when: {enable.ended: failed}, status: connect_failed, action: 'Toggle it.'}",
        "toggle-phrase",
        "`Toggle` in rule `one` reads like a switch of the user's",
    ),
]


@pytest.mark.parametrize(("question", "rule", "code", "sentence"), FAULTY, ids=[f"{row[0]} {row[2]}" for row in FAULTY])
def test_what_is_wrong_with_a_rule_of_an_outcome_is_found(
    question: str, rule: str, code: str, sentence: str, tmp_path: Path
) -> None:
    """The same findings as for the first question, with its own facts, statuses and placeholders."""
    write_policy(tmp_path, (POLICY / "callability.yaml").read_text())
    (tmp_path / f"{question}.yaml").write_text(SMALL[question].replace("rules:\n", f"rules:\n{rule}\n"))
    found = check_files(policy_files(tmp_path), tmp_path, engine=Engine.REFERENCE).findings
    assert [finding.code for finding in found] == [code]
    assert sentence in line(found[0])


def test_a_test_of_an_outcome_has_no_withheld_text_and_its_own_hint(tmp_path: Path) -> None:
    """Only the question about tools withholds text."""
    write_policy(tmp_path, (POLICY / "callability.yaml").read_text())
    shutil.copyfile(POLICY / "load_outcome.yaml", tmp_path / "load_outcome.yaml")
    (tmp_path / "load_outcome_test.yaml").write_text(
        "tests:\n"
        "- {name: a, expect: {status: available, withhold_text: false}}\n"
        "- {name: b, facts: {load.failure: refused}, expect: {status: permanent}}\n"
    )
    found = check_files(policy_files(tmp_path), tmp_path, engine=Engine.REFERENCE).findings
    found = tuple(finding for finding in found if finding.severity is Severity.ERROR)
    assert [finding.code for finding in found] == ["unknown-key", "impossible-facts"]
    assert found[1].hint == "a failure has its phases, and an HTTP status its class and `load.failure: http_status`"


def test_a_policy_without_one_of_its_rule_sets_is_refused(tmp_path: Path) -> None:
    """Each question has to be answered; `callability policy export` gives them all."""
    shutil.copyfile(POLICY / "callability.yaml", tmp_path / "callability.yaml")
    found = check_files(policy_files(tmp_path), tmp_path, engine=Engine.REFERENCE).findings
    assert [finding.sentence for finding in found] == [
        "has no rule set `enable_outcome.yaml`",
        "has no rule set `load_outcome.yaml`",
    ]


def test_explain_answers_each_question() -> None:
    """With its own texts, and without a path and upstream text."""
    texts = callability("explain", "--question", "load_outcome", "load.phase=tls", "load.failure=tls").stdout
    assert texts.startswith("permanent, by rule `needs-attention`\n  lifted by      operator\n  retry          never\n")
    assert "  message        Needs attention: {servers}." in texts
    assert "upstream text" not in texts
    assert "path to" not in texts
    wrong = callability("explain", "--question", "load_outcom")
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "callability: unknown question `load_outcom` (did you mean `load_outcome`?)\n",
    )
    impossible = callability("explain", "--question", "load_outcome", "load.failure=refused")
    assert (impossible.returncode, "these facts cannot occur together: a failure has its" in impossible.stderr) == (
        2,
        True,
    )
