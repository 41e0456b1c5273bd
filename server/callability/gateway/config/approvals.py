"""The approvals file: people's decisions about single tools. Gateways read it, and people's commands write it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from callability import document
from callability.document import Node, Scalar
from callability.finding import Finding, Place, Severity, did_you_mean, in_order, listed, shown
from callability.gateway.config.fingerprint import VERSION, Fingerprint

ApprovalStatus = Literal["approved", "pending", "changed"]

DEFAULT_APPROVALS = "approvals.yaml"
"""The name of an approvals file that no config and no option names, beside the config."""

ANY_FORM = "any"
"""What a record has for a fingerprint if a person approved the name of the tool, in whichever form."""

_PIN = re.compile(f"(?:{VERSION})?[0-9a-f]{{64}}|{ANY_FORM}")


@dataclass(frozen=True, slots=True)
class ApprovalRecord:
    """A person's decisions about one tool; None is unknown, never a default (A.2).

    `sha256` is the fingerprint of the tool that was looked at, in lower case; if it is empty or `ANY_FORM`, the record
    is for any tool of that name.
    """

    disabled: bool | None
    status: ApprovalStatus | None
    sha256: str = ""
    has_status: bool = field(default=False, compare=False)
    """Whether a person decided about the tool; a gateway that records the first form of a tool gives none."""

    @property
    def is_pinned(self) -> bool:
        """Whether the record is for one form of the tool."""
        return self.sha256 not in ("", ANY_FORM)

    @property
    def is_open(self) -> bool:
        """Whether it approves every form of the tool although nobody said so: under `first_use`, a form is missing."""
        return not self.sha256 and self.status == "approved"

    @property
    def is_for_any_form(self) -> bool:
        """Whether a person approved the name, whatever the tool becomes."""
        return self.sha256 == ANY_FORM

    def status_of(self, fingerprint: Fingerprint | None) -> ApprovalStatus | None:
        """Return the status for a fingerprint, None if it is not known: another fingerprint is `changed`."""
        if self.status is None or not self.is_pinned or fingerprint is None or fingerprint.matches(self.sha256):
            return self.status
        return "changed"


UNKNOWN_APPROVAL = ApprovalRecord(disabled=None, status=None)


@dataclass(frozen=True, slots=True)
class Approvals:
    """The records of one reading of the file; if it is not `readable`, the approval of every tool is unknown."""

    readable: bool
    records: Mapping[str, Mapping[str, ApprovalRecord]] = field(default_factory=dict)
    warnings: tuple[Finding, ...] = ()
    digest: str = ""
    """The digest of the file that was read: see `document.digest`. Empty for a file that does not exist."""

    def record(self, server: str, tool: str) -> ApprovalRecord | None:
        """Return the record of a tool, or None if there is none; if the file is not readable, everything is unknown."""
        return self.records.get(server, {}).get(tool) if self.readable else UNKNOWN_APPROVAL

    def tools(self, server: str) -> tuple[str, ...]:
        """Return the names of a server's tools that have a record, in the order of the file."""
        return tuple(self.records.get(server, ()))


NO_APPROVALS = Approvals(readable=True)
"""No records: for a gateway without an approvals file."""


def load_approvals(path: Path) -> Approvals:
    """Read an approvals file: JSON where its name ends in `.json`, YAML 1.2 otherwise.

    It maps servers to tools to records. A record with nothing in it, written `{}` or left blank, has the defaults. A
    file that is missing, empty, unreadable or of another shape is not readable, and the findings say why; `{}` holds no
    records.
    """
    try:
        data = document.read_bytes(path)
    except document.Refused as refused:
        return _unreadable(refused.findings, "")
    digest = document.digest(data)
    try:
        root = document.parse(data, str(path))
    except document.Refused as refused:
        return _unreadable(refused.findings, digest)
    malformed = tuple(_malformed(root))
    if malformed:
        return _unreadable(malformed, digest)
    warnings: list[Finding] = []
    records = {
        str(server.value): {
            str(tool.value): _record(record, _subject(server, tool), warnings) for tool, record in _entries(tools)
        }
        for server, tools in _entries(root)
    }
    return Approvals(True, records, in_order(warnings), digest)


def _unreadable(findings: tuple[Finding, ...], digest: str) -> Approvals:
    warnings = in_order(replace(finding, severity=Severity.WARNING) for finding in findings)
    return Approvals(False, {}, warnings, digest)


def _entries(node: Node) -> tuple[tuple[Scalar, Node], ...]:
    """Return the keys and nodes of a mapping, and nothing of any other node."""
    return node.entries if isinstance(node, document.Mapping) else ()


def _malformed(root: Node) -> Iterator[Finding]:
    if not isinstance(root, document.Mapping):
        yield Finding(root.place, "malformed-approvals", "the file does not map servers to tools")
    for server, tools in _entries(root):
        if not isinstance(tools, document.Mapping):
            sentence = f"server {_word(server)} does not map tools to records"
            yield Finding(_place(server, tools), "malformed-approvals", sentence, "write `{}` where there is none")
        for tool, record in _entries(tools):
            if not isinstance(record, document.Mapping) and not _blank(record):
                sentence = f"the record of {_subject(server, tool)} is not a mapping"
                yield Finding(record.place, "malformed-approvals", sentence, "write for example `{disabled: true}`")


def _blank(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value is None


def _place(key: Scalar, node: Node) -> Place:
    """Return the place of a value, or of its key: a value that is left blank has no place of its own."""
    return key.place if _blank(node) else node.place


def _word(key: Scalar) -> str:
    return shown(str(key.value))


def _subject(server: Scalar, tool: Scalar) -> str:
    return f"tool {_word(tool)} of server {_word(server)}"


def _record(node: Node, subject: str, warnings: list[Finding]) -> ApprovalRecord:
    record = ApprovalRecord(disabled=False, status="approved")
    unreadable: list[Scalar] = []
    for key, value in _entries(node):
        match key.value, value:
            case "disabled", Scalar(value=bool(disabled)):
                record = replace(record, disabled=disabled)
            case "status", Scalar(value="approved" | "pending" | "changed" as status):
                record = replace(record, status=status, has_status=True)
            case "sha256", Scalar(value=str(pin)) if _PIN.fullmatch(pin.lower()):
                record = replace(record, sha256=pin.lower())
            case "disabled", _:
                record = replace(record, disabled=None)
                warnings.append(_unknown_value(key, value, subject, ("true", "false")))
            case "status", _:
                record = replace(record, status=None)
                warnings.append(_unknown_value(key, value, subject, get_args(ApprovalStatus)))
            case "sha256", _:
                unreadable.append(key)
                sentence = f"`sha256` of {subject} is no fingerprint, so its status counts as unknown"
                hint = f"a fingerprint is `{VERSION}` and 64 hexadecimal digits; `{ANY_FORM}` stands for any form"
                warnings.append(Finding(_place(key, value), "unknown-value", sentence, hint, Severity.WARNING))
            case _:
                sentence = f"unknown key {_word(key)} in the record of {subject} is passed over"
                hint = did_you_mean(str(key.value), ("disabled", "status", "sha256"))
                warnings.append(Finding(key.place, "unknown-key", sentence, hint, Severity.WARNING))
    return replace(record, status=None) if unreadable else record


def _unknown_value(key: Scalar, node: Node, subject: str, wanted: tuple[str, ...]) -> Finding:
    sentence = f"`{key.value}` of {subject} is none of {listed(wanted)}, and counts as unknown"
    word = node.value if isinstance(node, Scalar) and isinstance(node.value, str) else ""
    hint = "write it without quotes" if word in {"true", "false"} and word in wanted else did_you_mean(word, wanted)
    return Finding(_place(key, node), "unknown-value", sentence, hint if word else "", Severity.WARNING)
