"""What each extra of the distribution installs, and what is imported without it."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from callability.cli.application import BASE, COMMANDS, MODULES, Command, Group, refuse_without_extra
from support.checkout import ROOT, VECTORS

SERVER = ROOT / "server"
EXTRAS = ("bundle", "policy", "gateway", "studio", "columns", "otel")
TYPER_NEEDS = {"pydantic", "pydantic_core", "rich"}
"""What some versions of typer import themselves."""
BASE_LIBRARIES = {"google", "grpc", "rapidfuzz", "typer"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BLOCKED = """
import sys
from importlib.abc import MetaPathFinder

class Blocked(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
from callability.cli import main
"""
FORKED = """
import json, os
import callability.cli.application

def ended(arguments):
    out, err = os.memfd_create("out"), os.memfd_create("err")
    if child := os.fork():
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return [code, *(os.pread(each, 1_000_000, 0).decode() for each in (out, err))]
    os.dup2(out, 1)
    os.dup2(err, 2)
    sys.argv[1:] = arguments
    main()

json.dump([ended(each) for each in json.load(sys.stdin)], sys.stdout)
"""
"""Runs commands, each in a fork of a process that has imported what every command does."""


def _leaves(commands: Mapping[str, Command | Group] = COMMANDS, parents: str = "") -> Iterator[tuple[str, Command]]:
    for name, command in commands.items():
        if isinstance(command, Group):
            if command.own:
                yield f"{parents}{name}", command.own
            yield from _leaves(command.commands, f"{parents}{name} ")
        else:
            yield f"{parents}{name}", command


LEAVES = dict(_leaves())


def _path(module: str) -> Path | None:
    """Return the file of a module of ours; None for an attribute of one."""
    path = SERVER / module.replace(".", "/")
    return next((each for each in (path / "__init__.py", path.with_suffix(".py")) if each.is_file()), None)


ON_REQUEST = {
    SERVER / "callability/kernel/signatures.py",
    SERVER / "callability/service/call_spans.py",
    SERVER / "callability/gateway/config/variables.py",
    SERVER / "callability/gateway/meaning.py",
    *(SERVER / "callability/otel").glob("*.py"),
}
"""What imports an extra only where keys are given, or traces or search by meaning are wanted; a message then says which
extra is missing.
"""


@cache
def _imports(path: Path) -> frozenset[str]:
    """Return the modules that a file imports, and those that may be meant by `from package import module`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return frozenset(found)


def _libraries(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in _imports(path)} - {"callability", "__future__"} - sys.stdlib_module_names


def _with_all_that_it_imports(module: str) -> set[Path]:
    """Return the files that are loaded with a module of ours, the packages around each among them."""
    files: set[Path] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _path(name)
        if path is None or path in files:
            continue
        files.add(path)
        waiting += [each for each in _imports(path) if each.partition(".")[0] == "callability"]
        waiting += [name.rpartition(".")[0]] if "." in name else []
    return files


def test_the_base_imports_nothing_that_an_extra_installs() -> None:
    """Contract, adapter and the frame of the command, with all of ours that they import."""
    modules = {
        ".".join(path.relative_to(SERVER).with_suffix("").parts)
        for room in ("adapter", "v1")
        for path in (SERVER / "callability" / room).glob("*.py")
    }
    assert {"callability.adapter.messages", "callability.v1.verdict_pb2"} <= modules
    frame = {"callability.__main__", "callability.cli.application"}
    for path in {path for module in modules | frame for path in _with_all_that_it_imports(module)}:
        assert _libraries(path) <= BASE_LIBRARIES, path


@pytest.mark.parametrize("name", LEAVES)
def test_a_command_imports_no_more_than_its_extra_installs(name: str) -> None:
    """Whatever is imported on the way, within functions too."""
    command = LEAVES[name]
    module = f"callability.cli.{command.place.partition(':')[0]}"
    for path in _with_all_that_it_imports(module) - ON_REQUEST:
        assert _libraries(path) <= BASE_LIBRARIES | {*MODULES[command.extra]}, path


def test_an_extra_installs_nothing_that_no_command_imports() -> None:
    """What nothing needs is not installed."""
    for extra in EXTRAS:
        modules = {
            f"callability.cli.{each.place.partition(':')[0]}"
            for each in LEAVES.values()
            if each.extra in {extra, "policy"}
        }
        imported = {
            name for module in modules for path in _with_all_that_it_imports(module) for name in _libraries(path)
        }
        assert {*MODULES[extra]} <= imported, extra


def _required(extra: str) -> set[str]:
    """Return the names of the distributions that an extra requires, those of the extras in it among them."""
    names: set[str] = set()
    for each in PROJECT["optional-dependencies"][extra]:
        if nested := re.fullmatch(r"callability\[([a-z,]+)\]", each):
            names |= {name for inner in nested[1].split(",") for name in _required(inner)}
        else:
            names.add(re.split(r"[>=;\[ ]", each, maxsplit=1)[0])
    return names


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_modules_of_an_extra_are_those_of_its_requirements(extra: str) -> None:
    """Each module comes from a distribution that the extra requires, and each distribution brings one of them."""
    distributions = {
        module: {re.sub(r"[-_.]+", "-", name).lower() for name in names}
        for module, names in packages_distributions().items()
    } | {"pydantic_core": {"pydantic"}}  # it is a part of pydantic, which pins it
    required = {name.replace(".", "-") for name in _required(extra)}
    installed = {module for module in MODULES[extra] if module in distributions}
    assert {*MODULES[extra]} - installed <= {"durable"}  # it is not installed on Python 3.13
    assert all(distributions[module] & required for module in installed)
    brought = {name for module in installed for name in distributions[module]}
    assert required - brought <= {"durable-rules"}


def test_all_is_every_extra() -> None:
    """`callability[all]` leaves nothing out."""
    assert _required("all") == {name for extra in EXTRAS for name in _required(extra)}


def test_the_adapter_loads_neither_pydantic_nor_mcp_nor_anything_else_of_an_extra() -> None:
    """A proxy that uses it may pin all of them as it likes."""
    code = "import sys, callability.adapter; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    extras = {module for extra in EXTRAS for module in MODULES[extra]}
    assert {*loaded.stdout.split()} & {*extras, "grpc", "typer"} == set()


def _without(modules: set[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command as if some modules were not installed."""
    command = [sys.executable, "-c", f"{BLOCKED.format(names=modules)}main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_help_of_the_base_lists_every_command() -> None:
    """At both levels."""
    extras = {module for extra in EXTRAS for module in MODULES[extra]} - TYPER_NEEDS
    for group, commands in [
        ("", COMMANDS),
        *((name, it.commands) for name, it in COMMANDS.items() if isinstance(it, Group)),
    ]:
        done = _without(extras, *([group] if group else []), "--help")
        assert (done.returncode, done.stderr) == (0, "")
        listed = re.findall(r"^  ([a-z]+)  ", done.stdout.split("Commands:")[1], re.MULTILINE)
        assert listed == [*commands]


def test_bundles_are_verified_and_inspected_by_the_base() -> None:
    """Only a check of signatures needs an extra."""
    extras = {module for extra in EXTRAS for module in MODULES[extra]} - TYPER_NEEDS
    file = str(VECTORS / "bundles/signed.bundle")
    for command in ("verify", "inspect"):
        done = _without(extras, "bundle", command, file)
        assert (done.returncode, done.stderr) == (0, "")
    signed = _without(extras, "bundle", "verify", file, "--key", f"old={file}")
    needs = "callability: signatures need the extra `bundle`: run pip install 'callability[bundle]'\n"
    assert (signed.returncode, signed.stdout, signed.stderr) == (2, "", needs)


@pytest.mark.parametrize("command", ["serve", "gateway"])
def test_traces_without_their_extra_say_which_one_to_install(command: str, tmp_path: Path) -> None:
    """Before anything listens; without traces, nothing of it is imported."""
    config = tmp_path / "gateway.json"
    config.write_text('{"mcpServers": {}}')
    arguments = ("--config", str(config)) if command == "gateway" else ("--address", "127.0.0.1:0")
    blocked = BLOCKED.replace('name.partition(".")[0] in {names}', 'name == "opentelemetry.sdk"').format()
    done = subprocess.run(
        [sys.executable, "-c", f"{blocked}main()", command, "--traces", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    needs = "traces need the extra `otel` (`opentelemetry.sdk` cannot be imported): run pip install 'callability[otel]'"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f"callability: {needs}\n")


NEEDY = {name: command.extra for name, command in LEAVES.items() if command.extra != BASE}
"""The commands that need an extra, each with its own."""


@cache
def _ends_without(extra: str) -> Mapping[str, tuple[int, str, str]]:
    """Return how each command that needs an extra ends without it: its exit code, and what it prints."""
    names = [name for name in NEEDY if NEEDY[name] == extra]
    missing = {*MODULES[extra]} - ({*MODULES["policy"]} if extra != "policy" else set())
    # The help of a group lists its commands; its own command is the one without a name.
    calls = [[*name.split(), *(() if isinstance(COMMANDS.get(name), Group) else ("--help",))] for name in names]
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED.format(names=missing) + FORKED],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return {name: (code, out, err) for name, (code, out, err) in zip(names, json.loads(done.stdout), strict=True)}


@pytest.mark.parametrize("name", NEEDY)
def test_a_command_without_its_extra_says_which_one_to_install(name: str) -> None:
    """In one line, with exit code 2: nothing was refused."""
    extra = NEEDY[name]
    code, out, err = _ends_without(extra)[name]
    assert (code, out) == (2, "")
    assert re.fullmatch(
        rf"callability: `callability {name}` needs the extra `{extra}` \(`[a-z0-9_.]+` cannot be imported\):"
        rf" run pip install 'callability\[{extra}\]'\n",
        err,
    )


def test_a_module_of_our_own_that_is_missing_is_not_taken_for_an_extra() -> None:
    """It is a fault of the program, and is reported as it is."""
    with pytest.raises(ModuleNotFoundError, match="no such module"):
        refuse_without_extra("check", "policy", ModuleNotFoundError("no such module", name="callability.nowhere"))
