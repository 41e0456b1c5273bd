"""The words of the contract's enums, both ways: `TOOL_STATUS_CALLABLE` is `callable` in rule files and answers."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from callability.v1 import callability_service_pb2, facts_pb2, outcome_pb2, policy_service_pb2, verdict_pb2

Number = TypeVar("Number", bound=int)
Names = TypeVar("Names", bound=StrEnum)
_UNSPECIFIED = "UNSPECIFIED"


class WireEnum(Protocol[Number]):
    """An enum of the contract, as protobuf generates it."""

    def items(self) -> list[tuple[str, Number]]:
        """Return names and numbers, in the order of the contract: the first one is not specified."""
        ...


class EnumWords(Generic[Number]):
    """The words of one enum; a number that is not specified has none.

    Attributes:
        words: the word of each number.
        numbers: the number of each word.
    """

    def __init__(self, wire: WireEnum[Number]) -> None:
        prefix = len(wire.items()[0][0].removesuffix(_UNSPECIFIED))
        self.numbers: Mapping[str, Number] = {name[prefix:].lower(): number for name, number in wire.items() if number}
        self.words: Mapping[int, str] = {number: word for word, number in self.numbers.items()}

    def word(self, number: int) -> str:
        """Return the word of a number: `unspecified` for 0, and the number itself if it is one of a later version."""
        return self.words.get(number, str(number) if number else _UNSPECIFIED.lower())

    def members(self, names: type[Names]) -> Mapping[int, Names]:
        """Return the member of an enum of words for each number.

        Raises:
            ValueError: the enum has no member for a word.
        """
        return {number: names(word) for number, word in self.words.items()}


TOOL_STATUS = EnumWords(verdict_pb2.ToolStatus)
LIFTED_BY = EnumWords(verdict_pb2.LiftedBy)
RETRY = EnumWords(verdict_pb2.Retry)
APPROVAL_STATUS = EnumWords(facts_pb2.ApprovalStatus)
LOAD_STATUS = EnumWords(outcome_pb2.LoadStatus)
LOAD_PHASE = EnumWords(outcome_pb2.LoadPhase)
LOAD_FAILURE = EnumWords(outcome_pb2.LoadFailure)
ENABLE_STATUS = EnumWords(outcome_pb2.EnableStatus)
ENABLE_CREDENTIALS = EnumWords(outcome_pb2.EnableCredentials)
ENABLE_AUTHORIZATION = EnumWords(outcome_pb2.EnableAuthorization)
ENABLE_END = EnumWords(outcome_pb2.EnableEnd)
ENABLE_ENTRY = EnumWords(outcome_pb2.EnableEntry)
PATH_END = EnumWords(callability_service_pb2.PathEnd)
FINDING_SEVERITY = EnumWords(policy_service_pb2.FindingSeverity)
FACT_SUBJECT = EnumWords(policy_service_pb2.FactSubject)
