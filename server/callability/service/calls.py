"""The calls and streams of the service, by the policy that is served: bytes of a request in, bytes of a reply out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter

from callability import __version__
from callability.contract.finding import MAX_FINDINGS, Finding, Place, line
from callability.kernel import limits
from callability.kernel.calls import UNOBSERVED, EncodedCalls, description, finding_message, parse
from callability.kernel.policy import CheckedPolicy, read
from callability.otel import traces
from callability.process import logs
from callability.process.background import output_of
from callability.process.bounded_cache import BoundedCache
from callability.process.child import NoOutput
from callability.records.format import VERDICTS, Ended, verdict_of
from callability.records.recorder import MAX_VERDICTS, Call, Recorder
from callability.records.shadow import Shadow
from callability.service.callers import ShuttingDown, TooManyAtOnce
from callability.service.metrics import Gaps, PolicyMetrics
from callability.v1 import policy_service_pb2 as pb

TURN = 0.0002
"""Seconds after which other callers get a turn."""


class CallabilityCalls:
    """Answers requests by one policy that was accepted; clients decide from the same bundle.

    Raises:
        BundleRefused: the bundle contradicts itself.
    """

    def __init__(self, checked: CheckedPolicy, metrics: PolicyMetrics | None = None) -> None:
        self.bundle = checked.bundle
        self.policy = read(checked.bundle)
        self.warnings = checked.findings
        self.engine = checked.engine
        observer = Gaps(self.policy.revision, metrics) if metrics is not None else UNOBSERVED
        self._calls = EncodedCalls(self.policy, observer, limited=True)
        self._at_once: Mapping[str, Callable[[bytes], bytes]] = {
            "CheckTool": self._calls.check_tool,
            "ExplainTool": self._calls.explain_tool,
            "ClassifyLoad": self._calls.classify_load,
            "ClassifyEnable": self._calls.classify_enable,
        }
        self.policy_reply = self._description().SerializeToString()
        """What is reported of the policy, as a `GetPolicyResponse` encoded."""

    @property
    def revision(self) -> str:
        """The revision of the policy."""
        return self.policy.revision

    async def answer(self, method: str, data: bytes) -> bytes:
        """Answer a request of a method of `CallabilityService`, encoded as is the reply.

        Raises:
            InvalidRequest: it is malformed or exceeds a limit, or a name in it is not one.
        """
        return await self.check_tools(data) if method == "CheckTools" else self._at_once[method](data)

    async def check_tools(self, data: bytes) -> bytes:
        """Answer a `CheckToolsRequest` with a `CheckToolsResponse`; other calls get a turn meanwhile.

        Raises:
            InvalidRequest: it is malformed, exceeds a limit, or the name of the agent in it is not one.
        """
        steps = self._calls.check_tools(data)
        started = perf_counter()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                reply: bytes = end.value
                return reply
            if perf_counter() - started >= TURN:
                await asyncio.sleep(0)
                started = perf_counter()

    def _description(self) -> pb.GetPolicyResponse:
        """Return what `GetPolicy` reports about the policy, its bundle and the service."""
        reply = description(self.policy)
        reply.engine = self.engine
        reply.version = __version__
        reply.warnings.extend(str(warning) for warning in self.warnings[:MAX_FINDINGS])
        reply.limits.CopyFrom(
            pb.Limits(
                tools=limits.TOOLS,
                servers=limits.SERVERS,
                name_bytes=limits.NAME_BYTES,
                message_bytes=limits.MESSAGE_BYTES,
                labels=limits.LABELS,
                label_key_bytes=limits.LABEL_KEY_BYTES,
                label_value_bytes=limits.LABEL_VALUE_BYTES,
                declared_facts=limits.DECLARED_FACTS,
                declared_fact_name_bytes=limits.DECLARED_FACT_NAME_BYTES,
                declared_fact_value_bytes=limits.DECLARED_FACT_VALUE_BYTES,
                error_text_bytes=limits.ERROR_TEXT_BYTES,
                policy_files=limits.POLICY_FILES,
                policy_bytes=limits.POLICY_BYTES,
                policy_findings=limits.POLICY_FINDINGS,
                validations=limits.VALIDATIONS,
                validation_seconds=limits.VALIDATION_SECONDS,
            )
        )
        return reply


_METHODS = ("CheckTool", "CheckTools", "ExplainTool", "ClassifyLoad", "ClassifyEnable")


@dataclass(frozen=True, slots=True)
class RejectedEdit:
    """An edit that was rejected: the revision of its files, and the findings in them."""

    revision: str
    findings: tuple[Finding, ...]


class ServedPolicy:
    """Answers by one policy until it is replaced; a request is answered by the policy with which it arrived."""

    def __init__(
        self,
        checked: CheckedPolicy,
        metrics: PolicyMetrics | None = None,
        recorder: Recorder | None = None,
        shadow: Shadow | None = None,
    ) -> None:
        self.calls = CallabilityCalls(checked, metrics)
        self.recorder = recorder
        """What writes records of decisions and edits; None if nobody asks for them."""
        self._shadow = shadow
        self.replaced = asyncio.Event()
        """Set when another policy decides. Each policy has its own."""
        self.rejected: RejectedEdit | None = None
        self.on_replace: Callable[[], None] | None = None
        """Called when another policy decides."""

    def replace(self, calls: CallabilityCalls) -> None:
        """Answer the requests that arrive from now on by another policy."""
        self.calls = calls
        self.rejected = None
        self.replaced.set()
        self.replaced = asyncio.Event()
        if self.on_replace is not None:
            self.on_replace()

    @property
    def answers(self) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
        """What answers each call of `CallabilityService`."""
        answers = {name: self._answer(name) for name in _METHODS}
        if traces.are_sent():
            answers |= {name: _note_verdict(answers[name], name) for name in VERDICTS}
        recorder, shadow = self.recorder, self._shadow
        return {
            **answers,
            **(_add_shadow(answers, shadow) if shadow is not None else {}),
            **(_add_records(answers, recorder, shadow) if recorder is not None else {}),
        }

    def _answer(self, method: str) -> Callable[[bytes], Awaitable[bytes]]:
        def answer(data: bytes) -> Awaitable[bytes]:
            # The policy is looked up once, when a request begins.
            return self.calls.answer(method, data)

        return answer


def _note_verdict(answer: Callable[[bytes], Awaitable[bytes]], method: str) -> Callable[[bytes], Awaitable[bytes]]:
    """Return what answers, and lets the span of the call have the status and the rule of the verdict."""
    kept: BoundedCache[bytes, Mapping[str, str]] = BoundedCache(MAX_VERDICTS)

    async def answer_and_note(data: bytes) -> bytes:
        reply = await answer(data)
        request = logs.current()
        if request is not None:
            if (about := kept.get(reply)) is None:
                about = verdict_of(method, reply)
                kept.keep(reply, about)
            request.answer = about
        return reply

    return answer_and_note


def _add_shadow(
    answers: Mapping[str, Callable[[bytes], Awaitable[bytes]]], shadow: Shadow
) -> dict[str, Callable[[bytes], Awaitable[bytes]]]:
    """Return what answers by the policy in effect, and lets a candidate decide beside it."""

    async def check_tool(data: bytes) -> bytes:
        reply = await answers["CheckTool"](data)
        if not logs.is_report():
            shadow.other_reply(data, reply)
        return reply

    async def check_tools(data: bytes) -> bytes:
        reply = await answers["CheckTools"](data)
        shadow.compare(data, reply)
        return reply

    return {"CheckTool": check_tool, "CheckTools": check_tools}


def _add_records(
    answers: Mapping[str, Callable[[bytes], Awaitable[bytes]]], recorder: Recorder, shadow: Shadow | None
) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
    """Return what answers and records the calls that decide about a call, a load or an enable; never discovery."""

    async def check_tool(data: bytes) -> bytes:
        started = perf_counter()
        reply = await answers["CheckTool"](data)
        seconds = perf_counter() - started
        if logs.is_report():
            return reply
        other = None if shadow is None else shadow.other_reply(data, reply)
        recorder.decided_tool(data, reply, Call(Ended.DECIDED, seconds, other))
        return reply

    async def classify_load(data: bytes) -> bytes:
        started = perf_counter()
        reply = await answers["ClassifyLoad"](data)
        recorder.decided_load("", "", data, reply, perf_counter() - started)
        return reply

    async def classify_enable(data: bytes) -> bytes:
        started = perf_counter()
        reply = await answers["ClassifyEnable"](data)
        recorder.decided_enable("", "", data, reply, perf_counter() - started)
        return reply

    return {"CheckTool": check_tool, "ClassifyLoad": classify_load, "ClassifyEnable": classify_enable}


VALIDATION_MODULE = "callability.compiler.validation_worker"
"""What checks a policy from a request, in a process of its own."""


class PolicyCalls:
    """Reports the policy that is served, and checks others."""

    def __init__(self, served: ServedPolicy, concurrent_calls: int = limits.CONCURRENT_CALLS) -> None:
        self._served = served
        self._limits = _limits(concurrent_calls).SerializeToString()
        self._validations = 0

    async def get_policy(self, data: bytes) -> bytes:
        """Answer a `GetPolicyRequest` with a `GetPolicyResponse`."""
        rejected = self._served.rejected
        # Joined on the wire, messages are one.
        reply = self._served.calls.policy_reply + self._limits
        return reply + _rejection_reply(rejected).SerializeToString() if rejected else reply

    async def validate_policy(self, data: bytes) -> bytes:
        """Answer a `ValidatePolicyRequest` with a `ValidatePolicyResponse`.

        Raises:
            InvalidRequest: it is malformed, has too many files or bytes, or a name of a file is invalid or is repeated.
            TooManyAtOnce: too many policies are being checked.
        """
        limits.check_files(data)
        request = parse(pb.ValidatePolicyRequest, data)
        limits.check_policy_files([(file.name, len(file.data)) for file in request.files])
        if self._validations >= limits.VALIDATIONS:
            message = f"{limits.VALIDATIONS} policies are being checked, and no more are at a time: try again"
            raise TooManyAtOnce("TOO_MANY_VALIDATIONS", message)
        self._validations += 1
        try:
            return await output_of(VALIDATION_MODULE, data, limits.VALIDATION_SECONDS)
        except NoOutput as error:
            finding = Finding(Place(""), "check-failed", f"could not be checked: {error}")
            return pb.ValidatePolicyResponse(findings=[finding_message(finding)], errors=1).SerializeToString()
        finally:
            self._validations -= 1


def _limits(concurrent_calls: int) -> pb.GetPolicyResponse:
    """Return the limits that are those of the server, whatever the policy."""
    methods = [pb.MethodLimits(method=method, request_bytes=size) for method, size in limits.REQUEST_BYTES.items()]
    return pb.GetPolicyResponse(limits=pb.Limits(concurrent_calls=concurrent_calls, methods=methods))


def _rejection_reply(rejected: RejectedEdit) -> pb.GetPolicyResponse:
    findings = [line(finding) for finding in rejected.findings[: limits.POLICY_FINDINGS]]
    return pb.GetPolicyResponse(rejected_edit=pb.RejectedEdit(revision=rejected.revision, findings=findings))


HEARTBEAT_SECONDS = 5
"""Seconds without a change after which a watcher gets a message that confirms the policy."""
ENDING = 1.0
"""Seconds that the streams have to end when the service stops."""


class PolicyWatches:
    """Streams a served policy to any number of watchers. Each gets the newest when it can read: none needs a queue."""

    def __init__(self, served: ServedPolicy) -> None:
        self._served = served
        self._stopping = asyncio.Event()
        self._left = 0
        self._none_left = asyncio.Event()
        self._none_left.set()
        # The largest reply is encoded once for all watchers.
        self._encoded: tuple[CallabilityCalls, bytes] | None = None

    async def follow(self, data: bytes) -> AsyncGenerator[bytes, None]:
        """Yield a `WatchPolicyResponse` for the policy that is served, and after each change or heartbeat.

        Raises:
            InvalidRequest: the request is malformed.
            ShuttingDown: the service stops.
        """
        known = parse(pb.WatchPolicyRequest, data).bundle_digest
        self._left += 1
        self._none_left.clear()
        try:
            while not self._stopping.is_set():
                calls, replaced = self._served.calls, self._served.replaced
                yield self._with_bundle(calls) if calls.policy.digest != known else _reply(calls)
                known = calls.policy.digest
                if self._served.replaced is replaced:
                    await self._change(replaced)
            raise ShuttingDown
        finally:
            self._left -= 1
            if not self._left:
                self._none_left.set()

    async def end(self) -> None:
        """End every stream with `ShuttingDown`, and wait until they have ended, for at most `ENDING` seconds."""
        self._stopping.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDING):
                await self._none_left.wait()

    async def _change(self, replaced: asyncio.Event) -> None:
        """Wait until the policy is replaced, the service stops or a heartbeat is due."""
        waits = [asyncio.create_task(each.wait()) for each in (replaced, self._stopping)]
        try:
            await asyncio.wait(waits, timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    def _with_bundle(self, calls: CallabilityCalls) -> bytes:
        if self._encoded is None or self._encoded[0] is not calls:
            self._encoded = calls, _reply(calls, calls.bundle)
        return self._encoded[1]


def _reply(calls: CallabilityCalls, bundle: bytes = b"") -> bytes:
    return pb.WatchPolicyResponse(
        revision=calls.revision,
        bundle_digest=calls.policy.digest,
        bundle=bundle,
        heartbeat_seconds=HEARTBEAT_SECONDS,
    ).SerializeToString()
