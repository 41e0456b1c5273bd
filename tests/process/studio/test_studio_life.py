"""The lifetime of `callability studio`: its processes, from the first page to the end."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from callability.compiler.table import Plain
from callability.studio.application import names_of
from callability.studio.policy_files import NotChecked, TooSlow
from callability.studio.session import MAX_SESSIONS, DraftSession
from support.checkout import POLICY
from support.commands import callability
from support.studios import Page, studio_process

RULES = (POLICY / "callability.yaml").read_text()


def _children(process: int) -> list[int]:
    return list(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))


def test_a_study_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    """Its process is ended, and the next request fails because nothing was checked."""

    async def story() -> None:
        session = DraftSession(tmp_path, seconds=0.01)
        with pytest.raises(TooSlow):
            await session.check({"do": "check", "saved": {}, "texts": {}})
        with pytest.raises(NotChecked):
            await session.ask({"do": "difference"})
        await session.close()

    asyncio.run(story())


def test_a_study_that_is_ended_answers_nobody_and_starts_nothing(tmp_path: Path) -> None:
    """Neither is a request that waits for its turn; the page sends it again."""

    async def story() -> list[BaseException | Plain]:
        session = DraftSession(tmp_path)
        task: Plain = {"do": "check", "saved": {}, "texts": {}}
        await session.check(task)
        waiting = [asyncio.create_task(session.ask(each)) for each in ({"do": "difference"}, task, task)]
        await asyncio.sleep(0)
        await session.close()
        return await asyncio.gather(*waiting, return_exceptions=True)

    before = set(_children(os.getpid()))
    assert {type(answer) for answer in asyncio.run(story())} == {NotChecked}
    assert set(_children(os.getpid())) == before


def test_an_analysis_that_ends_by_itself_is_started_again(tmp_path: Path) -> None:
    """The edits are still in the page, which sends them again."""
    with studio_process("--policy", str(tmp_path)) as (process, bound):
        page = Page(bound)
        page.ask("check", texts={})
        for child in _children(process.pid):
            os.kill(child, signal.SIGKILL)
        codes = {page.post("difference").json()["code"] for _ in range(2)}
        assert codes <= {"failed", "not-checked"}
        assert not page.ask("check", texts={})["sound"]


def test_at_its_end_nothing_is_left(tmp_path: Path) -> None:
    """Exit code 0 for either signal, and no child process remains."""
    for number in (signal.SIGTERM, signal.SIGINT):
        with studio_process("--policy", str(tmp_path)) as (process, bound):
            page = Page(bound)
            page.ask("check", texts={})
            [child] = _children(process.pid)
            process.send_signal(number)
            assert process.wait(timeout=120) == 0
            stat = Path(f"/proc/{child}/stat")
            assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"


def test_only_loopback_is_listened_on() -> None:
    """A usage error."""
    done = callability("studio", "--address", "0.0.0.0:0")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not loopback" in done.stderr


def test_a_missing_directory_is_reported(tmp_path: Path) -> None:
    """Exit code 1, as everywhere."""
    done = callability("studio", "--policy", str(tmp_path / "none"))
    assert done.returncode == 1
    assert "there is no such directory" in done.stderr


def test_a_page_that_was_idle_for_long_is_analysed_again(tmp_path: Path) -> None:
    """There is room for four; a fifth ends the process of the oldest, and nothing else."""
    with studio_process("--policy", str(tmp_path)) as (process, bound):
        pages = [Page(bound) for _ in range(MAX_SESSIONS + 1)]
        for each in pages:
            each.ask("check", texts={})
        codes = [each.post("difference").json().get("code") for each in pages]
        assert codes == ["not-checked", *[None] * MAX_SESSIONS]
        assert len(_children(process.pid)) == MAX_SESSIONS


def test_a_page_that_is_closed_leaves_its_process_to_the_next_one(tmp_path: Path) -> None:
    """And nothing of its draft."""
    with studio_process("--policy", str(tmp_path)) as (process, bound):
        one, next_one = Page(bound), Page(bound)
        one.ask("check", texts={"callability.yaml": RULES})
        children = _children(process.pid)
        assert one.post("leave").status_code == 204
        for each in (one, next_one):
            assert each.post("decide", question="callability", facts={}).json()["code"] == "not-checked"
        next_one.ask("check", texts={})
        assert _children(process.pid) == children
        assert next_one.ask("table", question="callability")["of"] == "saved"
        assert one.ask("check", texts={"callability.yaml": RULES})["proved"]
        assert next_one.ask("table", question="callability")["of"] == "saved"


def test_a_browser_leaves_out_the_port_that_it_takes_by_default() -> None:
    """So port 80 may be named or omitted."""
    assert names_of("127.0.0.1:80") == ("127.0.0.1:80", "localhost:80", "127.0.0.1", "localhost")
    assert names_of("[::1]:8080") == ("[::1]:8080", "localhost:8080")
