"""The units for systemd: they are understood, and confine what they run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.commands import callability

UNITS = sorted((ROOT / "ops/systemd").glob("*.service"))
ANALYZE = shutil.which("systemd-analyze")
PROGRAM = "/opt/callability/bin/callability"
EXPOSED = 20
"""The most that a unit may be exposed, of 100, by the measure of systemd; a unit without any confinement has 96."""


def test_a_unit_may_write_where_the_page_about_records_puts_them() -> None:
    """Everything else is read-only for it."""
    page, text = (ROOT / "docs/records.md").read_text(), "".join(unit.read_text() for unit in UNITS)
    named = set(re.findall(r"--records /var/lib/([\w-]+)/", page))
    assert named == set(re.findall(r"^StateDirectory=(.*)$", text, re.MULTILINE)) != set()


@pytest.mark.skipif(ANALYZE is None, reason="there is no systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_systemd_understands_a_unit_and_finds_it_confined(unit: Path, tmp_path: Path) -> None:
    """Without a warning; the program is the one of this checkout."""
    made = tmp_path / unit.name
    made.write_text(unit.read_text().replace(PROGRAM, str(Path(sys.executable).parent / "callability")))
    for arguments in (("verify",), ("security", "--offline=true", f"--threshold={EXPOSED}")):
        command = [ANALYZE or "", *arguments, str(made)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert unit.name not in done.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_the_command_of_a_unit_has_options_that_exist(unit: Path) -> None:
    """`--help` lists each of them."""
    command = re.search(rf"^ExecStart={PROGRAM} (\w+) ((?:.*\\\n)*.*)$", unit.read_text(), re.MULTILINE)
    assert command is not None
    text = callability(command[1], "--help").stdout
    assert [option for option in re.findall(r"--[a-z-]+", command[2]) if option not in text] == []


def test_there_are_units_for_the_service_and_the_gateway() -> None:
    """No other program runs for long."""
    assert [unit.stem for unit in UNITS] == ["callability-gateway", "callability"]
