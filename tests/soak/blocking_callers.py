"""Callers in threads: of `CheckTools` with large batches, and clients that follow the policy and decide themselves."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event, Lock

from callability.client import BlockingClient, PolicyUnavailable
from callability.v1 import callability_service_pb2 as pb
from soak import control
from soak.reference import Question
from soak.work import BATCH_CALLERS, BATCH_SECONDS, WATCHERS, Outcome, Recorder, Series, Work

_BATCH_PAUSE_SECONDS = 1.0
_WATCH_PAUSE_SECONDS = 0.2
_MAX_AGE_SECONDS = 60.0
_FOLLOW_SECONDS = 120.0
"""How long a watching client may take to decide by the policy that is served at the end."""


class _Ending:
    """Whether callers are to end, and which policy decides then; and how many have had an answer."""

    def __init__(self) -> None:
        self.event = Event()
        self.revision = ""
        self._lock = Lock()
        self._answered = 0

    def end(self, revision: str) -> None:
        """Let callers end."""
        self.revision = revision
        self.event.set()

    def answered(self) -> None:
        """Note that a caller has had its first answer."""
        with self._lock:
            self._answered += 1
            if self._answered == BATCH_CALLERS + WATCHERS:
                control.ready()


def _call(question: Question, ask: Callable[[], pb.CheckToolResponse | pb.CheckToolsResponse], to: Recorder) -> str:
    """Make a call and note its outcome; return the revision that decided, if there is an answer."""
    began = time.monotonic()
    try:
        response = ask()
    except PolicyUnavailable as error:
        to.add(began, Outcome.LOST, str(error))
        return ""
    ended = time.monotonic()
    fault = question.fault(response)
    to.add(began, Outcome.WRONG if fault else Outcome.CORRECT, fault, ended)
    return response.revision


def _batches(work: Work, client: BlockingClient, recorder: Recorder, ending: _Ending) -> None:
    question = work.questions.batch
    assert isinstance(question.request, pb.CheckToolsRequest)
    for number in count():
        _call(question, partial(client.check_tools, question.request), recorder)
        if number == 0:
            ending.answered()
        if ending.event.wait(_BATCH_PAUSE_SECONDS):
            return


def _watching(work: Work, recorder: Recorder, ending: _Ending, first: int) -> None:
    """Decide by the policy that is streamed; at the end, until it is the one that is served."""
    questions, until = work.questions.single, 0.0
    with BlockingClient.local(work.addresses, credentials=work.credentials, max_age_seconds=_MAX_AGE_SECONDS) as client:
        for number in count(first):
            question = questions[number % len(questions)]
            assert isinstance(question.request, pb.CheckToolRequest)
            revision = _call(question, partial(client.check_tool, question.request), recorder)
            if number == first:
                ending.answered()
            if ending.event.wait(_WATCH_PAUSE_SECONDS):
                until = until or time.monotonic() + _FOLLOW_SECONDS
                if revision == ending.revision:
                    return
                if time.monotonic() > until:
                    what = f"decides by {revision} at the end, and not by {ending.revision}"
                    recorder.add(time.monotonic(), Outcome.WRONG, what)
                    return
                time.sleep(_WATCH_PAUSE_SECONDS)


def _main(work: Work) -> None:
    ending = _Ending()
    control.listen(partial(control.drop_connections, work.addresses), ending.end)
    recorders = {series: Recorder(work.results, series) for series in (Series.BATCH, Series.WATCHED)}
    with (
        BlockingClient.remote(work.addresses, credentials=work.credentials, attempt_seconds=BATCH_SECONDS) as client,
        ThreadPoolExecutor(BATCH_CALLERS + WATCHERS) as pool,
    ):
        calling = [pool.submit(_batches, work, client, recorders[Series.BATCH], ending) for _ in range(BATCH_CALLERS)]
        calling += [pool.submit(_watching, work, recorders[Series.WATCHED], ending, first) for first in range(WATCHERS)]
        try:
            for each in as_completed(calling):
                each.result()
        finally:
            ending.event.set()
    control.finished({series: recorder.close() for series, recorder in recorders.items()})


if __name__ == "__main__":
    _main(Work.read(Path(sys.argv[1])))
