"""A decision diagram that is wrong is refused by the rules engine, wherever a policy is checked."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.checkout import POLICY
from support.edits import replace
from support.gateways import write_config
from support.running import callability_process
from support.services import served
from support.waiting import eventually
from support.wrong_diagrams import MARK, write_wrong_builder


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A policy to edit; of an edit that renames the rule `user-off`, processes build a diagram that is wrong."""
    monkeypatch.setenv("PYTHONPATH", str(write_wrong_builder(tmp_path / "start")), prepend=os.pathsep)
    made = Path(shutil.copytree(POLICY, tmp_path / "policy"))
    tests = made / "callability_test.yaml"
    tests.write_text(tests.read_text().replace(", rule: user-off", ""))
    return made


def _marked(text: str) -> str:
    assert "id: user-off," in text
    return text.replace("id: user-off,", f"id: {MARK},")


@pytest.mark.parametrize("engine", ["auto", "reference", "both"])
def test_check_refuses_a_diagram_that_is_wrong(engine: str, directory: Path) -> None:
    """By a finding with the facts that are decided otherwise."""
    if engine == "both":
        pytest.importorskip("durable.engine")
    rules = directory / "callability.yaml"
    assert callability_process("check", str(directory), "--engine", engine).returncode == 0
    rules.write_text(_marked(rules.read_text()))
    done = callability_process("check", str(directory), "--engine", engine)
    [line] = [each for each in done.stdout.splitlines() if each.endswith("[engines-differ]")]
    assert done.returncode == 1
    assert ", and the decision diagram `" in line
    assert ", for server.enabled " in line


@pytest.mark.parametrize("command", ["serve", "gateway"])
def test_a_start_refuses_a_diagram_that_is_wrong(command: str, directory: Path, tmp_path: Path) -> None:
    """By the finding, without a traceback: it is the policy that cannot be served."""
    rules = directory / "callability.yaml"
    rules.write_text(_marked(rules.read_text()))
    arguments = ("--config", str(write_config(tmp_path, {}))) if command == "gateway" else ("--address", "127.0.0.1:0")
    done = callability_process(command, "--policy", str(directory), *arguments, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (1, "", False)
    assert [each for each in done.stderr.splitlines() if each.endswith("[engines-differ]")]


def test_an_edit_whose_check_fails_is_rejected_and_not_checked_again(tmp_path: Path, monkeypatch: Any) -> None:
    """A fault of the program is logged once, until the next edit; what was served is served on."""
    checks = tmp_path / "checks"
    (tmp_path / "start").mkdir()
    (tmp_path / "start/sitecustomize.py").write_text(
        f"from callability.kernel.policy import CheckedPolicy\n"
        f"whole = CheckedPolicy.pack\n"
        f"def packed(checked):\n    open({str(checks)!r}, 'a').write('check ')\n"
        f"    return whole(checked) if len(open({str(checks)!r}).read().split()) == 1 else b'nothing'\n"
        "CheckedPolicy.pack = packed\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "start"), prepend=os.pathsep)
    with served(Path(shutil.copytree(POLICY, tmp_path / "policy"))) as service:
        before, text = service.policy().revision, service.rules.read_text()
        at_start = len(checks.read_text().split()) if checks.exists() else 0
        replace(service.rules, text.replace("id: user-off,", "id: switched-off,"))
        eventually(lambda: service.policy().HasField("rejected_edit"))
        assert service.policy().rejected_edit.findings[0].endswith("its log says why [check-failed]")
        assert (service.policy().revision, service.rule()) == (before, "user-off")
        # Each new file beside the policy's own makes the service look at these again.
        for number in range(5):
            (service.directory / f"{number}.txt").touch()
        replace(service.rules, text.replace("id: user-off,", "id: turned-off,"))
        eventually(lambda: service.log.count("[check-failed]") >= 2)
        assert checks.read_text().split() == ["check"] * (at_start + 2)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (
            "raise NotDecided(Finding(Place('callability.yaml', 3, 5), 'engines-differ', 'they differ'))",
            "engines-differ",
        ),
        ("return b'x' * 15_728_640", "bundle-too-large"),
    ],
)
def test_an_edit_without_a_bundle_is_rejected_and_not_checked_again(
    fault: str, code: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that decide by themselves could not follow it; by a finding, until the next edit."""
    writes, start = directory.parent / "writes", directory.parent / "no-bundle"
    start.mkdir()
    (start / "sitecustomize.py").write_text(
        "from callability.compiler import bundle_writing as writing\n"
        "from callability.contract.finding import Finding, Place\n"
        "from callability.compiler.diagram import NotDecided\n"
        "right = writing.payload_of\n"
        "def payload_of(policy, *options):\n"
        f"    if all(rule.id != {MARK!r} for rule in policy.rule_sets['callability'].rule_set.rules):\n"
        "        return right(policy, *options)\n"
        f"    open({str(writes)!r}, 'a').write('write ')\n"
        f"    {fault}\n"
        "writing.payload_of = payload_of\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(start))
    with served(directory) as service:
        before, text = service.policy().revision, service.rules.read_text()
        replace(service.rules, _marked(text))
        eventually(lambda: service.policy().HasField("rejected_edit"))
        answer = service.policy()
        assert [each for each in answer.rejected_edit.findings if each.endswith(f"[{code}]")]
        assert (answer.revision, service.rule()) == (before, "user-off")
        # Each new file beside the policy's own makes the service look at these again.
        for number in range(5):
            (service.directory / f"{number}.txt").touch()
        replace(service.rules, text.replace("id: user-off,", "id: switched-off,"))
        eventually(lambda: service.rule() == "switched-off")
        assert writes.read_text().split() == ["write"]


def test_a_reload_whose_diagram_is_wrong_leaves_the_served_policy(directory: Path) -> None:
    """Whole, with the finding in the answer about the policy, until the next edit is right."""
    with served(directory) as service:
        before, text = service.policy().revision, service.rules.read_text()
        replace(service.rules, _marked(text))
        eventually(lambda: service.policy().HasField("rejected_edit"))
        answer = service.policy()
        assert any(each.endswith("[engines-differ]") for each in answer.rejected_edit.findings)
        assert (answer.revision, service.rule(), service.healthy()) == (before, "user-off", True)
        replace(service.rules, text.replace("id: user-off,", "id: switched-off,"))
        eventually(lambda: service.rule() == "switched-off")
