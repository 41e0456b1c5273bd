"""The child process that analyses a draft; it can be killed at any time.

It is given the directory of the policy, reads tasks from standard input and writes answers to standard output, each one
line of JSON, and ends with its input.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from callability.child_process.limits import limit_this_process
from callability.studio.draft_analysis import DraftAnalysis


def main() -> None:
    """Answer tasks until there are no more."""
    limit_this_process()
    analysis = DraftAnalysis(Path(sys.argv[1]))
    for line in sys.stdin:
        print(json.dumps(_answered(analysis, json.loads(line))), flush=True)


def _answered(analysis: DraftAnalysis, task: dict[str, Any]) -> dict[str, Any]:
    match task:
        case {"do": "check", "saved": saved, "texts": texts}:
            return analysis.check(saved, texts)
        case {"do": "confirm"}:
            return analysis.confirm()
        case {"do": "table", "question": question}:
            return analysis.table(question)
        case {"do": "decide", "question": question, "facts": facts, "changed": changed}:
            return analysis.decide(question, facts, changed)
        case {"do": "difference"}:
            return analysis.difference()
    raise ValueError(f"no task: {task}")


if __name__ == "__main__":
    main()
