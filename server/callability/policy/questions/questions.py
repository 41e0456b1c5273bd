"""Every question that a policy answers."""

from __future__ import annotations

from callability.policy.questions.callability import CALLABILITY
from callability.policy.questions.enable_outcome import ENABLE_OUTCOME
from callability.policy.questions.load_outcome import LOAD_OUTCOME

QUESTIONS = {question.name: question for question in (CALLABILITY, LOAD_OUTCOME, ENABLE_OUTCOME)}
"""By the name of its file without its ending."""
