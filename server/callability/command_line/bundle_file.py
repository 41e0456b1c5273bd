"""`callability bundle verify` and `inspect`: check a bundle, and print what it holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from callability.command_line.bundle_report import as_data, as_text
from callability.command_line.key_option import MAX_KEYS, key_files
from callability.command_line.options import JsonOption, leave
from callability.kernel.envelope import MAX_BYTES, opened
from callability.kernel.policy import LocalPolicy, payload_in, read
from callability.kernel.refusal import BundleRefused
from callability.regular_file import read_regular

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The bundle.")]


def verify(
    file: FileArgument,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY_ID=FILE",
            help="Require a signature by the ed25519 public key in a PEM file; if repeated, by one of the keys.",
        ),
    ] = None,
    accepted_sequence: Annotated[
        int, typer.Option(metavar="NUMBER", min=0, help="The sequence number of the last bundle that was accepted.")
    ] = 0,
    rollback: Annotated[bool, typer.Option("--rollback", help="Accept a lower sequence number.")] = False,
) -> None:
    """Check a bundle as a proxy does: its digest, its signatures, its sequence number and every number in it.

    Without --key, signatures are not checked. Checking them needs the extra `bundle`. Exit code 0: a proxy would accept
    it. 1: it is refused, or a file cannot be read. 2: an option is wrong.
    """
    keys = _public_keys(key_files(key, "--key", MAX_KEYS)) if key else None
    policy = _read(file, _bytes(file), keys, accepted_sequence, rollback=rollback)
    by = "signature valid" if keys else "signatures not checked" if policy.key_ids else "not signed"
    typer.echo(f"{file}: valid, sequence {policy.sequence}, {by}, digest {policy.digest}")


def inspect(file: FileArgument, as_json: JsonOption = False) -> None:
    """Print what a bundle contains: its policy, rules, facts and signatures, and what was proved when it was built.

    The signatures are not checked: see `callability bundle verify`. Exit code 0: printed. 1: the bundle is refused, or
    cannot be read.
    """
    data = _bytes(file)
    policy = _read(file, data, None, 0, rollback=True)
    names = [each.name for each in payload_in(opened(data)).rule_files]
    typer.echo(json.dumps(as_data(policy, names), indent=2) if as_json else as_text(policy, names))


def _bytes(file: Path) -> bytes:
    try:
        return read_regular(file, MAX_BYTES + 1)
    except OSError as error:
        leave(f"`{file}` cannot be read: {(error.strerror or 'error').lower()}", 1)


def _read(
    file: Path, data: bytes, keys: dict[str, bytes] | None, accepted_sequence: int, *, rollback: bool
) -> LocalPolicy:
    try:
        return read(data, keys=keys, accepted_sequence=accepted_sequence, rollback=rollback)
    except BundleRefused as refused:
        leave(f"{file}: {refused} [{refused.code}]", 1)


def _public_keys(files: dict[str, Path]) -> dict[str, bytes]:
    try:
        # Only a check of signatures needs cryptography.
        from callability.kernel.signatures import UnusableKey, public_key  # noqa: PLC0415
    except ImportError as error:
        leave(str(error), 2)
    try:
        return {key_id: public_key(file) for key_id, file in files.items()}
    except UnusableKey as error:
        leave(str(error), 1)
    except OSError as error:
        leave(f"`{error.filename}` cannot be read: {(error.strerror or 'error').lower()}", 1)
