"""`callability bundle verify` and `inspect`: check a bundle, and print what it holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from callability.cli.options import MAX_KEYS, JsonOption, key_files, leave, number_of, read_keys
from callability.contract.finding import as_code
from callability.kernel.envelope import MAX_BYTES, BundleRefused, open_bundle
from callability.kernel.policy import LocalPolicy, payload_in, read
from callability.kernel.rule_set import RuleSet
from callability.process.regular_file import read_regular


def as_data(policy: LocalPolicy, rule_files: Sequence[str]) -> dict[str, Any]:
    """Return what a bundle holds as JSON has it. Counts of any size are numbers."""
    return {
        **_identity(policy),
        "rule_files": [*rule_files],
        "rule_sets": [_rule_set(each) for each in policy.rule_sets.values()],
        "actions": [
            {"name": each.name, "owner": each.owner, "fact": each.fact, "phrase": each.phrase}
            for each in policy.actions
        ],
    }


def _identity(policy: LocalPolicy) -> dict[str, Any]:
    return {
        "revision": policy.revision,
        "digest": policy.digest,
        "sequence": policy.sequence,
        "semantics": policy.semantics,
        "bytes": policy.size,
        "key_ids": [*policy.key_ids],
    }


def as_text(policy: LocalPolicy, rule_files: Sequence[str]) -> str:
    """Return what a bundle holds for people: a line for each fact about it."""
    return "\n".join(_lines(policy, rule_files))


def _lines(policy: LocalPolicy, rule_files: Sequence[str]) -> Iterator[str]:
    yield f"revision   {policy.revision}"
    yield f"digest     {policy.digest}"
    yield f"sequence   {policy.sequence or '0 (not counted)'}"
    yield f"semantics  {policy.semantics}"
    yield f"bytes      {policy.size:,}"
    yield f"signed by  {', '.join(policy.key_ids) or 'nobody'}"
    yield f"rule files {', '.join(map(as_code, rule_files)) or 'none'}"
    for rule_set in policy.rule_sets.values():
        counts = rule_set.counts
        yield ""
        yield rule_set.question.name
        yield f"  facts        {', '.join(rule_set.facts)}"
        yield f"  rules        {', '.join(rule.id for rule in rule_set.rules)}"
        proved = (counts.combinations, "combination"), (counts.regions, "region"), (counts.laws, "law")
        yield f"  proved       {', '.join(number_of(*each) for each in proved)}"
        tested = f"{number_of(counts.witnesses, 'combination')} by the reference evaluator"
        yield f"  tested       {tested}, {number_of(counts.tests, 'test')}"


def _rule_set(rule_set: RuleSet) -> dict[str, Any]:
    counts = rule_set.counts
    return {
        "question": rule_set.question.name,
        "facts": [{"name": name, "values": [*rule_set.question.facts[name].values]} for name in rule_set.facts],
        "rules": [
            {"id": each.id, "status": each.status, "line": each.line, "column": each.column} for each in rule_set.rules
        ],
        "laws": [each.name for each in rule_set.laws],
        "combinations": counts.combinations,
        "regions": counts.regions,
        "witnesses": counts.witnesses,
        "confirmed_regions": counts.confirmed_regions,
        "tests": counts.tests,
    }


_SIGNATURES = {"valid": "signature valid", "not_checked": "signatures not checked", "none": "not signed"}
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
    as_json: JsonOption = False,
) -> None:
    """Check a bundle as a proxy does: its digest, its signatures, its sequence number and every number in it.

    Without --key, signatures are not checked. Checking them needs the extra `bundle`. Exit code 0: a proxy would accept
    it. 1: it is refused, or a file cannot be read. 2: an option is wrong.
    """
    keys = read_keys(key_files(key, "--key", MAX_KEYS), "public_key") if key else None
    try:
        policy = read(_bytes(file), keys=keys, accepted_sequence=accepted_sequence, rollback=rollback)
    except BundleRefused as refused:
        if as_json:
            answer = {"file": str(file), "accepted": False, "code": refused.code, "reason": str(refused)}
            typer.echo(json.dumps(answer, indent=2))
            raise typer.Exit(1) from None
        _leave_refused(file, refused)
    signature = "valid" if keys else "not_checked" if policy.key_ids else "none"
    if as_json:
        answer = {"file": str(file), "accepted": True, "signature": signature, **_identity(policy)}
        typer.echo(json.dumps(answer, indent=2))
    else:
        by = _SIGNATURES[signature]
        typer.echo(f"{file}: valid, sequence {policy.sequence}, {by}, digest {policy.digest}")


def inspect(file: FileArgument, as_json: JsonOption = False) -> None:
    """Print what a bundle contains: its policy, rules, facts and signatures, and what was proved when it was built.

    The signatures are not checked: see `callability bundle verify`. Exit code 0: printed. 1: the bundle is refused, or
    cannot be read.
    """
    data = _bytes(file)
    try:
        policy = read(data, rollback=True)
    except BundleRefused as refused:
        _leave_refused(file, refused)
    names = [each.name for each in payload_in(open_bundle(data)).rule_files]
    typer.echo(json.dumps(as_data(policy, names), indent=2) if as_json else as_text(policy, names))


def _bytes(file: Path) -> bytes:
    try:
        return read_regular(file, MAX_BYTES + 1)
    except OSError as error:
        leave(f"`{file}` cannot be read: {(error.strerror or 'error').lower()}", 1)


def _leave_refused(file: Path, refused: BundleRefused) -> NoReturn:
    leave(f"{file}: {refused} [{refused.code}]", 1)
