"""The words of the page: a question with its facts and actions, and the files, as plain data."""

from __future__ import annotations

from callability.policy.fact import Fact
from callability.policy.plain import Plain
from callability.policy.question import Question
from callability.studio.files import SavedFile


def question_told(question: Question) -> Plain:
    """Return a question; that of a rule set may have facts that its file declares."""
    return {
        "name": question.name,
        "facts": list(map(_fact, question.facts.values())),
        "actions": {action.name: {"owner": action.owner, "phrase": action.phrase} for action in question.actions},
    }


def saved_told(file: SavedFile) -> Plain:
    """Return a file as it is on disk."""
    return {"name": file.name, "text": file.text, "digest": file.digest, "problem": file.problem}


def _fact(fact: Fact) -> Plain:
    return {"name": fact.name, "readings": fact.readings, "open_value": fact.open_value}
