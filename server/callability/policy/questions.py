"""Every question that a policy answers."""

from __future__ import annotations

from callability.policy.callability import CALLABILITY
from callability.policy.enable_outcome import ENABLE_OUTCOME
from callability.policy.load_outcome import LOAD_OUTCOME

QUESTIONS = {question.name: question for question in (CALLABILITY, LOAD_OUTCOME, ENABLE_OUTCOME)}
"""By the name of its file without its ending."""
