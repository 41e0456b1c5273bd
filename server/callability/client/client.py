"""The client for asyncio. `make client` generates the one for threads from this module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType

from callability.adapter import NEUTRAL, Judgement, Phrases, Scope, UnknownTool, rejection, unavailable, unknown_tool
from callability.adapter.messages import ambiguous_tool
from callability.client.hooks import DecisionHook, GuardedHooks, Hooks, InvalidRequest, LoggingHooks, PolicyUnavailable
from callability.client.inventory import HELD_BACK, Decision, Inventory
from callability.client.local import MAX_AGE_SECONDS, AsyncioLocal, local_decisions
from callability.client.remote import AsyncioRemote
from callability.client.replicas import (
    ATTEMPT_SECONDS,
    CHECK_TOOL,
    CHECK_TOOLS,
    CLASSIFY_ENABLE,
    CLASSIFY_LOAD,
    EXPLAIN_TOOL,
    GET_POLICY,
    PLAIN,
    Credentials,
    Replicas,
    ReplicaState,
)
from callability.v1 import callability_service_pb2 as pb
from callability.v1.facts_pb2 import Agent
from callability.v1.policy_service_pb2 import GetPolicyRequest, GetPolicyResponse


class Client:
    """Asks a policy from asyncio: `remote` asks a service, and `local` decides in this process.

    Use it in one event loop.

    Each method may raise `PolicyUnavailable` if there is no answer: then nothing may be shown or called (A.7). It may
    raise `InvalidRequest` if the request is refused, and `ClientClosed`.
    """

    def __init__(self, calls: AsyncioRemote | AsyncioLocal) -> None:
        self._calls = calls

    @classmethod
    def remote(
        cls,
        addresses: Sequence[str],
        *,
        credentials: Credentials = PLAIN,
        attempt_seconds: float = ATTEMPT_SECONDS,
        hooks: Hooks | None = None,
    ) -> Client:
        """Return a client that asks a service.

        A call is one attempt, and after a failure a second one, to another replica if there is one. The replicas that
        report that they serve take turns. If the only address refuses a call, it is tried again for at most
        the time of two attempts.

        Args:
            addresses: of every replica, as HOST:PORT or unix:PATH.
            credentials: TLS and tokens; without TLS, the replicas must be on this machine.
            attempt_seconds: the deadline of each attempt.
            hooks: what takes events, figures and spans; by default, events go to a logger.

        Raises:
            ValueError: there is no address, or one is given twice; or the deadline is not above zero.
            AddressRefused: an address cannot be used.
        """
        guarded = GuardedHooks(hooks or LoggingHooks())
        return cls(AsyncioRemote(Replicas(addresses, credentials, attempt_seconds, guarded)))

    @classmethod
    def local(
        cls,
        source: Path | Sequence[str],
        *,
        max_age_seconds: float = MAX_AGE_SECONDS,
        keep: Path | None = None,
        credentials: Credentials = PLAIN,
        keys: Mapping[str, bytes] | None = None,
        rollback: bool = False,
        hooks: Hooks | None = None,
        decided: DecisionHook | None = None,
    ) -> Client:
        """Return a client that decides in this process, without a call.

        The policy comes from a service, which streams each change of it, or from a bundle in a file, which is read
        again when it changes. A bundle that is refused changes nothing: the last good one decides until it is too old.

        Args:
            source: the addresses of the replicas of a service, or the path of a bundle.
            max_age_seconds: for how long the policy decides after the last contact that confirmed it. After that, every
                call raises `PolicyUnavailable`.
            keep: a file for the last good bundle, so that a start needs no service. Its age counts on.
            credentials: TLS and tokens for the service.
            keys: ed25519 public keys by key id, one of which must have signed the bundle in the file: each as the
                content of its PEM file, or as its 32 bytes. They need the extra `bundle`. Bundles of a service are not
                signed: use TLS.
            rollback: whether the bundle in the file may have a lower sequence number than the last one.
            hooks: what takes events, figures and spans; by default, events go to a logger.
            decided: what takes each decision about a call, a load or an enable, such as
                `callability.records.ClientRecords`.

        Raises:
            ValueError: there is no address, or one is given twice; the age is not above zero; there are `keys` for a
                service; or a key is none.
            AddressRefused: an address cannot be used.
            MissingCryptography: there are `keys`, and the extra `bundle` is not installed. It is an `ImportError`.
        """
        guarded = GuardedHooks(hooks or LoggingHooks())
        decisions = local_decisions(
            source, max_age_seconds, keep, credentials, keys, guarded, rollback=rollback, decided=decided
        )
        return cls(AsyncioLocal(decisions))

    async def __aenter__(self) -> Client:
        self._calls.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End calls under way, and close every connection. A second time it does nothing."""
        await self._calls.close()

    @property
    def replica_states(self) -> Mapping[str, ReplicaState]:
        """The state of each replica by its address; empty for a client that decides in this process."""
        return self._calls.replica_states

    async def check_tool(self, request: pb.CheckToolRequest) -> pb.CheckToolResponse:
        """Decide one tool, for the call path."""
        return await self._calls.call(CHECK_TOOL, request)

    async def check_tools(self, request: pb.CheckToolsRequest) -> pb.CheckToolsResponse:
        """Decide many tools; an `Inventory` asks about those only that have changed."""
        return await self._calls.call(CHECK_TOOLS, request)

    async def explain_tool(self, request: pb.ExplainToolRequest) -> pb.ExplainToolResponse:
        """Decide one tool, and say what would make it callable."""
        return await self._calls.call(EXPLAIN_TOOL, request)

    async def classify_load(self, request: pb.ClassifyLoadRequest) -> pb.ClassifyLoadResponse:
        """Classify one load of a server's tools."""
        return await self._calls.call(CLASSIFY_LOAD, request)

    async def classify_enable(self, request: pb.ClassifyEnableRequest) -> pb.ClassifyEnableResponse:
        """Classify one attempt to enable a server."""
        return await self._calls.call(CLASSIFY_ENABLE, request)

    async def get_policy(self) -> GetPolicyResponse:
        """Return what decides: the policy's labels and facts, statuses and actions."""
        return await self._calls.call(GET_POLICY, GetPolicyRequest())

    async def judge(self, inventory: Inventory, agent: Agent | None = None, *, visible: Scope) -> Judgement:
        """Decide every tool of an inventory, for discovery and counts; ask about those only that have changed since.

        Args:
            inventory: what the proxy knows.
            agent: who asks; None: unknown.
            visible: the servers that the agent may see, or `ALL_SERVERS`. The others are in no request (FR-007).

        Raises:
            TypeError: `visible` is neither several names nor `ALL_SERVERS`.
        """
        with closing(inventory.judging(agent, visible=visible)) as steps:
            request = next(steps)
            while True:
                response = await self.check_tools(request)
                try:
                    request = steps.send(response)
                except StopIteration as end:
                    judgement: Judgement = end.value
                    return judgement

    async def check(
        self, inventory: Inventory, server: str, tool: str, agent: Agent | None = None
    ) -> pb.CheckToolResponse | UnknownTool:
        """Decide one tool of an inventory, for the call path, and pass the answer to `adapter.rejection`.

        A tool that is not in the inventory has no verdict: its answer can only be rejected.
        """
        try:
            request = inventory.check_request(server, tool, agent)
        except KeyError:
            return UnknownTool(f"{server}{inventory.separator}{tool}" if tool else server)
        return await self.check_tool(request)

    async def decide(
        self,
        inventory: Inventory,
        agent: Agent | None,
        scope: Scope,
        name: str,
        *,
        phrases: Phrases = NEUTRAL,
        discovery_tool: str = "retrieve_tools",
        facts_from_config: bool = False,
    ) -> Decision:
        """Decide the call of a tool by its qualified name, and word the rejection; it raises no `PolicyUnavailable`.

        A tool of a server that is not in `scope` is answered exactly as one that does not exist (FR-007). A tool that
        is not listed may exist if its server is disabled, or in quarantine with no listed tool: the answer is that
        status. `phrases`, `discovery_tool` and `facts_from_config` are those of `adapter.rejection`.

        Raises:
            InvalidRequest: what is sent of the agent exceeds a limit.
            TypeError: `scope` is neither several names nor `ALL_SERVERS`.
        """
        named = inventory.named(name, agent, visible=scope)
        if len(named) > 1 and named[0].listed:
            return Decision("", "", None, ambiguous_tool(name))
        try:
            for each in named:
                try:
                    response = await self.check_tool(each.request) if each.fits_a_request else HELD_BACK
                except InvalidRequest:
                    # As in a judgement, it is about this tool alone.
                    response = HELD_BACK
                if each.is_answered_by(response):
                    server, tool = each.request.server, each.request.tool
                    rejected = rejection(
                        response,
                        server,
                        tool,
                        phrases=phrases,
                        discovery_tool=discovery_tool,
                        refusal=each.refusal,
                        facts_from_config=facts_from_config,
                    )
                    return Decision(server, tool, response, rejected)
            near = [tool.name for tool in (await self.judge(inventory, agent, visible=scope)).callable]
        except PolicyUnavailable as error:
            return Decision("", "", None, unavailable(str(error)))
        return Decision("", "", None, unknown_tool(name, near, discovery_tool=discovery_tool))
