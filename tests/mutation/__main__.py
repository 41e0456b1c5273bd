"""`python -m mutation`: how many of some small changes of the code the tests notice."""

from __future__ import annotations

import difflib
import json
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from mutation.checkout import Checkout, Reached, TestsDoNotRun
from mutation.mutants import Functions, LostPlace, Mutant, Place

_MODULES = ("kernel", "adapter", "client", "gateway", "service", "columns")
_TESTS = ("tests/unit", "tests/process")
NOTICED = "noticed"
"""The outcome of a mutant with which a test failed."""
LOST = "lost"
"""The outcome of a place whose function was changed."""
UNREACHED = "unreached"
"""The outcome of a place that no test runs."""


def report_mutants(
    modules: Annotated[
        list[str] | None,
        typer.Argument(help="Files or folders of server/callability to draw from. Default: six rooms."),
    ] = None,
    places: Annotated[Path | None, typer.Option(help="Take the places of this file, and draw none.")] = None,
    count: Annotated[int, typer.Option(min=1, help="How many places to draw.")] = 40,
    seed: Annotated[int, typer.Option(help="What decides which places are drawn.")] = 1,
    tests: Annotated[
        list[str] | None,
        typer.Option(help="Files or folders of tests, one after the other. Default: the unit tests, then the others."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write places and outcomes as JSON.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that first find out what each test reaches.")] = 2,
    minutes: Annotated[float, typer.Option(help="How long that may take.")] = 90,
    seconds: Annotated[float, typer.Option(help="How long the tests of one mutant may take.")] = 300,
) -> None:
    """Break one place after the other in a copy of the checkout, and print what no test notices.

    Exit code 0: done. 1: a place of --places is lost, or was noticed then and is not now, or the tests do not run.
    2: a wrong call.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    tests = tests or [*_TESTS]
    with tempfile.TemporaryDirectory(prefix="callability-mutants-") as directory:
        checkout = Checkout.copied_to(Path(directory, "checkout"))
        functions = Functions(checkout.package_files())
        before = _recorded(places)
        package = checkout.root / "server/callability"
        chosen = [*before] or functions.draw([package / name for name in modules or _MODULES], count, seed)
        found = dict(_found(chosen, functions))
        outcomes = {place: LOST for place in chosen if place not in found}
        for folder in tests:
            try:
                reached, failing = checkout.reach({each.path for each in found.values()}, folder, workers, 60 * minutes)
            except TestsDoNotRun as why:
                sys.exit(str(why))
            for place, outcome in _outcomes(checkout, dict(found), reached, failing, seconds):
                if outcome == NOTICED:
                    del found[place]
                if outcome != UNREACHED or place not in outcomes:
                    outcomes[place] = outcome
                if output:
                    _write(output, tests, outcomes)
    print(", ".join(f"{number} {outcome}" for outcome, number in Counter(outcomes.values()).most_common()))
    worse = [place for place in before if outcomes[place] == LOST or before[place] == NOTICED != outcomes[place]]
    for place in worse:
        print(
            f"{before[place]} before, {outcomes[place]} now: {place.function} {place.tree} {place.kind} {place.number}"
        )
    sys.exit(bool(worse))


def _write(path: Path, tests: Sequence[str], outcomes: Mapping[Place, str]) -> None:
    places = [{**asdict(place), "outcome": outcome} for place, outcome in sorted(outcomes.items())]
    path.write_text(json.dumps({"tests": tests, "places": places}, indent=1) + "\n", encoding="utf-8")


def _recorded(path: Path | None) -> dict[Place, str]:
    places = json.loads(path.read_text(encoding="utf-8"))["places"] if path else []
    return {Place(**{name: each[name] for name in Place.__slots__}): each.get("outcome", "not run") for each in places}


def _found(places: Sequence[Place], functions: Functions) -> Iterator[tuple[Place, Mutant]]:
    for place in places:
        try:
            yield place, functions.mutate(place)
        except LostPlace as lost:
            print(lost, file=sys.stderr)


def _outcomes(
    checkout: Checkout, mutants: dict[Place, Mutant], reached: Reached, failing: frozenset[str], seconds: float
) -> Iterator[tuple[Place, str]]:
    for place, mutant in mutants.items():
        tests = sorted(_reaching(mutant, reached) - failing)
        outcome, by = UNREACHED, ""
        if tests:
            outcome, by = _outcome(checkout, mutant, tests, seconds)
        print(f"{outcome}: {place.function} {place.kind} {place.number}, {len(tests)} tests {by}", flush=True)
        if outcome != NOTICED:
            print(_difference(checkout, mutant), flush=True)
        yield place, outcome


def _reaching(mutant: Mutant, reached: Reached) -> frozenset[str]:
    """Return the tests that run what is changed; an expression may have no line of its own."""
    lines = reached.get(mutant.path, {})
    at_change = frozenset[str]().union(*(lines.get(line, frozenset()) for line in mutant.lines))
    return at_change or lines.get(mutant.statement, frozenset())


def _outcome(checkout: Checkout, mutant: Mutant, tests: Sequence[str], seconds: float) -> tuple[str, str]:
    # Most mutants are noticed by the file with the most tests of the place, so that no other file has to be loaded.
    most = Counter(map(_file, tests)).most_common(1)[0][0]
    first = [name for name in tests if _file(name) == most]
    others = [name for name in tests if _file(name) != most]
    try:
        noticed = checkout.notice(mutant, first, seconds) or (others and checkout.notice(mutant, others, seconds))
    except subprocess.TimeoutExpired:
        return "not decided in time", ""
    except TestsDoNotRun as why:
        return "not decided", str(why)
    return (NOTICED, noticed.by) if noticed else ("survived", "")


def _file(test: str) -> str:
    return test.partition("::")[0]


def _difference(checkout: Checkout, mutant: Mutant) -> str:
    name = str(mutant.path.relative_to(checkout.root))
    old, new = mutant.path.read_text(encoding="utf-8").splitlines(), mutant.source.splitlines()
    return "\n".join(difflib.unified_diff(old, new, name, name, n=1, lineterm=""))


if __name__ == "__main__":
    typer.run(report_mutants)
