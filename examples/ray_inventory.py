"""Decide a table of tools with Ray Data: `python ray_inventory.py BUNDLE SOURCE TARGET`, both tables in Parquet."""

import sys
from pathlib import Path

import pyarrow as pa
import ray

from callability.tables import ColumnPolicy, decide, decoded


class Decide:
    """Decides blocks, by a policy that each worker reads once."""

    def __init__(self, bundle: bytes) -> None:
        self._policy = ColumnPolicy.of_bundle(bundle)

    def __call__(self, block: pa.Table) -> pa.Table:
        """Return the rows of a block with their verdicts."""
        return pa.Table.from_batches(map(decoded, decide(block.to_batches(), self._policy)))


policy, source, target = (Path(sys.argv[1]).read_bytes(), *sys.argv[2:])
ray.data.read_parquet(source).map_batches(
    Decide, fn_constructor_args=(policy,), batch_format="pyarrow", concurrency=1
).write_parquet(target)
