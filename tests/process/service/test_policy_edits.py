"""Edits of a policy that is served: applied as a whole after they are proved and pass their tests, or rejected."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from callability.v1 import callability_service_pb2 as pb
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from support.checkout import POLICY, SUPPORT
from support.commands import callability
from support.drawing import share
from support.edits import replace
from support.gateway_in_process import client_of
from support.gateways import READ, call, shelf, text_of, write_config
from support.running import COMMAND
from support.services import OFF, OPEN_SERVER, SWITCHED_OFF, served
from support.waiting import SECONDS, becomes, eventually, file_status

RULE, RENAMED = "id: user-off,", "id: switched-off,"
MANY = pb.CheckToolsRequest(
    servers=[
        pb.ServerTools(
            name=f"s{server}", facts=OPEN_SERVER, tools=[pb.Tool(name=f"t{tool}", facts=OFF) for tool in range(20)]
        )
        for server in range(5)
    ]
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A policy to edit: the shipped one, with tests that do not name the rule that is renamed."""
    made = Path(shutil.copytree(POLICY, tmp_path / "policy"))
    tests = made / "callability_test.yaml"
    tests.write_text(tests.read_text().replace(", rule: user-off", ""))
    return made


def renamed(text: str) -> str:
    """Return the rules with another id for the deciding one."""
    assert RULE in text
    return text.replace(RULE, RENAMED)


def _in_place(directory: Path) -> None:
    path = directory / "callability.yaml"
    path.write_text(renamed(path.read_text()))


def _as_an_editor_does(directory: Path) -> None:
    path = directory / "callability.yaml"
    replace(path, renamed(path.read_text()))


def _whole_directory(directory: Path) -> None:
    other = Path(shutil.copytree(directory, directory.with_name("other")))
    _in_place(other)
    directory.rename(directory.with_name("old"))
    other.rename(directory)


def test_an_edit_decides_as_soon_as_it_is_proved(directory: Path) -> None:
    """However the edit is made, and the next one too; every answer has its revision."""
    with served(directory) as service:
        before = service.policy().revision
        for edit in (_in_place, _as_an_editor_does, _whole_directory):
            assert service.rule() == "user-off"
            edit(directory)
            eventually(lambda: service.rule() == "switched-off")
            answer = service.policy()
            checked = callability("check", str(directory)).stdout
            assert checked.rstrip().endswith(f"revision {answer.revision}")
            assert CallabilityServiceStub(service.channel).CheckTool(SWITCHED_OFF).revision == answer.revision != before
            assert not answer.HasField("rejected_edit")
            shutil.copy(POLICY / "callability.yaml", service.rules)
            eventually(lambda: service.rule() == "user-off")
            assert service.policy().revision == before


def test_a_policy_behind_links_is_followed(directory: Path) -> None:
    """As a cluster mounts files: each a link through a link, which is switched to another directory."""
    versions = {name: Path(shutil.copytree(directory, directory.with_name(name))) for name in ("one", "two")}
    _in_place(versions["two"])
    mounted = directory.with_name("mounted")
    mounted.mkdir()
    (mounted / "..data").symlink_to(versions["one"])
    for path in sorted(directory.iterdir()):
        (mounted / path.name).symlink_to(Path("..data") / path.name)
    with served(mounted) as service:
        assert service.rule() == "user-off"
        (mounted / "..new").symlink_to(versions["two"])
        os.replace(mounted / "..new", mounted / "..data")
        eventually(lambda: service.rule() == "switched-off")


def test_a_bad_edit_keeps_the_last_good_policy_and_is_reported_until_it_is_fixed(directory: Path) -> None:
    """In the log, by a metric and by `GetPolicy`; health stays SERVING."""
    with served(directory) as service:
        sound, text = service.policy(), service.rules.read_text()
        copied = shutil.copytree(directory, directory.with_name("aside"))
        replace(service.rules, text.replace("server.enabled: false", "server.enable: false", 1))
        eventually(lambda: service.policy().HasField("rejected_edit"))
        answer = service.policy()
        [finding] = [each for each in answer.rejected_edit.findings if each.endswith("[unknown-fact]")]
        assert finding.startswith(f"{service.rules}:")
        assert "(did you mean `server.enabled`?)" in finding
        assert finding in service.log
        assert "the edit of the policy is refused" in service.log
        assert (answer.revision, service.rule(), service.healthy()) == (sound.revision, "user-off", True)
        assert answer.rejected_edit.revision not in {"", answer.revision}
        assert "callability_policy_broken 1.0" in service.metrics
        assert 'callability_policy_edits_total{applied="false"} 1.0' in service.metrics
        shutil.rmtree(directory)
        eventually(lambda: any("[no-directory]" in each for each in service.policy().rejected_edit.findings))
        assert (service.rule(), service.healthy()) == ("user-off", True)
        shutil.copytree(copied, directory)
        replace(service.rules, renamed(text))
        eventually(lambda: service.rule() == "switched-off")
        eventually(lambda: not service.policy().HasField("rejected_edit"))
        assert "callability_policy_broken 0.0" in service.metrics
        assert f'revision="{service.policy().revision}"' in service.metrics
        assert sound.revision not in service.metrics


def test_an_edit_whose_own_tests_fail_is_not_applied(directory: Path) -> None:
    """An edited test that the served policy fails is reported too, with the revision that is served."""
    with served(directory) as service:
        tests = directory / "callability_test.yaml"
        revision, text = service.policy().revision, tests.read_text()
        replace(service.rules, renamed(service.rules.read_text()))
        replace(tests, f"{text}  - {{name: nobody knows, expect: {{status: disabled_unknown}}}}\n")
        eventually(lambda: service.policy().HasField("rejected_edit"))
        shutil.copy(POLICY / "callability.yaml", service.rules)
        eventually(lambda: service.policy().rejected_edit.revision == revision)
        answer = service.policy()
        assert "[test-failed]" in " ".join(answer.rejected_edit.findings)
        assert answer.revision == revision
        assert "is applied" not in service.log
        replace(tests, text)
        eventually(lambda: not service.policy().HasField("rejected_edit"))


def test_an_edit_that_loses_tests_is_applied_and_the_log_names_them(directory: Path) -> None:
    """Whether some are left out, or their file is removed."""
    with served(directory) as service:
        tests = directory / "callability_test.yaml"
        text = tests.read_text()
        name = "a tool without a lock can be called"
        start = text.index(f"  - name: {name}\n")
        replace(tests, text[:start] + text[text.index("  - name:", start + 1) :])
        eventually(lambda: "loses a test, and 75 are left" in service.log)
        assert f"`callability: {name}`" in service.log
        tests.unlink()
        eventually(lambda: "loses 19 tests, and 56 are left" in service.log)
        assert "`callability: a new tool waits for review`" in service.log
        assert not service.policy().HasField("rejected_edit")


async def _ask_until(
    stub: Any, seen: dict[tuple[str, str], int], stopping: asyncio.Event, pause_seconds: float = 0
) -> None:
    """Send requests until the end, and count the answers by revision and rule; a failed call ends the test."""
    while not stopping.is_set():
        await asyncio.sleep(pause_seconds)
        one = await stub.CheckTool(SWITCHED_OFF)
        many = await stub.CheckTools(MANY)
        rules = {result.verdict.rule for server in many.servers for result in server.results}
        assert len(rules) == 1
        for key in ((one.revision, one.verdict.rule), (many.revision, *rules)):
            seen[key] = seen.get(key, 0) + 1


@pytest.mark.repeated
def test_two_hundred_swaps_under_load_fail_no_call_mix_no_answer_and_leave_nothing_behind(
    directory: Path, note: Callable[[str], None]
) -> None:
    """Sixteen callers send requests throughout; every answer belongs to one of the two policies; memory after a
    warm-up.
    """
    other = Path(shutil.copytree(directory, directory.with_name("other")))
    _in_place(other)
    revisions = [callability("check", str(each)).stdout.split()[-1] for each in (directory, other)]
    seen: dict[tuple[str, str], int] = {}

    async def story(process: asyncio.subprocess.Process) -> list[int]:
        assert process.stdout is not None
        assert process.stdin is not None
        address = (await process.stdout.readline()).decode().strip()
        stopping = asyncio.Event()
        memory = []
        async with grpc.aio.insecure_channel(address) as channel, asyncio.TaskGroup() as group:
            for _ in range(16):
                group.create_task(_ask_until(CallabilityServiceStub(channel), seen, stopping))
            # The threads that load policies have memory of their own, which stops growing after some hundred swaps.
            for swaps in (400, share(200)):
                process.stdin.write(f"{swaps}\n".encode())
                memory.append(int(await process.stdout.readline()))
            stopping.set()
        return memory

    async def run() -> list[int]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(SUPPORT / "swapping.py"),
            str(directory),
            str(other),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            # Hundreds of swaps, on a machine that may be busy.
            async with asyncio.timeout(SECONDS * 10):
                return await story(process)
        finally:
            process.terminate()
            await process.communicate()

    warm, after = asyncio.run(run())
    assert set(seen) == {(revisions[0], "user-off"), (revisions[1], "switched-off")}
    note(f"{sum(seen.values()):,} answers; memory grew by {after - warm} KiB over the last {share(200)} swaps")
    assert after - warm < 2_048


def test_edits_of_files_under_load_fail_no_call(directory: Path) -> None:
    """Good and bad ones in turn, with the real program; every answer belongs to one of the good ones."""
    seen: dict[tuple[str, str], int] = {}
    with served(directory) as service:
        texts = [service.rules.read_text(), renamed(service.rules.read_text())]
        revisions = [service.policy().revision]

        def stands(*, broken: bool) -> bool:
            return service.policy().HasField("rejected_edit") == broken

        async def story() -> None:
            stopping = asyncio.Event()
            async with grpc.aio.insecure_channel(service.address) as channel, asyncio.TaskGroup() as group:
                # Few and with pauses: they take processor time from the check.
                for _ in range(4):
                    group.create_task(_ask_until(CallabilityServiceStub(channel), seen, stopping, 0.02))
                for text in reversed(texts):
                    for edit in ("rules: 3", text):
                        replace(service.rules, edit)
                        await asyncio.to_thread(eventually, partial(stands, broken=edit != text))
                    revisions.append(service.policy().revision)
                stopping.set()

        asyncio.run(story())
    assert revisions[2] == revisions[0]
    assert set(seen) == {(revisions[0], "user-off"), (revisions[1], "switched-off")}


def test_a_gateway_applies_an_edit_of_its_policy_and_reports_one_with_errors(directory: Path, tmp_path: Path) -> None:
    """In its list of servers, its log and its metrics; until it is fixed, the previous policy stays in effect."""
    approvals = tmp_path / "approvals.yaml"
    approvals.write_text("files:\n  read_file: {disabled: true}\n")
    config = write_config(tmp_path, {"files": shelf(tmp_path, "files", READ)}, approvals="approvals.yaml")
    rules, log = directory / "callability.yaml", tmp_path / "gateway.log"
    text = rules.read_text()

    def metrics() -> str:
        [url] = {word for word in log.read_text().split() if word.endswith("/metrics")}
        with urllib.request.urlopen(url, timeout=120) as answer:
            return str(answer.read().decode())

    async def story() -> None:
        async with client_of(config, "--policy", str(directory), "--metrics-address", "127.0.0.1:0") as client:

            async def noisy() -> bool:
                return "It was noisy." in text_of(await call(client, "files:read_file"))

            assert not await noisy()
            replace(
                rules, text.replace("status: disabled_by_user", 'status: disabled_by_user, because: "It was noisy."')
            )
            await becomes(noisy, True)
            replace(rules, text + "more: 1\n")
            await becomes(file_status(client), {"policy"})
            assert await noisy()
            assert "[unknown-key]" in log.read_text()
            assert "callability_policy_broken 1.0" in await asyncio.to_thread(metrics)
            replace(rules, text)
            await becomes(noisy, False)
            await becomes(file_status(client), set())
            assert 'callability_policy_edits_total{applied="true"} 2.0' in await asyncio.to_thread(metrics)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("command", "good", "bad"),
    [("check", ": accepted,", ": refused, 1 error"), ("test", ", 0 failed\n", "[unknown-key]")],
)
def test_a_command_that_watches_runs_again_after_each_edit_until_a_signal_comes(
    command: str, good: str, bad: str, directory: Path
) -> None:
    """The result of the last run is its exit code."""
    rules = directory / "callability.yaml"
    text = rules.read_text()
    with subprocess.Popen([*COMMAND, command, "--watch", str(directory)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert any(good in line for line in lines)
        for edit, said in ((text + "more: 1\n", bad), (text + "# more\n", good)):
            replace(rules, edit)
            assert any(said in line for line in lines)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert process.returncode == 0
