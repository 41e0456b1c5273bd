"""Which rows of tables name a tool that an earlier row has named."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

MAX_ROWS = 1 << 20
"""Rows that are compared: their hashes take 8 MiB, whatever the size of the tables."""
KEY = ("server.name", "tool.name", "agent.name")
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(slots=True)
class RepeatedTools:
    """Counts the rows whose server, tool and agent an earlier row has, among the first `MAX_ROWS`."""

    rows: int = 0
    first: str = ""
    """The first tool that is repeated, as SERVER:TOOL."""
    _compared: int = 0
    _runs: list[NDArray[np.uint64]] = field(default_factory=list)

    def look_at(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch that repeat an earlier row; a table without names repeats none."""
        names = [name for name in KEY if len(batch.schema.get_all_field_indices(name)) == 1]
        if names[:2] != [*KEY[:2]] or self._compared >= MAX_ROWS:
            return
        hashes = _hashes(batch, names)
        found, places = np.unique(hashes, return_index=True)
        repeats = np.ones(len(hashes), np.bool_)
        repeats[places] = False
        for run in self._runs:
            at = np.searchsorted(run, found)
            known = run[np.minimum(at, len(run) - 1)] == found
            repeats[places[known]] = True
        if repeats.any():
            self._note(batch, repeats)
        self._keep(found)
        self._compared += batch.num_rows

    def _note(self, batch: pa.RecordBatch, repeats: NDArray[np.bool_]) -> None:
        if not self.rows:
            row = int(np.flatnonzero(repeats)[0])
            self.first = ":".join(str(batch.column(name)[row].as_py()) for name in KEY[:2])
        self.rows += int(repeats.sum())

    def _keep(self, run: NDArray[np.uint64]) -> None:
        """Keep sorted hashes; runs of a similar length are joined, so that there are few."""
        if not len(run):
            return
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = np.sort(np.concatenate((self._runs.pop(), run)), kind="stable")
        self._runs.append(run)


def _hashes(batch: pa.RecordBatch, names: list[str]) -> NDArray[np.uint64]:
    """Return a hash of each row's names, of 64 bits."""
    found = np.zeros(batch.num_rows, np.uint64)
    for name in names:
        column = batch.column(name)
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        words = [*map(hash, column.dictionary.to_pylist()), hash(None)]
        places = column.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False).astype(np.intp)
        found = found * _FACTOR ^ np.array(words, np.int64).view(np.uint64)[places]
    return found
