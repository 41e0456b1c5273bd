"""A compiled policy that decides record batches of Arrow."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from callability.bundle.v1 import bundle_pb2 as pb
from callability.contract.finding import as_code, did_you_mean, list_names, nearest
from callability.kernel.envelope import open_bundle
from callability.kernel.policy import read
from callability.tables.fact_column import Codes, ColumnReader, MissingColumns, OddValues, UnfitColumn
from callability.tables.formats import plain_form
from callability.tables.verdict_columns import ColumnCheck, RuleColumns, VerdictColumns

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


QUESTION = "callability"
CHUNK = 1 << 15
"""Rows that are decided together: their codes stay in the cache of a core."""


@dataclass(frozen=True, slots=True)
class Columns:
    """What to read of a table, and what to pass on.

    `kept` are columns that are passed on, before the verdict; None: all of the table. `agent` is the agent that would
    call every tool, in place of a column `agent.name`; an empty name: it has none. With `missing_unknown`, a fact whose
    column is missing is unknown, and an asserted one has its default; otherwise it is an error.
    """

    kept: tuple[str, ...] | None = None
    agent: str | None = None
    missing_unknown: bool = False


class ColumnPolicy:
    """A compiled policy over columns. It is never changed, but for the counts of odd values of a reading.

    Args:
        payload: the payload of a bundle, which its reader has checked.
        digest: the bundle's SHA-256, in lower-case hexadecimal.
    """

    def __init__(self, payload: pb.Payload, digest: str) -> None:
        self.revision, self.semantics, self.digest = payload.revision, payload.semantics, digest
        self._rules = RuleColumns(next(each for each in payload.rule_sets if each.question == QUESTION))
        self._verdicts = VerdictColumns(self._rules)

    @classmethod
    def of_bundle(cls, data: bytes, keys: Mapping[str, bytes] | None = None) -> ColumnPolicy:
        """Return the policy in a bundle; with public keys, by key id, one of them must have signed it.

        Raises:
            BundleRefused: the bundle is damaged, too new, not signed by one of the keys, or contradicts itself.
            MissingCryptography: there are keys, and the extra `bundle` is not installed.
        """
        digest = read(data, keys=keys).digest
        return cls(pb.Payload.FromString(open_bundle(data, keys).payload), digest)

    @property
    def facts(self) -> pa.Schema:
        """The columns that the policy reads, each with the name of its fact; metadata names their values."""
        facts = (self._rules.rule_set.facts[place] for place in self._rules.facts)
        return pa.schema([_field(fact) for fact in facts], self.metadata)

    @property
    def verdict(self) -> pa.Schema:
        """The columns of a verdict."""
        return self._verdicts.schema.with_metadata(self.metadata)

    @property
    def metadata(self) -> dict[str, str]:
        """What the schema of each table of verdicts says of the policy."""
        return {
            "callability.revision": self.revision,
            "callability.semantics": str(self.semantics),
            "callability.bundle": self.digest,
        }

    def reading(self, schema: pa.Schema, columns: Columns = Columns()) -> ReadingPlan:
        """Return what decides the batches of a table.

        Raises:
            UnfitColumn: a column is missing, is there twice, or would be there twice in the result; or the name of the
                given agent has more than 512 bytes.
        """
        return ReadingPlan(self, self._rules, self._verdicts, schema, columns)


class ReadingPlan:
    """Decides the batches of one table, and counts the values that are outside the domains of their facts.

    `missing` has the facts whose column is missing, each with its value in every row: None for unknown, or the default
    of an asserted fact.
    """

    def __init__(
        self, policy: ColumnPolicy, rules: RuleColumns, verdicts: VerdictColumns, schema: pa.Schema, columns: Columns
    ) -> None:
        self._rules, self._verdicts = rules, verdicts
        facts = rules.rule_set.facts
        self._readers = {place: ColumnReader(facts[place], rules.names.get(place)) for place in rules.facts}
        self._rows_read = 0
        self._constants = _constants(self._readers, schema, columns)
        self._columns = {place: each.name for place, each in self._readers.items() if place not in self._constants}
        self._checks = {place: ColumnCheck() for place in self._columns}
        self._kept = tuple(schema.names) if columns.kept is None else columns.kept
        _check_kept(self._kept, schema, policy.verdict)
        self.missing = _missing((self._readers[place] for place in self._constants), columns)
        kept = [schema.field(name) for name in self._kept]
        self.schema = pa.schema([*kept, *policy.verdict], {**(schema.metadata or {}), **policy.metadata})

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns that a batch must have: those of facts, and those that are passed on."""
        return tuple(dict.fromkeys((*self._columns.values(), *self._kept)))

    @property
    def odd(self) -> Mapping[str, OddValues]:
        """The values so far that their fact does not have, by column."""
        return {reader.name: reader.odd for reader in self._readers.values() if reader.odd.rows}

    def decide(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the kept columns of a batch and those of the verdicts, row by row.

        Raises:
            UnfitColumn: a column cannot be read as its fact; a row is counted from 1, from the first batch on.
        """
        if any(len(batch.schema.get_all_field_indices(name)) != 1 for name in self.needed):
            raise UnfitColumn(
                f"a batch has the columns {_list_names(batch.schema.names)}, not {_list_names(self.needed)}"
            )
        codes: dict[int, Codes | int] = dict(self._constants)
        for place, name in self._columns.items():
            column = batch.column(name)
            if fault := self._checks[place].fault_of(column):
                raise UnfitColumn(f"column `{name}`: {fault}")
            codes[place] = self._readers[place].read(plain_form(column), self._rows_read)
        self._rows_read += batch.num_rows
        room = self._verdicts.room(batch.num_rows)
        for start in range(0, batch.num_rows, CHUNK):
            rows = slice(start, min(start + CHUNK, batch.num_rows))
            mine = {place: each[rows] if isinstance(each, np.ndarray) else each for place, each in codes.items()}
            decided = self._rules.decide(mine, rows.stop - rows.start)
            self._verdicts.write(*decided, [each[rows] for each in room])
        kept = [batch.column(name) for name in self._kept]
        return pa.RecordBatch.from_arrays([*kept, *self._verdicts.arrays(room)], schema=self.schema)


def decide(
    batches: Iterable[pa.RecordBatch],
    policy: ColumnPolicy,
    columns: Columns = Columns(),
) -> Iterator[pa.RecordBatch]:
    """Yield the verdicts of batches of one table, in their order and in constant memory.

    Raises:
        UnfitColumn: a column cannot be read as its fact, or the batches have different columns.
    """
    reading: ReadingPlan | None = None
    for batch in batches:
        reading = reading or policy.reading(batch.schema, columns)
        yield reading.decide(batch)


def _constants(readers: Mapping[int, ColumnReader], schema: pa.Schema, columns: Columns) -> dict[int, int]:
    """Return the codes of facts that have no column."""
    found = {}
    for place, reader in readers.items():
        if reader.name == "agent.name" and columns.agent is not None:
            found[place] = reader.constant(columns.agent)
        elif not schema.get_all_field_indices(reader.name):
            found[place] = reader.constant(None)
    missing = _missing((readers[place] for place in found), columns)
    if missing and not columns.missing_unknown:
        raise _without([*missing], schema.names, {reader.name for reader in readers.values()})
    twice = [reader.name for reader in readers.values() if len(schema.get_all_field_indices(reader.name)) > 1]
    if twice:
        raise UnfitColumn(f"the table has two columns {_list_names(twice)}")
    return found


def _missing(constant: Iterable[ColumnReader], columns: Columns) -> dict[str, str | None]:
    """Return the facts whose column is missing, each with its value; a given agent needs none."""
    return {reader.name: reader.default for reader in constant if reader.name != "agent.name" or columns.agent is None}


_OTHER_SIGNS = frozenset(";\t|")
"""What spreadsheets and exports write between columns if it is no comma."""


def _without(missing: Sequence[str], names: Sequence[str], read: Collection[str]) -> UnfitColumn:
    """Return the error of a table without some columns of facts, and which of its own may be these misspelt."""
    if len(names) == 1 and not _OTHER_SIGNS.isdisjoint(names[0]):
        return UnfitColumn(f"the table has one column, {_list_names(names)}: separate its columns by commas")
    others = [name for name in names if name not in read and not name.endswith(".name")]
    near = {name: nearest(name, others) for name in missing}
    hint = ", ".join(f"`{found}` for `{name}`" for name, found in near.items() if found)
    found = f"the table has no column {_list_names(missing)}; it has {_list_names(names)}"
    return MissingColumns(f"{found} (is a name misspelt: {hint}?)" if hint else found)


def _check_kept(kept: Sequence[str], schema: pa.Schema, verdict: pa.Schema) -> None:
    for name in kept:
        places = schema.get_all_field_indices(name)
        if not places:
            hint = did_you_mean(name, schema.names)
            raise UnfitColumn(
                f"the table has no column `{name}`; it has {_list_names(schema.names)}" + (f" ({hint})" if hint else "")
            )
        if len(places) > 1:
            found = f"the table has {len(places)} columns {as_code(name)}"
            raise UnfitColumn(f"{found}: rename one, or choose columns with `--keep`")
        if name in verdict.names:
            raise UnfitColumn(f"the table has a column `{name}`, which is the name of a column of the verdict")


def _field(fact: pb.Fact) -> pa.Field:
    reader = ColumnReader(fact)
    values = "" if reader.is_name or reader.boolean else ", ".join(fact.values)
    return pa.field(
        fact.name, reader.arrow_type, nullable=not (fact.asserted and reader.is_name), metadata={"values": values}
    )


def _list_names(names: Iterable[str]) -> str:
    return list_names(names) or "none"
