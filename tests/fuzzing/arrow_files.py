"""Looks for an Arrow file that does harm: one that is found to be valid, and then ends the process that decides it.

Arguments are directories of inputs, and options. Each input is a small file in which some bytes are others, drawn by a
seed and a number. A process that was forked checks it as the child process of the commands does, and decides it as they
do. To end that process is harm only after the check: the check has a process of its own. Inputs with a new outcome are
left in the directory of `--found`.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from mmap import mmap
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc

sys.path.insert(0, str(Path(__file__).parents[1]))

from callability.cli.inventory_decide import Tables
from callability.process.limits import limit_this_process
from callability.process.regular_file import OutputRefused
from callability.tables import ColumnPolicy, UnfitColumn
from callability.tables.files import TableFile, TableRefused, table_writer
from callability.tables.formats import TableFormat, fault_in
from support.checkout import VECTORS

CHECKING, DECIDING = 1, 2
MAX_BYTES = 16_384
SECONDS = 20
"""How long an input may take."""
NUMBERS = (0, 1, 2, 7, 8, 63, 64, 127, 128, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)


def seeds() -> Iterator[bytes]:
    """Yield small tables in every form that texts and booleans have."""
    rows = 12
    texts = pa.array(["approved", "pending", None, "none"] * (rows // 4))
    names, flags = pa.array([f"tool-{n}" for n in range(rows)]), pa.array([True, False, None] * (rows // 3))
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, 1, None] * (rows // 3), pa.int8()), pa.array([True, False]))
    forms = (
        (names, texts, flags),
        (names.dictionary_encode(), texts.dictionary_encode(), encoded),
        (names.cast(pa.string_view()), texts.cast(pa.string_view()), flags),
        (pc.run_end_encode(names), pc.run_end_encode(texts), pc.run_end_encode(flags)),
        (names.cast(pa.large_string()), pa.array(["approved"] * rows), pa.array([None] * rows)),
    )
    for name, status, flag in forms:
        table = {"server.name": pa.array(["git"] * rows), "tool.name": name, "approval.status": status}
        table |= dict.fromkeys(("server.enabled", "server.quarantined", "approval.disabled"), flag)
        for options in ({}, {"compression": "lz4"}, {"compression": "zstd"}):
            stream = io.BytesIO()
            whole = pa.table({**table, "note": pa.array([[1, 2], None] * (rows // 2))})
            with pa.ipc.new_file(stream, whole.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
                for batch in (whole, whole.slice(0, 5), whole.slice(0, 0)):
                    writer.write_table(batch)
            yield stream.getvalue()


def drawn(inputs: Sequence[bytes], seed: int, number: int) -> bytes:
    """Return each input as it is, and then some with other bytes."""
    if number < len(inputs):
        return inputs[number]
    random = Random(f"{seed} {number}")
    data = bytearray(random.choice(inputs))
    for _ in range(random.choice((1, 1, 2, 3, 5, 8))):
        place = random.randrange(len(data))
        match random.randrange(12):
            case 0:
                del data[place : place + random.choice((1, 8, 64))]
            case 1:
                data[place:place] = data[place : place + random.choice((1, 8, 64))]
            case 2 | 3 | 4:
                data[place] ^= 1 << random.randrange(8)
            case 5 | 6:
                data[place] = random.choice((0, 1, 2, 127, 128, 255))
            case how:
                size = 8 if how > 9 else 4
                place -= place % size
                old = int.from_bytes(data[place : place + size], "little")
                new = random.choice((*NUMBERS, old + 1, old - 1, old + 8, old - 8, old * 2, random.randrange(256)))
                data[place : place + size] = (new % (1 << 8 * size)).to_bytes(size, "little")
        data = data or bytearray(b"\0")
    return bytes(data)


def outcome(path: Path, policy: ColumnPolicy, stage: mmap) -> str:
    """Check a file, and decide it if it is valid, as the commands do."""
    stage[0] = CHECKING
    if why := fault_in(path):
        return f"refused: {why}"
    stage[0] = DECIDING
    tables = Tables((TableFile(path, TableFormat.ARROW),), None, missing_unknown=True)
    try:
        for (batch,) in tables.readings([policy], None, lambda rows: None):
            with table_writer(path.with_name("verdicts.parquet"), batch.schema) as writer:
                writer.write_batch(batch)
    except (TableRefused, UnfitColumn, OutputRefused) as error:
        return f"refused when it was decided: {error}"
    return "decided"


def work(numbers: range, inputs: Sequence[bytes], seed: int, until: float, stage: mmap, results: int) -> None:
    """Try some inputs in this process, and write the outcome of each as a line."""
    limit_this_process()
    policy = ColumnPolicy.of_bundle((VECTORS / "bundles/shipped.bundle").read_bytes())
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    with TemporaryDirectory() as directory, os.fdopen(results, "w", buffering=1) as lines:
        path = Path(directory, "input.arrow")
        for number in numbers:
            if time.monotonic() > until:
                break
            path.write_bytes(drawn(inputs, seed, number))
            signal.alarm(SECONDS)
            found = " ".join(outcome(path, policy, stage).replace(str(path), "").split())
            signal.alarm(0)
            print(number, found, file=lines)


def main() -> int:
    """Try inputs until one does harm, or as many as are wanted; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directories", nargs="*", type=Path)
    parser.add_argument("--found", type=Path, required=True)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--runs", type=int, default=sys.maxsize)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    given = parser.parse_args()
    inputs = [*seeds(), *(path.read_bytes() for each in given.directories for path in sorted(each.glob("*.arrow")))]
    seed = time.time_ns() if given.seed is None else given.seed
    given.found.mkdir(parents=True, exist_ok=True)
    stage, until, number = mmap(-1, 1), time.monotonic() + given.seconds, 0
    kinds, known = Counter[str](), set[str]()
    while number < given.runs and time.monotonic() < until:
        reads, writes = os.pipe()
        child = os.fork()
        if not child:
            os.close(reads)
            # What a fork shares with its parent is closed by the parent alone.
            work(range(number, given.runs), inputs, seed, until, stage, writes)
            os._exit(0)
        os.close(writes)
        with os.fdopen(reads) as lines:
            for each in lines:
                last, _, found = each.rstrip().partition(" ")
                number = int(last) + 1
                kinds[found.partition(":")[0]] += 1
                keep(given.found, drawn(inputs, seed, int(last)), found, known)
        _, status = os.waitpid(child, 0)
        if status:
            data, how = drawn(inputs, seed, number), f"signal {os.WTERMSIG(status)}, exit code {status >> 8}"
            if stage[0] == DECIDING or not os.WIFSIGNALED(status):
                keep(given.found, data, f"harm {number}", known)
                print(f"input {number} of seed {seed} does harm: {how}; it is in {given.found}", file=sys.stderr)
                return 1
            kinds["ended the process that checks it"] += 1
            keep(given.found, data, how, known)
            number += 1
    print(f"seed {seed}, {kinds.total():,} inputs: {', '.join(f'{n:,} {kind}' for kind, n in kinds.most_common())}")
    return 0


def keep(directory: Path, data: bytes, found: str, known: set[str]) -> None:
    """Keep an input whose outcome is a new one, whatever numbers and names are in it."""
    kind = re.sub(r"`[^`]*`|\d+|'[^']*'", "#", found)[:100]
    if kind not in known and len(data) <= MAX_BYTES:
        known.add(kind)
        (directory / f"{kind.split()[0].rstrip(':')}-{sha256(kind.encode()).hexdigest()[:12]}.arrow").write_bytes(data)


if __name__ == "__main__":
    sys.exit(main())
