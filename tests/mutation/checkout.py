"""A copy of the checkout, in which tests run: what they reach, and whether they notice a mutant."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coverage import CoverageData

from mutation.contexts import FAILED
from mutation.mutants import Mutant
from support.checkout import ROOT

_COVERAGE = """\
[run]
context = ${{PYTEST_CURRENT_TEST-}}
data_file = {data}
include = {files}
parallel = true
sigterm = true
"""
"""A process that a test starts reads its context from its environment, and writes a file of its own.

Only files that hold a place are measured: to measure all of the program would take twice the time.
"""
_FIXED = ("-p", "no:cacheprovider", "-p", "mutation.contexts", "--hypothesis-profile=quick", "--hypothesis-seed=0")
"""Options of each run: the same examples are drawn each time."""
_CONFTEST = "ImportError while loading conftest"
"""What pytest says, with an exit code of its own, if what all tests share cannot be imported."""
_PHASES = (" (setup)", " (call)", " (teardown)")

Reached = Mapping[Path, Mapping[int, frozenset[str]]]
"""The tests that reach a line of a file."""


class TestsDoNotRun(Exception):
    """The tests cannot be run at all: nothing is known about a mutant."""


@dataclass(frozen=True, slots=True)
class Noticed:
    """The test that failed first; empty if the tests could not even be loaded."""

    by: str


@dataclass(frozen=True, slots=True)
class Checkout:
    """A copy of the checkout: a mutant is written here alone."""

    root: Path

    @classmethod
    def copied_to(cls, root: Path) -> Checkout:
        """Copy what git knows or would add, and share the virtual environment."""
        names = _git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
        for name in filter(None, names):
            if (ROOT / name).exists():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name, follow_symlinks=False)
        (root / ".venv").symlink_to(ROOT / ".venv")
        _git(root, "init", "--quiet")
        _git(root, "add", "--all")
        return cls(root)

    def package_files(self) -> list[Path]:
        """Return the modules of the package that are not generated."""
        package = self.root / "server/callability"
        return [path for path in package.rglob("*.py") if "v1" not in path.relative_to(package).parts]

    def reach(self, files: Iterable[Path], tests: str, workers: int, seconds: float) -> tuple[Reached, frozenset[str]]:
        """Run a file or folder of tests as it is; return which tests reach a line of these files, and which fail here.

        Raises:
            TestsDoNotRun: they do not end in time, or pytest cannot run them.
        """
        measured = Path(tempfile.mkdtemp(prefix="measured-", dir=self.root.parent))
        config, failed = measured / "coveragerc", measured / "failed"
        config.write_text(_COVERAGE.format(data=measured / "data", files=",".join(map(str, files))), encoding="utf-8")
        failed.touch()
        variables = {"COVERAGE_PROCESS_START": str(config), FAILED: str(failed)}
        try:
            code = self._pytest(["-n", str(workers), "--dist", "loadfile", tests], seconds, variables, show=True)[0]
        except subprocess.TimeoutExpired:
            raise TestsDoNotRun(f"the tests did not end within {seconds:g} s before anything was changed") from None
        if code not in {0, 1}:
            raise TestsDoNotRun(f"pytest ended with {code} before anything was changed")
        reached: dict[Path, dict[int, frozenset[str]]] = {}
        for part in measured.glob("data.*"):
            data = CoverageData(str(part))
            data.read()
            for name in data.measured_files():
                lines = reached.setdefault(Path(name), {})
                for line, contexts in data.contexts_by_lineno(name).items():
                    lines[line] = lines.get(line, frozenset()) | {_test(each) for each in contexts if each}
        return reached, frozenset(failed.read_text(encoding="utf-8").splitlines())

    def notice(self, mutant: Mutant, tests: Sequence[str], seconds: float) -> Noticed | None:
        """Run the tests on the mutant up to the first failure, and return it; none if they pass.

        Raises:
            subprocess.TimeoutExpired: they did not end in time.
            TestsDoNotRun: the test that failed also fails without the change, or pytest ended in an unknown way.
        """
        original = mutant.path.read_text(encoding="utf-8")
        try:
            self._write(mutant.path, mutant.source)
            code, output = self._run(tests, seconds)
        finally:
            self._write(mutant.path, original)
        if code == 0:
            return None
        failed = [line.split(" - ")[0].split(" ", 1)[1] for line in output.splitlines() if line.startswith("FAILED ")]
        if code == 1 and failed and self._run(failed[:1], seconds)[0] != 0:
            raise TestsDoNotRun(f"{failed[0]} also fails without the change")
        if code not in {1, 2} and _CONFTEST not in output:
            raise TestsDoNotRun(f"pytest ended with {code}: {output[-500:]}")
        return Noticed(failed[0] if failed else "")

    def _run(self, tests: Sequence[str], seconds: float) -> tuple[int, str]:
        chosen = self.root.with_name("chosen")
        chosen.write_text("\n".join(tests), encoding="utf-8")
        return self._pytest(["-x", "-n", "0", f"@{chosen}"], seconds, {})

    def _pytest(
        self, arguments: Sequence[str], seconds: float, variables: Mapping[str, str], *, show: bool = False
    ) -> tuple[int, str]:
        path = os.pathsep.join(map(str, (self.root / "server", self.root / "tests", self.root)))
        with subprocess.Popen(
            [self.root / ".venv/bin/python", "-m", "pytest", "-q", "-rfE", *_FIXED, *arguments],
            cwd=self.root,
            env={**os.environ, **variables, "PYTHONPATH": path},
            stdout=None if show else subprocess.PIPE,
            stderr=None if show else subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=seconds)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return process.returncode, output or ""

    @staticmethod
    def _write(path: Path, source: str) -> None:
        """Write a module without its bytecode, which is taken for current if size and second are the same."""
        path.write_text(source, encoding="utf-8")
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def _test(context: str) -> str:
    for phase in _PHASES:
        context = context.removesuffix(phase)
    return context


def _git(directory: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=directory, capture_output=True, text=True, check=True).stdout
