"""The child process that analyses a draft; it can be killed at any time.

It is given the directory of the policy, reads tasks from standard input and writes answers to standard output, each one
line of JSON, and ends with its input. Before an answer it may write lines about its progress.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from threading import Lock
from typing import Any

from callability.process.limits import limit_this_process
from callability.studio.drafts import DraftAnalysis


def main() -> None:
    """Answer tasks until there are no more."""
    limit_this_process()
    analysis = DraftAnalysis(Path(sys.argv[1]))
    for line in sys.stdin:
        print(json.dumps(_answer(analysis, json.loads(line))), flush=True)


class Progress:
    """Writes how many of how many witnesses the rules engine has decided, as lines before the answer."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._decided = self._of = 0

    def __call__(self, decided: int, of: int) -> None:
        """Add what was decided, and what there is to decide. Threads may call it at a time."""
        with self._lock:
            self._decided += decided
            self._of += of
            print(json.dumps({"progress": [self._decided, self._of]}), flush=True)


def _answer(analysis: DraftAnalysis, task: dict[str, Any]) -> dict[str, Any]:
    match task:
        case {"do": "check", "saved": saved, "texts": texts}:
            return analysis.check(saved, texts)
        case {"do": "confirm"}:
            return analysis.confirm(Progress())
        case {"do": "table", "question": question, "facts": facts}:
            return analysis.table(question, facts)
        case {"do": "decide", "question": question, "facts": facts, "changed": changed, "row": row}:
            return analysis.decide(question, facts, changed, row=row)
        case {"do": "difference"}:
            return analysis.difference()
    raise ValueError(f"no task: {task}")


if __name__ == "__main__":
    main()
