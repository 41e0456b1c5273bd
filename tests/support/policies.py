"""Policies that tests write."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from callability.files.shipped_policy import export_policy

SMALLEST = {
    "load_outcome.yaml": "rules: [{id: all, status: permanent}]\nwords: {permanent: {message: '{check_server}'}}\n",
    "enable_outcome.yaml": "rules: [{id: all, status: connect_failed}]\nwords: {connect_failed: {message: x}}\n",
}
"""The rule sets that a policy has beside that of tools, as small as they can be."""
RULES = """\
- {id: one, when: {server.enabled: false}, status: server_disabled}
- {id: gate, when: {not: {all: [{server.quarantined: false}, {approval.status: [none, approved]}]}}, status: server_disabled, action: "Wait."}
- {id: open, status: callable}
"""  # noqa: E501
WORDS = """\
server_disabled: {remediation: "{enable_server}", rejection: "Ask to {enable_server}."}
disabled_unknown: {remediation: "{check_logs}", rejection: "{check_logs}"}
"""
needs_engine = pytest.mark.skipif(
    importlib.util.find_spec("durable") is None, reason="durable-rules cannot be imported on Python 3.13 and later"
)


def write_policy(directory: Path, text: str) -> Path:
    """Write a policy whose rule set of tools is the text, and return its directory."""
    for name, content in {"callability.yaml": text, **SMALLEST}.items():
        (directory / name).write_text(content)
    return directory


def exported_policy(directory: Path, *changes: tuple[str, str, str], example: str | None = None) -> Path:
    """Write the shipped policy, or an example, with texts of its files replaced: file, old and new text."""
    export_policy(directory, example)
    for file, old, new in changes:
        text = (directory / file).read_text()
        assert old in text
        (directory / file).write_text(text.replace(old, new))
    return directory


def policy_text(case: Mapping[str, Any]) -> str:
    """Return a rule file about tools: the one of a case, or a small one with the parts that the case gives."""
    if "file" in case:
        return str(case["file"])
    rules, words = case.get("rules", RULES), case.get("words", WORDS)
    laws = f"laws:\n{case['laws']}" if "laws" in case else ""
    return f"rules:\n{indent(rules, '  ').rstrip()}\nwords:\n{indent(words, '  ')}{laws}".replace("\n  - ", "\n- ")
