r"""What several commands share: options, logging, exit, and how names and conditions are written in one line.

Text of upstream servers is written with its control characters escaped. Every name has one written form, and every
written form stands for one name: a backslash is written `\\`, and a character that cannot be seen, or a single quote,
is written as `\u202e` or `\U000e0041`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer

from callability.contract.finding import MAX_SHOWN, Finding, Severity, as_code, count_of, finding_lines
from callability.contract.vocabulary import is_plain
from callability.otel.traces import NoTraces, start_traces
from callability.process.address import AddressRefused, check_listen
from callability.process.logs import LogFormat

MAX_ID = 128
"""Bytes of the id of a key."""
MAX_KEYS = 64
"""Public keys that can be given."""


KeyFiles = Mapping[str, Path]
"""Files of keys by key id."""


def key_files(given: Iterable[str] | None, option: str, most: int) -> dict[str, Path]:
    """Return the files of some keys by key id.

    Raises:
        BadParameter: one is not `KEY_ID=FILE`, an id is too long or given twice, or there are too many.
    """
    files: dict[str, Path] = {}
    for each in given or ():
        key_id, equals, file = each.partition("=")
        if not equals or not key_id or not file:
            raise typer.BadParameter(f"{as_code(each)} is not KEY_ID=FILE", param_hint=option)
        if len(key_id.encode()) > MAX_ID or key_id in files:
            raise typer.BadParameter(
                f"the key id {as_code(key_id)} is given twice, or has more than {MAX_ID} bytes", param_hint=option
            )
        files[key_id] = Path(file)
    if len(files) > most:
        raise typer.BadParameter(f"at most {most} keys can be given", param_hint=option)
    return files


def read_keys(files: Mapping[str, Path], reader: Literal["public_key", "private_key"]) -> dict[str, Any]:
    """Return the keys in files by key id; exit with 1 if one cannot be used, and with 2 without cryptography."""
    try:
        # Only signatures need cryptography.
        from callability.kernel import signatures  # noqa: PLC0415
    except ImportError as error:
        leave(str(error), 2)
    try:
        return {key_id: getattr(signatures, reader)(file) for key_id, file in files.items()}
    except signatures.UnusableKey as error:
        leave(str(error), 1)
    except OSError as error:
        leave(f"`{error.filename}` cannot be read: {(error.strerror or 'error').lower()}", 1)


METRICS_WHY = "anyone who reaches it can read the counts: `--insecure-metrics` allows it"


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


PolicyOption = Annotated[
    Path | None,
    typer.Option("--policy", metavar="DIR", help="The directory of the policy. Default: the shipped one."),
]
_POLICY_OR_BUNDLE = "The directory of the policy, or a bundle with rule files. Default: the shipped one."
PolicyOrBundleOption = Annotated[Path | None, typer.Option("--policy", metavar="DIR|BUNDLE", help=_POLICY_OR_BUNDLE)]
PolicyArgument = Annotated[Path | None, typer.Argument(metavar="DIR|BUNDLE", help=_POLICY_OR_BUNDLE)]
PolicyAddressOption = Annotated[
    str | None,
    typer.Option("--policy-address", metavar="ADDRESS", help="Ask a `callability serve` at HOST:PORT or unix:PATH."),
]
MetricsOption = Annotated[
    str | None,
    typer.Option(
        "--metrics-address",
        metavar="ADDRESS",
        help="HOST:PORT on which Prometheus reads counts, under /metrics. Default: none.",
    ),
]
LogLevelOption = Annotated[
    LogLevel, typer.Option("--log-level", help="The lowest level that is logged to standard error.")
]
LogFormatOption = Annotated[
    LogFormat, typer.Option("--log-format", help="How a log line is written: as text, or as a JSON object.")
]
TRACES = "Send traces by OpenTelemetry, as the variables `OTEL_*` say."
LOG_CALLS = "Log a line about each call, with its outcome and how long it took."
RECORDS = "Write records of decisions and changes to a directory of this user alone, or to standard output (-)."
RECORD_LEVEL = "Which decisions are recorded: those that are not callable, or all."
SHADOW = "A candidate that decides beside the policy in effect; what it would decide otherwise is counted and recorded."
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON to standard output.")]


def check_policy_choice(directory: Path | None, address: str | None) -> None:
    """Exit with code 2 if both a directory and an address are given."""
    if directory and address is not None:
        leave("`--policy` and `--policy-address` exclude each other", 2)


def check_metrics_address(address: str | None, *, insecure: bool = False) -> None:
    """Exit with code 2 if the address for metrics is not on loopback, unless it may be `insecure`."""
    try:
        if address is not None:
            check_listen(address, METRICS_WHY, any_host=insecure)
    except AddressRefused as error:
        leave(str(error), 2)


def traces_or_exit(program: str) -> Callable[[], None]:
    """Send traces from now on, and return what sends the last ones; exit with 2 if there can be none."""
    try:
        return start_traces(program)
    except NoTraces as error:
        leave(str(error), 2)


def print_findings(findings: Sequence[Finding]) -> None:
    """Write findings to standard error."""
    for each in finding_lines(findings):
        typer.echo(each, err=True)


POLICY_REFUSED = "the policy is refused"


class PolicyRefused(Exception):
    """A policy with errors."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__(POLICY_REFUSED)
        self.findings = findings


def refuse(findings: Sequence[Finding], message: str) -> NoReturn:
    """Write findings and what they refuse to standard error, and exit with code 1."""
    print_findings(findings)
    leave(message, 1)


def leave(message: str, code: int) -> NoReturn:
    """Write an error to standard error and exit with a code: 1 for a refusal, 2 for a usage error."""
    typer.echo(f"callability: {message}", err=True)
    raise typer.Exit(code)


# What is printable by its category and yet is not seen: it could carry a text past the eyes of who reads.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def escape(text: str) -> str:
    r"""Return a text in one line in which everything is seen; what cannot be is written as `\u202e`."""
    return "".join(map(_escape, text))


def _escape(character: str) -> str:
    if character.isprintable() and not _UNSEEN.match(character):
        return character
    return f"\\u{ord(character):04x}" if ord(character) <= 0xFFFF else f"\\U{ord(character):08x}"


def outcome_line(path: Path, findings: Sequence[Finding], *, accepted: bool) -> str:
    """Return whether what is at a path was accepted, and how many findings of each severity but notes there are."""
    counts = (number_of(count_of(each, findings), each) for each in (Severity.ERROR, Severity.WARNING))
    return f"{escape(str(path))}: {'accepted' if accepted else 'refused'}, {', '.join(counts)}"


def number_of(count: int, noun: str) -> str:
    """Return a number with its noun."""
    if count == 1:
        return f"{count} {noun}"
    return f"{count:,} {noun}{'es' if noun.endswith('s') else 's'}"


_ESCAPE = re.compile(r"\\(?:(\\)|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|)")
_LAST_CHARACTER = 0x10FFFF


def argument_of(name: str) -> str:
    """Return the TOOL argument that stands for a name, without quotes for a shell."""
    return escape(name.replace("\\", "\\\\")).replace("'", "\\u0027")


def word_of(name: str) -> str:
    """Return the same as a shell reads it."""
    return name if is_plain(name) else f"'{argument_of(name)}'"


def cell_of(name: str) -> str:
    """Return the same for a table, cut at 128 characters: a word that ends with `…` is not the whole name."""
    argument = argument_of(name)
    return word_of(name) if len(argument) <= MAX_SHOWN else f"'{argument[: MAX_SHOWN - 1]}…"


def is_cut(name: str) -> bool:
    """Say whether a table has only the beginning of a name."""
    return len(argument_of(name)) > MAX_SHOWN


def name_of(argument: str) -> str:
    """Return the name that a TOOL argument stands for, or exit with code 2."""
    return _ESCAPE.sub(_character, argument)


def _character(match: re.Match[str]) -> str:
    backslash, *digits = match.groups()
    code = int(next(filter(None, digits), "110000"), 16)
    if not backslash and code > _LAST_CHARACTER:
        leave(
            "a backslash in TOOL begins an escape, as in `\\\\`, `\\u202e` or `\\U000e0041`; `callability approvals"
            " list` writes each name as TOOL takes it",
            2,
        )
    return backslash or chr(code)


def condition_text(facts: Mapping[str, tuple[str, ...]]) -> str:
    """Return a condition; without a fact it holds everywhere."""
    conditions = (f"{fact}: {_values(values)}" for fact, values in facts.items())
    return ", ".join(conditions) or "everywhere"


def _values(values: tuple[str, ...]) -> str:
    return values[0] if len(values) == 1 else f"[{', '.join(values)}]"
