"""Shell completion: commands, options and choices, in the shell and without the extra that a command needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from callability.cli.application import line_to_complete
from support.documents import PATH

BASH = shutil.which("bash")


def _completed(line: str, *program: str) -> list[str]:
    """Return what bash offers for the last word of a line."""
    words = line.split(" ")
    done = subprocess.run(
        program or ("callability",),
        env=os.environ
        | {
            "PATH": PATH,
            "_CALLABILITY_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_commands_of_a_group_are_completed() -> None:
    """From the typed letters."""
    assert _completed("callability servers en") == ["enable"]


def test_the_options_of_a_command_are_completed() -> None:
    """Its module is imported for it."""
    assert {"--config", "--check"} <= {*_completed("callability gateway --c")}


def test_the_choices_of_an_option_are_completed() -> None:
    """Those that the help lists."""
    assert "json" in _completed("callability table --format ")


def test_without_its_extra_a_command_completes_nothing_and_prints_no_error() -> None:
    """The command itself says what to install."""
    program = "import sys; sys.argv, sys.modules['mcp'] = ['callability'], None; from callability.cli import main"
    assert _completed("callability gateway --c", sys.executable, "-c", f"{program}; main()") == []


@pytest.mark.skipif(BASH is None, reason="there is no bash")
def test_the_script_completes_in_bash() -> None:
    """As the documentation sources it."""
    script = (
        "source <(_CALLABILITY_COMPLETE=source_bash callability)\n"
        "COMP_WORDS=(callability approvals app) COMP_CWORD=2\n"
        "_callability_completion callability\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        [str(BASH), "--norc", "-c", script],
        env=os.environ | {"PATH": PATH},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout == "approve\n"


@pytest.mark.parametrize(
    ("environment", "line"),
    [
        ({}, None),
        ({"COMP_WORDS": "callability check"}, None),
        ({"_CALLABILITY_COMPLETE": "source_zsh"}, ()),
        ({"_CALLABILITY_COMPLETE": "complete_bash", "COMP_WORDS": "callability gateway --c"}, ("gateway", "--c")),
        (
            {"_CALLABILITY_COMPLETE": "complete_fish", "_TYPER_COMPLETE_ARGS": "callability explain 'a b"},
            ("explain", "'a", "b"),
        ),
    ],
)
def test_the_line_comes_from_the_variable_of_the_shell(
    environment: dict[str, str], line: tuple[str, ...] | None
) -> None:
    """Without the variable of a completion script, nothing is completed."""
    assert line_to_complete(environment) == line
