"""The pages about incidents and backups: each command is run, and prints what the page shows."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from callability.gateway.config.variables import SECRETS_FILE
from callability.gateway.upstream.login_store import DIRECTORY as TOKENS
from callability.setup.writing import BACKUPS, RECORD_FILE
from support.checkout import DOCS
from support.documents import command_path, pattern, sessions_of

BLOCK = re.compile(r"(?:^<!-- (?:exit code (\d+)|(\S+)) -->\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DIRECTORY = "/srv/gateway"
"""The directory of the gateway on the pages."""


def _run(command: str, directory: Path, home: Path) -> subprocess.CompletedProcess[str]:
    changed = {"PATH": command_path(), "COLUMNS": "120", "HOME": str(home), "XDG_CONFIG_HOME": f"{home}/.config"}
    environment = os.environ | changed
    environment.pop("XDG_RUNTIME_DIR", None)
    return subprocess.run(
        ["sh", "-c", command.replace(DIRECTORY, str(directory))],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_the_page_about_backups_names_each_file_that_is_written_beside_a_config() -> None:
    """What it leaves out is lost."""
    page = (DOCS / "backup.md").read_text(encoding="utf-8")
    files = (SECRETS_FILE, f"{TOKENS}/", RECORD_FILE, f"{BACKUPS}/", "approvals.seen.json", "approvals.definitions/")
    rows = {name for row in re.findall(r"^\| (.*?) \|", page, re.MULTILINE) for name in re.findall(r"`([^`]+)`", row)}
    assert [name for name in files if name not in rows] == []


@pytest.mark.parametrize("page", ["why.md", "backup.md"])
def test_a_page_for_operators_can_be_followed_to_its_end(page: str, tmp_path: Path, short_path: Path) -> None:
    """In the directory of its gateway, which may be any."""
    text = (DOCS / page).read_text(encoding="utf-8")
    ran = 0
    try:
        for code, file, kind, content in BLOCK.findall(text):
            if kind != "console":
                assert file, content
                (tmp_path / file).write_text(content)
                continue
            for command, shown in sessions_of(content):
                done = _run(command, tmp_path, short_path)
                assert done.returncode == int(code or 0), f"{command} printed\n{done.stdout}{done.stderr}"
                wanted = pattern(shown.replace(DIRECTORY, str(tmp_path)))
                assert re.fullmatch(wanted, done.stdout), f"{command} printed\n{done.stdout}"
                ran += 1
    finally:
        with suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int((tmp_path / "gateway.pid").read_text()), signal.SIGTERM)
    assert ran == len(re.findall(r"^\$ ", text, re.MULTILINE)) > 5
