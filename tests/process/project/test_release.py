"""A release is made by commands, and the workflows run commands that a developer has too."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from support.checkout import ROOT

FILES = (
    *("CHANGELOG.md", "pyproject.toml", ".ci/release", "ops/helm/callability/Chart.yaml"),
    *("proto", "tests/contract.binpb"),
)
GIT = ("git", "-c", "user.name=A person", "-c", "user.email=person@example.com")
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yaml"))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a release changes, committed in a repository of its own, with a changelog that is ready."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 7.1.0 (unreleased)\n\n### Added\n\n- A thing.\n")
    for arguments in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "start"]):
        subprocess.run([*GIT, *arguments], cwd=tmp_path, check=True)
    return tmp_path


def _release(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    person = {"GIT_CONFIG_COUNT": "2"}
    for number, (key, value) in enumerate((("user.name", "A person"), ("user.email", "person@example.com"))):
        person |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return subprocess.run(
        [checkout / ".ci/release", *arguments],
        env=os.environ | person | {"BIN": str(Path(sys.executable).parent)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _git(checkout: Path, *arguments: str) -> str:
    return subprocess.run([*GIT, *arguments], cwd=checkout, capture_output=True, text=True, check=True).stdout


def test_a_release_is_dated_numbered_committed_and_tagged(checkout: Path) -> None:
    """And what is committed is all that was changed."""
    done = _release(checkout, "prepare", "7.1.0")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^## 7\.1\.0 \(\d{4}-\d\d-\d\d\)$", (checkout / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert 'version = "7.1.0"\n' in (checkout / "pyproject.toml").read_text()
    assert "appVersion: 7.1.0\n" in (checkout / "ops/helm/callability/Chart.yaml").read_text()
    assert _git(checkout, "tag", "--points-at", "HEAD").split() == ["clients/go/v7.1.0", "v7.1.0"]
    assert _git(checkout, "log", "-1", "--format=%s").strip() == "project: release 7.1.0"
    assert _git(checkout, "status", "--porcelain") == ""


def test_a_release_is_refused_before_anything_is_changed(checkout: Path) -> None:
    """A number that is none or not in the changelog, files that are changed, and a commit without a tag."""
    for arguments, why in (
        (["prepare", "7.1"], "`7.1` is no version such as 0.2.0"),
        (["prepare", "7.2.0"], "CHANGELOG.md has no section `7.2.0 (unreleased)`: write it"),
        (["build"], "this commit has no tag v0.1.0"),
        (["go", "7.1.0"], "there is no tag clients/go/v7.1.0: prepare it first"),
        (["ship"], "what shall be done: prepare VERSION, go VERSION, build or publish?"),
    ):
        done = _release(checkout, *arguments)
        assert (done.returncode, done.stderr) == (1, f"release: {why}\n")
    assert _git(checkout, "status", "--porcelain") == ""
    (checkout / "new").touch()
    assert "files are changed" in _release(checkout, "prepare", "7.1.0").stderr
    assert _git(checkout, "tag") == ""


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_a_developer_can_run(workflow: Path) -> None:
    """A script in the checkout or a target of the Makefile, and nothing else."""
    makefile = (ROOT / "Makefile").read_text()
    commands = [
        step["run"]
        for job in YAML(typ="safe").load(workflow.read_text())["jobs"].values()
        for step in job["steps"]
        if "run" in step
    ]
    assert commands
    for program, *arguments in map(str.split, commands):
        if program == "make":
            target = arguments[0].replace(".venv", "$(VENV)")
            assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), target
        else:
            assert os.access(ROOT / program, os.X_OK), program


def test_the_workflow_of_a_release_builds_and_publishes() -> None:
    """Those that the script has, after the checks."""
    text = (ROOT / ".github/workflows/release.yaml").read_text()
    assert re.findall(r"run: (\.ci/.*)", text) == [".ci/run", ".ci/release build", ".ci/release publish"]
