"""`callability table` and `callability diff`: what a policy decides, and what a change of it changes."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from html.parser import HTMLParser
from itertools import chain
from pathlib import Path

import pytest

from support.checkout import POLICY
from support.commands import callability
from support.gateways import shelf, write_config


def edited(directory: Path, file: str, *changes: tuple[str, str]) -> Path:
    """Return a copy of the shipped policy in which texts are replaced."""
    copy = directory / "edited"
    shutil.copytree(POLICY, copy, dirs_exist_ok=True)
    text = (copy / file).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (copy / file).write_text(text)
    return copy


def test_a_table_is_written_for_a_terminal_a_page_and_a_program() -> None:
    """The same rows in each."""
    plain = callability("table", str(POLICY)).stdout.splitlines()
    markdown = callability("table", str(POLICY), "--format", "markdown").stdout.splitlines()
    rows = json.loads(callability("table", str(POLICY), "--format", "json").stdout)["rows"]
    assert len(plain) - 1 == len(markdown) - 2 == len(rows) == 13
    assert plain[0].split()[:3] == ["status", "rule", "server.enabled"]
    assert plain[1].split() == ["server_disabled", "server-off", "false", "-", "-", "-", "-", "-", "252"]
    assert markdown[2] == "| server_disabled | server-off | false | - | - | - | - | - | 252 |"
    assert rows[0] == {
        "facts": {"server.enabled": ["false"]},
        "status": "server_disabled",
        "rule": "server-off",
        "undetermined": False,
        "combinations": 252,
    }


def test_a_fact_that_no_row_names_has_no_column(tmp_path: Path) -> None:
    """One line says so: a law reads the fact, or a rule whose answer does not depend on it."""
    law = (
        "laws:\n  - {name: text is shown, when: {server.label.stage: trial, server.enabled: false}, never: callable}\n"
    )
    labels = "labels:\n  server:\n    stage: [trial]\n\nrules:\n"
    copy = edited(tmp_path, "callability.yaml", ("rules:\n", labels), ("laws:\n", law))
    for form in ("terminal", "markdown", "html"):
        done = callability("table", str(copy), "--format", form)
        assert done.returncode == 0, done.stderr
        assert "no row depends on server.label.stage" in done.stdout.splitlines()[-1]
        assert done.stdout.count("server.label.stage") == 1
    [first, *_] = json.loads(callability("table", str(copy), "--format", "json").stdout)["rows"]
    assert first["combinations"] == 756


def _in_a_terminal(columns: int, *arguments: str) -> list[str]:
    """Return the lines that a command prints on a terminal that has so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    command = [sys.executable, "-m", "callability", *arguments]
    with subprocess.Popen(
        command, stdout=theirs, stderr=subprocess.DEVNULL, env=environment | {"TERM": "xterm"}
    ) as ran:
        os.close(theirs)
        data = b""
        with suppress(OSError):
            while part := os.read(ours, 65_536):
                data += part
    os.close(ours)
    assert ran.returncode == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", data.decode()).splitlines()


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_a_table_is_no_wider_than_the_terminal_and_cuts_nothing(columns: int) -> None:
    """Where its columns do not fit, all facts of a row share one."""
    lines = _in_a_terminal(columns, "table", str(POLICY))
    assert max(map(len, lines)) <= columns
    text = " ".join("\n".join(lines).split())
    assert "…" not in text
    assert (" where " in text) is (columns < 200)
    assert columns < 80 or "disabled_by_config" in text, "words are broken only where nothing else helps"
    assert columns < 100 or "changed-since-approval" in text


def test_a_decision_diagram_is_written_for_programs() -> None:
    """Its nodes lead from the facts to the verdict."""
    report = json.loads(callability("table", str(POLICY), "--format", "diagram").stdout)
    assert (report["question"], report["combinations"]) == ("callability", 756)
    assert [axis["facts"] for axis in report["axes"]] == [
        ["server.enabled"],
        ["tool.config_denied"],
        ["server.quarantined"],
        ["approval.disabled", "approval.status"],
        ["caller.refuses"],
    ]
    number = report["root"]
    facts = dict.fromkeys(chain.from_iterable(axis["facts"] for axis in report["axes"]), "false")
    facts |= {"server.enabled": "true", "approval.status": "approved"}
    while number >= len(report["verdicts"]):
        node = report["nodes"][number - len(report["verdicts"])]
        axis = report["axes"][node["axis"]]
        number = node["children"][axis["points"].index([facts[fact] for fact in axis["facts"]])]
    verdict = {"status": "callable", "rule": "open", "undetermined": False, "withhold_text": False}
    assert report["verdicts"][number] == verdict


def test_a_decision_diagram_is_written_for_graphviz() -> None:
    """Each edge is between nodes that are there; Graphviz reads it where it is installed."""
    text = callability("table", str(POLICY), "--format", "dot").stdout
    first, *lines, last = text.splitlines()
    assert (first, last) == ('digraph "callability" {', "}")
    label = r'\[(?:shape=\w+, )?label="((?:[^"\\]|\\.)*)"\];'
    nodes = {found[1]: found[2] for line in lines if (found := re.fullmatch(rf"  (n\d+) {label}", line))}
    edges = [found.groups() for line in lines if (found := re.fullmatch(rf"  (n\d+) -> (n\d+) {label}", line))]
    assert len(nodes) + len(edges) == len(lines) - 1
    assert {name for start, end, _ in edges for name in (start, end)} == set(nodes)
    assert r"callable\nby open" in nodes.values()
    [root] = set(nodes) - {end for _, end, _ in edges}
    assert sorted(values for start, _, values in edges if start == root) == ["false", "true", "unknown"]
    if shutil.which("dot"):
        drawn = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True, timeout=120, check=True)
        assert drawn.stdout.count('class="node"') == len(nodes)


def test_a_table_as_a_page_is_whole_and_asks_no_other_host() -> None:
    """Each row has a cell for each column."""

    class Cells(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.rows: list[int] = []
            self.addresses: list[str] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.addresses += [value or "" for name, value in attrs if name in {"src", "href"}]
            if tag == "tr":
                self.rows.append(0)
            elif tag in {"td", "th"}:
                self.rows[-1] += 1

    cells = Cells()
    cells.feed(callability("table", str(POLICY), "--question", "enable_outcome", "--format", "html").stdout)
    assert cells.rows == [11] * 21
    assert cells.addresses == []


def test_an_unknown_question_is_reported_with_a_near_name() -> None:
    """A wrong call."""
    done = callability("table", "--question", "callabilty")
    assert done.returncode == 2
    assert "did you mean `callability`?" in done.stderr


def test_a_policy_that_answers_the_same_has_no_differences(tmp_path: Path) -> None:
    """Other comments, other ids, and another order of rules that exclude each other, are no change."""
    copy = edited(tmp_path, "callability.yaml", ("id: user-off,", "id: switched-off,"))
    done = callability("diff", str(POLICY), str(copy))
    assert (done.returncode, done.stdout) == (0, "no answer changes\n")


def test_a_change_is_described_by_conditions_and_an_example(tmp_path: Path) -> None:
    """Although the tests beside the rules no longer fit."""
    change = (
        "when: {load.failure: timeout}, status: transient",
        "when: {load.failure: [timeout, refused]}, status: transient",
    )
    copy = edited(tmp_path, "load_outcome.yaml", change)
    done = callability("diff", str(POLICY), str(copy))
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "load_outcome: permanent -> transient, in 32 combinations",
        "  where load.failure: refused",
        "  by    needs-attention before, timed-out after",
        "  e.g.  load.failure=refused",
        "32 answers changed",
    ]
    [report] = json.loads(callability("diff", str(POLICY), str(copy), "--json").stdout)["changes"]
    assert report["where"] == [{"load.failure": ["refused"]}]
    assert (report["before"]["status"], report["after"]["status"], report["combinations"]) == (
        "permanent",
        "transient",
        32,
    )
    assert report["example"]["load.failure"] == "refused"


PRODUCTION = """\
  - id: production-destructive
    when: {server.label.environment: production, annotations.destructive: true, not: {agent.name: release-bot}}
    status: disabled_by_config
    action: Tell the user that the operator opens it by an edit of the policy.
"""


def test_an_intended_change_comes_first_and_what_is_about_unknown_facts_is_folded(tmp_path: Path) -> None:
    """A line for each kind with its count; an option and JSON have all of it, and the counts are the same."""
    user_off = "  - {id: user-off,"
    labels = "labels:\n  server:\n    environment: [production, staging]\n\nrules:\n"
    copy = edited(tmp_path, "callability.yaml", ("rules:\n", labels), (user_off, PRODUCTION + user_off))
    lines = callability("diff", str(POLICY), str(copy)).stdout.splitlines()
    assert lines[0] == "callability: callable -> disabled_by_config, in 2 combinations"
    assert "agent.name: other than release-bot, server.label.environment: production" in lines[1]
    assert lines[2] == "  by    open before, production-destructive after"
    assert lines[-5:] == [
        "callability: callable -> disabled_unknown, in 14 combinations with unknown facts",
        "callability: disabled_by_user -> disabled_unknown, in 56 combinations with unknown facts",
        "callability: pending_approval -> disabled_unknown, in 28 combinations with unknown facts",
        "callability: disabled_unknown -> disabled_by_config, in 12 combinations with unknown facts",
        "126 answers changed, 110 of them about unknown facts (`--unknown` prints these in full)",
    ]
    assert not any("unknown" in line for line in lines[:-5] if line.startswith("  where"))
    unfolded = callability("diff", str(POLICY), str(copy), "--unknown").stdout.splitlines()
    assert unfolded[: len(lines) - 5] == lines[:-5]
    assert unfolded[-1] == "126 answers changed"
    assert "callability: callable -> disabled_unknown, in 14 combinations" in unfolded
    changes = json.loads(callability("diff", str(POLICY), str(copy), "--json").stdout)["changes"]
    assert [change["combinations"] for change in changes if not change["unknown"]] == [2, 8, 2, 2, 2]
    assert sum(change["combinations"] for change in changes) == 126


def test_other_words_are_a_change_of_the_answer(tmp_path: Path) -> None:
    """They are what agents read."""
    copy = edited(tmp_path, "callability.yaml", ("status: callable}", "status: callable}  # open"))
    words = (copy / "callability.yaml").read_text().split("  server_disabled:\n", 1)
    (copy / "callability.yaml").write_text(f"{words[0]}  server_disabled:\n{words[1].replace('server', 'host', 1)}")
    done = callability("diff", str(POLICY), str(copy))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "callability: server_disabled: other words, in 252 combinations"
    assert lines[1] == "  where server.enabled: false"
    assert [line[:4] for line in lines[4:-1]] == ["  - ", "  + "]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of git that has the shipped policy in a folder."""
    shutil.copytree(POLICY, tmp_path / "repository/rules")
    git(tmp_path / "repository", "init", "--quiet")
    git(tmp_path / "repository", "add", ".")
    git(tmp_path / "repository", "commit", "--quiet", "--message", "first")
    return tmp_path / "repository"


def git(directory: Path, *arguments: str) -> None:
    """Run git, with an unknown author."""
    who = ("-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(directory), *who, *arguments], check=True, capture_output=True, timeout=120)


def test_what_is_old_may_be_a_revision_of_git(repository: Path) -> None:
    """The directory is searched in it."""
    path = repository / "rules/load_outcome.yaml"
    path.write_text(path.read_text().replace("{load.http_status: [408, 429]}", "{load.http_statu: [408, 429]}"))
    refused = callability("diff", "HEAD", str(repository / "rules"))
    assert refused.returncode == 1
    assert f"{repository}/rules/load_outcome.yaml:" in refused.stderr
    path.write_text(path.read_text().replace("{load.http_statu: [408, 429]}", "{load.http_status: 408}"))
    done = callability("diff", "HEAD", str(repository / "rules"))
    assert done.returncode == 1
    assert "transient -> permanent" in done.stdout
    git(repository, "commit", "--all", "--quiet", "--message", "second")
    assert callability("diff", "HEAD", str(repository / "rules")).returncode == 0
    assert callability("diff", "HEAD~1", str(repository / "rules")).stdout == done.stdout


def test_a_rule_file_of_a_revision_may_be_a_link(repository: Path) -> None:
    """Several policies share a file; a link out of the repository is named, since a revision does not have its file."""
    (repository / "shared").mkdir()
    path = repository / "rules/load_outcome.yaml"
    path.rename(repository / "shared/load_outcome.yaml")
    path.symlink_to("../shared/load_outcome.yaml")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "shared")
    assert callability("diff", "HEAD", str(repository / "rules")).returncode == 0
    path.unlink()
    path.symlink_to(POLICY / "load_outcome.yaml")
    git(repository, "commit", "--all", "--quiet", "--message", "outside")
    outside = callability("diff", "HEAD", str(repository / "rules"))
    assert outside.returncode == 1
    assert "`load_outcome.yaml` of `HEAD` is a link to what is no file of the repository" in outside.stderr


@pytest.mark.parametrize("old", ["HEAD~7", "no-such-thing", "--help-me"])
def test_what_is_neither_a_directory_nor_a_revision_is_a_wrong_call(old: str, repository: Path) -> None:
    """It says so."""
    done = callability("diff", "--", old, str(repository / "rules"))
    assert done.returncode == 2
    assert done.stderr.startswith(f"callability: `{old}` is neither a directory")


READ = {"name": "read", "description": "Reads.", "inputSchema": {"type": "object"}}
WIPE = {**READ, "name": "wipe", "description": "SECRET INSTRUCTIONS"}


def _inventory(directory: Path, *options: str) -> Path:
    servers = {"disk": shelf(directory, "disk", READ, WIPE), "shed": shelf(directory, "shed", READ, enabled=False)}
    config = write_config(
        directory,
        servers,
        approvals="approvals.yaml",
        agents={"clerk": {"servers": ["shed"]}},
        deadlines={"open_seconds": 120},
    )
    (directory / "approvals.yaml").write_text("disk: {wipe: {status: pending}}\nshed: {paint: {}}\n")
    path = directory / "inventory.json"
    done = callability("inventory", "--config", str(config), "--output", str(path), *options)
    assert done.returncode == 0, done.stderr
    return path


def test_the_tools_that_a_change_concerns_are_listed(tmp_path: Path) -> None:
    """Each by its name, with its status before and after."""
    inventory = _inventory(tmp_path)
    assert "SECRET" not in inventory.read_text()
    copy = edited(tmp_path, "callability.yaml", ("when: {approval.status: pending}", "when: {approval.status: none}"))
    done = callability("diff", str(POLICY), str(copy), "--inventory", str(inventory))
    assert (done.returncode, done.stdout) == (1, ""), "what is withheld may not become callable"
    first = "  - {id: user-off,          when: {approval.disabled: true},  status: disabled_by_user}\n"
    rules = (POLICY / "callability.yaml").read_text()
    second = rules[rules.index("  - id: awaiting-review") : rules.index("  - id: changed-since-approval")]
    copy = edited(tmp_path / "other", "callability.yaml", (first + second, second + first))
    done = callability("diff", str(POLICY), str(copy), "--inventory", str(inventory))
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[-1] == "no tool changes"
    record = tmp_path / "approvals.yaml"
    record.write_text(record.read_text().replace("{status: pending}", "{status: pending, disabled: true}"))
    config = tmp_path / "mcp_config.json"
    callability("inventory", "--config", str(config), "--output", str(inventory), "--offline")
    done = callability("diff", str(POLICY), str(copy), "--inventory", str(inventory))
    assert done.stdout.splitlines()[-2:] == [
        "  disk:wipe: disabled_by_user -> pending_approval",
        "1 tool of the inventory changed",
    ]
    report = json.loads(callability("diff", str(POLICY), str(copy), "--inventory", str(inventory), "--json").stdout)
    assert report["tools"] == [{"tool": "disk:wipe", "before": "disabled_by_user", "after": "pending_approval"}]


def test_an_inventory_is_that_of_an_agent_where_one_is_named(tmp_path: Path) -> None:
    """Servers out of its scope are not in it."""
    report = json.loads(_inventory(tmp_path, "--agent", "clerk").read_text())
    assert report["agent"] == {"name": "clerk", "labels": {}}
    assert [(server["name"], [tool["name"] for tool in server["tools"]]) for server in report["servers"]] == [
        ("shed", ["paint"])
    ]
    assert callability("inventory", "--config", str(tmp_path / "mcp_config.json"), "--agent", "x").returncode == 2


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", "it is not valid JSON at line 1, column 1"),
        ("[]", "it holds no JSON object"),
        ('{"servers": 3}', "the value of `servers` is of another type"),
        ('{"servers": [{"name": 3}]}', "the value of `servers.name` is of another type"),
        ('{"servers": [{"tool": []}]}', "it has a key `tool` in `servers`, which is not known"),
        ('{"tools": []}', "it has a key `tools`, which is not known"),
        ("\udcff", "it is not UTF-8"),
        ("[" * 100_000, "it is nested too deeply"),
    ],
)
def test_what_is_no_inventory_is_refused(content: str, fault: str, tmp_path: Path) -> None:
    """It says so, and where."""
    path = tmp_path / "inventory.json"
    path.write_text(content, errors="surrogateescape")
    done = callability("diff", str(POLICY), str(POLICY), "--inventory", str(path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"callability: `{path}` is not an inventory: {fault} (wanted")


def test_a_table_is_printed_as_sql() -> None:
    """The query names the revision, and passes on the columns that were chosen."""
    printed = callability("table", "--format", "sql", "--dialect", "duckdb", "--from", "team_tools", "--keep", "team")
    revision = json.loads(callability("check", str(POLICY), "--json").stdout)["revision"]
    assert printed.returncode == 0, printed.stderr
    assert revision in printed.stdout.splitlines()[0]
    assert '"team" AS kept_1,' in printed.stdout
    assert "FROM team_tools\n" in printed.stdout


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--format", "sql"], "--format sql needs --dialect (duckdb, spark, postgres, bigquery)"),
        (["--dialect", "duckdb"], "--dialect needs --format sql"),
        (["--keep", "team"], "--keep needs --format sql"),
        (["--from", "team_tools"], "--from needs --format sql"),
        (
            ["--format", "sql", "--dialect", "duckdb", "--question", "load_outcome"],
            "--format sql is for the question callability: no table has the facts of load_outcome",
        ),
    ],
)
def test_options_about_sql_that_do_not_fit_are_usage_errors(options: list[str], sentence: str) -> None:
    """Each message says what is missing."""
    refused = callability("table", *options)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert sentence in refused.stderr


def test_a_policy_with_a_column_that_a_dialect_cannot_have_is_not_printed(tmp_path: Path) -> None:
    """PostgreSQL would cut the name of a long label."""
    key = "k" * 60
    rule = (
        f"  - {{id: locked, when: {{tool.label.{key}: a}}, status: disabled_by_config, action: '{{edit_labels}}.'}}\n"
    )
    changes = (
        ("\nrules:\n", f"\nlabels: {{tool: {{{key}: [a]}}}}\n\nrules:\n"),
        ("  - {id: open,", f"{rule}  - {{id: open,"),
    )
    directory = edited(tmp_path, "callability.yaml", *changes)
    refused = callability("table", str(directory), "--format", "sql", "--dialect", "postgres")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "postgres cannot hold this policy: the column `tool.label.k" in refused.stderr
