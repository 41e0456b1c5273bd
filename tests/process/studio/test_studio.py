"""`callability studio` as the page sees it: the analysis of a draft, what is written, and who may send requests."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import httpx2
import pytest

from callability.adapter import NEUTRAL, rejection
from callability.compiler import bundle_writing
from callability.compiler.policy import Policy, load
from callability.compiler.questions import QUESTIONS
from callability.compiler.rule_set import Verdict
from callability.compiler.table import rows_of
from callability.files.document import MAX_BYTES
from callability.files.editing import overwrite
from callability.studio import policy_files
from callability.studio.drafts import MAX_FINDINGS, MAX_LINES, DraftAnalysis, possible
from support.checkout import PACKAGE, POLICY
from support.declared_rules import RULES as DECLARED
from support.judging import LOCKED, checked, text_of
from support.policies import write_policy
from support.studios import PLAIN, SECONDS, Page, studio, studio_process

RULES = (POLICY / "callability.yaml").read_text()
WAITING = "when: {approval.status: changed}"
NARROWER = "when: {approval.status: changed, tool.name: wipe}"
PAGE_FILES = PACKAGE / "studio/page"


def _copy(directory: Path) -> Path:
    shutil.copytree(POLICY, directory / "policy")
    return directory / "policy"


def _state(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A studio of the shipped policy, which no test of the module writes."""
    before = _state(POLICY)
    with studio(POLICY) as bound:
        yield bound
    assert _state(POLICY) == before, "something was written without being asked for"


@pytest.fixture(scope="module")
def shipped() -> Policy:
    """The shipped policy."""
    return load(POLICY)


@pytest.fixture(scope="module")
def first_page(url: str) -> Page:
    """A page, which has checked a draft."""
    return Page(url)


@pytest.fixture
def page(first_page: Page) -> Page:
    """A page that has checked the saved policy."""
    first_page.ask("check", texts={})
    return first_page


def test_a_page_begins_with_the_files(page: Page) -> None:
    """Every rule set with its tests."""
    reply = page.policy()
    assert [file["name"] for file in reply["files"]] == [
        f"{name}{ending}.yaml" for name in QUESTIONS for ending in ("", "_test")
    ]
    assert reply["files"][0]["text"] == RULES
    assert reply["questions"] == [*QUESTIONS]


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_facts_to_set_come_with_the_table(page: Page, shipped: Policy, name: str) -> None:
    """Each fact that the rule set's own question has, with its readings."""
    reply = page.ask("table", question=name)["question"]["facts"]
    question = shipped.rule_sets[name].rule_set.question
    readings = {fact["name"]: tuple(reading["value"] for reading in fact["readings"]) for fact in reply}
    assert readings == {
        name: question.facts[name].readings for name in chain.from_iterable(axis.facts for axis in question.axes)
    }


def test_the_saved_policy_is_proved_as_check_proves_it(page: Page, shipped: Policy) -> None:
    """The same revision, and nothing found."""
    reply = page.ask("check", texts={})
    assert (reply["sound"], reply["findings"], reply["revision"]) == (True, [], shipped.revision)
    assert reply["proved"]["callability"]["combinations"] == 756


def test_a_draft_is_answered_first_and_confirmed_on_request(page: Page) -> None:
    """By the engine that confirms a policy before it is served; the rest of the answer is the same."""
    text = RULES.replace("The user disabled this tool.", "It is off.")
    first = page.ask("check", texts={"callability.yaml": text})
    confirmed = page.ask("confirm")
    assert [each["engine"] for each in first["proved"].values()] == [""] * 3
    assert all(each["engine"] for each in confirmed["proved"].values())
    same = ("sound", "revision", "findings", "counts")
    assert [confirmed[key] for key in same] == [first[key] for key in same]


def test_the_progress_of_the_engine_is_reported(page: Page) -> None:
    """How many witnesses it has decided, of how many."""
    text = RULES.replace("The user disabled this tool.", "It is not on.")
    page.ask("check", texts={"callability.yaml": text})
    assert page.ask("progress") == {"decided": 0, "of": 0}
    page.ask("confirm")
    progress = page.ask("progress")
    assert 0 < progress["of"] == progress["decided"]


def test_what_the_engine_refuses_is_not_saved(tmp_path: Path) -> None:
    """A condition that is too large for it is no finding of the diagram."""
    policy = _copy(tmp_path)
    values = {"server": 9, "tool": 9}
    labels = "".join(f"  {kind}: {{a: {_values(n)}, b: {_values(n)}, c: {_values(n)}}}\n" for kind, n in values.items())
    listed = ", ".join(f"{kind}.label.{key}: {_values(8)}" for kind in values for key in "abc")
    rule = f"  - {{id: wide, when: {{{listed}}}, status: callable}}\n"
    text = f"labels:\n{labels}" + RULES.replace("  - {id: open,", f"{rule}  - {{id: open,", 1)
    with studio(policy) as bound:
        page = Page(bound)
        assert page.ask("check", texts={"callability.yaml": text})["sound"]
        assert "condition-too-large" in {each["code"] for each in page.ask("confirm")["findings"]}
        digest = page.digest("callability.yaml")
        refused = page.post("save", name="callability.yaml", text=text, digest=digest, even_refused=False)
        assert refused.json()["code"] == "refused"
    assert (policy / "callability.yaml").read_text() == RULES


def _values(count: int) -> str:
    return f"[{', '.join(f'v{number}' for number in range(count))}]"


def test_a_finding_has_its_place_and_what_to_do(page: Page) -> None:
    """Like `check` reports it, by the name of the file."""
    reply = page.ask(
        "check", texts={"callability.yaml": RULES.replace("approval.disabled: true}, ", "aproval: true}, ")}
    )
    [finding] = reply["findings"]
    line = RULES[: RULES.index("id: user-off")].count("\n") + 1
    assert (finding["file"], finding["line"], finding["code"]) == ("callability.yaml", line, "unknown-fact")
    assert not reply["sound"]


def test_a_finding_about_facts_has_facts_to_look_at(page: Page) -> None:
    """Those of its witness."""
    reply = page.ask("check", texts={"callability.yaml": RULES.replace(WAITING, NARROWER)})
    witnesses = {finding["code"]: finding["witness"] for finding in reply["findings"]}
    assert witnesses["callable-withheld"] == {"approval.status": "changed"}
    assert {finding["file"] for finding in reply["findings"]} == {"callability.yaml", "callability_test.yaml"}


def test_a_rule_set_that_is_missing_and_a_file_too_many_are_found(tmp_path: Path) -> None:
    """Each once, whatever else is requested."""
    policy = _copy(tmp_path)
    (policy / "load_outcome.yaml").rename(policy / "load_outcomes.yaml")
    with studio(policy) as bound:
        reply = Page(bound).ask("check", texts={})
    found = sorted((finding["code"], finding["file"]) for finding in reply["findings"])
    assert found == [("missing-rule-set", ""), ("unknown-question", "load_outcomes.yaml")]


def test_an_answer_has_words_and_path_and_the_row_that_decides(page: Page) -> None:
    """The row is the first that holds."""
    facts = {"tool.config_denied": "true", "approval.status": "pending"}
    reply = page.ask("decide", question="callability", facts=facts)
    assert (reply["verdict"]["status"], reply["verdict"]["rule"]) == ("disabled_by_config", "operator-denied")
    assert reply["path"]["sentences"][-1] == "then it is callable"
    assert "{edit_config}" in reply["words"]["remediation"]
    assert [trial["truth"] for trial in reply["trials"]] == ["false", "true"]
    row = page.ask("table", question="callability")["rows"][reply["row"]]
    assert (row["rule"], row["facts"]) == ("operator-denied", {"tool.config_denied": ["true"]})
    assert "operator-denied" in RULES.splitlines()[reply["line"] - 1]


@pytest.mark.parametrize(
    ("status", "facts"),
    [
        ("server_disabled", {"server.enabled": "false"}),
        ("disabled_by_config", {"tool.config_denied": "true"}),
        ("server_quarantined", {"server.quarantined": "true"}),
        ("disabled_by_user", {"approval.disabled": "true"}),
        ("pending_approval", {"approval.status": "pending"}),
        ("disabled_unknown", {"approval.disabled": "unknown", "approval.status": "unknown"}),
    ],
)
def test_what_an_agent_reads_is_the_rejection_that_a_proxy_returns(
    page: Page, status: str, facts: dict[str, str]
) -> None:
    """Word by word, of the service's own answer, with the neutral phrases."""
    reply = page.ask("decide", question="callability", facts=facts)
    assert reply["verdict"]["status"] == status
    response = checked(*LOCKED[status], server="server", tool="tool")
    assert reply["rejection"] == rejection(response, "server", "tool", phrases=NEUTRAL)


def test_the_phrase_of_a_declared_action_is_part_of_what_an_agent_reads(tmp_path: Path) -> None:
    """As the service sends it with the words."""
    policy = _copy(tmp_path)
    (policy / "callability.yaml").write_text(DECLARED)
    analysis = DraftAnalysis(policy)
    texts = {path.name: path.read_text() for path in policy.glob("*.yaml") if not path.stem.endswith("_test")}
    analysis.check(texts, texts)
    reply = analysis.decide("callability", {"proxy.quota": "out", "agent.label.team": "ops"}, "")
    assert reply["verdict"]["rule"] == "no-quota"
    assert "Ask to raise the quota." in text_of(reply["rejection"])


def test_a_call_that_is_let_through_has_no_rejection(page: Page) -> None:
    """Nor has an outcome, which is no call of a tool."""
    assert page.ask("decide", question="callability", facts={})["rejection"] is None
    assert page.ask("decide", question="load_outcome", facts={})["rejection"] is None


def test_the_row_of_an_answer_can_be_left_to_the_table(page: Page) -> None:
    """Which finds the same one."""
    facts = {"server.enabled": "false"}
    reply = page.ask("decide", question="callability", facts=facts, row=False)
    assert (reply["row"], reply["verdict"]["rule"]) == (None, "server-off")
    table = page.ask("table", question="callability", facts=facts)
    assert table["rows"][table["row"]]["rule"] == "server-off"


def test_tests_come_with_their_facts_and_with_what_failed(page: Page) -> None:
    """Failed ones first."""
    passed = page.ask("check", texts={})["tests"]
    assert len(passed) == sum(each["tests_passed"] for each in page.ask("check", texts={})["proved"].values())
    assert not any(test["failed"] for test in passed)
    text = RULES.replace("when: {approval.disabled: true}, ", "when: {approval.disabled: false}, ")
    failed = [test for test in page.ask("check", texts={"callability.yaml": text})["tests"] if test["failed"]]
    assert failed
    first = failed[0]
    assert first["file"] == "callability_test.yaml"
    assert f"test `{first['name']}` fails: {first['differences'][0]}" in first["failed"]
    assert page.ask("decide", question="callability", facts=first["facts"])["verdict"]["status"] != first["expected"]


def test_the_row_that_is_lit_has_the_rule_that_decides_for_every_combination(shipped: Policy) -> None:
    """Of each question."""
    analysis = DraftAnalysis(POLICY)
    texts = {path.name: path.read_text() for path in POLICY.glob("*.yaml")}
    analysis.check(texts, texts)
    for name, proved in shipped.rule_sets.items():
        rows = rows_of(proved.rule_set, proved.diagram)
        seen: dict[Verdict, dict[str, str]] = {}
        for combination, verdict in proved.diagram:
            seen.setdefault(verdict, proved.diagram.space.named(combination))
        assert len(seen) > 5
        for verdict, facts in seen.items():
            reply = analysis.decide(name, facts, "")
            row = rows[reply["row"]]
            assert (row.rule, row.status, row.undetermined) == (verdict.rule, verdict.status, verdict.undetermined)


def test_an_unknown_fact_decides_nothing_below_it(page: Page) -> None:
    """And the path says what to find out."""
    reply = page.ask(
        "decide", question="callability", facts={"server.enabled": "unknown", "tool.config_denied": "true"}
    )
    assert (reply["verdict"]["status"], reply["verdict"]["undetermined"]) == ("disabled_unknown", True)
    assert reply["verdict"]["unread"] == ["server.enabled"]
    assert reply["path"]["sentences"] == ["find out `server.enabled` first"]


def test_facts_that_cannot_occur_together_are_moved_and_not_the_one_that_was_set(page: Page) -> None:
    """An HTTP status is a failure of its class."""
    reply = page.ask("decide", question="load_outcome", facts={"load.http_status": "403"}, changed="load.http_status")
    assert reply["verdict"]["status"] == "denied"
    assert (reply["facts"]["load.failure"], reply["facts"]["load.http_class"]) == ("http_status", "4xx")
    assert "load.http_status" not in reply["moved"]


def test_a_name_and_a_label_are_set_as_any_other_fact(page: Page) -> None:
    """By what the rules distinguish; a value of another draft becomes its class, or the default."""
    labels = "labels:\n  server: {team: [payments, web]}\nrules:\n"
    named = "  - {id: drops, when: {tool.name: drop_*, server.label.team: payments}, status: disabled_by_user}\n"
    rules = RULES.replace("rules:\n", f"{labels}{named}")
    page.ask("check", texts={"callability.yaml": rules})
    table = page.ask("table", question="callability")
    facts = {fact["name"]: fact["readings"] for fact in table["question"]["facts"]}
    assert {reading["text"] for reading in facts["tool.name"]} == {"drop_*", "other than drop_*"}
    assert [reading["value"] for reading in facts["server.label.team"]] == ["none", "payments", "web", "unknown"]
    given = {"tool.name": "drop_table", "server.label.team": "payments", "server.label.gone": "x"}
    reply = page.ask("decide", question="callability", facts=given, changed="tool.name")
    assert reply["verdict"]["rule"] == table["rows"][reply["row"]]["rule"] == "drops"
    assert (reply["facts"]["tool.name"] in {each["value"] for each in facts["tool.name"]}, reply["moved"]) == (True, [])
    given["server.label.team"] = "none of these"
    assert page.ask("decide", question="callability", facts=given)["verdict"]["rule"] != "drops"
    assert {change["before"]["status"] for change in page.ask("difference")["changes"]} >= {"callable"}


@pytest.mark.parametrize("name", QUESTIONS)
def test_whatever_is_set_there_are_facts_that_can_occur(name: str) -> None:
    """Each value of each fact, from the defaults; possible combinations are not adjusted."""
    question = QUESTIONS[name]
    for fact in (question.facts[name] for axis in question.axes for name in axis.facts):
        for value in fact.readings:
            found = possible(question, question.open_facts | {fact.name: value}, fact.name)
            assert found[fact.name] == value
            assert possible(question, found, "") == found


def test_where_the_draft_cannot_be_decided_the_saved_file_answers(page: Page) -> None:
    """And says so."""
    page.ask("check", texts={"callability.yaml": "rules: nothing"})
    reply = page.ask("decide", question="callability", facts={"server.enabled": "false"})
    assert (reply["of"], reply["verdict"]["status"]) == ("saved", "server_disabled")
    assert page.ask("table", question="callability")["of"] == "saved"
    assert not page.ask("difference")["compared"]


def test_a_draft_is_compared_with_the_saved_policy(page: Page) -> None:
    """Its answers and its lines, even if its tests fail."""
    same = page.ask("difference")
    assert (same["compared"], same["answers"], same["changes"], same["lines"]) == (True, 0, [], {})
    page.ask("check", texts={"callability.yaml": RULES.replace(WAITING, NARROWER)})
    reply = page.ask("difference")
    changes = {(change["before"]["status"], change["after"]["status"]) for change in reply["changes"]}
    assert changes == {("pending_approval", "callable"), ("pending_approval", "disabled_unknown")}
    assert {change["example"]["approval.status"] for change in reply["changes"]} == {"changed"}
    assert [line[0] for line in reply["lines"]["callability.yaml"] if line[0] in "+-"] == ["-", "+"]


def test_other_words_are_a_change_of_their_own_kind(page: Page) -> None:
    """With the words before and after."""
    page.ask("check", texts={"callability.yaml": RULES.replace("The user disabled this tool.", "It is off.")})
    [change] = page.ask("difference")["changes"]
    assert change["words_only"]
    assert change["after"]["words"]["remediation"].startswith("It is off.")


def test_a_file_is_saved_as_it_was_typed(tmp_path: Path) -> None:
    """With its own line ends, and nothing else is written."""
    policy = _copy(tmp_path)
    (policy / "callability.yaml").write_bytes(RULES.replace("\n", "\r\n").encode())
    before = _state(policy)
    with studio(policy) as bound:
        page = Page(bound)
        file = page.policy()["files"][0]
        assert file["text"] == RULES
        text = f"{RULES}# seen\n"
        reply = page.ask("save", name="callability.yaml", text=text, digest=file["digest"], even_refused=True)
        assert reply["text"] == text
        assert reply["digest"] == page.digest("callability.yaml") != file["digest"]
    after = _state(policy)
    assert after.pop(str(policy / "callability.yaml")) == text.replace("\n", "\r\n").encode()
    assert after.items() <= before.items()


def test_a_file_that_changed_meanwhile_is_not_written(tmp_path: Path) -> None:
    """Nor a new file."""
    policy = _copy(tmp_path)
    (policy / "callability_test.yaml").unlink()
    with studio(policy) as bound:
        page = Page(bound)
        digest = page.digest("callability.yaml")
        (policy / "callability.yaml").write_text(f"{RULES}# by somebody else\n")
        (policy / "callability_test.yaml").write_text("tests: []\n")
        for name, read in (("callability.yaml", digest), ("callability_test.yaml", "")):
            response = page.post("save", name=name, text=RULES, digest=read, even_refused=True)
            assert (response.status_code, response.json()["code"]) == (409, "changed-meanwhile")
    assert (policy / "callability.yaml").read_text() == f"{RULES}# by somebody else\n"
    assert (policy / "callability_test.yaml").read_text() == "tests: []\n"


def test_what_somebody_writes_right_after_a_save_is_not_what_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that formats each saved file, say: the page has to notice that the file is another."""
    policy = _copy(tmp_path)
    before = policy_files.read_saved(policy)["callability.yaml"]

    def then_formatted(path: Path, data: bytes, *, only_if: str) -> None:
        overwrite(path, data, only_if=only_if)
        path.write_bytes(data + b"# formatted\n")

    monkeypatch.setattr(policy_files, "overwrite", then_formatted)
    saved = policy_files.save(policy, "callability.yaml", f"# mine\n{before.text}", before.digest)
    assert saved.text == f"# mine\n{before.text}"
    assert saved.digest != policy_files.read_saved(policy)["callability.yaml"].digest


def test_what_would_be_refused_is_saved_only_where_that_is_said(tmp_path: Path) -> None:
    """What counts is the policy on disk with that one file."""
    policy = write_policy(tmp_path, RULES)
    with studio(policy) as bound:
        page = Page(bound)
        body = {"name": "callability.yaml", "text": "rules: []", "digest": page.digest("callability.yaml")}
        response = page.post("save", **body)
        assert (response.status_code, response.json()["code"]) == (409, "refused")
        assert (policy / "callability.yaml").read_text() == RULES
        page.ask("save", **body, even_refused=True)
    assert (policy / "callability.yaml").read_text() == "rules: []"


def test_a_policy_that_no_bundle_can_hold_would_be_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing would serve it, as `check` says too."""
    monkeypatch.setattr(bundle_writing, "MAX_BYTES", 10_000)
    analysis, texts = DraftAnalysis(tmp_path), {path.name: path.read_text() for path in POLICY.glob("*.yaml")}
    assert analysis.check(texts, texts)["sound"]
    reply = analysis.confirm()
    assert not reply["sound"]
    assert "bundle-too-large" in str(reply["findings"])


def test_a_file_that_is_not_there_can_be_written(tmp_path: Path) -> None:
    """Tests, for example."""
    (tmp_path / "callability.yaml").write_text(RULES)
    cases = "tests: [{name: open, expect: {status: callable}}]\n"
    with studio(tmp_path) as bound:
        page = Page(bound)
        page.ask("save", name="callability_test.yaml", text=cases, digest="", even_refused=True)
        assert page.ask("check", texts={})["proved"]["callability"]["tests_passed"] == 1
    assert (tmp_path / "callability_test.yaml").read_text() == cases


def test_a_file_whose_bytes_could_not_be_given_back_is_left_alone(tmp_path: Path) -> None:
    """It is checked as it is, but cannot be edited."""
    problems = {
        "callability.yaml": (b"rules: \xff\n", "is not UTF-8"),
        "load_outcome.yaml": (b"rules:\r\n  - x\n", "has more than one kind of line end"),
        "enable_outcome.yaml": (b"#" * (MAX_BYTES + 1), "is larger than 524,288 bytes"),
    }
    for name, (content, _) in problems.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "callability_test.yaml").mkdir()
    with studio(tmp_path) as bound:
        page = Page(bound)
        reply = {file["name"]: file["problem"] for file in page.policy()["files"]}
        assert reply["callability_test.yaml"] == "cannot be read: is a directory"
        found = page.ask("check", texts=dict.fromkeys(problems, RULES))["findings"]
        for name, (_, problem) in problems.items():
            assert reply[name] == problem
            assert name in {finding["file"] for finding in found}
            body = {"name": name, "text": RULES, "digest": page.digest(name)}
            assert page.post("save", **body, even_refused=True).json()["code"] == "not-editable"
    for name, (content, _) in problems.items():
        assert (tmp_path / name).read_bytes() == content


def test_a_link_that_leads_out_of_the_directory_is_neither_shown_nor_saved(tmp_path: Path) -> None:
    """A policy from somebody else could otherwise show a file of the user's, and write it."""
    directory = _copy(tmp_path)
    secret, rules = tmp_path / "secret.yaml", directory / "load_outcome.yaml"
    secret.write_bytes(rules.read_bytes())
    rules.unlink()
    rules.symlink_to("../secret.yaml")
    inside = directory / "enable_outcome.yaml"
    inside.replace(directory / "shared.txt")
    inside.symlink_to("shared.txt")
    saved = policy_files.read_saved(directory)
    assert saved["load_outcome.yaml"].problem == "is a symbolic link that leads out of the directory of the policy"
    assert (saved["load_outcome.yaml"].text, saved["enable_outcome.yaml"].problem) == ("", "")
    with pytest.raises(policy_files.NotEditable):
        policy_files.save(directory, "load_outcome.yaml", "rules: []\n", saved["load_outcome.yaml"].digest)
    assert secret.read_bytes() == (POLICY / "load_outcome.yaml").read_bytes()


def test_a_directory_that_vanishes_is_reported_and_drafts_are_still_checked(tmp_path: Path) -> None:
    """Nothing is saved until it is back."""
    policy = tmp_path / "policy"
    policy.mkdir()
    (policy / "callability.yaml").write_text(RULES)
    with studio(policy) as bound:
        page = Page(bound)
        digest = page.digest("callability.yaml")
        policy.rename(tmp_path / "away")
        reply = page.ask("check", texts={"callability.yaml": RULES})
        assert [(finding["code"], finding["file"]) for finding in reply["findings"]] == [("no-directory", "")]
        assert list(reply["proved"]) == ["callability"]
        body = {"name": "callability.yaml", "text": "rules: []", "digest": digest, "even_refused": True}
        assert page.post("save", **body).json()["code"] == "not-written"
        policy.write_text("no directory")
        assert page.policy()["files"][0]["problem"] == "cannot be read: not a directory"
        policy.unlink()
        (tmp_path / "away").rename(policy)
        page.ask("save", **body)
    assert (policy / "callability.yaml").read_text() == "rules: []"


def test_a_part_of_what_is_too_long_to_read_is_shown(tmp_path: Path) -> None:
    """Of findings the errors first, with how many there are."""
    rule = "  - {id: r%s, when: {load.failur: %s}, status: transient}\n"
    rules = "".join(rule % (number, number) for number in range(MAX_FINDINGS + 100))
    with studio(tmp_path) as bound:
        reply = Page(bound).ask("check", texts={"load_outcome.yaml": f"rules:\n{rules}words: {{}}\n"})
    found = [finding for finding in reply["findings"] if finding["file"] == "load_outcome.yaml"]
    assert len(found) == MAX_FINDINGS < reply["counts"]["error"]
    assert {finding["severity"] for finding in found} == {"error"}


def test_a_part_of_a_long_difference_of_lines_is_shown() -> None:
    """With a sign that there is more."""
    analysis = DraftAnalysis(POLICY)
    analysis.check(
        {"callability.yaml": "rules: nothing"}, {"callability.yaml": "".join(f"# {n}\n" for n in range(MAX_LINES))}
    )
    lines = analysis.difference()["lines"]["callability.yaml"]
    assert lines[:2] == ["@@ -1 +1,2000 @@", "-rules: nothing"]
    assert (len(lines), lines[-1]) == (MAX_LINES - 1, "…")


def test_the_policy_of_the_program_is_looked_at_and_not_written() -> None:
    """It has to be exported first."""
    with studio_process() as (_, bound):
        page = Page(bound)
        assert not page.policy()["writable"]
        body = {"name": "callability.yaml", "text": RULES, "digest": page.digest("callability.yaml")}
        response = page.post("save", **body)
        assert (response.status_code, response.json()["code"]) == (409, "read-only")


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "policy.example"},
        {"host": "127.0.0.1"},
        {"origin": "http://policy.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"callability-token": ""},
        {"callability-token": "guessed"},
    ],
)
def test_what_comes_from_elsewhere_is_refused(page: Page, headers: dict[str, str]) -> None:
    """Another name of this server, another site, or a page of an earlier start; for every POST request."""
    body = {"name": "callability.yaml", "text": RULES, "digest": page.digest("callability.yaml")}
    for what in ("check", "save", "leave"):
        response = page.post(what, headers, **body)
        assert (response.status_code, response.json()["code"]) == (403, "elsewhere")
    if "host" in headers or "sec-fetch-site" in headers:
        assert page.get("/policy", headers).status_code == 403


def test_another_name_opens_not_even_the_page(page: Page) -> None:
    """So a name that leads to this host (DNS rebinding) gets no token."""
    response = page.get("/", {"host": "policy.example"})
    assert response.status_code == 403
    assert page.headers["callability-token"] not in response.text


def test_the_page_may_load_nothing_from_elsewhere_and_run_nothing_that_is_written_in_it(page: Page) -> None:
    """No inline script or style, and no address of another host in any file."""
    response = page.get("/")
    nonces = set()
    for each in (response, page.get("/")):
        allowed = each.headers["content-security-policy"]
        [nonce] = re.findall(r"'nonce-([^']{20,})'", allowed)
        assert f"default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; " in allowed
        assert f'nonce="{nonce}"' in each.text
        nonces.add(nonce)
    assert len(nonces) == 2
    assert response.headers["x-content-type-options"] == "nosniff"
    html = response.text
    assert not re.search(r"<style|\bstyle=|\bon\w+=|<script(?![^>]* src=)", html)
    editor = (PAGE_FILES / "codemirror.js").read_text()
    assert set(re.findall(r"\w+://[^\s\"'`]+", editor)) == {"http://www.w3.org/2000/svg"}
    for file in PAGE_FILES.iterdir():
        if file.name.startswith("codemirror."):
            continue
        text = file.read_text().replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert "//" not in re.sub(r"^ *///?.*$", "", text, flags=re.MULTILINE), file.name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", text), file.name


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ({"texts": {"callability.yaml": "x" * (MAX_BYTES + 1)}}, 400, "is larger than 524,288 bytes"),
        ({"texts": {"callability.yaml": "x" * 17 * 1024**2}}, 413, "the request is larger than 16,777,216 bytes"),
        ({"texts": {"../secrets.yaml": ""}}, 400, "no such name"),
        ({"texts": {}, "more": 1}, 400, "more: Extra inputs are not permitted"),
    ],
)
def test_an_impossible_request_is_rejected_with_its_limit(
    page: Page, body: dict[str, object], status: int, sentence: str
) -> None:
    """And the page continues."""
    response = page.post("check", **body)
    assert response.status_code == status
    assert sentence in response.json()["sentence"]


def test_a_newer_draft_takes_the_place_of_one_that_is_looked_at(url: str) -> None:
    """One of the two is abandoned, and the page continues with the other."""
    rule = "  - {id: r%s, when: {load.http_status: '403', load.in_session: true}, status: denied}\n"
    large = (
        "rules:\n" + "".join(rule % number for number in range(1_000)) + "  - {id: z, status: permanent}\nwords: {}\n"
    )
    page = Page(url)
    with ThreadPoolExecutor() as pool:
        drafts = [pool.submit(page.post, "check", texts={"load_outcome.yaml": large}) for _ in range(3)]
        answers = [draft.result() for draft in drafts]
    codes = sorted(answer.json().get("code", "checked") for answer in answers)
    assert codes == ["checked", "superseded", "superseded"]
    assert page.ask("decide", question="callability", facts={})["verdict"]["status"] == "callable"


def test_two_pages_look_at_drafts_of_their_own(page: Page, url: str) -> None:
    """An edit in one does not affect the other."""
    other = Page(url)
    other.ask("check", texts={"callability.yaml": "rules: nothing"})
    answers = [each.ask("decide", question="callability", facts={})["of"] for each in (page, other)]
    assert answers == ["draft", "saved"]
    other.post("leave")


def test_what_is_no_json_is_refused(page: Page) -> None:
    """A form of another site can send nothing else without a preflight request."""
    headers = page.headers | {"content-type": "text/plain"}
    response = httpx2.post(f"{page.url}/check", content="{}", headers=headers, timeout=SECONDS, verify=PLAIN)
    assert response.json() == {"code": "bad-request", "sentence": "a request is JSON"}
