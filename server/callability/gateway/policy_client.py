"""Asks the policy for the gateway, with one form for its errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from callability.client import ClientClosed, InvalidRequest, PolicyUnavailable
from callability.contract.vocabulary import LoadStatus
from callability.v1 import callability_service_pb2 as pb
from callability.v1.policy_service_pb2 import GetPolicyResponse

if TYPE_CHECKING:
    from callability.client import Client

GET_SECONDS = 2.0
"""How long to wait for what a policy declares; the start of a gateway waits too."""
_logger = logging.getLogger(__name__)


class _Answer(Protocol):
    @property
    def revision(self) -> str:
        """The revision of the policy that answered."""


_Response = TypeVar("_Response", bound=_Answer)


def _nobody(revision: str) -> None:
    """Report to nobody."""


class PolicyClient:
    """Asks by a client, which decides in this process or asks a service.

    Each method may raise `PolicyUnavailable` if there is no answer: the log says so, and nothing may be shown or called
    (A.7). Without a client, each waits for `begin`.
    """

    def __init__(self, client: Client | None = None) -> None:
        self._started = asyncio.Event()
        self._client: Client | None = None
        if client is not None:
            self.begin(client)
        self.note_revision: Callable[[str], None] = _nobody
        """Called with the revision of each answer about a tool, a load or an enable."""

    def begin(self, client: Client) -> None:
        """Ask by a client from now on."""
        self._client = client
        self._started.set()

    @property
    def is_started(self) -> bool:
        """Whether there is a client to ask by."""
        return self._client is not None

    async def check_tool(self, request: pb.CheckToolRequest) -> pb.CheckToolResponse:
        """Decide one tool; for a request that is refused as invalid, the response is empty."""
        try:
            return await self._report((await self._started_client()).check_tool(request), "a tool")
        except InvalidRequest:
            return pb.CheckToolResponse()

    async def check_tools(self, request: pb.CheckToolsRequest) -> pb.CheckToolsResponse:
        """Decide many tools."""
        return await self._valid((await self._started_client()).check_tools(request), "the tools")

    async def explain_tool(self, request: pb.ExplainToolRequest) -> pb.ExplainToolResponse:
        """Decide one tool, and say what would make it callable."""
        return await self._valid((await self._started_client()).explain_tool(request), "the labels of a tool")

    async def classify_load(self, request: pb.ClassifyLoadRequest) -> pb.ClassifyLoadResponse:
        """Classify one failure to load."""
        return await self._valid((await self._started_client()).classify_load(request), "a load")

    async def classify_enable(self, request: pb.ClassifyEnableRequest) -> pb.ClassifyEnableResponse:
        """Classify one enable."""
        return await self._valid((await self._started_client()).classify_enable(request), "an enable")

    async def get_policy(self, seconds: float) -> GetPolicyResponse:
        """Return the policy that decides, within a number of seconds; this is not reported as an answer."""
        about = "the labels that it declares"
        client = await self._started_client()
        try:
            async with asyncio.timeout(seconds):
                return await _log_answer(client.get_policy(), about)
        except TimeoutError as error:
            raise no_answer(about, "DEADLINE_EXCEEDED", f"there was none within {seconds:g} s") from error

    async def _started_client(self) -> Client:
        await self._started.wait()
        assert self._client is not None
        return self._client

    async def _valid(self, answer: Awaitable[_Response], about: str) -> _Response:
        try:
            return await self._report(answer, about)
        except InvalidRequest as error:
            raise no_answer(about, "INVALID_ARGUMENT", str(error)) from error

    async def _report(self, answer: Awaitable[_Response], about: str) -> _Response:
        response = await _log_answer(answer, about)
        self.note_revision(response.revision)
        return response


async def _log_answer(answer: Awaitable[_Response], about: str) -> _Response:
    try:
        return await answer
    except PolicyUnavailable as error:
        _log(about, error.code, error.details)
        raise
    except ClientClosed as error:
        raise no_answer(about, "CANCELLED", str(error)) from error


def no_answer(about: str, code: str, details: str) -> PolicyUnavailable:
    """Log that there is no answer, and return the error that says so."""
    _log(about, code, details)
    return PolicyUnavailable(f"the policy service gave no answer ({code})", code, details)


def _log(about: str, code: str, details: str) -> None:
    _logger.error("the policy service gave no answer about %s: %s, %s", about, code, details)


POLICY_SECONDS = 5.0
"""The deadline of a call of a stub."""


@runtime_checkable
class LoadPolicy(Protocol):
    """What classifies failures to load: a `callability.client.Client` does."""

    async def classify_load(self, request: pb.ClassifyLoadRequest) -> pb.ClassifyLoadResponse:
        """Classify one failure to load.

        Raises:
            PolicyUnavailable: there is no answer.
        """


class LoadStub(Protocol):
    """The calls of the policy service that loading needs."""

    @property
    def ClassifyLoad(self) -> Callable[..., Awaitable[pb.ClassifyLoadResponse]]:  # noqa: N802  # the contract's name
        """Classify one failure to load."""


def load_policy(given: LoadPolicy | LoadStub) -> LoadPolicy:
    """Return what classifies failures to load, for a client or for a stub of `CallabilityService` on an aio channel."""
    return given if isinstance(given, LoadPolicy) else _OfStub(given)


class _OfStub:
    """Asks by a stub."""

    def __init__(self, stub: LoadStub) -> None:
        self._stub = stub

    async def classify_load(self, request: pb.ClassifyLoadRequest) -> pb.ClassifyLoadResponse:
        """Classify one failure to load.

        Raises:
            PolicyUnavailable: there is no answer; the log says so.
        """
        # A gateway asks by a client.
        import grpc  # noqa: PLC0415

        try:
            return await self._stub.ClassifyLoad(request, timeout=POLICY_SECONDS)
        except (grpc.RpcError, grpc.aio.UsageError) as error:
            code, details = type(error).__name__, str(error)
            if isinstance(error, grpc.aio.AioRpcError):
                code, details = error.code().name, error.details() or ""
            raise no_answer("a load", code, details) from error


_CAREFUL = (LoadStatus.DENIED, LoadStatus.PERMANENT, LoadStatus.TRANSIENT, LoadStatus.AVAILABLE)
_Classified = TypeVar("_Classified")


def most_careful(every: Iterable[_Classified], status_of: Callable[[_Classified], LoadStatus]) -> _Classified:
    """Return the item with the most careful status, the first of several."""
    return min(every, key=lambda each: _CAREFUL.index(status_of(each)))
