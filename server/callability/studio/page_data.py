"""Questions and files as plain data for the page."""

from __future__ import annotations

from callability.policy.loading import ProvedRuleSet
from callability.policy.proving.case_result import MAX_LISTED
from callability.policy.questions.fact import Fact
from callability.policy.questions.question import Question
from callability.policy.reporting.plain_data import Plain
from callability.studio.policy_files import SavedFile

MAX_TESTS = 500
"""Tests of a rule set that are returned, failed ones first."""


def question_data(question: Question) -> Plain:
    """Return a question with the facts that vary; labels of the rule set are among them."""
    varying = {name for axis in question.axes for name in axis.facts}
    return {
        "name": question.name,
        "facts": [_fact(fact) for name, fact in question.facts.items() if name in varying],
        "actions": {action.name: {"owner": action.owner, "phrase": action.phrase} for action in question.actions},
    }


def tests_data(proved: ProvedRuleSet) -> list[Plain]:
    """Return the tests of a rule set, failed ones first, each with its facts and what failed."""
    results = sorted(proved.results, key=lambda result: result.finding is None)
    return [
        {
            "name": result.case.name,
            "file": result.case.place.file,
            "line": result.case.place.line,
            "facts": dict(result.case.facts),
            "expected": result.case.status,
            "failed": result.finding.sentence if result.finding else "",
            "differences": [str(difference) for difference in result.differences[:MAX_LISTED]],
        }
        for result in results[:MAX_TESTS]
    ]


def saved_data(file: SavedFile) -> Plain:
    """Return the current state of a file on disk."""
    return {"name": file.name, "text": file.text, "digest": file.digest, "problem": file.problem}


def _fact(fact: Fact) -> Plain:
    readings = [{"value": value, "text": ", ".join(fact.describe((value,)))} for value in fact.readings]
    return {"name": fact.name, "readings": readings}
