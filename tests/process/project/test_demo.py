"""The demonstration: a real run passes and stays short, and a failing step is reported."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from demo import __main__ as demonstration
from demo import person
from demo.narration import Narration

from support.checkout import ROOT

MAX_LINES = 60


def test_the_demonstration_passes_its_checks_in_at_most_sixty_lines(tmp_path: Path) -> None:
    """On real MCP servers; each printed command is one that the gateway named, and the picture is written."""
    picture = tmp_path / "demo.svg"
    command = [sys.executable, "-m", "demo", "--svg", str(picture)]
    environment = os.environ | {"PYTHONPATH": "examples"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= MAX_LINES
    held, of = re.fullmatch(r"(\d+) of (\d+) checks passed", lines[-1]).groups()  # type: ignore[union-attr]
    assert held == of != "0"
    commands = re.findall(r"^  person  \$ (callability .+)$", done.stdout, re.MULTILINE)
    said = " ".join(done.stdout.split())
    assert len(commands) == 2
    for printed in commands:
        assert said.count(f"`{printed}`") == 1
    svg = picture.read_text(encoding="utf-8")
    assert svg.startswith("<svg ")
    assert "checks" in svg
    assert not re.findall(r"url\([\"']?https?:|href=", svg)


def test_a_check_that_fails_is_printed_and_ends_the_demonstration_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the later checks say."""

    async def play(narration: Narration, directory: Path) -> None:
        narration.check("the sky is green", "blue", "green")
        narration.check(f"{directory.name} has a name", bool(directory.name), True)

    monkeypatch.setattr(demonstration, "play", play)
    with pytest.raises(typer.Exit) as ended:
        demonstration.main()
    assert ended.value.exit_code == 1
    printed = capsys.readouterr().out
    assert "✗ the sky is green" in printed
    assert "1 of 2 checks passed" in printed


def test_only_a_verbose_narration_prints_answers_and_checks_that_held(capsys: pytest.CaptureFixture[str]) -> None:
    """A reader of the first five minutes skips the JSON."""
    for verbose in (False, True):
        narration = Narration(verbose=verbose)
        narration.returned({"status": "callable"})
        narration.check("it holds", True, True)
        printed = capsys.readouterr().out
        assert ('"status": "callable"' in printed, "✓ it holds" in printed) == (verbose, verbose)


def test_a_person_runs_the_last_command_that_a_text_names() -> None:
    """It is the one that unlocks; a command before it may show what is unlocked."""
    text = "Look with `callability approvals show a`, then run `callability servers release a`. See `include_disabled`."
    assert person.command_in(text) == "callability servers release a"
    with pytest.raises(person.NoCommand):
        person.command_in("Ask the operator to change `disabled_tools`.")


def test_a_person_answers_the_question_of_a_command_and_sees_what_it_prints() -> None:
    """At a terminal: without one, a command would not ask."""
    done = person.run("test -t 0 && read -r answer && echo $answer", {})
    assert (done.returncode, done.stdout) == (0, "y\n")


def test_an_edit_replaces_one_place_of_a_file_and_refuses_to_guess(tmp_path: Path) -> None:
    """A text that is not there, or there twice, means that the file is not the one that was meant."""
    path = tmp_path / "rules.yaml"
    path.write_text("one two two")
    person.replace(path, "one ", "")
    assert path.read_text() == "two two"
    for old in ("one", "two"):
        with pytest.raises(ValueError, match="once"):
            person.replace(path, old, "")
    assert path.read_text() == "two two"
    assert list(tmp_path.iterdir()) == [path]
