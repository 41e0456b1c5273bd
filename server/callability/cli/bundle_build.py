"""`callability bundle build`: compile a policy into one file that proxies decide from."""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import typer

from callability.bundle.v1 import bundle_pb2
from callability.cli.options import key_files, leave, print_findings, read_keys, refuse
from callability.cli.policies import accept_policy
from callability.compiler.bundle_writing import NotWritten, checked_payload
from callability.compiler.policy import check_source
from callability.files.policy_source import policy_files, source_in
from callability.files.shipped_policy import shipped_policy
from callability.kernel.envelope import MAX_SIGNATURES, envelop, signed_bytes
from callability.process.regular_file import OutputRefused, descriptor_of, output_to

MAX_SEQUENCE = 2**64 - 1
STANDARD_OUTPUT = "-"


def build(
    directory: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="The directory of the policy. Default: the shipped one.")
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The file to write; `-` for standard output.")
    ] = "",
    sequence: Annotated[
        int,
        typer.Option(
            metavar="NUMBER", min=0, max=MAX_SEQUENCE, help="A number that you raise with each bundle that you publish."
        ),
    ] = 0,
    sign: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY_ID=FILE",
            help="Sign with the ed25519 private key in a PEM file; may be repeated, for a rotation of keys.",
        ),
    ] = None,
    with_rule_files: Annotated[
        bool,
        typer.Option(
            "--with-rule-files",
            help="Include the rule files and their tests, so that `callability serve` can prove the policy.",
        ),
    ] = False,
) -> None:
    """Prove a policy and compile it into one file, a bundle. Proxies decide from it without the rule files.

    The same files always give the same bytes. A proxy refuses a bundle whose sequence number is lower than that of
    the last one. Signing needs the extra `bundle`. Exit code 0: written. 1: the policy is refused, or a file cannot be
    read or written. 2: an option is wrong.
    """
    if not output:
        leave("--output is missing: name the file to write, or `-` for standard output", 2)
    files = key_files(sign, "--sign", MAX_SIGNATURES)
    payload = _payload(directory, sequence, with_rule_files=with_rule_files)
    data = envelop(payload, _signatures(payload, files))
    if output == STANDARD_OUTPUT or descriptor_of(Path(output)) == 1:
        sys.stdout.buffer.write(data)
        return
    try:
        with output_to(Path(output), (*policy_files(directory or shipped_policy()), *files.values())) as stream:
            stream.write(data)
    except OutputRefused as error:
        leave(str(error), 1)
    typer.echo(f"{output}: {len(data):,} bytes, digest {sha256(payload).hexdigest()}")


def _payload(directory: Path | None, sequence: int, *, with_rule_files: bool) -> bytes:
    source = source_in(directory or shipped_policy())
    policy = accept_policy(check_source(source))
    print_findings(policy.warnings)
    try:
        return checked_payload(policy, "the policy", sequence, source.files if with_rule_files else ())
    except NotWritten as refused:
        refuse([refused.finding], "the policy is refused")


def _signatures(payload: bytes, files: dict[str, Path]) -> list[bundle_pb2.Signature]:
    if not files:
        return []
    keys = read_keys(files, "private_key")
    # A bundle that is not signed needs no cryptography.
    from callability.kernel.signatures import sign  # noqa: PLC0415

    signed = signed_bytes(sha256(payload).digest())
    return [sign(signed, key_id, key) for key_id, key in keys.items()]
