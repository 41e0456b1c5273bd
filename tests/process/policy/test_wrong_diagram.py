"""A decision diagram that is wrong is refused by the rules engine, wherever a policy is checked."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from support.checkout import POLICY
from support.edits import replace
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
