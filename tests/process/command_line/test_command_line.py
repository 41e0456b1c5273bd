"""The command line: its output and its exit codes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from callability import __version__
from callability.cli.application import COMMANDS, Group
from callability.compiler import bundle_writing
from callability.kernel import envelope
from support.checkout import POLICY
from support.commands import callability
from support.policies import write_policy
from support.running import COMMAND

FAULTY = """\
rules:
- {id: one, when: {server.enable: false}, status: server_disabled}
- {id: two, when: {approval.status: unknwon}, status: pending}
- {id: two, when: {server.quarantined: true}, status: server_quarantined, becaus: x}
words: 3
"""


def test_a_valid_policy_is_reported_with_what_was_proved() -> None:
    """Facts, combinations, what confirmed them, rules, that it always answers and that no rule is dead."""
    done = callability("check", "policy", cwd=POLICY.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\n  combinations  756, in 23 regions\n" in done.stdout
    assert re.search(r"\n  confirmed     by (durable-rules \S+|reference), in \d+ witnesses of 23 regions", done.stdout)
    assert "rules         8" in done.stdout
    assert "it always answers, no dead rule" in done.stdout
    assert re.search(r"policy: accepted, 0 errors, 0 warnings, \d+ tests passed\n", done.stdout)


def test_five_faults_are_all_reported_with_their_places(tmp_path: Path) -> None:
    """In the order of the file, with exit code 1."""
    write_policy(tmp_path, FAULTY)
    done = callability("check", ".", cwd=tmp_path)
    assert done.returncode == 1
    found = done.stdout.splitlines()[:5]
    assert [line.rpartition(" [")[0].split(": ")[0] for line in found] == [
        "callability.yaml:2:20",
        "callability.yaml:3:37",
        "callability.yaml:3:55",
        "callability.yaml:4:75",
        "callability.yaml:5:8",
    ]
    assert done.stdout.splitlines()[-1] == ".: refused, 5 errors, 2 warnings"
    served = callability("serve", "--policy", ".", cwd=tmp_path)
    assert (served.returncode, served.stdout) == (1, "")
    assert served.stderr.splitlines() == [*found, "callability: the policy is refused"]


def test_a_rule_set_with_errors_is_listed_as_refused(tmp_path: Path) -> None:
    """It is listed among the proved ones; in JSON it has a list of its own."""
    write_policy(tmp_path, FAULTY)
    printed = callability("check", ".", cwd=tmp_path).stdout
    assert "\ncallability\n  refused       5 errors (see above), nothing is proved\nload_outcome\n" in printed
    report = json.loads(callability("check", "--json", ".", cwd=tmp_path).stdout)
    assert report["refused_rule_sets"] == ["callability"]
    assert [each["name"] for each in report["rule_sets"]] == ["load_outcome", "enable_outcome"]


def test_failed_tests_are_counted(tmp_path: Path) -> None:
    """Of all rule sets in the last line, and of each rule set below its name."""
    write_policy(tmp_path, (POLICY / "callability.yaml").read_text())
    case = "- {name: %s, facts: {server.enabled: false}, expect: {status: %s}}\n"
    tests = "tests:\n" + case % ("one", "server_disabled") + case % ("other", "callable")
    (tmp_path / "callability_test.yaml").write_text(tests)
    printed = callability("check", ".", cwd=tmp_path).stdout
    assert "  tests         1 passed, 1 failed\n" in printed
    assert re.search(r"^\.: refused, 1 error, \d+ warnings?, 1 of 2 tests failed$", printed, re.MULTILINE)


def test_laws_that_hold_are_counted_out_of_all(tmp_path: Path) -> None:
    """A law that does not hold is one of the laws."""
    text = (POLICY / "callability.yaml").read_text()
    broken = "laws:\n  - {name: nothing is ever callable, never: callable}\n"
    write_policy(tmp_path, text.replace("laws:\n", broken, 1))
    assert "  laws          9 of 10 hold\n" in callability("check", ".", cwd=tmp_path).stdout


def test_a_number_of_calls_below_one_is_refused_in_our_own_words() -> None:
    """Zero is a number, but no call could be answered."""
    for number in ("0", "-1", "many"):
        done = callability("serve", "--max-concurrent-calls", number)
        assert done.returncode == 2
        assert f"must be a whole number of at least 1, and is `{number}`" in done.stderr


@pytest.mark.parametrize(
    ("command", "value"),
    [
        ("table --format sql --dialect", "oracle"),
        ("agents add new --token --days", "0"),
        ("agents add new --token --days", "9999"),
        ("agents add new --token --days", "1.5"),
        ("healthcheck --timeout", "soon"),
        ("setup --secrets", "safe"),
    ],
)
def test_a_value_that_an_option_cannot_have_is_refused_without_words_of_a_library(command: str, value: str) -> None:
    """Older versions of the library that reads options have other words, and none of those."""
    done = callability(*command.split(), value)
    assert done.returncode == 2
    assert value in done.stderr
    for words in ("Value error", "Input should", "parse string", "valid integer, "):
        assert words not in done.stderr


def test_strict_makes_a_warning_refuse(tmp_path: Path) -> None:
    """A warning is reported; it refuses the policy only with `--strict`."""
    text = (POLICY / "callability.yaml").read_text()
    write_policy(tmp_path, text.replace("Tell the user. Next step: {check_logs}", "Toggle it in the UI. {check_logs}"))
    lenient, strict = callability("check", str(tmp_path)), callability("check", str(tmp_path), "--strict")
    assert (lenient.returncode, strict.returncode) == (0, 1)
    assert lenient.stdout.count("[toggle-phrase]") == 2
    assert "accepted, 0 errors, 5 warnings" in lenient.stdout
    assert "refused, 0 errors, 5 warnings" in strict.stdout


def test_check_writes_json(tmp_path: Path) -> None:
    """For programs: the same, in full."""
    write_policy(tmp_path, FAULTY)
    done = callability("check", str(tmp_path), "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["sound"], report["revision"]) == (1, False, None)
    assert {"severity": "error", "code": "unknown-fact", "line": 2, "column": 20}.items() <= report["findings"][
        0
    ].items()


def test_the_engines_can_be_compared() -> None:
    """`both` decides by durable-rules and compares with the reference."""
    by_reference = callability("check", "--engine", "reference")
    assert "\n  confirmed     by reference, in " in by_reference.stdout
    both = callability("check", "--engine", "both")
    assert both.returncode == 0 or "durable-rules cannot be imported here" in both.stdout


def test_explain_prints_verdict_rules_and_path() -> None:
    """Each rule tried in order with why it did not decide, and who changes what."""
    done = callability("explain", "tool.config_denied=true", "approval.status=changed", "caller.refuses=true")
    assert done.returncode == 0
    assert done.stdout.startswith("disabled_by_config, by rule `operator-denied`")
    assert "  server-off does not hold, since `server.enabled` is true" in done.stdout
    assert done.stdout.split("path to callable\n")[1].splitlines()[:4] == [
        "  1. `tool.config_denied` from true to false: the operator, by `edit_config`",
        "  2. `approval.status` from changed to approved: the user, by `approve_tool`",
        "  3. `caller.refuses` from true to false: the caller, whose own gate refuses it: see its logs",
        "  then it is callable",
    ]


def test_explain_marks_the_warnings_of_a_policy(tmp_path: Path) -> None:
    """In the form of `check`, on standard error."""
    text = (POLICY / "callability.yaml").read_text()
    write_policy(tmp_path, text.replace("Tell the user. Next step: {check_logs}", "Toggle it in the UI. {check_logs}"))
    done = callability("explain", "--policy", str(tmp_path), "server.enabled=false")
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert lines
    assert all(": warning: " in line and line.endswith(" [toggle-phrase]") for line in lines)


@pytest.mark.parametrize("command", [("explain", "--policy"), ("table",), ("diff", str(POLICY))])
def test_a_policy_whose_tests_fail_can_be_looked_at(command: tuple[str, ...], tmp_path: Path) -> None:
    """Its author wants to know why; its tests are not read."""
    shutil.copytree(POLICY, tmp_path, dirs_exist_ok=True)
    (tmp_path / "callability_test.yaml").write_text("tests: [{name: a, facts: {}, expect: {status: no_status}}]\n")
    assert callability("check", str(tmp_path)).returncode == 1
    done = callability(*command, str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")


def test_explain_writes_json() -> None:
    """For programs: the same, in full."""
    report = json.loads(callability("explain", "server.quarantined=unknown", "--json").stdout)
    assert report["verdict"] == {
        "status": "disabled_unknown",
        "rule": "under-quarantine",
        "undetermined": True,
        "lifted_by": "undetermined",
        "retry": "later",
        "unread": ["server.quarantined"],
        "withhold_text": True,
    }
    assert report["path"] == {"steps": [], "end": "find_out", "find_out": ["server.quarantined"]}
    assert [trial["truth"] for trial in report["trials"]] == ["false", "false", "undetermined"]


def test_explain_names_the_facts_that_could_not_be_read(tmp_path: Path) -> None:
    """And says that a retry cannot help if one of them stays unknown, like the service."""
    assert callability("policy", "export", "--example", "change-freeze", str(tmp_path)).returncode == 0
    arguments = ("server.label.environment=unknown", "annotations.destructive=unknown", "--policy", str(tmp_path))
    done = callability("explain", *arguments)
    assert done.stdout.startswith("disabled_unknown, undetermined at rule"), done
    assert "\n  retry          never\n" in done.stdout
    assert "\n  unread         annotations.destructive, server.label.environment\n" in done.stdout
    report = json.loads(callability("explain", *arguments, "--json").stdout)["verdict"]
    assert (report["retry"], report["unread"]) == ("never", ["annotations.destructive", "server.label.environment"])


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("server.enable=true", "unknown fact `server.enable` (did you mean `server.enabled`?)"),
        ("server.enabled=yes", "unknown value `yes` of `server.enabled` (one of `false`, `true`, `unknown`)"),
        ("caller.refuses=unknown", "unknown value `unknown` of `caller.refuses` (one of `false`, `true`)"),
        ("server.enabled", "`server.enabled` is not FACT=VALUE"),
        (
            "server.label.stage=trial",
            "unknown fact `server.label.stage` (the policy declares no labels for a server)",
        ),
    ],
)
def test_a_fact_that_is_not_one_is_a_wrong_call(argument: str, message: str) -> None:
    """What was found and what was expected, and exit code 2."""
    done = callability("explain", argument)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"callability: {message}\n")


def test_a_fact_that_is_given_twice_is_a_wrong_call() -> None:
    """The last one does not win silently."""
    done = callability("explain", "server.enabled=true", "server.enabled=false")
    message = "callability: `server.enabled` is given twice: each fact has one value\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


def test_a_label_that_is_not_declared_gets_those_that_are(tmp_path: Path) -> None:
    """Of the same kind: a server's or a tool's."""
    assert callability("policy", "export", "--example", "trial-server", str(tmp_path)).returncode == 0
    for label, hint in (("server.label.stge", "server.label.stage"), ("tool.label.stage", "tool.label.reviewed")):
        done = callability("explain", "--policy", str(tmp_path), f"{label}=trial")
        assert done.returncode == 2
        assert f"unknown fact `{label}`" in done.stderr
        assert f"`{hint}`" in done.stderr


@pytest.mark.parametrize(
    ("facts", "noted"),
    [
        (["agent.name=bob"], ["agent.name: bob, which no name or pattern of the rules matches"]),
        (["agent.name=ledger-bot", "server.name=billing-eu"], []),
        (["agent.name=unknown"], []),
        (["tool.name=pay"], ["tool.name: pay, which no rule reads"]),
    ],
)
def test_a_fact_that_changes_nothing_is_marked(facts: list[str], noted: list[str], tmp_path: Path) -> None:
    """So that nobody takes the answer for one about this agent alone."""
    assert callability("policy", "export", "--example", "agents-allowed", str(tmp_path)).returncode == 0
    done = callability("explain", "--policy", str(tmp_path), *facts)
    assert [line.strip() for line in done.stdout.splitlines() if ", which no " in line] == noted


def test_a_fact_is_not_marked_if_it_decides_what_another_can_be(tmp_path: Path) -> None:
    """The rules of a freeze read whether a tool is destructive, and a tool that only reads is not."""
    assert callability("policy", "export", "--example", "change-freeze", str(tmp_path)).returncode == 0
    done = callability("explain", "--policy", str(tmp_path), "annotations.read_only=true")
    assert (done.returncode, ", which no " in done.stdout) == (0, False)


def test_an_agent_is_a_fact_and_not_an_option() -> None:
    """Other commands have such an option."""
    done = callability("explain", "--agent", "bob")
    message = "callability: `--agent` is not an option of `explain`: facts are arguments, here `agent.name=bob`\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("policy.bundle", "the bundle has no rule files (build it with `callability bundle build --with-rule-files`)"),
        ("callability.yaml", "is a file, and not the directory of a policy (the files of a policy are read together:"),
        ("notes.txt", "the file is not a bundle: it does not start as one"),
        ("none", "there is no such directory"),
    ],
)
def test_what_is_not_a_policy_is_named(name: str, hint: str, tmp_path: Path) -> None:
    """With what to give instead, by every command that reads a policy."""
    assert callability("policy", "export", str(tmp_path / "policy")).returncode == 0
    done = callability("bundle", "build", str(tmp_path / "policy"), "--output", str(tmp_path / "policy.bundle"))
    assert done.returncode == 0
    (tmp_path / "callability.yaml").write_text("rules: []\n")
    (tmp_path / "notes.txt").write_text("notes")
    path = str(tmp_path / name)
    for command in (("check", path), ("test", path), ("explain", "--policy", path), ("serve", "--policy", path)):
        done = callability(*command)
        assert (done.returncode, f"{path}: {hint}" in done.stdout + done.stderr) == (1, True), done.stdout + done.stderr


def test_commands_that_look_at_a_policy_read_a_bundle_with_rule_files(tmp_path: Path) -> None:
    """They print what they print about its directory; those that need the directory itself say so."""
    policy, bundle = tmp_path / "policy", tmp_path / "policy.bundle"
    assert callability("policy", "export", str(policy)).returncode == 0
    assert callability("bundle", "build", str(policy), "-o", str(bundle), "--with-rule-files").returncode == 0
    for command in (("check",), ("test",), ("table",), ("explain", "server.enabled=false", "--policy")):
        done, wanted = (callability(*command, str(each)) for each in (bundle, policy))
        assert (done.returncode, done.stdout.replace(str(bundle), str(policy))) == (0, wanted.stdout)
    renamed = tmp_path / "release-12"
    renamed.write_bytes(bundle.read_bytes())
    for pair in ((bundle, policy), (policy, bundle), (renamed, policy)):
        assert callability("diff", *map(str, pair)).stdout == "no answer changes\n"
    config = tmp_path / "gateway.json"
    config.write_text('{"mcpServers": {}}')
    for needing in (
        ("studio", "--policy", str(bundle)),
        ("bundle", "build", str(bundle), "--output", "-"),
        ("gateway", "--check", "--config", str(config), "--policy", str(bundle)),
    ):
        done = callability(*needing)
        hint = "this command reads no bundles: give the directory that it was built from"
        assert (done.returncode, hint in done.stdout + done.stderr) == (1, True), needing


def test_a_policy_whose_bundle_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the check, so that what it accepts can be served; here with room for less than the shipped policy."""
    assert callability("check").returncode == 0
    monkeypatch.setattr(bundle_writing, "MAX_BYTES", 10_000)
    done = callability("check")
    assert done.returncode == 1
    assert re.search(r"its bundle would have 14,\d{3} bytes; the maximum is 5,904 .*\[bundle-too-large\]", done.stdout)
    assert done.stdout.splitlines()[-1].endswith(": refused, 1 error, 0 warnings, 76 tests passed")


def test_a_policy_whose_bundle_no_reader_accepts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parts would cost too much for its size; here with less than the shipped policy needs."""
    monkeypatch.setattr(envelope, "_FREE_COST", -1_000_000)
    done = callability("check")
    assert done.returncode == 1
    assert re.search(r"bundle would cost a reader \d+,\d{3} bytes; the maximum is .*\[bundle-too-large\]", done.stdout)


def test_a_path_ends_where_only_the_policy_can_be_changed(tmp_path: Path) -> None:
    """A rule set whose last rule locks."""
    text = (POLICY / "callability.yaml").read_text()
    write_policy(
        tmp_path, text.replace("id: open,              status: callable", "id: shut, status: disabled_unknown")
    )
    done = callability("explain", "server.enabled=false", "--policy", str(tmp_path))
    assert "only a change of the policy lifts this" in done.stdout


def test_the_shipped_policy_is_written_out_to_edit(tmp_path: Path) -> None:
    """It has the same revision, and existing files are never overwritten."""
    assert callability("policy", "export", str(tmp_path / "mine")).returncode == 0
    mine, shipped = (json.loads(callability("check", *at, "--json").stdout) for at in ([str(tmp_path / "mine")], []))
    assert mine["revision"] == shipped["revision"]
    again = callability("policy", "export", str(tmp_path / "mine"))
    assert (again.returncode, "is there already; nothing was written" in again.stderr) == (1, True)


def test_the_version_is_printed() -> None:
    """And the help, for each command."""
    assert callability("--version").stdout == f"callability {__version__}\n"
    for command in ("check", "test", "explain", "serve"):
        assert "Exit code" in " ".join(callability(command, "--help").stdout.split())


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("check", "[DIR|BUNDLE]"),
        ("diff", "{OLD} [NEW]"),
        ("explain", "[FACT=VALUE]..."),
        ("inventory decide", "{FILE}..."),
        ("tools deny", "{NAME} {TOOL}..."),
        ("approvals list", "[SERVER]"),
    ],
)
def test_a_usage_line_has_one_pair_of_brackets_around_an_argument(command: str, arguments: str) -> None:
    """And says once that it may be repeated."""
    usage = callability(*command.split(), "--help").stdout.splitlines()[0]
    assert usage.endswith(f"callability {command} [OPTIONS] {arguments}")


def test_no_usage_line_has_brackets_twice() -> None:
    """Of no command."""
    for name, command in COMMANDS.items():
        for words in ([name, each] for each in command.commands) if isinstance(command, Group) else ([name],):
            usage = callability(*words, "--help").stdout.partition("\n\n")[0]
            assert not any(twice in usage for twice in ("[[", "{{", "...]...", "...}...")), usage


def test_the_help_of_inventory_says_what_it_does_without_a_command() -> None:
    """Its exit codes, and what reads its output, beside the commands for tables."""
    shown = " ".join(callability("inventory", "--help").stdout.split())
    assert "Without a command: write the tools of a gateway's servers with their facts as JSON" in shown
    assert "`callability diff --inventory` reads it." in shown
    assert "Exit code 0: written. 1: a file is refused" in shown
    assert "decide Decide the rows of tables of tools." in shown


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_service(number: signal.Signals) -> None:
    """In order, with exit code 0, and its log on standard error."""
    command = [*COMMAND, "serve", "--address", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("listening on 127.0.0.1:")
        process.send_signal(number)
        _, log = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "proved by" in log
    assert log.rstrip().endswith("stopped")


@pytest.mark.parametrize(
    "module", ["callability.cli.application", "callability.cli.check", "callability.compiler.policy"]
)
def test_an_interrupt_while_modules_are_imported_prints_no_traceback(module: str) -> None:
    """A start takes a second, which is when people notice that they meant another command."""
    code = f"""
import signal, sys
# It is ignored in what a script starts in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
class Interrupts:
    def find_spec(self, name, *_):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
sys.argv = ["callability", "check"]
from callability.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_fresh_processes_give_the_same_answers_whatever_their_hash_seed_and_the_order_of_files(tmp_path: Path) -> None:
    """Four, with the paths shuffled and, in a copy, the keys of the mappings."""
    code = """
import json, random, sys
from pathlib import Path
from callability.compiler.policy import check_files, policy_files
directory = Path(sys.argv[1])
paths = list(policy_files(directory))
random.shuffle(paths)
policy = check_files(paths, directory).policy
table = policy.rule_sets["callability"].diagram
print(json.dumps([policy.revision, [[*facts, str(verdict)] for facts, verdict in table]]))
"""
    shuffled = tmp_path / "shuffled"
    shutil.copytree(POLICY, shuffled)
    (shuffled / "callability.yaml").write_text(_keys_reversed((POLICY / "callability.yaml").read_text()))
    answers: dict[str, set[str]] = {"revisions": set(), "tables": set()}
    for seed in range(4):
        for directory in (POLICY, shuffled) if seed < 2 else (POLICY,):
            command = [*COMMAND[:1], "-c", code, str(directory)]
            environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=True)
            revision, table = json.loads(done.stdout)
            answers["tables"].add(json.dumps(table))
            if directory == POLICY:
                answers["revisions"].add(revision)
    assert {name: len(different) for name, different in answers.items()} == {"revisions": 1, "tables": 1}


def _keys_reversed(text: str) -> str:
    """Write each rule's mapping, and the words, in the opposite order."""
    rules, words = text.split("\nwords:\n")
    rules = re.sub(r"- \{(.*?),\s+status: (\w+)\}", r"- {status: \2, \1}", rules)
    blocks = [block.rstrip("\n") for block in reversed(words.split("\n\n"))]
    return f"{rules}\nwords:\n" + "\n\n".join(blocks) + "\n"
