"""Checking a policy from a request in a process of its own: nothing of it is written, run or served.

The process reads a `ValidatePolicyRequest` from standard input, and writes a `ValidatePolicyResponse` to standard
output.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import PurePosixPath

from callability.compiler.bundle_writing import compile_rule_set, with_size
from callability.compiler.check_worker import MAX_CPU
from callability.compiler.policy import ProvedRuleSet, actions_of, check_source, engines
from callability.contract.finding import Finding, Severity, count_of
from callability.files.policy_source import PolicyFile, PolicySource
from callability.kernel import limits
from callability.kernel.calls import finding_message, rule_set_message
from callability.process.limits import limit_this_process
from callability.v1 import policy_service_pb2 as pb

ENGINE_SECONDS = limits.VALIDATION_SECONDS * 2 / 3
"""Seconds that the engine has for a rule set: less than the process has, so that a timeout is a finding."""
_WHOLE = "/"
"""The name of the policy as a whole in findings: no file can have it."""


def validate(request: pb.ValidatePolicyRequest) -> pb.ValidatePolicyResponse:
    """Check the files of a request, whose names hold no `/`."""
    paths = {file.name: PurePosixPath(file.name) for file in request.files}
    files = tuple(PolicyFile(paths[file.name], file.name, file.data) for file in request.files)
    written = PolicySource(_WHOLE, files, names=frozenset(path.stem for path in paths.values()))
    check = with_size(check_source(written, seconds=ENGINE_SECONDS), written.shown)
    policy = check.policy
    return pb.ValidatePolicyResponse(
        sound=policy is not None,
        revision=policy.revision if policy else "",
        findings=[finding_message(_place(finding)) for finding in check.findings[: limits.POLICY_FINDINGS]],
        errors=count_of(Severity.ERROR, check.findings),
        warnings=count_of(Severity.WARNING, check.findings),
        rule_sets=[_describe(name, proved) for name, proved in sorted(check.proved.items())],
        engine=engines(check.proved.values()),
    )


def _describe(name: str, proved: ProvedRuleSet) -> pb.RuleSet:
    return rule_set_message(name, compile_rule_set(proved), actions_of([proved]))


def _place(finding: Finding) -> Finding:
    """Return a finding; one about the policy as a whole is in no file."""
    return finding if finding.place.file != _WHOLE else replace(finding, place=replace(finding.place, file=""))


def main() -> None:
    """Check the policy on standard input."""
    limit_this_process(MAX_CPU)
    request = pb.ValidatePolicyRequest.FromString(sys.stdin.buffer.read())
    sys.stdout.buffer.write(validate(request).SerializeToString())


if __name__ == "__main__":
    main()
