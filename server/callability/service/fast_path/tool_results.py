"""The results for the tools of one server, by their facts as they stand on the wire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

from callability.bounded_cache import BoundedCache
from callability.policy.questions.fact import NameFact
from callability.service.fast_path.encoded_results import EncodedResult, encoded_error
from callability.service.observability.gaps import Gap, undeclared
from callability.service.requests.errors import InvalidName, InvalidRequest
from callability.service.requests.limits import NAME_BYTES, check_name
from callability.service.translation.tool_facts import FactReader, FactValues

MAX_TOOLS = 1_024
"""Facts of tools that are kept with their result, for one combination of server facts."""
MAX_KEY = 256
"""Bytes of facts that are a key themselves; of longer ones their hash is."""

ToolKey = bytes | tuple[bytes | str, str]
"""The facts of a tool on the wire; if rules read its name, with what they know of it."""


def fact_key(facts: bytes) -> bytes | str:
    """Return a key for facts. A hash is text, so that it never equals the facts of another tool."""
    return facts if len(facts) <= MAX_KEY else sha256(facts).hexdigest()


class ToolResults(BoundedCache[ToolKey, EncodedResult]):
    """The results for tools of a server, decided when first needed. A refusal of facts is a result too.

    `tool_name` is the fact that rules read of the name of a tool, if they do, and `result_of` decides.
    """

    def __init__(
        self,
        reader: FactReader,
        server: Callable[[], FactValues],
        tool_name: NameFact | None,
        result_of: Callable[[FactValues], EncodedResult],
    ) -> None:
        super().__init__(MAX_TOOLS)
        self._reader = reader
        self._tool_name = tool_name
        self._result_of = result_of
        self._refused: EncodedResult | None = None
        self.undeclared: tuple[Gap, ...] = ()
        """The facts of the server that the rule file does not declare."""
        try:
            # Read once, whatever the number of tools.
            self._server = server()
            self.undeclared = undeclared("server", self._server.undeclared)
        except InvalidRequest as error:
            self._refused = encoded_error(error)

    def of_tool(self, tool_facts: bytes, tool: bytes) -> EncodedResult:
        """Return the result for a tool with these facts and this valid name."""
        if self._tool_name is None:
            return self[tool_facts]
        return self[tool_facts, self._tool_name.classes.representative(tool.decode())]

    def of_tools(self, tools: Sequence[Any]) -> list[EncodedResult]:
        """Return the results for lazy `Tool` messages; an invalid name is an error of its tool alone."""
        found = []
        by_facts = self._tool_name is None
        for tool in tools:
            name = tool.name
            if by_facts and 0 < len(name) <= NAME_BYTES and name.isascii():
                found.append(self[tool.facts])
                continue
            try:
                check_name(name, "tool")
                found.append(self.of_tool(tool.facts, name))
            except InvalidName as error:
                found.append(encoded_error(error))
        return found

    def __missing__(self, key: ToolKey) -> EncodedResult:
        if self._refused is not None:
            return self._refused
        tool_facts, tool = key if isinstance(key, tuple) else (key, "")
        assert isinstance(tool_facts, bytes)
        kept_as: ToolKey = key
        if len(tool_facts) > MAX_KEY:
            kept_as = (fact_key(tool_facts), tool)
            kept = self.get(kept_as)
            if kept is not None:
                return kept
        result = self._decide(tool_facts, tool)
        self.keep(kept_as, result)
        return result

    def _decide(self, tool_facts: bytes, tool: str) -> EncodedResult:
        try:
            facts = self._server | (own := self._reader.of_tool(tool_facts, tool))
            return self._result_of(facts).with_gaps(undeclared("tool", own.undeclared))
        except InvalidRequest as error:
            return encoded_error(error)
