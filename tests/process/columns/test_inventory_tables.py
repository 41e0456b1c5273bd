"""`callability inventory decide`, `counts` and `diff`: tables of tools in files."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet
import pytest

from callability.cli.inventory import TABLE_ENDINGS
from callability.compiler.bundle_writing import payload_of
from callability.compiler.policy import load
from callability.kernel.envelope import envelop
from callability.tables.files import ENDINGS
from support.checkout import DOCS, POLICY
from support.commands import callability
from support.documents import command_path, pattern, sessions_of
from support.policies import exported_policy

OPEN: Mapping[str, object] = {
    "server.name": "git",
    "tool.name": "git_log",
    "server.enabled": True,
    "tool.config_denied": False,
    "server.quarantined": False,
    "approval.disabled": False,
    "approval.status": "approved",
    "caller.refuses": False,
    "team": "tools",
}
ROWS: Sequence[Mapping[str, object]] = (
    OPEN,
    {**OPEN, "tool.name": "git_reset", "tool.config_denied": True},
    {**OPEN, "tool.name": "git_commit", "approval.status": "pending"},
    {**OPEN, "tool.name": "git_show", "server.enabled": None},
)
VERDICTS = ("callable", "disabled_by_config", "pending_approval", "disabled_unknown")


def _csv(rows: Sequence[Mapping[str, object]]) -> str:
    spelled = {True: "true", False: "false", None: ""}
    lines = [",".join(OPEN), *(",".join(str(spelled.get(v, v)) for v in row.values()) for row in rows)]  # type: ignore[call-overload]
    return "\n".join(lines) + "\n"


def _written(directory: Path, ending: str, rows: Sequence[Mapping[str, object]] = ROWS) -> Path:
    """Write a table in the format of an ending."""
    path = directory / f"tools{ending}"
    table = pa.Table.from_pylist([dict(row) for row in rows])
    match ending:
        case ".parquet":
            pa.parquet.write_table(table, path)
        case ".arrow":
            pa.feather.write_feather(table, path)
        case ".csv":
            path.write_text(_csv(rows))
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _decided(output: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = pa.dataset.dataset(output).to_table().to_pylist()
    return found


def _run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return callability("inventory", *map(str, arguments))


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".csv", ".jsonl"])
def test_each_format_gets_the_same_verdicts(tmp_path: Path, ending: str) -> None:
    """The columns of the table come first, and then the verdict."""
    output = tmp_path / "verdicts.parquet"
    done = _run("decide", _written(tmp_path, ending), "--output", output)
    assert (done.returncode, done.stdout) == (0, "")
    assert "4 rows in" in done.stderr
    found = _decided(output)
    assert [row["status"] for row in found] == [*VERDICTS]
    assert [*found[0]] == [
        *OPEN, "status", "rule", "undetermined", "unread", "withhold_text", "lifted_by", "retry"
    ]  # fmt: skip
    assert {name: found[3][name] for name in ("team", "rule", "undetermined", "unread", "retry")} == {
        "team": "tools", "rule": "server-off", "undetermined": True, "unread": "server.enabled", "retry": None
    }  # fmt: skip


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".csv"])
def test_verdicts_are_written_in_the_format_of_the_output(tmp_path: Path, ending: str) -> None:
    """Chosen columns are passed on, and the metadata of the schema names the policy."""
    output = tmp_path / f"verdicts{ending}"
    done = _run("decide", _written(tmp_path, ".csv"), "--output", output, "--keep", "tool.name")
    assert done.returncode == 0, done.stderr
    form = "feather" if ending == ".arrow" else ending.removeprefix(".")
    table = pa.dataset.dataset(output, format=form).to_table()
    assert table.column("status").to_pylist() == [*VERDICTS]
    assert table.schema.names[:2] == ["tool.name", "status"]
    revision = json.loads(callability("check", str(POLICY), "--json").stdout)["revision"]
    assert ending == ".csv" or table.schema.metadata[b"callability.revision"] == revision.encode()


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".csv"])
def test_files_with_other_names_are_written_together(tmp_path: Path, ending: str) -> None:
    """Each has its own dictionary of texts, and an Arrow file holds only one for all batches."""
    rows = [dict(row) for row in ROWS]
    for number in range(2):
        pa.parquet.write_table(
            pa.Table.from_pylist([{**row, "team": f"team {number}"} for row in rows]), tmp_path / f"{number}.pq"
        )
    output = tmp_path / f"verdicts{ending}"
    done = _run("decide", tmp_path / "0.pq", tmp_path / "1.pq", "--output", output)
    assert done.returncode == 0, done.stderr
    table = pa.dataset.dataset(output, format="feather" if ending == ".arrow" else ending.removeprefix(".")).to_table()
    assert table.column("team").to_pylist() == [*["team 0"] * len(ROWS), *["team 1"] * len(ROWS)]
    assert table.column("status").to_pylist() == [*VERDICTS, *VERDICTS]


def test_directories_and_patterns_stand_for_their_files(tmp_path: Path) -> None:
    """At any depth, each file once; hidden ones are left out."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    for place in ("a", "a/b"):
        _written(tmp_path / place, ".csv")
    (tmp_path / "a" / ".hidden.csv").write_text("nothing")
    counted = json.loads(_run("counts", tmp_path / "a", tmp_path / "a/**/*.csv", "--json").stdout)
    assert counted["agents"][0]["rows"] == 8
    assert [(each["status"], each["rows"]) for each in counted["agents"][0]["counts"]] == [
        *(("disabled_by_config", 2), ("pending_approval", 2), ("disabled_unknown", 2), ("callable", 2))
    ]


def test_files_with_other_columns_and_types_are_read_as_the_first(tmp_path: Path) -> None:
    """A file that lacks a column of the first is an error that names both."""
    first = _written(tmp_path, ".parquet")
    other = tmp_path / "other.parquet"
    moved = [{"more": 1, **{name: row[name] for name in reversed([*row])}} for row in ROWS]
    pa.parquet.write_table(pa.Table.from_pylist(moved), other)
    output = tmp_path / "verdicts.parquet"
    assert _run("decide", first, other, "--output", output).returncode == 0
    assert [row["status"] for row in _decided(output)] == [*VERDICTS, *VERDICTS]
    output.unlink()
    lacking = tmp_path / "lacking.csv"
    lacking.write_text(_csv(ROWS).replace(",team", "").replace(",tools", ""))
    refused = _run("decide", first, lacking, "--output", output)
    assert refused.returncode == 1
    assert f"{lacking}: the table has no column `team`" in refused.stderr
    assert not output.exists()
    assert not [*tmp_path.glob(".*")]


def test_a_missing_fact_is_an_error_unless_it_may_be_unknown(tmp_path: Path) -> None:
    """What is read as unknown is reported."""
    path = tmp_path / "tools.csv"
    path.write_text(_csv(ROWS).replace("server.quarantined", "quarantine"))
    refused = _run("counts", path)
    assert refused.returncode == 1
    assert f"{path}: the table has no column `server.quarantined`" in refused.stderr
    hint = "; with `--allow-missing`, what is missing is unknown in every row, or has its default\n"
    assert refused.stderr.endswith(hint)
    allowed = _run("counts", path, "--allow-missing")
    assert allowed.returncode == 0
    assert "disabled_unknown, by rule `under-quarantine`, unread: server.quarantined" in allowed.stdout
    assert "there is no column `server.quarantined`: the fact is unknown in every row" in allowed.stderr


@pytest.mark.parametrize("agent", [(), ("--agent", "ci"), ("--agent", "")], ids=" ".join)
def test_each_missing_column_is_reported_with_what_its_fact_is(tmp_path: Path, agent: Sequence[str]) -> None:
    """An asserted fact has its default, and a given agent is not missing, even if it has no name."""
    rule = "{agent.name: bot, proxy.quota: exhausted, server.label.stage: trial}"
    policy = _declaring(tmp_path / "policy", f"labels: {{server: {{stage: [trial]}}}}\n{QUOTA}", rule)
    path = _written(tmp_path, ".parquet", [{name: value for name, value in OPEN.items() if name != "caller.refuses"}])
    done = _run("decide", path, "--policy", policy, "--output", tmp_path / "out.csv", "--allow-missing", *agent)
    assert done.returncode == 0, done.stderr
    warnings = {
        "agent.name": "is unknown",
        "caller.refuses": "has its default `false`",
        "proxy.quota": "has its default `exhausted`",
        "server.label.stage": "is unknown",
    }
    if agent:
        del warnings["agent.name"]
    assert sorted(done.stderr.splitlines()[:-1]) == [
        f"{path}: warning: there is no column `{name}`: the fact {has} in every row" for name, has in warnings.items()
    ]


def test_values_that_the_policy_does_not_know_are_reported(tmp_path: Path) -> None:
    """Once for each file, however many agents there are."""
    path = _written(tmp_path, ".csv", [{**OPEN, "approval.status": "Approved"}])
    done = _run("counts", path, "--agent", "one", "--agent", "other")
    assert done.stderr.count("column `approval.status`: 1 row with a value that the policy does not know") == 1
    assert done.stdout.count("unread: approval.status") == 2


def _declaring(directory: Path, declared: str, rule: str) -> Path:
    """Write the shipped policy with what else it declares, and a rule before the last that locks by it."""
    locks = f'  - {{id: locked, when: {rule}, status: disabled_by_config, action: "{{edit_policy}}."}}\n'
    return exported_policy(
        directory,
        ("callability.yaml", "\nrules:\n", f"\n{declared}\nrules:\n"),
        ("callability.yaml", "  - {id: open,", f"{locks}  - {{id: open,"),
    )


QUOTA = "facts: {proxy.quota: {of: server, values: [ok, low, exhausted], default: exhausted, asserted: true}}"


@pytest.mark.parametrize("value", [True, False, "plenty"])
def test_a_value_that_an_asserted_fact_does_not_have_is_its_default(tmp_path: Path, value: object) -> None:
    """Whatever the type of the column is; it was the first of the declared values."""
    path = _written(tmp_path, ".parquet", [{**OPEN, "proxy.quota": each} for each in (value, None)])
    policy = _declaring(tmp_path / "policy", QUOTA, "{proxy.quota: exhausted}")
    done = _run("counts", path, "--policy", policy)
    assert (done.returncode, done.stdout) == (0, "2 rows\n             2  disabled_by_config, by rule `locked`\n")
    word = str(value).lower()
    assert f"column `proxy.quota`: 1 row with a value that the policy does not know: `{word}`" in done.stderr


@pytest.mark.parametrize(
    ("column", "name", "found"),
    [
        ("tool.name", "", "an empty name"),
        ("server.name", "", "an empty name"),
        ("tool.name", "é" * 257, f"a name of 514 bytes, `{'é' * 127}…`"),
    ],
)
def test_a_name_that_cannot_occur_is_an_error_in_its_place(tmp_path: Path, column: str, name: str, found: str) -> None:
    """The service refuses it in a request as well."""
    policy = _declaring(tmp_path / "policy", "", "{server.name: web, tool.name: 'git_?*'}")
    path = _written(tmp_path, ".parquet", [OPEN, {**OPEN, column: name}])
    done = _run("counts", path, "--policy", policy)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"callability: {path}: column `{column}`, row 2: found {found}, wanted 1 to 512 bytes; "
        "correct or remove the row\n"
    )


def test_the_name_of_an_agent_may_be_empty_and_has_at_most_512_bytes(tmp_path: Path) -> None:
    """Given or in a column."""
    policy = _declaring(tmp_path / "policy", "", "{agent.name: ['a*', '?*']}")
    path = _written(tmp_path, ".parquet")
    agents = _written(tmp_path, ".jsonl", [{**OPEN, "agent.name": agent} for agent in ("", "ci")])
    assert "1  disabled_by_config, by rule `locked`" in _run("counts", agents, "--policy", policy).stdout
    assert "by rule `locked`" not in _run("counts", path, "--policy", policy, "--agent", "").stdout
    refused = _run("counts", path, "--policy", policy, "--agent", "a" * 513)
    assert refused.returncode == 1
    assert f"{path}: the given `agent.name`: found a name of 513 bytes, `a" in refused.stderr
    assert "wanted at most 512 bytes; give another one" in refused.stderr


def test_a_rule_that_reads_all_the_labels_of_a_rule_file_decides_tables(tmp_path: Path) -> None:
    """64 may be declared; each that is unknown is named."""
    labels = [f"l{number:02}" for number in range(64)]
    policy = _declaring(
        tmp_path / "policy",
        f"labels: {{server: {{{', '.join(f'{label}: [x]' for label in labels)}}}}}",
        f"{{{', '.join(f'server.label.{label}: x' for label in labels)}}}",
    )
    known = {f"server.label.{label}": "x" for label in labels}
    path = _written(
        tmp_path,
        ".parquet",
        [
            {**OPEN, **known},
            {**OPEN, **known, "server.label.l00": None, "server.label.l63": None},
            {**OPEN, **known, "server.label.l00": None, "server.label.l63": "none"},
        ],
    )
    done = _run("counts", path, "--policy", policy)
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            "3 rows",
            "             1  disabled_by_config, by rule `locked`",
            "             1  disabled_unknown, by rule `locked`, unread: server.label.l00,server.label.l63",
            "             1  callable, by rule `open`",
        ],
    )


def test_each_agent_gets_its_own_verdicts(tmp_path: Path) -> None:
    """The policy lets one agent call what it locks for others."""
    policy = exported_policy(tmp_path / "policy", example="agents-allowed")
    path = _written(tmp_path, ".csv", [{**OPEN, "server.name": "billing-eu"}])
    output = tmp_path / "verdicts.csv"
    done = _run("decide", path, "--policy", policy, "--agent", "ledger-bot", "--agent", "nobody", "--output", output)
    assert done.returncode == 0, done.stderr
    rows = [line.split(",") for line in output.read_text().replace('"', "").splitlines()]
    place = rows[0].index("agent.name")
    assert [row[place] for row in rows[1:]] == ["ledger-bot", "nobody"]
    assert [row[place + 1] for row in rows[1:]] == ["callable", "disabled_by_config"]


def _locking(directory: Path, tool: str) -> Path:
    """Write the shipped policy with one tool locked besides."""
    rule = f'  - {{id: locked, when: {{tool.name: {tool}}}, status: disabled_by_config, action: "{{edit_policy}}."}}\n'
    return exported_policy(directory, ("callability.yaml", "  - {id: open,", f"{rule}  - {{id: open,"))


def test_diff_groups_the_tools_that_change_by_their_effect(tmp_path: Path) -> None:
    """Callable tools that become locked come first; the exit code says whether any status changes."""
    older, newer = _locking(tmp_path / "older", "git_status"), _locking(tmp_path / "newer", "git_log")
    path = _written(tmp_path, ".parquet", [*ROWS, {**OPEN, "tool.name": "git_status"}] * 3)
    output = tmp_path / "changes.parquet"
    done = _run("diff", path, "--against", older, "--policy", newer, "--limit", 1, "--output", output)
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines() == [
        *("6 of 15 rows have another status", ""),
        *("callable -> disabled_by_config: 3", "  git:git_log", "  and 2 more", ""),
        *("disabled_by_config -> callable: 3", "  git:git_status", "  and 2 more"),
    ]
    assert [(row["status.before"], row["rule.after"]) for row in _decided(output)] == [
        ("callable", "locked"),
        ("disabled_by_config", "open"),
    ] * 3
    same = _run("diff", path, "--against", older, "--policy", older)
    assert (same.returncode, same.stdout) == (0, "no status changes in 15 rows\n")


def test_the_name_of_a_tool_adds_no_line_and_no_colour_to_a_report(tmp_path: Path) -> None:
    """Upstreams choose names, and people decide by the report whether to roll a policy out."""
    path = _written(tmp_path, ".parquet", [{**OPEN, "tool.name": "git_log\n\x1b[32mno status changes"}])
    done = _run("diff", path, "--against", POLICY, "--policy", _locking(tmp_path / "newer", "git_log*"))
    assert done.stdout.splitlines()[-1] == "  git:git_log\\u000a\\u001b[32mno status changes"


def test_a_bundle_decides_as_its_policy(tmp_path: Path) -> None:
    """A bundle that is damaged is refused, with its code."""
    path, bundle = _written(tmp_path, ".csv"), tmp_path / "policy.bundle"
    directory = _locking(tmp_path / "policy", "git_log")
    bundle.write_bytes(envelop(payload_of(load(directory, engine=None))))
    assert _run("counts", path, "--policy", bundle).stdout == _run("counts", path, "--policy", directory).stdout
    assert _run("diff", path, "--against", bundle, "--policy", directory).returncode == 0
    assert _run("diff", path, "--against", bundle).returncode == 1
    assert _run("diff", path, "--against", POLICY, "--policy", bundle).returncode == 1
    bundle.write_bytes(bundle.read_bytes()[:-1])
    refused = _run("counts", path, "--policy", bundle)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"callability: {bundle}: ")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("s3://bucket/tools.parquet", "only local files are read"),
        ("missing.parquet", "there is no such file"),
        ("missing-*.parquet", "no file has such a name"),
        ("tools.xlsx", "the name must end in .parquet, .pq, .arrow, .feather, .csv, .jsonl, .ndjson"),
        (
            "inventory.json",
            "the name must end in .parquet, .pq, .arrow, .feather, .csv, .jsonl, .ndjson "
            "(`callability diff --inventory` reads what `callability inventory` writes)\n",
        ),
        ("broken.parquet", "cannot be read as parquet: the file is damaged or not complete: "),
        ("text.parquet", "cannot be read as parquet: found 6 bytes that begin with `hell`, wanted a file that begins"),
        ("text.arrow", "cannot be read as arrow: found 6 bytes that begin with `hello\\u000a`, wanted a file that"),
        ("torn.csv", "cannot be read as csv: row 1: found 1 field, wanted 2, as many as the header has"),
        ("empty.csv", "cannot be read as csv: found an empty file, wanted a first line with the names of the columns"),
        (
            "odd.csv",
            "cannot be read as csv: row 2, column `server.enabled`: found `maybe`, wanted true or false; correct",
        ),
        ("binary.csv", "cannot be read as csv: found bytes that are not UTF-8, wanted text in UTF-8"),
        ("utf-16.csv", "cannot be read as csv: found bytes that are not UTF-8, wanted text in UTF-8"),
        ("torn.jsonl", "cannot be read as json lines: row 1: wanted a JSON object: expecting property name"),
        ("empty", "the directory has no file that ends in"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str, sentence: str) -> None:
    """With the reason, and without a traceback."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "tools.xlsx").write_bytes(b"PK")
    (tmp_path / "inventory.json").write_text("{}")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    for text in ("text.parquet", "text.arrow"):
        (tmp_path / text).write_text("hello\n")
    (tmp_path / "torn.csv").write_text("server.name,tool.name\ngit\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "odd.csv").write_text(_csv([OPEN, {**OPEN, "server.enabled": "maybe"}]))
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\n")
    (tmp_path / "utf-16.csv").write_bytes(_csv([OPEN]).encode("utf-16"))
    (tmp_path / "torn.jsonl").write_text("{torn\n")
    path = name if "://" in name else str(tmp_path / name)
    done = _run("counts", path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"callability: {path}: {sentence}")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("column", ["tool.name", "approval.status"])
def test_text_that_is_not_utf_8_is_an_error(tmp_path: Path, column: str) -> None:
    """Whether the policy reads it, as the status of an approval, or not, as the name of a tool."""
    table = pa.Table.from_pylist([dict(OPEN)])
    text = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"g\xff"))
    path = tmp_path / "tools.parquet"
    pa.parquet.write_table(table.set_column(table.schema.get_field_index(column), column, text), path)
    done = _run("counts", path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"callability: {path}: ")
    assert done.stderr.endswith("found bytes that are not UTF-8, wanted text in UTF-8\n")


def test_an_output_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """Neither the file nor a part of it."""
    path = _written(tmp_path, ".csv")
    for name, sentence in (
        ("no/out.csv", "cannot be written"),
        ("out.xlsx", "the name of an output must end in .parquet, .arrow or .csv"),
        ("out.jsonl", "the name of an output must end in .parquet, .arrow or .csv"),
    ):
        output = tmp_path / name
        done = _run("decide", path, "--output", output)
        assert done.returncode == 1
        assert str(output) in done.stderr
        assert sentence in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_column_that_the_format_of_the_output_cannot_hold_is_an_error(tmp_path: Path) -> None:
    """And not a traceback."""
    path = _written(tmp_path, ".parquet", [{**OPEN, "team": ["tools", "data"]}])
    done = _run("decide", path, "--output", tmp_path / "out.csv")
    assert (done.returncode, done.stderr.splitlines()[1:]) == (1, [])
    assert done.stderr == (
        f"callability: `{tmp_path / 'out.csv'}` cannot be written: csv has no column of the type list<element: string>,"
        " as `team` is; choose columns with `--keep`, or another format\n"
    )
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_the_name_of_a_column_that_is_near_is_proposed(tmp_path: Path) -> None:
    """A misspelt fact, and a misspelt column to pass on."""
    path = tmp_path / "tools.csv"
    path.write_text(_csv(ROWS).replace("server.enabled", "server.enable"))
    refused = _run("counts", path)
    assert "(is a name misspelt: `server.enable` for `server.enabled`?)" in refused.stderr
    other = _run("decide", _written(tmp_path, ".parquet"), "--output", tmp_path / "out.csv", "--keep", "server.nam")
    assert (other.returncode, "(did you mean `server.name`?)" in other.stderr) == (1, True)


def test_tools_that_are_named_twice_are_reported_and_decided_twice(tmp_path: Path) -> None:
    """Once for all files and agents; another agent of a column makes another row."""
    path = _written(tmp_path, ".csv", [*ROWS, OPEN])
    again = _written(tmp_path, ".parquet", [OPEN])
    done = _run("counts", path, again, "--agent", "one", "--agent", "other")
    assert done.returncode == 0
    assert done.stdout.count("6 rows, for agent") == 2
    assert done.stderr == (
        "warning: 2 rows with a tool that an earlier row has, such as `git:git_log`: each row is decided\n"
    )
    agents = _written(tmp_path, ".jsonl", [{**OPEN, "agent.name": agent} for agent in ("one", "other")])
    assert _run("counts", agents).stderr == ""


def test_a_table_is_no_inventory_of_a_gateway(tmp_path: Path) -> None:
    """The error names the command that compares tables."""
    done = callability("diff", str(POLICY), "--inventory", str(_written(tmp_path, ".csv")))
    assert done.returncode == 1
    assert "is not an inventory: " in done.stderr
    assert "`callability inventory diff` compares tables" in done.stderr


def test_the_options_of_the_export_do_not_go_with_a_table(tmp_path: Path) -> None:
    """`inventory` without a command writes the tools of a gateway."""
    done = callability("inventory", "--offline", "counts", str(_written(tmp_path, ".csv")))
    assert done.returncode == 2


@pytest.mark.parametrize("ending", [*ENDINGS, ".CSV"])
def test_an_inventory_of_a_gateway_has_not_the_name_of_a_table(tmp_path: Path, ending: str) -> None:
    """It would be JSON, which no command reads as a table."""
    config, output = tmp_path / "gateway.json", tmp_path / f"tools{ending}"
    config.write_text('{"mcpServers": {}}')
    done = callability("inventory", "--offline", "--config", str(config), "--output", str(output))
    name = f"`{output}` is the name of a table"
    assert (done.returncode, done.stderr) == (
        2,
        f"callability: {name}, and an inventory is JSON: give it a name in .json\n",
    )
    assert not output.exists()


def test_the_quick_start_of_the_page_works(tmp_path: Path) -> None:
    """Its table, its commands with their output, and its Python, each as it is shown."""
    page = (DOCS / "inventory.md").read_text()
    [table], [python] = (
        re.findall(rf"^```{kind}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL) for kind in ("csv", "python")
    )
    (tmp_path / "tools.csv").write_text(table)

    def run(command: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": command_path()}
        return subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=True
        )

    quick_start = page.partition("## Quick start")[2].partition("\n## ")[0]
    [session] = re.findall(r"^```console\n(.*?)^```$", quick_start, re.MULTILINE | re.DOTALL)
    for command, shown in sessions_of(session):
        assert re.fullmatch(pattern(shown), run(command).stdout)
    run("callability bundle build --output policy.bundle")
    (tmp_path / "decide.py").write_text(python)
    assert run("python decide.py").stdout == "['callable', 'disabled_by_config', 'disabled_unknown']\n"


def test_an_inventory_has_no_name_of_a_table() -> None:
    """The command lists the endings itself, since it does without what reads tables."""
    assert frozenset(ENDINGS) == TABLE_ENDINGS
