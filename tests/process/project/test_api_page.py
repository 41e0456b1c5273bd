"""The reference of the Python API: every name that is promised, as its docstring says."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from support.api_page import MODULES, page
from support.checkout import ROOT


@pytest.mark.parametrize("module", MODULES)
def test_every_exported_name_has_a_section_with_its_own_words(module: str) -> None:
    """None is exported without a docstring."""
    generated = page()
    for name in import_module(module).__all__:
        [section] = re.findall(rf"^### {name}\n\n```python\n.*?\n```\n\n(.+?)\n", generated, re.MULTILINE | re.DOTALL)
        assert re.match(r"[A-Z`].*", section), f"{module}.{name}"


def test_the_promise_names_the_modules_of_the_page() -> None:
    """VERSIONING.md and the page agree."""
    versioning = (ROOT / "VERSIONING.md").read_text(encoding="utf-8")
    [row] = re.findall(r"^\| exported Python names \((.+?)\) \|", versioning, re.MULTILINE)
    assert re.findall(r"`([a-z_.]+)`", row) == list(MODULES)
