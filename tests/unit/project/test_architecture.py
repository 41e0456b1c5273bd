"""Which module may import which."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import callability.gateway
import callability.service
from support.checkout import PACKAGE, TESTS

SHARED = {
    "callability",
    "callability.process.address",
    "callability.process.child",
    "callability.kernel.results",
    "callability.process.metrics",
    "callability.files.certificates",
    "callability.files.document",
    "callability.contract.finding",
    "callability.process.logs",
    "callability.process.regular_file",
    "callability.contract.vocabulary",
    "callability.otel.traces",
    "callability.process.uvicorn_server",
    "callability.files.watching",
}
POLICY_ROOMS = ("names", "questions", "rules", "reading", "deciding", "proving", "reporting")

GATEWAY_ROOMS = (
    "config",
    "policy_client",
    "upstream",
    "loading",
    "catalog",
    "observability",
    "inventory",
    "tools",
    "agents",
    "offline",
    "runtime",
    "serving",
)

SERVICE_ROOMS = ("requests", "callers", "observability", "calls", "transport")
SERVICE_MODULES = (
    *("server.py", "edits.py", "memory.py"),
    *("instance.py", "worker.py", "workers.py"),
)


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
    for library in ("grpc", "google", "mcp", "callability.v1", "callability.service"):
        assert "policy" not in _rooms(_importers(library))


def test_the_rooms_of_the_policy_stand_in_the_order_of_the_work() -> None:
    """Each knows those before it: questions, rules, and how these are read, decided, proved and reported."""
    for number, room in enumerate(POLICY_ROOMS):
        later = {f"callability.compiler.{name}" for name in (*POLICY_ROOMS[number + 1 :], "loading")}
        if room == "reporting":
            later = set()
        for path in (PACKAGE / "policy" / room).rglob("*.py"):
            known = {".".join(name.split(".")[:3]) for name in _imports(path)}
            assert not known & later, path
    rooms = {path.parent.name for path in (PACKAGE / "policy").glob("*/*.py")}
    assert rooms == {*POLICY_ROOMS}


def test_a_room_of_the_gateway_imports_only_from_those_above_it_in_the_list() -> None:
    """Annotations included: whatever a module names, it knows."""
    for number, room in enumerate(GATEWAY_ROOMS):
        above = {f"callability.gateway.{name}" for name in GATEWAY_ROOMS[: number + 1]}
        for path in (PACKAGE / "gateway" / room).rglob("*.py"):
            known = {".".join(name.split(".")[:3]) for name in _imports(path) if name.startswith("callability.gateway")}
            assert known <= above, path


def test_the_gateway_has_twelve_rooms_and_says_so() -> None:
    """Its docstring lists them, and there is no module outside them."""
    content = {path.name for path in (PACKAGE / "gateway").iterdir() if path.name != "__pycache__"}
    assert content == {"__init__.py", *GATEWAY_ROOMS}
    listed = re.findall(r"(?m)^- `(\w+)`: ", callability.gateway.__doc__ or "")
    assert (*listed,) == GATEWAY_ROOMS


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


def test_a_room_of_the_service_imports_only_from_those_above_it_in_the_list() -> None:
    """Annotations included; the modules beside the rooms join them, and no room knows these."""
    for number, room in enumerate(SERVICE_ROOMS):
        above = {f"callability.service.{name}" for name in SERVICE_ROOMS[: number + 1]}
        for path in (PACKAGE / "service" / room).rglob("*.py"):
            known = {".".join(name.split(".")[:3]) for name in _imports(path) if name.startswith("callability.service")}
            assert known <= above, path
    content = {path.name for path in (PACKAGE / "service").iterdir() if path.name != "__pycache__"}
    assert content == {"__init__.py", *SERVICE_ROOMS, *SERVICE_MODULES}
    assert (*re.findall(r"(?m)^- `(\w+)`: ", callability.service.__doc__ or ""),) == SERVICE_ROOMS


def test_what_serves_a_policy_never_imports_what_compiles_it() -> None:
    """A process of its own checks an edit, and hands over the bundle."""
    compiling = _importers("callability.compiler") | _importers("callability.bundling")
    assert _rooms(compiling) <= {"policy", "bundling", "studio", "command_line"}


def test_adapter_and_gateway_know_the_contract_and_not_the_policy() -> None:
    """They ask through the contract's own calls."""
    for room in ("adapter", "gateway"):
        for path in (PACKAGE / room).rglob("*.py"):
            ours = {name for name in _imports(path) if name.partition(".")[0] == "callability"}
            allowed = ["callability.v1", "callability.adapter", f"callability.{room}"]
            allowed += ["callability.client", "callability.editing"] if room == "gateway" else []
            assert {name for name in ours if not name.startswith(tuple(allowed))} <= SHARED, path


def test_the_client_knows_the_contract_and_needs_the_base_install_alone() -> None:
    """A proxy installs it without a policy, a gateway or their libraries."""
    for path in (PACKAGE / "client").rglob("*.py"):
        ours = {name for name in _imports(path) if name.partition(".")[0] == "callability"}
        allowed = ("callability.v1", "callability.adapter", "callability.kernel", "callability.client")
        assert {name for name in ours if not name.startswith(allowed)} <= SHARED, path
        others = {name.partition(".")[0] for name in {*_imports(path)} - ours}
        assert others <= {*sys.stdlib_module_names, "google", "grpc"}, path


def test_columns_are_decided_without_the_policy() -> None:
    """A bundle, numpy and pyarrow are enough to decide tables: no rule files, no engine, no service."""
    for path in (PACKAGE / "columns").rglob("*.py"):
        ours = {name for name in _imports(path) if name.partition(".")[0] == "callability"}
        allowed = ("callability.bundle.v1", "callability.kernel", "callability.tables", "callability.v1")
        assert {name for name in ours if not name.startswith(allowed)} <= SHARED, path


def test_the_studio_knows_the_policy_and_neither_service_nor_gateway() -> None:
    """It is a page for looking at a policy, and is independent of those who ask it.

    One module words a verdict as a proxy does, by the adapter's own public functions, and one asks for the size of the
    bundle as `check` does.
    """
    for path in (PACKAGE / "studio").rglob("*.py"):
        ours = {name for name in _imports(path) if name.partition(".")[0] == "callability"}
        allowed = [
            "callability.compiler",
            "callability.kernel",
            "callability.editing",
            "callability.files",
            "callability.studio",
        ]
        if path.name == "rejection.py":
            assert {name for name in ours if name.startswith("callability.adapter")} == {"callability.adapter"}
            allowed += ["callability.adapter", "callability.v1"]
        if path.name == "draft.py":
            allowed += ["callability.compiler.bundle_writing"]
        assert {name for name in ours if not name.startswith(tuple(allowed))} <= SHARED, path


def test_the_kernel_knows_the_contract_alone() -> None:
    """A proxy that has the base installation alone decides by it: no rule files, no engine, no gRPC."""
    for path in (PACKAGE / "kernel").rglob("*.py"):
        ours = {name for name in _imports(path) if name.partition(".")[0] == "callability"}
        allowed = ("callability.v1", "callability.bundle.v1", "callability.kernel")
        assert {name for name in ours if not name.startswith(allowed)} <= SHARED, path
        assert not {name for name in _imports(path) if name.startswith("grpc")}, path


def test_one_module_reads_the_facts_of_requests_about_tools() -> None:
    """Whatever decides reads a fact as every other does."""
    assert _importers("callability.kernel.facts") == {"kernel/facts.py"}


def test_editing_knows_documents_and_nothing_of_what_they_say() -> None:
    """So any file of ours can be edited by it."""
    for path in (PACKAGE / "editing").rglob("*.py"):
        ours = {name for name in _imports(path) if name.partition(".")[0] == "callability"}
        assert {name for name in ours if not name.startswith("callability.editing")} <= SHARED, path


def test_only_the_command_line_sees_policy_and_gateway() -> None:
    """It joins the two."""
    assert _rooms(_importers("callability.compiler")) & _rooms(_importers("callability.gateway")) <= {"command_line"}


def test_no_test_module_is_imported() -> None:
    """What two of them need is in `tests/support`."""
    modules = [*TESTS.rglob("*.py")]
    tests = {path.stem for path in modules if path.stem.startswith("test_")} | {"conftest"}
    assert len(tests) > 100
    for path in modules:
        imported = _IMPORTED.findall(path.read_text(encoding="utf-8"))
        known = {part for name in imported for part in name.split(".") if not name.startswith("callability.")}
        assert not known & tests, path
