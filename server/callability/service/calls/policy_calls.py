"""The calls of `PolicyService`, from the bytes of a request to the bytes of a reply."""

from __future__ import annotations

from callability.child_process.child import NoOutput
from callability.child_process.output import output_of
from callability.finding import Finding, Place, line
from callability.kernel import limits, request_size
from callability.kernel.calls import parsed
from callability.kernel.description import finding_message
from callability.service.calls.served_policy import RejectedEdit, ServedPolicy
from callability.service.requests.errors import TooManyAtOnce
from callability.v1 import policy_service_pb2 as pb

VALIDATION_MODULE = "callability.bundling.validation_worker"
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
        return reply + _rejected(rejected).SerializeToString() if rejected else reply

    async def validate_policy(self, data: bytes) -> bytes:
        """Answer a `ValidatePolicyRequest` with a `ValidatePolicyResponse`.

        Raises:
            InvalidRequest: it is malformed, has too many files or bytes, or a name of a file is invalid or is repeated.
            TooManyAtOnce: too many policies are being checked.
        """
        request_size.check_files(data)
        request = parsed(pb.ValidatePolicyRequest, data)
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
    methods = [
        pb.MethodLimits(method=method, request_bytes=size) for method, size in request_size.REQUEST_BYTES.items()
    ]
    return pb.GetPolicyResponse(limits=pb.Limits(concurrent_calls=concurrent_calls, methods=methods))


def _rejected(rejected: RejectedEdit) -> pb.GetPolicyResponse:
    findings = [line(finding) for finding in rejected.findings[: limits.POLICY_FINDINGS]]
    return pb.GetPolicyResponse(rejected_edit=pb.RejectedEdit(revision=rejected.revision, findings=findings))
