"""The README, `docs/` and the changelog: what they show is run, and what they list is what there is."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import findings_page
from support.checkout import ROOT
from support.documents import command_path, pattern, sessions_of

README = (ROOT / "README.md").read_text()
PROXIES = (ROOT / "docs/proxies.md").read_text()
POLICIES = (ROOT / "docs/policy.md").read_text()


def _blocks(language: str, page: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def _sessions() -> Iterator[tuple[str, str]]:
    """Yield each command of the console blocks with what the README shows of its output."""
    for block in _blocks("console"):
        yield from sessions_of(block)


def _run(command: str, directory: Path) -> str:
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=directory,
        env=os.environ | {"PATH": command_path(), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_command_in_the_readme_prints_what_stands_there(tmp_path: Path) -> None:
    """A line of three dots stands for any lines, and three dots at the end of one for any rest."""
    sessions = list(_sessions())
    assert sessions
    for command, shown in sessions:
        printed = _run(command, tmp_path)
        assert re.fullmatch(pattern(shown), printed), f"{command} printed\n{printed}"


def test_the_page_about_policies_shows_what_check_prints(tmp_path: Path) -> None:
    """As far as it shows it; the other commands on the page need a policy of the reader's."""
    [[(command, shown)]] = [
        list(sessions_of(block)) for block in _blocks("console", POLICIES) if block.startswith("$ callability check\n")
    ]
    printed = _run(command, tmp_path)
    assert re.fullmatch(pattern(shown), printed), printed


def test_a_call_by_reflection_needs_no_file_of_the_contract(address: str, tmp_path: Path) -> None:
    """The command on the page about proxies, in an empty directory."""
    [command] = [block for block in _blocks("sh", PROXIES) if block.startswith("buf curl")]
    answer = _run(command.replace("127.0.0.1:7420", address), tmp_path)
    assert '"status":"TOOL_STATUS_DISABLED_BY_CONFIG"' in answer.replace('": "', '":"')
    assert "{edit_config}" in answer


def test_the_grpcurl_call_is_the_same_call() -> None:
    """It cannot be run everywhere; its data and its method are those of the call that is."""
    [curl] = [block for block in _blocks("sh", PROXIES) if block.startswith("buf curl")]
    [other] = [block for block in _blocks("text", PROXIES) if block.startswith("grpcurl")]
    data = re.compile(r"'(\{.*?\}\})'", re.DOTALL)
    assert [re.sub(r"\s+", " ", found) for found in data.findall(curl)] == [
        re.sub(r"\s+", " ", found) for found in data.findall(other)
    ]
    assert "callability.v1.CallabilityService/CheckTool" in other


def test_the_rules_in_the_readme_are_the_shipped_ones() -> None:
    """To the byte."""
    [rules] = _blocks("yaml")
    assert rules in (ROOT / "policy/callability.yaml").read_text()


def test_the_proxy_on_its_page_is_the_example_that_the_tests_run() -> None:
    """To the byte."""
    [method] = [block for block in _blocks("python", PROXIES) if block.startswith("async def retrieve_tools(")]
    assert textwrap.indent(method, "    ") in (ROOT / "examples/proxy.py").read_text()


def test_every_dependency_has_its_reason_and_the_extra_that_installs_it() -> None:
    """And no other is listed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = {
        (re.split(r"[>=;\[ ]", each, maxsplit=1)[0], extra)
        for extra, every in {"base": project["dependencies"], **extras}.items()
        for each in every
        if extra in {"base", "policy", "gateway", "studio", "columns", "bundle", "otel", "keyring", "semantic"}
        and not each.startswith("callability[")
    }
    table = README.split("## What each dependency is for")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([a-z0-9., -]+) \| ([a-z, ]+) \|", table, re.MULTILINE)[1:]
    assert {(name, extra) for names, in_ in rows for name in names.split(", ") for extra in in_.split(", ")} == needed


def test_every_target_that_a_document_names_can_be_made() -> None:
    """In code; prose may use the word."""
    makefile = (ROOT / "Makefile").read_text()
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    named = {
        target for each in documents for target in re.findall(r"(?:^|`)make ([a-z-]+)", each.read_text(), re.MULTILINE)
    }
    assert {"demo", "test"} <= named
    assert sorted(target for target in named if not re.search(rf"^{target}:", makefile, re.MULTILINE)) == []


def _codes() -> set[str]:
    """Return every code that a finding of the program can have."""
    makers = {"Finding", "find", "_find", "_find_repeated", "_matching", "_refusal", "refusal", "refused_source"}
    makers.add("PydanticCustomError")
    codes = set()
    for path in (ROOT / "server/callability").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if name in makers:
                    texts = [arg.value for arg in node.args[:2] if isinstance(arg, ast.Constant)]
                    codes |= {text for text in texts if re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", str(text))}
    return {str(code) for code in codes}


def _sections() -> dict[str, str]:
    """Return what docs/findings.md says of each code that has a section of its own."""
    text, _, _ = (ROOT / "docs/findings.md").read_text().partition("\n## Of the gateway's files\n")
    found = re.findall(r"^### ([a-z0-9-]+)\n\n(.*?)(?=\n\n##|\Z)", text, re.MULTILINE | re.DOTALL)
    return {code: " ".join(said.split()) for code, said in found}


def test_every_code_of_a_finding_is_explained_and_no_other() -> None:
    """docs/findings.md is the list of them: a section each for a policy's files, a table for the gateway's."""
    tables = [line for line in (ROOT / "docs/findings.md").read_text().splitlines() if line.startswith("| `")]
    explained = {code for line in tables for code in re.findall(r"`([a-z0-9-]+)`", line.split(" | ")[0])}
    assert explained | _sections().keys() == _codes()


def test_a_finding_means_the_same_on_its_page_and_in_sarif() -> None:
    """To the word, with what to do; `make docs` writes the page."""
    assert findings_page.page() == findings_page.PAGE.read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_alone_says_what_can_be_made() -> None:
    """For those who do not read on."""
    assert {"make demo", "make test", "make bench"} <= {
        " ".join(line.split()[:2]) for line in _run("make", ROOT).splitlines()
    }
