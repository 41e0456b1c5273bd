"""The words of the page: every question with its facts and statuses, and the files, as plain data."""

from __future__ import annotations

from callability.policy.fact import Fact
from callability.policy.plain import Plain
from callability.policy.question import Question
from callability.policy.questions import QUESTIONS
from callability.studio.files import SavedFile


def questions_told() -> list[Plain]:
    """Return every question."""
    return [_question(question) for question in QUESTIONS.values()]


def saved_told(file: SavedFile) -> Plain:
    """Return a file as it is on disk."""
    return {"name": file.name, "text": file.text, "digest": file.digest, "problem": file.problem}


def _question(question: Question) -> Plain:
    return {
        "name": question.name,
        "facts": [_fact(fact) for fact in question.facts.values()],
        "actions": {action.name: {"owner": action.owner, "phrase": action.phrase} for action in question.actions},
    }


def _fact(fact: Fact) -> Plain:
    return {"name": fact.name, "readings": fact.readings, "open_value": fact.open_value}
