"""An upstream MCP server as the gateway sees it: it connects when needed, and its failures affect no other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from mcp.shared.dispatcher import ProgressFnT
from mcp_types import CallToolResult

from callability.gateway.config.model import Deadlines
from callability.gateway.upstream.connection import Connection, State
from callability.gateway.upstream.failure import NOT_SENT, Failure, UpstreamError
from callability.gateway.upstream.listing import UpstreamTool, Witness, witness_nothing
from callability.gateway.upstream.messages import CallDeadline
from callability.gateway.upstream.target import HttpTarget, Target
from callability.process.background import begin_task

# Every owner limits the time of its own closing; this limits those that exceed it.
CLOSE_SECONDS = 8
REST_SECONDS = 5.0
"""For so long after the start of an opening that fails, calls start no other one."""
_NOT_CONNECTED = Failure("is not connected")

FIRST_START_SECONDS = 60.0
"""How long a process that has not listed any tool yet may take to open: its first start may install it, as with `uvx`.
"""


class Upstream:
    """One upstream and its connections, of which at most one takes calls; use it in one event loop.

    An opening takes at most `open_seconds`, including the listing of the tools, and a call at most `call_seconds`, or
    `call_max_seconds` if it reports progress. Over HTTP the tools are listed again after `refresh_seconds`, in addition
    to the changes that the upstream announces. With `names_only` no text of the tools is kept, as for a server in
    quarantine (A.4). `tools` are those listed earlier. With `once_within` it opens only once, for at most so many
    seconds, because a person may be asked on the way; a second opening needs another `Upstream`. A call within
    `rest_seconds` after the start of an opening that failed gets that failure, and opens nothing. `opens_older` is
    that of an earlier upstream with the same target. `witness` is awaited with each list of tools before it counts.
    """

    def __init__(
        self,
        name: str,
        target: Target,
        *,
        open_seconds: float = 10,
        call_seconds: float = 60,
        call_max_seconds: float = 3600,
        refresh_seconds: float = 300,
        names_only: bool = False,
        tools: tuple[UpstreamTool, ...] = (),
        once_within: float | None = None,
        rest_seconds: float = 0,
        opens_older: bool = False,
        witness: Witness = witness_nothing,
    ) -> None:
        self.name = name
        self._once_within = once_within
        self._target = target
        self._open_seconds = self._first_start_seconds = open_seconds
        self._call_seconds = call_seconds
        self._call_max_seconds = call_max_seconds
        self._refresh_seconds = refresh_seconds
        self._names_only = names_only
        self._witness = witness
        self._earlier = tools
        self._opened_older = opens_older
        self.reopen_seconds = 30.0
        """How long until its supervisor first tries a failed opening again."""
        self.recheck_seconds = 600.0
        """How long until its supervisor looks at it again if it needs attention; 0 for never."""
        self.is_rechecked = False
        """Whether an opening that starts and fails as the last one is not worth a line in the log."""
        self._connection: Connection | None = None
        # The connection's task, and those of earlier connections that still clean up.
        self._owners: set[asyncio.Task[None]] = set()
        self._retired = False
        self._openings = 0
        self._first_began = 0.0
        self._rest_seconds = rest_seconds
        self._rests_until = 0.0
        self._opening_started = asyncio.Event()
        self._callers = 0

    @property
    def state(self) -> State:
        """The state of the connection; `failed` until the next opening, and `closed` before the first one."""
        return "closed" if self._connection is None else self._connection.state

    @property
    def failure(self) -> str | None:
        """Why the last opening failed or the connection was lost, in a sentence that is safe for an agent."""
        return None if self.last_failure is None else str(UpstreamError(self.name, self.last_failure))

    @property
    def last_failure(self) -> Failure | None:
        """The facts of the same failure, for a classifier."""
        return self._connection.failure if self._connection is not None and self.state == "failed" else None

    @property
    def tools(self) -> tuple[UpstreamTool, ...]:
        """The tools in the upstream's order, as it listed them last."""
        return self._earlier if self._connection is None else self._connection.tools

    @property
    def said(self) -> tuple[str, ...]:
        """The last lines that a child wrote on its standard error, without secrets."""
        return () if self._connection is None else self._connection.said

    @property
    def has_consent(self) -> bool:
        """Whether a person authorized the connection in a dialog, and can do so again."""
        authorization = self._target.authorization if isinstance(self._target, HttpTarget) else None
        return authorization is not None and authorization.may_ask

    @property
    def left_out(self) -> tuple[str, ...]:
        """What is wrong with each tool that it lists and that cannot be used."""
        return () if self._connection is None else self._connection.left_out

    def set_deadlines(self, deadlines: Deadlines) -> None:
        """Set the deadlines of the openings and calls that start from now on."""
        self._open_seconds = self._first_start_seconds = deadlines.open_seconds
        if not isinstance(self._target, HttpTarget) and "open_seconds" not in deadlines.model_fields_set:
            self._first_start_seconds = FIRST_START_SECONDS
        self._call_seconds = deadlines.call_seconds
        self._call_max_seconds = deadlines.call_max_seconds
        self._refresh_seconds = deadlines.refresh_seconds
        self.reopen_seconds = deadlines.reopen_seconds
        self.recheck_seconds = deadlines.recheck_seconds

    def start(self) -> None:
        """Start to open, unless that is done or under way, and return at once; once closed, it stays closed."""
        spent = self._once_within is not None and self._openings
        if self._retired or spent or self.state in ("connecting", "connected"):
            return
        self._connection = Connection(
            self.name,
            self._target,
            open_seconds=self._once_within or self.longest_opening,
            list_seconds=self._open_seconds,
            refresh_seconds=self._refresh_seconds,
            tools=self.tools,
            names_only=self._names_only,
            opens_older=self.opens_older,
            expected=self.last_failure if self.is_rechecked else None,
            witness=self._witness,
        )
        self._openings += 1
        now = asyncio.get_running_loop().time()
        self._first_began, self._rests_until = self._first_began or now, now + self._rest_seconds
        self._opening_started.set()
        self._opening_started = asyncio.Event()
        begin_task(self._connection.run(), self._owners, f"upstream {self.name}")

    async def wait_until_open(self) -> None:
        """Wait for the opening that is under way.

        Raises:
            UpstreamError: it failed, the connection was lost since, or nothing was started.
        """
        await self._open()

    async def opening_started(self) -> None:
        """Wait until the next opening starts."""
        await self._opening_started.wait()

    async def wait_until_ended(self) -> None:
        """Wait until the connection, or its opening, has ended; return at once if there is none."""
        if self._connection is not None:
            await self._connection.ended.wait()

    @property
    def opens_older(self) -> bool:
        """Whether the last opening succeeded by the older handshake alone; after a failed one, both are tried."""
        return self._opened_older if self._connection is None else self._connection.opens_older

    @property
    def longest_opening(self) -> float:
        """The longest time of an opening that starts from now on, in seconds."""
        return self._open_seconds if self.tools else self._first_start_seconds

    @property
    def first_opening_began(self) -> float | None:
        """When the first opening began, by the clock of the loop, as long as it is under way: nothing is known yet."""
        return self._first_began if self.state == "connecting" and self._openings == 1 else None

    @property
    def is_settled(self) -> bool:
        """Whether no opening is under way, and every change of the tools that was announced is read."""
        return self._connection is None or self._connection.is_current

    @property
    def is_restless(self) -> bool:
        """Whether it announces changes of its tools again and again."""
        return self._connection is not None and self._connection.is_restless

    @property
    def is_slow_to_list(self) -> bool:
        """Whether reading a change of its tools may take long, so that discovery does not wait for it."""
        return self._connection is not None and self._connection.is_slow_to_list

    @property
    def is_failing(self) -> bool:
        """Whether it is connected, and its last call or listing failed."""
        return self._connection is not None and self._connection.is_failing

    def renew(self) -> None:
        """Replace the current connection; it ends when its calls have ended."""
        if self._connection is not None and self.state == "connected":
            self._connection.retire()
            self.start()

    async def connect(self) -> Connection:
        """Return the connection for a call, and open one if needed.

        Raises:
            UpstreamError: it cannot be opened, or could not a moment ago, so that the call was not sent.
        """
        if self._connection is not None:
            # A call would be lost with a child that hangs.
            await self._connection.wait_for_ping()
        if not self._rests:
            self.start()
        self._callers += 1
        try:
            return await self._open()
        except UpstreamError as error:
            raise UpstreamError(self.name, error.failure, NOT_SENT) from None
        finally:
            self._callers -= 1

    @property
    def _rests(self) -> bool:
        """Whether the last opening failed and started so recently that no call may start another one."""
        failed = self._connection is not None and self.state == "failed" and not self._connection.stood
        return failed and asyncio.get_running_loop().time() < self._rests_until

    async def tools_current(self) -> None:
        """Wait for the opening, or the listing, that is under way; the state and the tools show how it ended."""
        connection = self._connection
        if connection is not None:
            await connection.settled.wait()
            await connection.current()

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None,
        *,
        on: Connection | None = None,
        meta: Mapping[str, Any] | None = None,
        progress: ProgressFnT | None = None,
    ) -> CallToolResult:
        """Call a tool on a connection; without one, connect first if needed.

        `on` is the connection for which the call was judged: on another one the tool may be another. `meta` goes with
        the call, and `progress` gets the upstream's reports on the way.

        Raises:
            UpstreamRefusal: the upstream answered with a JSON-RPC error.
            UpstreamError: the call was not sent, or not answered, and is not sent again.
        """
        connection = on or await self.connect()
        deadline = CallDeadline(self._call_seconds, self._call_max_seconds)
        return await connection.call(tool, arguments, deadline, meta=meta, progress=progress)

    def late_failure(self, failure: Failure) -> Failure:
        """Return why an opening failed that ran out of time: what was received of it may explain it better."""
        return failure if self._connection is None else self._connection.late_failure(failure)

    def give_up(self, failure: Failure) -> None:
        """End the current opening with a failure, unless a call waits for it; another one may be started."""
        if self._connection is not None and self.state == "connecting" and not self._callers:
            self._connection.give_up(failure)

    def disconnect(self) -> None:
        """Start to disconnect for good; from now on there are no calls and no openings."""
        self._retired = True
        if self._connection is not None:
            self._connection.close()

    async def close(self) -> None:
        """Disconnect for good, and return when no process, connection or task is left."""
        self.disconnect()
        if owners := set(self._owners):
            _, late = await asyncio.wait(owners, timeout=CLOSE_SECONDS)
            for owner in late:
                owner.cancel()
            if late:
                await asyncio.wait(late, timeout=1)

    async def _open(self) -> Connection:
        connection = self._connection
        if connection is None:
            raise UpstreamError(self.name, _NOT_CONNECTED)
        await connection.settled.wait()
        if connection.failure is not None:
            raise UpstreamError(self.name, connection.failure)
        return connection
