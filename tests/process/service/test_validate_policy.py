"""`ValidatePolicy`: the findings of `callability check` over gRPC, for a policy that is neither kept nor served."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import grpc
import pytest

from callability.cli import served_policy
from callability.compiler import bundle_writing
from callability.compiler.validation_worker import validate
from callability.files.policy_origin import PolicyDirectory, PolicyOrigin
from callability.kernel import limits
from callability.process.background import output_of
from callability.process.child import NoOutput
from callability.v1 import policy_service_pb2 as pb
from callability.v1.policy_service_pb2_grpc import PolicyServiceStub
from support.checkout import POLICY, TESTS
from support.commands import callability
from support.policies import write_policy
from support.running import serving
from support.services import refused
from support.waiting import eventually

SHIPPED = {path.name: path.read_bytes() for path in sorted(POLICY.glob("*.yaml"))}
FAULTY = """\
rules:
- {id: one, when: {server.enable: false}, status: server_disabled}
- {id: two, when: {approval.status: unknwon}, status: pending}
words: 3
"""


def request_of(files: Mapping[str, bytes]) -> pb.ValidatePolicyRequest:
    """Return the request that holds files."""
    return pb.ValidatePolicyRequest(files=[pb.PolicyFile(name=name, data=data) for name, data in files.items()])


def files_in(directory: Path) -> dict[str, bytes]:
    """Return the files of a directory."""
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_a_valid_policy_is_reported_with_what_was_proved(channel: grpc.Channel) -> None:
    """Its revision, its rule sets with their combinations, and the tests that it passed."""
    reply = PolicyServiceStub(channel).ValidatePolicy(request_of(SHIPPED))
    checked = json.loads(callability("check", str(POLICY), "--json").stdout)
    assert (reply.sound, list(reply.findings), reply.errors, reply.warnings) == (True, [], 0, 0)
    assert reply.revision == checked["revision"]
    assert {(each.name, each.combinations, each.tests_passed) for each in reply.rule_sets} == {
        (each["name"], each["combinations"], each["tests_passed"]) for each in checked["rule_sets"]
    }
    assert {reply.engine} == {each["engine"] for each in checked["rule_sets"]}


def test_a_policy_whose_bundle_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """About the policy as a whole; what is accepted can be served. Here is room for less than the shipped policy."""
    assert validate(request_of(SHIPPED)).sound
    monkeypatch.setattr(bundle_writing, "MAX_BYTES", 10_000)
    reply = validate(request_of(SHIPPED))
    assert (reply.sound, reply.revision, reply.errors) == (False, "", 1)
    assert [(each.code, each.file) for each in reply.findings] == [("bundle-too-large", "")]


@pytest.mark.parametrize(
    "change",
    [
        {"callability.yaml": FAULTY},
        {
            "callability.yaml": (POLICY / "callability.yaml")
            .read_text()
            .replace("Tell the user. Next step: {check_logs}", "Toggle it in the UI. {check_logs}")
        },
        {"callability_test.yaml": "tests:\n- {name: nobody knows, expect: {status: disabled_unknown}}\n"},
        {"callability.yaml": "{", "load_outcome.yaml": "rules: 3\n"},
        {"callabilty.yaml": "{}", "callability.yml": "{}"},
        {"callability.yaml": None, "enable_outcome.yaml": None},
    ],
    ids=["errors of form", "warnings", "a test that fails", "two files", "names that are none", "files that lack"],
)
def test_the_findings_are_those_of_check(
    change: Mapping[str, str | None], channel: grpc.Channel, tmp_path: Path
) -> None:
    """Each with its file, line, column, severity, code, sentence and hint, in the same order; notes are check's own."""
    for name, text in {**{name: data.decode() for name, data in SHIPPED.items()}, **change}.items():
        if text is not None:
            (tmp_path / name).write_text(text)
    reply = PolicyServiceStub(channel).ValidatePolicy(request_of(files_in(tmp_path)))
    checked = json.loads(callability("check", str(tmp_path), "--json").stdout)
    reported = [
        {
            "severity": pb.FindingSeverity.Name(each.severity).removeprefix("FINDING_SEVERITY_").lower(),
            "code": each.code,
            "file": str(tmp_path / each.file),
            "line": each.line,
            "column": each.column,
            "sentence": each.sentence,
            "hint": each.hint,
        }
        for each in reply.findings
    ]
    judged = [each for each in checked["findings"] if each["severity"] != "note"]
    expected = [{key: each[key] for key in reported[0]} for each in judged]
    assert reported == expected
    assert reported
    assert (reply.sound, reply.revision) == (checked["sound"], checked["revision"] or "")
    assert reply.errors + reply.warnings == len(reported)


@pytest.mark.parametrize(
    ("files", "reason", "number"),
    [
        ({f"{number}.yaml": b"" for number in range(17)}, "TOO_MANY_FILES", "may have 16"),
        ({"callability.yaml": bytes(limits.POLICY_BYTES + 1)}, "POLICY_TOO_LARGE", "may have 2,097,152"),
        ({"": b""}, "NAME_EMPTY", "1 to 512"),
        ({"n" * 513: b""}, "NAME_TOO_LONG", "may have 512"),
        ({"../callability.yaml": b""}, "FILE_NAME_IS_PATH", "no directory"),
        ({"..": b""}, "FILE_NAME_IS_PATH", "no directory"),
    ],
)
def test_what_exceeds_a_limit_is_refused_with_its_number(
    files: Mapping[str, bytes], reason: str, number: str, channel: grpc.Channel
) -> None:
    """Before anything in it is read."""
    code, found, message = refused(PolicyServiceStub(channel).ValidatePolicy, request_of(files))
    assert (code, found) == (grpc.StatusCode.INVALID_ARGUMENT, reason)
    assert number in message


def test_a_name_that_stands_twice_is_refused(channel: grpc.Channel) -> None:
    """Neither of the two files takes precedence."""
    request = pb.ValidatePolicyRequest(files=[pb.PolicyFile(name="callability.yaml")] * 2)
    _, reason, _ = refused(PolicyServiceStub(channel).ValidatePolicy, request)
    assert reason == "DUPLICATE_FILE"


def test_the_limits_are_returned_and_documented_in_the_contract(channel: grpc.Channel) -> None:
    """A caller reads them there."""
    reported = PolicyServiceStub(channel).GetPolicy(pb.GetPolicyRequest()).limits
    assert (reported.policy_files, reported.policy_bytes, reported.policy_findings) == (16, 2_097_152, 1_000)
    assert (reported.validations, reported.validation_seconds) == (2, 60)
    lines = (POLICY.parent / "proto/callability/v1/policy_service.proto").read_text().splitlines()
    proto = " ".join(line.strip().removeprefix("// ") for line in lines)
    for words in ("more than 16 files", "2,097,152 bytes", "the first 1,000", "2 policies are already being checked"):
        assert words in proto


def test_a_thousand_findings_are_sent_at_the_most_and_all_are_counted(channel: grpc.Channel) -> None:
    """So any client accepts the answer."""
    rules = "".join(f"- {{id: r{number}, when: {{no.fact: true}}, status: callable}}\n" for number in range(990))
    text = f"rules:\n{rules}- {{id: bad id, when: {{}}, status: no}}\nwords: 3\n" + "x: 1\ny: 1\n"
    more = "tests:\n" + "- {name: x}\n" * 200
    reply = PolicyServiceStub(channel).ValidatePolicy(
        request_of(SHIPPED | {"callability.yaml": text.encode(), "callability_test.yaml": more.encode()})
    )
    assert len(reply.findings) == 1_000 < reply.errors


def test_nothing_is_written_and_what_is_served_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the service's directory nor among temporary files; other calls are answered meanwhile."""
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("TMPDIR", str(temporary))
    policy = write_policy(tmp_path, (POLICY / "callability.yaml").read_text())
    with serving("--policy", str(policy)) as address, grpc.insecure_channel(address) as channel:
        stub = PolicyServiceStub(channel)
        before = stub.GetPolicy(pb.GetPolicyRequest())
        validating = stub.ValidatePolicy.future(request_of(SHIPPED))
        assert stub.GetPolicy(pb.GetPolicyRequest()) == before
        assert validating.result().revision != before.revision
        assert not stub.ValidatePolicy(request_of({"callability.yaml": FAULTY.encode()})).sound
        assert stub.GetPolicy(pb.GetPolicyRequest()) == before
    assert [*here.iterdir(), *temporary.iterdir()] == []


def test_two_are_checked_at_a_time_and_one_more_is_refused(address: str) -> None:
    """The error gives the number; a cancelled call makes room."""
    with grpc.insecure_channel(address) as channel:
        validate = PolicyServiceStub(channel).ValidatePolicy
        futures = [validate.future(request_of(SHIPPED)) for _ in range(12)]
        errors = [error for each in futures if (error := each.exception())]
        assert 1 <= len(errors) <= 10
        for error in errors:
            assert isinstance(error, grpc.RpcError)
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "2 policies are being checked" in str(error.details())
        for each in [validate.future(request_of(SHIPPED)) for _ in range(2)]:
            each.cancel()

        def room() -> bool:
            return not validate.future(request_of(SHIPPED)).exception()

        eventually(room)


def _runs(process: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_whoever_stops_waiting_ends_the_process_and_those_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller that goes away, a deadline, and the end of the service all cancel it."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    reported = tmp_path / "processes"

    async def story() -> None:
        waiting = asyncio.create_task(output_of("support.endless", f"{reported}\n".encode(), 600))
        await asyncio.to_thread(eventually, reported.exists)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(story())
    eventually(lambda: not any(_runs(int(each)) for each in reported.read_text().split()))


def test_a_policy_that_is_loaded_meanwhile_is_given_up_if_nothing_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something else is refused, and the process that checks the policy ends with the command."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    reported = tmp_path / "processes"

    async def load(_: PolicyOrigin) -> None:
        await output_of("support.endless", f"{reported}\n".encode(), 600)

    monkeypatch.setattr(served_policy, "load_policy_of", load)
    with served_policy.loading(PolicyDirectory(tmp_path)):
        eventually(reported.exists)
    eventually(lambda: not any(_runs(int(each)) for each in reported.read_text().split()))


def test_a_process_without_an_answer_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes too long, fails, or is ended."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    with pytest.raises(NoOutput, match=r"it took longer than 0\.1 seconds"):
        asyncio.run(output_of("support.endless", f"{tmp_path / 'processes'}\n".encode(), 0.1))
    with pytest.raises(NoOutput, match=r"its process failed: .*UnpicklingError"):
        asyncio.run(output_of("callability.compiler.check_worker", b"no policy", 60))
