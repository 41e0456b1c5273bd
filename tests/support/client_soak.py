"""Callers of the Python client, while the two replicas of a service are killed and stopped; and how fast edits arrive.

`PYTHONPATH=tests python -m support.client_soak` kills 20 times and stops five times, under 16 callers of each mode.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Annotated, Any

import typer

from callability.client import BlockingClient, PolicyUnavailable
from callability.client.replicas import ReplicaState
from support.bundles import write_policy_of
from support.clients import KINDS, Caller, Replica, calling, replicas
from support.edits import replace
from support.services import served
from support.waiting import eventually

ATTEMPT_SECONDS = 4.0
"""The deadline of an attempt of a remote caller: less than a replica is stopped for."""
_RULE = "user-off"
"""The rule that decides what callers ask about."""
_PAUSE_SECONDS = 0.05
"""Between two calls of a caller."""
_APPLIED = "callability_policy_applied_timestamp_seconds "


@dataclass(slots=True)
class Calls:
    """The outcomes of the calls of one caller."""

    answered: int = 0
    wrong: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    oldest: float = 0.0
    """The greatest age of the policy at an answer, in seconds; 0 of a remote caller."""
    slowest: float = 0.0
    """The longest that a call took, in seconds."""


class Confirmed:
    """Hooks that note when the policy of a client was confirmed, and when each revision was accepted."""

    def __init__(self) -> None:
        self.at = -math.inf
        """The last time, by the monotonic clock."""
        self.accepted: dict[str, float] = {}
        """When each revision was accepted first, by the wall clock."""

    def log(self, level: int, event: str, fields: Mapping[str, Any]) -> None:
        """Note an accepted policy."""
        if event == "policy_accepted":
            self.accepted.setdefault(fields["revision"], time.time())
            self.at = time.monotonic()

    def metric(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Note a confirmation."""
        if name == "callability_client_policy_age_seconds":
            self.at = time.monotonic()

    def span(self, name: str, attributes: Mapping[str, Any]) -> Any:
        """Return a span without an effect."""
        return nullcontext(())


@dataclass(frozen=True, slots=True)
class Soaked:
    """The calls of all callers, by mode, and the greatest age that local ones were allowed, in seconds."""

    local: Sequence[Calls]
    remote: Sequence[Calls]
    max_age: float

    @property
    def problems(self) -> list[str]:
        """What is wrong: answers that are wrong or lost, and decisions by a policy that is too old."""
        ages = [each.oldest for each in self.local if each.oldest > self.max_age]
        too_old = [f"a policy decided that was {age:.1f} s old" for age in ages]
        return [*chain.from_iterable((*each.wrong, *each.lost) for each in (*self.local, *self.remote)), *too_old]


def soak(kills: int, stops: int, stopped_seconds: float, callers: int, max_age: float) -> Soaked:
    """Run callers of both modes while replicas are killed and stopped in turn, and return the outcomes of the calls."""
    local, remote = [Calls() for _ in range(callers)], [Calls() for _ in range(callers)]
    ending = Event()
    with ExitStack() as stack:
        running = stack.enter_context(replicas(2))
        addresses = [replica.address for replica in running]
        remote_callers: list[Caller] = []
        threads: list[Thread] = []
        for number in range(callers):
            kind, hooks = KINDS[number % len(KINDS)], Confirmed()
            follow = partial(_local, addresses, hooks, max_age)
            ask = partial(_remote, addresses)
            remote_callers.append(stack.enter_context(calling(kind, ask)))
            threads.append(Thread(target=_call, args=(remote_callers[-1], None, remote[number], ending)))
            follower = stack.enter_context(calling(kind, follow))
            threads.append(Thread(target=_call, args=(follower, hooks, local[number], ending)))
            eventually(partial(_answers, remote_callers[-1]))
            eventually(partial(_answers, follower))
        for thread in threads:
            thread.start()
            stack.callback(thread.join)
        stack.callback(ending.set)
        _happen(running, remote_callers, kills, stops, stopped_seconds)
    return Soaked(local, remote, max_age)


def _local(addresses: Sequence[str], hooks: Confirmed, max_age: float, client: Any) -> Any:
    return client.local(addresses, max_age_seconds=max_age, hooks=hooks)


def _remote(addresses: Sequence[str], client: Any) -> Any:
    return client.remote(addresses, attempt_seconds=ATTEMPT_SECONDS)


def _answers(caller: Caller) -> bool:
    """Say whether a caller has an answer: the first connection takes its time on a busy machine."""
    try:
        caller.check()
    except PolicyUnavailable:
        return False
    return True


def _call(caller: Caller, confirmed: Confirmed | None, calls: Calls, ending: Event) -> None:
    while not ending.is_set():
        began, at = time.monotonic(), confirmed.at if confirmed else 0.0
        try:
            response = caller.check()
        except PolicyUnavailable as error:
            calls.lost.append(f"{'remote' if confirmed is None else 'local'}: {error}, {error.details}")
        else:
            calls.answered += 1
            if response.verdict.rule != _RULE:
                calls.wrong.append(f"{response.verdict.rule} decides in place of {_RULE}")
            if confirmed is not None and at > -math.inf:
                calls.oldest = max(calls.oldest, began - at)
        calls.slowest = max(calls.slowest, time.monotonic() - began)
        ending.wait(_PAUSE_SECONDS)


def _happen(
    running: Sequence[Replica], remote_callers: Sequence[Caller], kills: int, stops: int, seconds: float
) -> None:
    """Kill and stop one replica after the other; the next fault comes when every remote caller has both again."""
    for number in range(kills):
        eventually(partial(_all_serve, remote_callers))
        replica = running[number % len(running)]
        replica.kill()
        replica.restart()
    for number in range(stops):
        eventually(partial(_all_serve, remote_callers))
        with running[number % len(running)].stopped():
            time.sleep(seconds)
    eventually(partial(_all_serve, remote_callers))


def _all_serve(remote_callers: Sequence[Caller]) -> bool:
    states = (state for caller in remote_callers for state in caller.client.replica_states.values())
    return all(state is ReplicaState.SERVING for state in states)


def arrivals(watchers: int, edits: int, directory: Path) -> list[float]:
    """Return how many seconds after the service each watching client had each edit."""
    (directory / "policy").mkdir()
    policy = write_policy_of("shipped", directory / "policy")
    rules = policy / "callability.yaml"
    text, hooks, found = rules.read_text(), [Confirmed() for _ in range(watchers)], []
    with served(policy) as service, ExitStack() as stack:
        clients = [stack.enter_context(BlockingClient.local([service.address], hooks=each)) for each in hooks]
        for client in clients:
            client.get_policy()
        for number in range(edits):
            known = {*hooks[0].accepted}
            replace(rules, f"{text}# edit {number}\n")
            eventually(lambda known=known: all(each.accepted.keys() - known for each in hooks))  # type: ignore[misc]
            applied = _applied(service.metrics)
            [revision] = hooks[0].accepted.keys() - known
            found += [each.accepted[revision] - applied for each in hooks]
    return found


def _applied(metrics: str) -> float:
    [line] = [line for line in metrics.splitlines() if line.startswith(_APPLIED)]
    return float(line.removeprefix(_APPLIED))


def main(
    kills: Annotated[int, typer.Option(help="How often a replica is killed and started again.")] = 20,
    stops: Annotated[int, typer.Option(help="How often one is stopped for five seconds.")] = 5,
    callers: Annotated[int, typer.Option(help="Callers of each mode.")] = 16,
    max_age: Annotated[float, typer.Option(help="How old the policy of a local caller may be, in seconds.")] = 60,
    watchers: Annotated[int, typer.Option(help="Clients that watch the policy.")] = 100,
    edits: Annotated[int, typer.Option(help="Edits of the policy.")] = 10,
) -> None:
    """Run both, and print the figures. Exit code 1: an answer was wrong or lost, or a policy was too old."""
    logging.getLogger("callability.client").setLevel(logging.CRITICAL)
    started = time.monotonic()
    done = soak(kills, stops, 5.0, callers, max_age)
    print(
        f"{kills} kills and {stops} stops in {time.monotonic() - started:.0f} s, under {callers} callers of each mode"
    )
    _print_calls("local", done.local)
    _print_calls("remote", done.remote)
    with TemporaryDirectory() as directory:
        taken = arrivals(watchers, edits, Path(directory))
    percentiles = quantiles(taken, n=100, method="inclusive")
    print(
        f"{edits} edits reached {watchers} clients after: p50 {1e3 * percentiles[49]:.0f} ms,"
        f" p99 {1e3 * percentiles[98]:.0f} ms, last {1e3 * max(taken):.0f} ms"
    )
    for each in done.problems[:10]:
        print(f"WRONG: {each}")
    raise typer.Exit(1 if done.problems else 0)


def _print_calls(mode: str, calls: Sequence[Calls]) -> None:
    answered, lost = sum(each.answered for each in calls), sum(len(each.lost) for each in calls)
    slowest, oldest = max(each.slowest for each in calls), max(each.oldest for each in calls)
    said = f", by a policy that nothing had confirmed for at most {oldest:.1f} s" if oldest else ""
    print(f"{mode}: {answered:,} answered, {lost} lost, the slowest after {slowest:.2f} s{said}")


if __name__ == "__main__":
    typer.run(main)
