"""The approvals file: people's decisions about single tools, each for the form of the tool that was approved.

A form is recognized by its fingerprint, and kept in a file of that name. Gateways read the approvals, and people's
commands write them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from callability.contract.finding import Finding, Place, Severity, as_code, did_you_mean, in_order, list_names
from callability.files import document
from callability.files.document import Node, Scalar, entries_of
from callability.files.editing import replace as replace_file
from callability.process.regular_file import read_regular

if TYPE_CHECKING:
    from mcp_types import Tool

VERSION = "v2:"
"""What a fingerprint of the current version starts with; one of the version before has no prefix."""

_SETS = ("required", "enum", "type")
_SETS_BY_NAME = ("dependentRequired", "dependencies")
_SCHEMAS = (
    *("items", "additionalItems", "unevaluatedItems", "contains", "additionalProperties", "unevaluatedProperties"),
    *("propertyNames", "not", "if", "then", "else", "contentSchema"),
)
_LISTS_OF_SCHEMAS = ("items", "prefixItems", "anyOf", "oneOf", "allOf")
_SCHEMAS_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The fingerprint of one form of a tool: the current one, and the one of the version before.

    In the current version, the order of sets in the schemas does not count: a program may list them in another order
    each time that it is started.
    """

    current: str
    earlier: str

    def matches(self, pin: str) -> bool:
        """Say whether the record of an approval is about this form."""
        return pin in (self.current, self.earlier)

    def is_named(self, digest: str) -> bool:
        """Say whether a person means this form by a digest; its version may be left out."""
        named = digest.lower()
        return self.matches(named) or named == digits_of(self.current)


def digits_of(fingerprint: str) -> str:
    """Return the hexadecimal digits of a fingerprint, of whichever version: the SHA-256 of the form that it is of."""
    return fingerprint.removeprefix(VERSION)


def approved_part(tool: Tool) -> dict[str, Any]:
    """Return the part of a tool that a person approves, as MCP writes it: all that is searched, shown or decided by.

    What the tool does not give is left out. The sets of the schemas are sorted.
    """
    part = _part(tool)
    sort_sets(part)
    return part


def canonical_form(part: dict[str, Any]) -> bytes:
    """Return JSON in UTF-8 without white space, its keys sorted by code point at every depth, and every character that
    need not be escaped written as itself.
    """
    return _json(part).encode("utf-8", "surrogatepass")


def fingerprint(tool: Tool) -> Fingerprint:
    """Return the fingerprint of what is approved of a tool: the SHA-256, in hexadecimal, of its canonical form."""
    part = _part(tool)
    earlier = _digest(part)
    sort_sets(part)
    return Fingerprint(f"{VERSION}{_digest(part)}", earlier)


def sort_sets(part: dict[str, Any]) -> None:
    """Sort the sets in the schemas of an approved part, and nothing else of it.

    A keyword counts only where a schema stands: the property `required` is no set, nor is what a `default` holds.
    """
    # Not by recursion: a server decides how deep its schemas are.
    schemas = [part.get("inputSchema"), part.get("outputSchema")]
    while schemas:
        schema = schemas.pop()
        if not isinstance(schema, dict):
            continue
        for members in _sets_of(schema):
            members.sort(key=_json)
        schemas += _schemas_in(schema)


def _part(tool: Tool) -> dict[str, Any]:
    return tool.model_dump(
        mode="json",
        by_alias=True,
        exclude_none=True,
        include={"name", "title", "description", "input_schema", "output_schema", "annotations"},
    )


def _digest(part: dict[str, Any]) -> str:
    return hashlib.sha256(canonical_form(part)).hexdigest()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _sets_of(schema: dict[str, Any]) -> Iterator[list[Any]]:
    by_name = (schema.get(keyword) for keyword in _SETS_BY_NAME)
    values = (value for names in by_name if isinstance(names, dict) for value in names.values())
    for value in (*(schema.get(keyword) for keyword in _SETS), *values):
        if isinstance(value, list):
            yield value


def _schemas_in(schema: dict[str, Any]) -> Iterator[Any]:
    """Yield what stands at the positions of schemas in a schema."""
    for keyword, value in schema.items():
        if keyword in _SCHEMAS:
            yield value
        if keyword in _LISTS_OF_SCHEMAS and isinstance(value, list):
            yield from value
        if keyword in _SCHEMAS_BY_NAME and isinstance(value, dict):
            yield from value.values()


@dataclass(frozen=True, slots=True)
class Definitions:
    """A directory beside an approvals file; its content can be deleted, and is then no longer shown."""

    directory: Path

    @classmethod
    def beside(cls, approvals: Path) -> Definitions:
        """Return the definitions that go with an approvals file."""
        return cls(approvals.with_name(f"{approvals.stem}.definitions"))

    def keep(self, fingerprint: str, definition: dict[str, Any]) -> None:
        """Keep the definition that a fingerprint is of, in its canonical form.

        Raises:
            OSError: it cannot be written.
        """
        data, sha256 = canonical_form(definition), digits_of(fingerprint)
        if self.find(fingerprint) is not None or _read(data, sha256) is None:
            return
        self.directory.mkdir(exist_ok=True)
        replace_file(self._path(sha256), data)

    def find(self, fingerprint: str) -> dict[str, Any] | None:
        """Return the definition with a fingerprint, or None if none is kept, or another one is."""
        sha256 = digits_of(fingerprint)
        try:
            data = read_regular(self._path(sha256))
        except OSError:
            return None
        return _read(data, sha256)

    def _path(self, sha256: str) -> Path:
        return self.directory / f"{sha256}.json"


def _read(data: bytes, sha256: str) -> dict[str, Any] | None:
    """Return a definition, or None if its digest differs, or its data is not a definition in canonical form."""
    if hashlib.sha256(data).hexdigest() != sha256:
        return None
    try:
        definition: dict[str, Any] = json.loads(data.decode("utf-8", "surrogatepass"))
        return definition if canonical_form(definition) == data else None
    except (ValueError, RecursionError):
        return None


SeenForms = dict[str, dict[str, str]]
"""The fingerprint of each tool that was ever listed, by server and name."""
_MAX_SEEN = 64 * 1024 * 1024


def seen_beside(approvals: Path) -> Path:
    """Return the file of the forms that gateways have seen, which goes with an approvals file."""
    return approvals.with_name(f"{approvals.stem}.seen.json")


def read_seen(file: Path) -> SeenForms:
    """Return the forms of a file; there are none if it does not exist.

    Raises:
        OSError: it cannot be read.
        ValueError, RecursionError: it holds something else.
    """
    try:
        data: Any = json.loads(read_regular(file, _MAX_SEEN))
    except FileNotFoundError:
        return {}
    forms = [*data.values()] if isinstance(data, dict) else [None]
    if not all(isinstance(tools, dict) and all(isinstance(form, str) for form in tools.values()) for tools in forms):
        raise ValueError("does not map servers to tools to fingerprints")
    return {**data}


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
    malformed = tuple(_find_malformed(root))
    if malformed:
        return _unreadable(malformed, digest)
    warnings: list[Finding] = []
    records = {
        str(server.value): {
            str(tool.value): _record(record, _subject(server, tool), warnings) for tool, record in entries_of(tools)
        }
        for server, tools in entries_of(root)
    }
    return Approvals(True, records, in_order(warnings), digest)


def _unreadable(findings: tuple[Finding, ...], digest: str) -> Approvals:
    warnings = in_order(replace(finding, severity=Severity.WARNING) for finding in findings)
    return Approvals(False, {}, warnings, digest)


def _find_malformed(root: Node) -> Iterator[Finding]:
    if not isinstance(root, document.DocumentMapping):
        yield Finding(root.place, "malformed-approvals", "the file does not map servers to tools")
    for server, tools in entries_of(root):
        if not isinstance(tools, document.DocumentMapping):
            sentence = f"server {_word(server)} does not map tools to records"
            yield Finding(_place(server, tools), "malformed-approvals", sentence, "write `{}` where there is none")
        for tool, record in entries_of(tools):
            if not isinstance(record, document.DocumentMapping) and not _blank(record):
                sentence = f"the record of {_subject(server, tool)} is not a mapping"
                yield Finding(record.place, "malformed-approvals", sentence, "write for example `{disabled: true}`")


def _blank(node: Node) -> bool:
    return isinstance(node, Scalar) and node.value is None


def _place(key: Scalar, node: Node) -> Place:
    """Return the place of a value, or of its key: a value that is left blank has no place of its own."""
    return key.place if _blank(node) else node.place


def _word(key: Scalar) -> str:
    return as_code(str(key.value))


def _subject(server: Scalar, tool: Scalar) -> str:
    return f"tool {_word(tool)} of server {_word(server)}"


def _record(node: Node, subject: str, warnings: list[Finding]) -> ApprovalRecord:
    record = ApprovalRecord(disabled=False, status="approved")
    unreadable: list[Scalar] = []
    for key, value in entries_of(node):
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
    sentence = f"`{key.value}` of {subject} is none of {list_names(wanted)}, and counts as unknown"
    word = node.value if isinstance(node, Scalar) and isinstance(node.value, str) else ""
    hint = "write it without quotes" if word in {"true", "false"} and word in wanted else did_you_mean(word, wanted)
    return Finding(_place(key, node), "unknown-value", sentence, hint if word else "", Severity.WARNING)
