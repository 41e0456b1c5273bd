"""The log of facts that could not be read, once for each change of the tools that they hold back."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from callability.finding import listed, shown
from callability.log_output import fields
from callability.vocabulary import is_declared_name

_logger = logging.getLogger(__name__)


class _Held(NamedTuple):
    """A tool that is held back by a fact."""

    server: str
    tool: str
    fact: str


class UnreadFacts:
    """What is currently unread for each agent: two agents may reach different rules for the same tool."""

    def __init__(self) -> None:
        self._facts: dict[str, dict[tuple[str, str], tuple[str, ...]]] = {}
        self._agents: dict[_Held, set[str]] = {}

    def judged(
        self, agent: str, tools: Iterable[tuple[str, str, tuple[str, ...]]], whole: Collection[str] = ()
    ) -> None:
        """Log what changed about the tools of an agent; each is a server, a tool and the unread facts.

        The servers in `whole` have no other tools than these: the others that they had no longer exist.
        """
        known = self._facts.get(agent, {})
        # Of thousands of tools, few or none are held back.
        now = {(server, tool): unread for server, tool, unread in tools if unread or (server, tool) in known}
        gone = [key for key in known if key[0] in whole and key not in now]
        self._change(agent, now | dict.fromkeys(gone, ()))

    def keep(self, servers: Mapping[str, Collection[str]]) -> None:
        """Forget the agents that no longer exist, and the servers that an agent no longer sees.

        Args:
            servers: the servers that each agent may see.
        """
        for agent, known in [*self._facts.items()]:
            seen = servers.get(agent, ())
            self._change(agent, dict.fromkeys([key for key in known if key[0] not in seen], ()))

    def _change(self, agent: str, tools: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
        """Remember the unread facts of tools of an agent, and log what started and ended; only held tools are kept."""
        started: list[_Held] = []
        ended: list[_Held] = []
        known = self._facts.pop(agent, {})
        for (server, tool), unread in tools.items():
            before = known.pop((server, tool), ())
            if unread:
                known[server, tool] = unread
            if before != unread:
                ended += self._end(agent, [_Held(server, tool, fact) for fact in before if fact not in unread])
                started += self._begin(agent, [_Held(server, tool, fact) for fact in unread])
        if known:
            self._facts[agent] = known
        for (server, fact), names in _together(started).items():
            words, about = "`%s`: %s %s, and the policy holds back %s", fields(server=server, fact=fact)
            _logger.warning(words, server, shown(fact), _why(fact), listed(names), extra=about)
        for (server, fact), names in _together(ended).items():
            words, about = "`%s`: %s no longer holds back %s", fields(server=server, fact=fact)
            _logger.info(words, server, shown(fact), listed(names), extra=about)

    def _begin(self, agent: str, facts: Iterable[_Held]) -> Iterator[_Held]:
        """Yield what holds back a tool for no other agent yet."""
        for held in facts:
            if held not in self._agents:
                yield held
            self._agents.setdefault(held, set()).add(agent)

    def _end(self, agent: str, facts: Iterable[_Held]) -> Iterator[_Held]:
        """Yield what holds back a tool for no agent any more."""
        for held in facts:
            self._agents[held].discard(agent)
            if not self._agents[held]:
                del self._agents[held]
                yield held


def _together(every: Iterable[_Held]) -> dict[tuple[str, str], list[str]]:
    """Return the tools that each fact of each server holds back."""
    tools: dict[tuple[str, str], list[str]] = {}
    for held in every:
        tools.setdefault((held.server, held.fact), []).append(held.tool)
    return tools


def _why(fact: str) -> str:
    """Return why a fact is unknown: the gateway always sends labels, so an unknown one is not declared.

    Facts that the policy declares come from the config alone.
    """
    if is_declared_name(fact):
        return "is not in the config, or has a value that the policy does not declare"
    return "has a value that the policy does not declare" if ".label." in fact else "could not be read"
