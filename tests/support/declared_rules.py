"""Rules that read labels of agents and facts that the rule file declares."""

from __future__ import annotations

from pathlib import Path

from callability.compiler.policy import Policy, load
from support.policies import write_policy

RULES = """\
labels:
  agent: {team: [research, ops]}
facts:
  proxy.quota:
    of: server
    values: [ok, low, out]
    default: ok
    owner: operator
    action: raise_quota
    phrase: raise the quota
  proxy.license:
    of: tool
    values: [true, false]
    default: false
    owner: user
    action: accept_license
    phrase: accept the license
    asserted: true
rules:
  - id: lock
    when: {any: [{server.quarantined: true}, {approval.status: [pending, changed]}]}
    status: disabled_unknown
  - id: no-team
    when: {agent.label.team: none}
    status: disabled_by_config
    action: Ask to {edit_labels}.
  - id: no-quota
    when: {proxy.quota: out}
    status: disabled_by_config
    action: Ask to {raise_quota}.
  - id: unlicensed
    when: {proxy.license: false}
    status: pending_approval
    action: Ask the user to {accept_license}.
  - {id: open, status: callable}
words:
  disabled_by_config: {remediation: '{edit_policy}.', rejection: '{edit_policy}.'}
  pending_approval: {remediation: 'Please review.', rejection: 'Please review.'}
  disabled_unknown: {remediation: 'Please {check_logs}.', rejection: 'Please {check_logs}.'}
"""


def declaring_policy(directory: Path, rules: str = RULES) -> Policy:
    """Return the policy of these rules, written to a directory."""
    write_policy(directory, rules)
    return load(directory)
