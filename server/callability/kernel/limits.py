"""How much a request may hold. The numbers are part of the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from callability.finding import MAX_FINDINGS

TOOLS = 20_000
SERVERS = 2_000
NAME_BYTES = 512
MESSAGE_BYTES = 4 * 1024 * 1024
"""Bytes of a request; a reply may have more."""
LABELS = 64
LABEL_KEY_BYTES = 128
LABEL_VALUE_BYTES = 512
DECLARED_FACTS = 64
DECLARED_FACT_NAME_BYTES = 128
DECLARED_FACT_VALUE_BYTES = 128
ERROR_TEXT_BYTES = 65_536
POLICY_FILES = 16
POLICY_BYTES = 2_097_152
POLICY_FINDINGS = MAX_FINDINGS
VALIDATIONS = 2
VALIDATION_SECONDS = 60
FACTS_BYTES = 65_536
"""Bytes of the facts of a server, a tool or an agent: those of 64 labels and 64 declared facts of the greatest size,
and room for what is added.
"""
PARTS_BYTES = 1_048_576
"""Bytes of a server with its tools whose facts are encoded in parts, which no library does by itself."""
CONCURRENT_CALLS = 2_000
"""Calls in progress at a time, by default."""
CONNECTION_STREAMS = 6_000
"""Streams of one connection, including those that its client has reset and the service has not yet cleaned up.

More are refused by gRPC, before they can hold up other connections. It is well above `CONCURRENT_CALLS`, because gRPC
refuses them as UNAVAILABLE, without a reason.
"""


class InvalidRequest(Exception):
    """The caller has to change the request: `reason` is that of the contract, and `message` is one sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class InvalidName(InvalidRequest):
    """A name in the request is not one."""


def check_name(name: bytes, what: str, *, empty: bool = False) -> None:
    """Check the name of a tool, a server or an agent; `empty` allows an empty one.

    Raises:
        InvalidName: it is empty, longer than `NAME_BYTES` or not UTF-8.
    """
    if not name and not empty:
        raise InvalidName("NAME_EMPTY", f"the name of the {what} is empty, and has 1 to {NAME_BYTES} bytes")
    if len(name) > NAME_BYTES:
        found = f"the name of the {what} has {len(name):,} bytes"
        raise InvalidName("NAME_TOO_LONG", f"{found}, and may have {NAME_BYTES}")
    if not name.isascii():
        try:
            name.decode()
        except UnicodeDecodeError:
            raise InvalidName("NAME_NOT_UTF8", f"the name of the {what} is not UTF-8") from None


def check_labels(labels: Mapping[str, str], what: str) -> None:
    """Check the labels of a tool, a server or an agent.

    Raises:
        InvalidRequest: there are too many, or a key or a value is too long.
    """
    if len(labels) > LABELS:
        raise InvalidRequest("TOO_MANY_LABELS", f"the {what} has {len(labels):,} labels, and may have {LABELS}")
    for key, value in labels.items():
        if not 0 < len(key.encode()) <= LABEL_KEY_BYTES:
            message = (
                f"the key of a label of the {what} has {len(key.encode()):,} bytes, and has 1 to {LABEL_KEY_BYTES}"
            )
            raise InvalidRequest("LABEL_KEY_SIZE", message)
        if len(value.encode()) > LABEL_VALUE_BYTES:
            message = (
                f"a label of the {what} has a value of {len(value.encode()):,} bytes, and may have {LABEL_VALUE_BYTES}"
            )
            raise InvalidRequest("LABEL_VALUE_TOO_LONG", message)


def check_declared_facts(facts: Mapping[str, str], what: str) -> None:
    """Check the declared facts that are sent of a tool, a server or an agent.

    Raises:
        InvalidRequest: there are too many, or a name or a value is empty or too long.
    """
    if len(facts) > DECLARED_FACTS:
        found = f"the {what} has {len(facts):,} declared facts, and may have {DECLARED_FACTS}"
        raise InvalidRequest("TOO_MANY_DECLARED_FACTS", found)
    for name, value in facts.items():
        if not 0 < len(name.encode()) <= DECLARED_FACT_NAME_BYTES:
            found = f"the name of a declared fact of the {what} has {len(name.encode()):,} bytes"
            raise InvalidRequest("DECLARED_FACT_NAME_SIZE", f"{found}, and has 1 to {DECLARED_FACT_NAME_BYTES}")
        if not 0 < len(value.encode()) <= DECLARED_FACT_VALUE_BYTES:
            found = f"the value of a declared fact of the {what} has {len(value.encode()):,} bytes"
            raise InvalidRequest("DECLARED_FACT_VALUE_SIZE", f"{found}, and has 1 to {DECLARED_FACT_VALUE_BYTES}")


def check_error_text(text: str) -> None:
    """Check the text of an error.

    Raises:
        InvalidRequest: it is too long.
    """
    size = len(text.encode())
    if size > ERROR_TEXT_BYTES:
        message = f"the text of the error has {size:,} bytes, and may have {ERROR_TEXT_BYTES:,}"
        raise InvalidRequest("ERROR_TEXT_TOO_LONG", message)


def check_policy_files(files: Sequence[tuple[str, int]]) -> None:
    """Check the files of a policy, each a name and a number of bytes.

    Raises:
        InvalidRequest: there are too many, or they are too large.
        InvalidName: a name is empty, too long, that of a path, or is repeated.
    """
    if len(files) > POLICY_FILES:
        raise InvalidRequest("TOO_MANY_FILES", f"the policy has {len(files):,} files, and may have {POLICY_FILES}")
    size = sum(length for _, length in files)
    if size > POLICY_BYTES:
        raise InvalidRequest("POLICY_TOO_LARGE", f"the policy has {size:,} bytes, and may have {POLICY_BYTES:,}")
    names: set[str] = set()
    for name, _ in files:
        check_name(name.encode(), "file")
        if set(name) & {"/", "\0"} or name in {".", ".."}:
            raise InvalidName("FILE_NAME_IS_PATH", "the name of a file is that of a path, and may hold no directory")
        if name in names:
            raise InvalidName("DUPLICATE_FILE", "the name of a file is repeated")
        names.add(name)


def check_sizes(tools: int, servers: int) -> None:
    """Check how much is asked at once.

    Raises:
        InvalidRequest: there are too many tools or servers.
    """
    if tools > TOOLS:
        raise too_many_tools(f"{tools:,} tools")
    if servers > SERVERS:
        raise too_many_servers(f"{servers:,} servers")


def too_many_tools(found: str) -> InvalidRequest:
    """Return the error of a request in which so much was found."""
    return InvalidRequest("TOO_MANY_TOOLS", f"the request has {found}, and may have {TOOLS:,} tools: ask in parts")


def too_many_servers(found: str) -> InvalidRequest:
    """Return the error of a request in which so much was found."""
    return InvalidRequest(
        "TOO_MANY_SERVERS", f"the request has {found}, and may have {SERVERS:,} servers: ask in parts"
    )


def check_agent(size: int) -> None:
    """Check the bytes of an agent: its name and its facts.

    Raises:
        InvalidRequest: there are too many.
    """
    if size > FACTS_BYTES:
        found = f"the facts of the agent have {size:,} bytes, and may have {FACTS_BYTES:,}"
        raise InvalidRequest("FACTS_TOO_LARGE", found)


def check_facts(*facts: bytes) -> None:
    """Check the bytes of facts.

    Raises:
        InvalidRequest: there are too many.
    """
    size = max(map(len, facts))
    if size > FACTS_BYTES:
        raise InvalidRequest("FACTS_TOO_LARGE", f"the facts have {size:,} bytes, and may have {FACTS_BYTES:,}")
