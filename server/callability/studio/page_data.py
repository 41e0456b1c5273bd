"""The words of the page: a question with its facts and actions, and the files, as plain data."""

from __future__ import annotations

from callability.policy.questions.fact import Fact
from callability.policy.questions.question import Question
from callability.policy.reporting.plain_data import Plain
from callability.studio.policy_files import SavedFile


def question_data(question: Question) -> Plain:
    """Return a question with the facts that vary: that of a rule set may have more of them than any other."""
    varying = {name for axis in question.axes for name in axis.facts}
    return {
        "name": question.name,
        "facts": [_fact(fact) for name, fact in question.facts.items() if name in varying],
        "actions": {action.name: {"owner": action.owner, "phrase": action.phrase} for action in question.actions},
    }


def saved_data(file: SavedFile) -> Plain:
    """Return a file as it is on disk."""
    return {"name": file.name, "text": file.text, "digest": file.digest, "problem": file.problem}


def _fact(fact: Fact) -> Plain:
    readings = [{"value": value, "told": ", ".join(fact.describe((value,)))} for value in fact.readings]
    return {"name": fact.name, "readings": readings}
