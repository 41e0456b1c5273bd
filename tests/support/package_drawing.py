"""The drawing of the packages and their arrows in `docs/architecture.md`, made from the imports.

`PYTHONPATH=tests python -m support.package_drawing` writes it. An arrow that follows from others is left out.
"""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter

from support.checkout import PACKAGE, ROOT

PAGE = ROOT / "docs/architecture.md"
BEGIN, END = "<!-- drawing: made by `make docs` -->\n", "<!-- end of the drawing -->\n"
_STUBS = {"v1", "bundle"}


def arrows() -> dict[str, set[str]]:
    """Return for each package the packages that it imports from."""
    packages = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()} - _STUBS
    return {package: _imported(package) & packages - {package} for package in sorted(packages)}


def drawing() -> str:
    """Return the drawing, as Mermaid: the packages that import nothing at the bottom."""
    known = arrows()
    order = [*TopologicalSorter(known).static_order()]
    below: dict[str, set[str]] = {}
    for package in order:
        below[package] = known[package].union(*(below[each] for each in known[package]))
    lines = [
        f"  {package} --> {each}"
        for package in reversed(order)
        for each in sorted(known[package])
        if not any(each in below[other] for other in known[package] - {each})
    ]
    return "\n".join([BEGIN.rstrip(), "", "```mermaid", "flowchart TD", *lines, "```", "", END.rstrip(), ""])


def drawn(page: str) -> str:
    """Return a page with the drawing in its place."""
    before, _, rest = page.partition(BEGIN)
    return before + drawing() + rest.partition(END)[2]


def _imported(package: str) -> set[str]:
    names: set[str] = set()
    for path in (PACKAGE / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
    return {name.split(".")[1] for name in names if name.startswith("callability.")}


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text()))
