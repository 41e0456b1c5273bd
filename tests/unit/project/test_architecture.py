"""Which module may import which."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from support.checkout import PACKAGE, ROOT, TESTS
from support.package_drawing import PAGE, drawn

ARROWS = {
    "contract": "",
    "process": "contract",
    "records": "contract process kernel",
    "connect": "",
    "kernel": "contract process",
    "files": "contract process kernel",
    "adapter": "contract",
    "client": "contract process kernel adapter",
    "tables": "contract process kernel",
    "otel": "process client",
    "compiler": "contract process kernel files",
    "service": "contract process kernel files otel records",
    "gateway": "contract process files adapter client connect records otel",
    "setup": "contract process files gateway",
    "studio": "contract process kernel files adapter compiler",
    "cli": "contract process kernel files adapter client tables otel"
    " records connect compiler service gateway setup studio",
}
"""What each room imports from: annotations and imports inside functions included. Generated stubs belong to no room."""
STUBS = {"v1", "bundle"}
OF_EXTRAS = {"web_server.py", "metrics.py", "signatures.py"}
"""Modules of these rooms that need an extra; they are imported where one is installed."""


_IMPORTED = re.compile(r"^\s*(?:from|import)\s+([\w.]+)", re.MULTILINE)
"""The modules of import statements, as text: to parse every test takes most of a second."""


@cache
def _imports(path: Path) -> tuple[str, ...]:
    """Return what a module imports; each is parsed once for all tests here."""
    return tuple(_parsed(path))


def _parsed(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path} imports relatively"
            yield node.module


def _imports_at_once(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.module for node in tree.body if isinstance(node, ast.ImportFrom) and node.module}


def _importers(prefix: str) -> set[str]:
    return {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if any(name == prefix or name.startswith(f"{prefix}.") for name in _imports(path))
    }


def _rooms(importers: set[str]) -> set[str]:
    return {importer.partition("/")[0] for importer in importers}


def test_one_module_imports_durable_rules() -> None:
    """The engine, which runs in a process of its own."""
    assert _importers("durable") == {"compiler/engine.py"}


def test_the_policy_knows_neither_grpc_nor_mcp() -> None:
    """The meaning of a policy does not depend on how it is asked for a verdict."""
    for library in ("grpc", "google", "mcp", "callability.v1"):
        importers = {name for name in _importers(library) if name.startswith("compiler/")}
        assert importers <= {"compiler/bundle_writing.py", "compiler/validation_worker.py"}, library


def test_each_room_imports_from_the_rooms_that_it_may() -> None:
    """The arrows of `docs/architecture.md`; no two rooms import each other."""
    for room, allowed in ARROWS.items():
        for path in (PACKAGE / room).rglob("*.py"):
            ours = [name.split(".") for name in _imports(path) if name.startswith("callability.")]
            known = {name[1] for name in ours} - STUBS - {room}
            assert known <= {*allowed.split()}, path
    TopologicalSorter({room: allowed.split() for room, allowed in ARROWS.items()}).prepare()


def test_the_drawing_is_up_to_date() -> None:
    """`make docs` makes it from the imports."""
    assert PAGE.read_text() == drawn(PAGE.read_text())


def test_every_module_is_in_a_room() -> None:
    """So a reader finds the architecture in the listing of the folder."""
    content = {path.name for path in PACKAGE.iterdir() if path.name not in {"__pycache__", "policies"}}
    assert content == {"__init__.py", "__main__.py", "py.typed", *STUBS, *ARROWS}


@pytest.mark.parametrize("room", ["kernel", "compiler", "service", "tables", "gateway"])
def test_a_room_lists_its_modules_and_each_imports_only_from_those_above_it(room: str) -> None:
    """Annotations included: whatever a module names, it knows. Only imports inside functions are exempt."""
    content = {path.stem for path in (PACKAGE / room).iterdir() if path.stem not in {"__init__", "__pycache__"}}
    docstring = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text())) or ""
    listed = re.findall(r"(?m)^- `(\w+)`: ", docstring)
    assert {*listed} == content
    for number, module in enumerate(listed):
        below = {f"callability.{room}.{name}" for name in listed[number + 1 :]}
        place = PACKAGE / room / module
        for path in (*place.rglob("*.py"), *(place.parent.glob(f"{module}.py"))):
            known = {".".join(name.split(".")[:3]) for name in _imports_at_once(path)}
            assert not known & below, path


def test_no_modules_of_the_gateway_import_each_other() -> None:
    """A module can be read, and imported, after those that it names."""
    known = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): {*_imports(path)}
        for path in (PACKAGE / "gateway").rglob("*.py")
    }
    TopologicalSorter({name: imported & known.keys() for name, imported in known.items()}).prepare()


def test_every_module_of_the_gateway_says_in_one_line_what_it_is() -> None:
    """So the list of the modules reads as an architecture."""
    for path in (PACKAGE / "gateway").rglob("*.py"):
        docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
        assert docstring.partition("\n")[0].endswith((".", "?")), path


def test_what_serves_a_policy_never_imports_what_compiles_it() -> None:
    """A process of its own checks an edit, and hands over the bundle."""
    assert _rooms(_importers("callability.compiler")) <= {"compiler", "studio", "cli"}


@pytest.mark.parametrize("room", ["contract", "process", "kernel", "adapter", "client"])
def test_what_a_proxy_uses_needs_the_base_installation_alone(room: str) -> None:
    """A proxy installs it without a policy, a gateway or their libraries; the kernel needs no gRPC."""
    libraries = {
        *sys.stdlib_module_names,
        "google",
        "rapidfuzz",
        "callability",
        *({"grpc"} if room == "client" else ()),
    }
    for path in (PACKAGE / room).rglob("*.py"):
        if path.name in OF_EXTRAS:
            continue
        assert {name.partition(".")[0] for name in _imports(path)} <= libraries, path


def test_one_module_reads_the_facts_of_requests_about_tools() -> None:
    """Whatever decides reads a fact as every other does."""
    importers = {
        path.name
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and "FactReader" in {name.name for name in node.names}
    }
    assert importers == {"byte_calls.py"}


def test_no_test_module_is_imported() -> None:
    """What two of them need is in `tests/support`."""
    modules = [*TESTS.rglob("*.py")]
    tests = {path.stem for path in modules if path.stem.startswith("test_")} | {"conftest"}
    assert len(tests) > 100
    for path in modules:
        imported = _IMPORTED.findall(path.read_text(encoding="utf-8"))
        known = {part for name in imported for part in name.split(".") if not name.startswith("callability.")}
        assert not known & tests, path


def test_every_module_that_the_page_names_is_there() -> None:
    """Some of them are in other languages, and some have no room."""
    named = set(re.findall(r"`([\w./-]+/[\w-]+\.(?:go|py|sh))`", PAGE.read_text(encoding="utf-8")))
    assert len(named) > 10
    missing = [name for name in sorted(named) if not any((base / name).exists() for base in (PACKAGE, TESTS, ROOT))]
    assert missing == []
