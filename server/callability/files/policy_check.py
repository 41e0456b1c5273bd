"""The check of a policy in a process of its own, for whatever serves or decides by it."""

from __future__ import annotations

import logging
import pickle

from callability.contract.finding import Finding, Place
from callability.files.policy_source import PolicySource
from callability.kernel.policy import CheckedPolicy, unpack
from callability.process.background import output_of
from callability.process.child import NoOutput

CHECK_MODULE = "callability.compiler.check_worker"
"""What checks a policy, in a process of its own: whatever serves a policy never imports what compiles it."""
CHECK_SECONDS = 120.0
"""How long a check may take."""
_logger = logging.getLogger(__name__)


async def checked_source(written: PolicySource) -> CheckedPolicy:
    """Check the source of a policy in a process of its own. One that cannot be checked is refused."""
    try:
        return unpack(await output_of(CHECK_MODULE, pickle.dumps(written), CHECK_SECONDS))
    except NoOutput as error:
        return uncheckable(written, str(error))
    except Exception:
        _logger.exception("an edit of the policy could not be checked")
        return uncheckable(written, "the service failed; its log says why")


def uncheckable(written: PolicySource, why: str) -> CheckedPolicy:
    """Return what a policy is that could not be checked: refused, with a finding that says why."""
    return CheckedPolicy(b"", (Finding(Place(written.shown), "check-failed", f"could not be checked: {why}"),))
