"""Questions and files as plain data for the page."""

from __future__ import annotations

from callability.policy.questions.fact import Fact
from callability.policy.questions.question import Question
from callability.policy.reporting.plain_data import Plain
from callability.studio.policy_files import SavedFile


def question_data(question: Question) -> Plain:
    """Return a question with the facts that vary; labels of the rule set are among them."""
    varying = {name for axis in question.axes for name in axis.facts}
    return {
        "name": question.name,
        "facts": [_fact(fact) for name, fact in question.facts.items() if name in varying],
        "actions": {action.name: {"owner": action.owner, "phrase": action.phrase} for action in question.actions},
    }


def saved_data(file: SavedFile) -> Plain:
    """Return the current state of a file on disk."""
    return {"name": file.name, "text": file.text, "digest": file.digest, "problem": file.problem}


def _fact(fact: Fact) -> Plain:
    readings = [{"value": value, "text": ", ".join(fact.describe((value,)))} for value in fact.readings]
    return {"name": fact.name, "readings": readings}
