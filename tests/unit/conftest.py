"""What holds of every test in `tests/unit`: it starts no process, and listens on no address.

The rules engine runs in a process of its own, so here it is as on a machine where it cannot be imported: the reference
evaluator decides.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NoReturn

import pytest

from callability.compiler import confirmation

_REFUSED = {
    *("subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.exec", "pty.spawn"),
    "socket.bind",
}
"""Audit events of starting a process and of listening on an address."""
_running: list[str] = []
"""The unit test that runs, if any: a hook for audit events cannot be removed."""


class NoUnitTest(Exception):
    """A test in `tests/unit` started a process or listened on an address: it belongs in `tests/process`."""


def _refuse(event: str, _: object) -> None:
    if _running and event in _REFUSED:
        raise NoUnitTest(f"{event} in {_running[-1]}, which belongs in tests/process")


sys.addaudithook(_refuse)


def _no_engine(*_: object, **__: object) -> NoReturn:
    raise ModuleNotFoundError("unit tests decide by the reference evaluator")


@pytest.fixture(autouse=True)
def _no_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Refuse processes and addresses while the test runs, and decide without the rules engine."""
    monkeypatch.setattr(confirmation, "run", _no_engine)
    _running.append(request.node.nodeid)
    yield
    _running.pop()
