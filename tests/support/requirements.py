"""The table of requirements in `docs/requirements.md`."""

from __future__ import annotations

import re

from support.checkout import ROOT


def required_tests() -> dict[str, set[str]]:
    """Return the tests of each requirement in the table."""
    rows = {}
    for line in (ROOT / "docs/requirements.md").read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\| ((?:FR|SC)-\d{3}|[EL]-\d+|fault \d+) \| .+ \| (.+) \|$", line):
            assert match[1] not in rows
            rows[match[1]] = set(re.findall(r"`(test_\w+\.py::test_\w+)`", match[2]))
    return rows
