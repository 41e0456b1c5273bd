"""Rules that read labels."""

from __future__ import annotations

RULES = """\
labels:
  server: {environment: [production, staging, test]}
  tool: {reviewed: ["yes"]}
rules:
  - id: lock
    when: {any: [{server.quarantined: true}, {approval.status: [pending, changed]}]}
    status: disabled_unknown
  - id: frozen
    when: {server.label.environment: production, annotations.destructive: true, tool.label.reviewed: none}
    status: disabled_by_config
    action: Tell the user that the operator has to {edit_labels}.
  - {id: open, status: callable}
words:
  disabled_by_config: {remediation: 'Ask to {edit_labels}.', rejection: 'Ask to {edit_labels}.'}
  disabled_unknown: {remediation: 'Please {check_logs}.', rejection: 'Please {check_logs}.'}
"""
