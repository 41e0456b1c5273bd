"""The page about the Go modules: its code runs as written, and its tables list what the modules report."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.checkout import ROOT

MODULE = "github.com/callability/callability/clients/go"
PAGE = (ROOT / "docs/go.md").read_text(encoding="utf-8")
SOURCES = [
    path.read_text(encoding="utf-8")
    for path in (ROOT / "clients/go").rglob("*.go")
    if not path.name.endswith(("_test.go", ".pb.go"))
]
needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="the Go toolchain is not on this machine")


def _blocks(language: str, section: str) -> list[str]:
    """Return the code of a section."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return [str(block) for block in re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]


def _rows(head: str) -> list[list[str]]:
    table = re.search(rf"(?m)^\| {head} \|.*\n\| --- .*\n((?:\|.*\n)+)", PAGE)
    assert table is not None
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table[1].splitlines()]


def _decides() -> str:
    """Return what the program of the quick start does."""
    return _blocks("go", "Quick start")[0].partition("func main() {\n")[2].removesuffix("}\n")


def _run(directory: Path, *command: str) -> str:
    """Run a command with an empty cache of modules and no network: there is nothing to download."""
    environment = os.environ | {
        "GOFLAGS": "-mod=mod",
        "GOMODCACHE": str(directory / "cache"),
        "GOPROXY": "off",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=1200, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _program(directory: Path, body: str) -> None:
    """Write a program that consists of the lines of a `main` function, outside the checkout."""
    ours = tuple(f"{MODULE}/{name}" for name in ("callability", "outcome", "shipped"))
    packages = ("context", "encoding/json", "fmt", "log", "log/slog", "net/http", *ours)
    names = {name: name.rpartition("/")[2] for name in packages}
    imports = "".join(f'\t"{package}"\n' for package, name in names.items() if re.search(rf"\b{name}\.", body))
    (directory / "main.go").write_text(f"package main\n\nimport (\n{imports})\n\nfunc main() {{\n{body}}}\n")
    (directory / "go.mod").write_text(
        f"module example\n\ngo 1.24\n\nrequire {MODULE} v0.0.0\n\nreplace {MODULE} => {ROOT / 'clients/go'}\n"
    )


@needs_go
def test_the_quick_start_runs_outside_the_checkout_with_no_module_but_ours(tmp_path: Path) -> None:
    """From nothing to the text that an agent reads, and then by a policy of one's own, as the page has it."""
    [_, from_checkout, build] = _blocks("sh", "Quick start")
    [program, follow] = _blocks("go", "Quick start")
    [printed] = _blocks("text", "Quick start")
    (tmp_path / "callability").symlink_to(ROOT)
    mine = tmp_path / "mine"
    mine.mkdir()
    _run(mine, "go", "mod", "init", "example.com/mine")
    for command in from_checkout.splitlines():
        _run(mine, *command.split())
    (mine / "main.go").write_text(program)
    _run(mine, "go", "build", "-o", "program", ".")
    assert _run(mine, "./program") == printed
    lines = map(str.split, _run(mine, "go", "version", "-m", "program").splitlines())
    assert [line[1] for line in lines if line[:1] == ["dep"]] == [MODULE]
    # What the page shows beyond the quick start.
    shutil.copytree(ROOT / "policy", tmp_path / "my-policy", ignore=shutil.ignore_patterns("examples", "schema"))
    _run(tmp_path, *build.split())
    _program(tmp_path, f"{follow}fmt.Println(store.Load() != nil)\n")
    assert _run(tmp_path, "go", "run", ".") == "true\n"
    [loads] = _blocks("go", "Loads and enables")
    [hooks, _] = _blocks("go", "Logs, metrics and traces")
    _program(tmp_path, _decides() + loads + hooks + "_ = store.Load()\n")
    assert "nothing listens on its port" in _run(tmp_path, "go", "run", ".")


_SERVES_JSON = """_ = http.ListenAndServe("", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	var read any
	_ = json.NewDecoder(r.Body).Decode(&read)
	_ = json.NewEncoder(w).Encode(read)
}))
"""


@needs_go
def test_the_package_adds_little_to_a_program(tmp_path: Path) -> None:
    """Stripped of symbols, it grows by 1.5 MB at most, and by 0.45 MB if it links `net/http` and `encoding/json`."""
    decides = _decides()
    [loads] = _blocks("go", "Loads and enables")
    sizes = {}
    both = decides + loads + _SERVES_JSON
    for kind, body in {"bare": "", "decides": decides + loads, "serves": _SERVES_JSON, "both": both}.items():
        sizes[kind] = _size(tmp_path, body)
    assert sizes["decides"] - sizes["bare"] <= 1_500_000
    assert sizes["both"] - sizes["serves"] <= 450_000


def _size(directory: Path, body: str) -> int:
    _program(directory, body)
    _run(directory, "go", "build", "-ldflags=-s -w", "-o", "program", ".")
    return (directory / "program").stat().st_size


def test_the_quick_start_has_at_most_ten_lines() -> None:
    """It is the first thing that a developer copies."""
    assert len(_decides().splitlines()) <= 10


def test_every_event_and_figure_is_in_a_table() -> None:
    """And no other."""
    events = {event for source in SOURCES for event in re.findall(r'\.(?:Info|Warn|Error)\(\S+, "(\w+)"', source)}
    [states] = [found for source in SOURCES for found in re.findall(r'\[\.\.\.\]string\{(.*"suspect")\}', source)]
    events |= {f"replica_{state}" for state in re.findall(r'"(\w+)"', states)}
    assert {event for row in _rows("event") for event in re.findall(r"`(\w+)`", row[0])} == events
    figures = {name for source in SOURCES for name in re.findall(r'"(callability_client_\w+)"', source)}
    assert {row[0].strip("`") for row in _rows("figure")} == figures
