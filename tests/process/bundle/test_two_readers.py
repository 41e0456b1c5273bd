"""The readers in Python and in Go refuse the same bundles, and small bundles cost neither of them much."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from callability.kernel.envelope import MAX_BYTES, open_bundle
from support.bundle_vectors import DIRECTORY
from support.drawing import share
from support.go_client import OUT_OF_REACH
from support.hostile_bundles import sealed
from support.reading_costs import ACCEPTED, built_reader, code_of, read_by_go, read_by_python
from support.sparse_bundles import sparse_bundles
from support.wire_mutations import drawn_bundle

BUNDLES = 3_000
NAMES = ("small", "declared-facts", "agents-allowed", "rule-files")
MAX_MEMORY_OF_BYTE = 40
BESIDES = 4 * 1_048_576
"""Bytes that a reader may use besides: those that any payload may cost, and what an allocator rounds up."""
PARTS = 20_000


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that reads bundles in Go."""
    if shutil.which("go") is None:
        pytest.skip("the Go toolchain is not on this machine")
    try:
        return built_reader(tmp_path_factory.mktemp("reader"))
    except subprocess.CalledProcessError as failed:
        if any(phrase in failed.stderr for phrase in OUT_OF_REACH):
            pytest.skip("the Go modules that are needed are neither on this machine nor within its reach")
        raise


def test_both_readers_refuse_the_same_bundles_for_the_same_reasons(reader: Path) -> None:
    """Whatever stands on the wire, with a right digest: as `docs/bundle.md` says, by the first check that fails."""
    payloads = [open_bundle((DIRECTORY / f"{name}.bundle").read_bytes()).payload for name in NAMES]
    bundles = [drawn_bundle(payloads[seed % len(payloads)], seed) for seed in range(share(BUNDLES))]
    of_go = read_by_go(reader, bundles)
    codes = [code_of(bundle) for bundle in bundles]
    different = [
        f"seed {seed}: Python {code}, Go {reading.code} {reading.why}"
        for seed, (code, reading) in enumerate(zip(codes, of_go, strict=True))
        if code != reading.code
    ]
    assert not different
    found = Counter(codes)
    assert {ACCEPTED, "invalid", "damaged", "unsupported-format", "unsupported-semantics"} <= set(found)


def test_a_small_bundle_costs_neither_reader_much(reader: Path) -> None:
    """Of whatever its parts are, at most 40 bytes of memory for a byte of it."""
    names, bundles = zip(*sparse_bundles(PARTS), strict=True)
    readings = zip(read_by_go(reader, bundles), read_by_python(bundles), strict=True)
    for name, bundle, (of_go, of_python) in zip(names, bundles, readings, strict=True):
        assert of_go.code == of_python.code, name
        for language, reading in (("Go", of_go), ("Python", of_python)):
            limit = MAX_MEMORY_OF_BYTE * len(bundle) + BESIDES
            assert reading.memory <= limit, f"{name}: {language} uses {reading.memory:,} bytes for {len(bundle):,}"


@pytest.mark.parametrize(
    "field", [b"\x2a\0", b"\x22\0", b"\x32\0", b"\x7a\0"], ids=["rule sets", "actions", "files", "unknown"]
)
def test_the_largest_bundle_of_empty_messages_costs_little(reader: Path, field: bytes) -> None:
    """Its parts are counted before anything is made of them."""
    payload = open_bundle((DIRECTORY / "small.bundle").read_bytes()).payload
    bundle = sealed(payload + field * ((MAX_BYTES - len(payload) - 100) // 2))
    of_go, of_python = read_by_go(reader, [bundle])[0], read_by_python([bundle])[0]
    assert of_go.code == of_python.code
    assert max(of_go.memory, of_python.memory) <= MAX_MEMORY_OF_BYTE * len(bundle)
