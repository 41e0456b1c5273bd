"""Deciding by durable-rules, in a process of its own. The only module that imports durable-rules.

The process reads a task from standard input and writes its decisions to standard output in lines, all JSON. Facts and
values are codes from a closed list, because the engine's types are loose; rules are flat conjunctions in blocks,
because the engine has limits; a block that does not decide hands on to the next.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from callability.process.limits import limit_this_process

LINE = 1_000
"""Decisions that are written in a line."""
CONSTANT = ("c", "1")
"""A property that every event has, for the conjunction that has no test."""
UNAVAILABLE = 3
"""Exit code: the engine cannot be imported here."""


def _definition(number: int, tests: list[list[Any]], act: Callable[[Any], None]) -> dict[str, Any]:
    terms = [{fact: value} if equal else {"$neq": {fact: value}} for fact, value, equal in tests]
    condition = terms[0] if len(terms) == 1 else {"$and": terms}
    return {"pri": number, "all": [{"m": condition if terms else dict([CONSTANT])}], "run": act}


class Block:
    """At most as many conjunctions as one durable-rules rule set takes, in order of priority."""

    def __init__(self, name: str, conjunctions: list[list[list[Any]]]) -> None:
        from durable.engine import MessageNotHandledException, Ruleset  # noqa: PLC0415  # absent on Python 3.13

        self._not_handled = MessageNotHandledException
        self._ran: list[int] = []
        definition = {f"r{n}": _definition(n, tests, self._recorder(n)) for n, tests in enumerate(conjunctions)}
        self._rules = Ruleset(name, None, definition)

    def decide(self, event: Mapping[str, str]) -> int | None:
        """Return the number of the conjunction that decides, or None.

        Raises:
            RuntimeError: the engine failed, or did not run exactly one action for an event that it took.
        """
        self._ran.clear()
        try:
            state = self._rules.assert_event(dict(event))
        except self._not_handled:
            return None
        failures: list[object] = []
        self._rules.do_actions(state, lambda error, _: failures.append(error))
        if failures != [None] or len(self._ran) != 1:
            raise RuntimeError(f"the engine ran {len(self._ran)} actions for one event: {failures}")
        return self._ran[0]

    def _recorder(self, number: int) -> Callable[[Any], None]:
        def record(c: Any) -> None:
            self._ran.append(number)

        return record


def decide(blocks: list[Block], event: Mapping[str, str]) -> list[int]:
    """Return the numbers of the block and of the conjunction in it that decide an event.

    Raises:
        RuntimeError: no block decides.
    """
    for number, block in enumerate(blocks):
        conjunction = block.decide(event)
        if conjunction is not None:
            return [number, conjunction]
    raise RuntimeError("no action ran for an event")


def main(cpu_seconds: int) -> int:
    """Decide the events of the task on standard input; SIGXCPU ends the process at its limit of processor time."""
    limit_this_process(cpu_seconds)
    try:
        import durable.engine  # noqa: F401, PLC0415  # whether it can be imported is the question
    except ImportError:
        return UNAVAILABLE
    task = json.load(sys.stdin)
    blocks = [Block(f"block{number}", block) for number, block in enumerate(task["blocks"])]
    facts = task["facts"]
    events = task["events"]
    for first in range(0, len(events), LINE):
        decisions = [
            decide(blocks, dict([*zip(facts, event, strict=True), CONSTANT])) for event in events[first : first + LINE]
        ]
        print(json.dumps(decisions), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1])))
