"""Makes every Python process that starts with this directory on its path build wrong diagrams of marked rule sets.

Of a rule set with a rule `exchanged`, two verdicts stand in each other's place.
"""

from __future__ import annotations

from pathlib import Path

MARK = "exchanged"
_STARTED = f'''\
import sys
from dataclasses import replace

try:
    from callability.compiler import policy as loading
except ImportError:  # a process of another program
    loading = None

if loading:
    right = loading.build

    def build(rule_set, space):
        diagram = right(rule_set, space)
        if all(rule.id != "{MARK}" for rule in rule_set.rules):
            return diagram
        first, second, *others = diagram.verdicts
        return replace(diagram, verdicts=(second, first, *others))

    loading.build = build
'''


def write_wrong_builder(directory: Path) -> Path:
    """Write the module that Python imports when it starts, and return its directory, which belongs on the path."""
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(_STARTED)
    return directory
