"""The outcome of an enable, without the parts that differ between callers who shared it."""

from __future__ import annotations

from dataclasses import dataclass, field

from callability.gateway.upstream import Failure, Upstream
from callability.v1.callability_service_pb2 import ClassifyLoadResponse
from callability.v1.outcome_pb2 import EnableAuthorization as WireAuthorization
from callability.v1.outcome_pb2 import EnableCredentials as WireCredentials
from callability.v1.outcome_pb2 import EnableEnd as WireEnd
from callability.v1.outcome_pb2 import EnableFacts
from callability.vocabulary import EnableAuthorization, EnableEnd


@dataclass(frozen=True, slots=True)
class EnableOutcome:
    """The facts of an enable, except whether a tool can be called, and what its answer is made of.

    `variables` are not set; `failure` says why the connection failed, and `load` is the policy's classification of it;
    `dialog_expired`: the dialog was not answered in time; `upstream` is what is connected.
    """

    known: bool = True
    was_connected: bool = False
    variables: tuple[str, ...] = ()
    authorization: EnableAuthorization = EnableAuthorization.NOT_NEEDED
    end: EnableEnd = EnableEnd.FAILED
    failure: Failure | None = None
    dialog_expired: bool = False
    load: ClassifyLoadResponse | None = field(default=None, repr=False)
    upstream: Upstream | None = None

    def facts(self, *, callable_tools: bool) -> EnableFacts:
        """Return the facts to send to the policy."""
        credentials = "MISSING" if self.variables else "COMPLETE"
        return EnableFacts(
            known=self.known,
            was_connected=self.was_connected,
            credentials=WireCredentials.Value(f"ENABLE_CREDENTIALS_{credentials}"),
            authorization=WireAuthorization.Value(f"ENABLE_AUTHORIZATION_{self.authorization.name}"),
            ended=WireEnd.Value(f"ENABLE_END_{self.end.name}"),
            callable_tools=callable_tools,
            load_status=self.load.verdict.status if self.load is not None else None,
            dialog_expired=self.dialog_expired,
        )
