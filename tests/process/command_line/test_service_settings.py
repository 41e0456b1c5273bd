"""The settings of a service: where each comes from, and what refuses them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from callability.cli.service_settings import PREFIX, SETTINGS, SettingsRefused, effective_settings, unused_variables
from support.commands import callability
from support.running import service

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


def _effective(
    given: Mapping[str, object] = {}, environment: Mapping[str, str] = {}, file: Path | None = None
) -> dict[str, tuple[object, str]]:  # read only
    found = effective_settings(given, environment, file)  # type: ignore[arg-type]
    return {name: (each.value, each.source) for name, each in found.items()}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with some settings."""
    path = tmp_path / "service.yaml"
    path.write_text(
        "address: 127.0.0.1:1111\nlog_level: debug\npolicy: rules\nsocket_mode: 660\nmax_concurrent_calls: 5\n"
        "insecure_listen: true\n"
    )
    return path


def test_an_option_counts_before_a_variable_before_the_file_before_the_default(file: Path) -> None:
    """Each setting by itself; each value says where it comes from."""
    environment = {"CALLABILITY_SERVE_LOG_LEVEL": "error", "CALLABILITY_SERVE_MAX_CONCURRENT_CALLS": "7"}
    found = _effective({"max_concurrent_calls": 9, "address": None}, environment, file)
    assert found["max_concurrent_calls"] == (9, "--max-concurrent-calls")
    assert found["log_level"] == ("error", "$CALLABILITY_SERVE_LOG_LEVEL")
    assert found["address"] == ("127.0.0.1:1111", f"{file}:1:10")
    assert found["metrics_address"] == (None, "default")
    assert found["socket_mode"][0] == 0o660
    assert found["insecure_listen"][0] is True


def test_a_path_in_the_file_is_relative_to_the_file(file: Path) -> None:
    """Wherever the service is started; one in a variable is relative to where it is."""
    assert _effective(file=file)["policy"][0] == file.parent / "rules"
    assert _effective(environment={"CALLABILITY_SERVE_POLICY": "rules"})["policy"][0] == Path("rules")


def test_keys_of_bundles_are_separated_by_commas(tmp_path: Path) -> None:
    """Each with a path beside the file; `config show` prints them as they are written."""
    file = tmp_path / "service.yaml"
    file.write_text("bundle_key: 2026=old.pem, 2027=/new.pem\n")
    assert _effective(file=file)["bundle_key"][0] == {"2026": tmp_path / "old.pem", "2027": Path("/new.pem")}
    environment = {"CALLABILITY_SERVE_BUNDLE_KEY": "2026=old.pem"}
    assert _effective(environment=environment)["bundle_key"][0] == {"2026": Path("old.pem")}
    done = callability("config", "show", "--service", "--config", str(file), env=ENVIRONMENT)
    assert f" 2026={tmp_path}/old.pem, 2027=/new.pem " in done.stdout


def test_a_variable_may_name_the_file(file: Path) -> None:
    """The option comes first."""
    environment = {"CALLABILITY_SERVE_CONFIG": str(file)}
    assert _effective(environment=environment)["log_level"][0] == "debug"
    other = file.with_name("other.yaml")
    other.write_text("log_level: warning")
    assert _effective(environment=environment, file=other)["log_level"][0] == "warning"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("adress: x", "service.yaml:1:1: unknown setting `adress` (did you mean `address`?) [unknown-key]"),
        (
            "log_level: loud",
            "service.yaml:1:12: `log_level` must be one of `debug`, `info`, `warning`, `error`,"
            " and is `loud` [unknown-value]",
        ),
        (
            "max_concurrent_calls: 0",
            "service.yaml:1:23: `max_concurrent_calls` must be a whole number of at least 1,"
            " and is `0` [unknown-value]",
        ),
        (
            "insecure_listen: 1",
            "service.yaml:1:18: `insecure_listen` must be `true` or `false`, and is `1` [unknown-value]",
        ),
        (
            "socket_mode: 0o660",
            "service.yaml:1:14: `socket_mode` must be three octal digits such as 660, and is `0o660` [unknown-value]",
        ),
        (
            "bundle_key: old.pem",
            "service.yaml:1:13: `bundle_key` must be KEY_ID=FILE, or up to 64 of these with commas between, each with"
            " an id of its own, and is `old.pem` [unknown-value]",
        ),
        ("address: [a]", "service.yaml:1:10: `address` must be a single value [unknown-value]"),
        ("- a", "service.yaml:1:1: the file is not a mapping of settings [wrong-type]"),
    ],
)
def test_a_fault_of_the_file_is_found_at_its_place(text: str, found: str, tmp_path: Path) -> None:
    """And refuses the start."""
    file = tmp_path / "service.yaml"
    file.write_text(text)
    done = callability("serve", "--config", str(file), "--address", "127.0.0.1:0")
    assert (done.returncode, done.stdout) == (1, "")
    assert found in done.stderr.replace(f"{tmp_path}/", "")


def test_a_variable_that_cannot_be_read_is_a_usage_error() -> None:
    """It is named."""
    with pytest.raises(SettingsRefused) as refused:
        _effective(environment={"CALLABILITY_SERVE_SOCKET_MODE": "rw"})
    assert (
        refused.value.sentence == "`$CALLABILITY_SERVE_SOCKET_MODE` must be three octal digits such as 660, and is `rw`"
    )
    done = callability("config", "show", "--service", env=ENVIRONMENT | {"CALLABILITY_SERVE_SOCKET_MODE": "rw"})
    assert (done.returncode, done.stdout) == (2, "")


def test_each_option_of_serve_is_a_setting() -> None:
    """So is its variable; others are reported."""
    printed = callability("serve", "--help").stdout
    for name in SETTINGS:
        assert f"--{name.replace('_', '-')}" in printed
    names = {f"{PREFIX}{name.upper()}": "1" for name in (*SETTINGS, "config", "adress")}
    assert list(unused_variables(names)) == ["CALLABILITY_SERVE_ADRESS"]


def test_a_service_runs_with_the_settings_that_are_shown(tmp_path: Path) -> None:
    """From all three places."""
    file = tmp_path / "service.yaml"
    file.write_text("metrics_address: 127.0.0.1:0\nlog_level: error\n")
    log = tmp_path / "log"
    with service("--config", str(file), "--log-level", "info", log=log) as running:
        assert running.address.startswith("127.0.0.1:")
        assert "metrics are on http://127.0.0.1:" in log.read_text()


def test_the_settings_of_a_service_are_printed_with_their_source(file: Path) -> None:
    """As a table, or as JSON."""
    environment = ENVIRONMENT | {"CALLABILITY_SERVE_CONFIG": str(file), "CALLABILITY_SERVE_METRICS_ADDRESS": "[::1]:9"}
    done = callability("config", "show", "--service", env=environment)
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert done.returncode == 0
    assert rows["address"] == ["127.0.0.1:1111", f"{file}:1:10"]
    assert rows["metrics_address"] == ["[::1]:9", "$CALLABILITY_SERVE_METRICS_ADDRESS"]
    assert rows["socket_mode"][0] == "660"
    assert rows["callers"] == ["-", "default"]
    assert rows.keys() == SETTINGS.keys()
    printed = json.loads(callability("config", "show", "--service", "--json", env=environment).stdout)
    assert {each["key"] for each in printed} == SETTINGS.keys()


def test_the_settings_of_a_gateway_are_printed_without_secrets(tmp_path: Path) -> None:
    """Whatever may hold one: arguments, variables, headers, addresses, tokens."""
    config = tmp_path / "gateway.yaml"
    config.write_text(
        "mcpServers:\n"
        "  files: {command: secret-command, args: [secret-argument], env: {KEY: secret-value}, trust: manual}\n"
        "  web: {url: 'https://secret-user@example.org', headers: {Authorization: secret-header}}\n"
        "agents:\n  clerk: {token_sha256: " + "5ec2e7" * 10 + "abcd, servers: [files]}\n"
        "http: {sessions: 7}\n"
    )
    done = callability("config", "show", "--config", str(config))
    assert done.returncode == 0, done.stderr
    rows = {
        key: (value, source)
        for key, value, source in (
            line.split(maxsplit=2) for line in done.stdout.splitlines() if "(not shown)" not in line
        )
    }
    assert rows["http.sessions"] == ("7", f"{config}:6:18")
    assert rows["http.sessions_per_agent"] == ("100", "default")
    assert rows["mcpServers.files.trust"][0] == "manual"
    assert rows["config"] == (str(config), "--config")
    assert "secret" not in done.stdout + done.stderr
    assert "5ec2e7" not in done.stdout
    assert done.stdout.count("(not shown)") == 6
