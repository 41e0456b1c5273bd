"""Where the files of a checkout are."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
DOCS = ROOT / "docs"
PACKAGE = ROOT / "server/callability"
POLICY = ROOT / "policy"
SUPPORT = TESTS / "support"
UPSTREAMS = SUPPORT / "upstreams"
VECTORS = TESTS / "vectors"
