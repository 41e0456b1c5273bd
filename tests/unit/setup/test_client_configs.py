"""Configs of clients as published: every server is taken, or left to its client with a reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from callability.gateway.config.config import load_config
from callability.setup.clients import CLIENTS, client_named
from callability.setup.plan import Plan, plan, source_of_file
from callability.setup.secret_values import fill_secrets
from callability.setup.translation import Surroundings
from support.checkout import ROOT, TESTS

PUBLISHED: list[Mapping[str, Any]] = YAML(typ="safe").load((TESTS / "vectors/client_configs.yaml").read_text())
HOME = Path("/home/me")


def _planned(case: Mapping[str, Any], directory: Path, client: str = "") -> Plan:
    file = directory / case["file"]
    file.write_text(case["text"])
    source = source_of_file(file, client_named(client) if client else None, "")
    surroundings = Surroundings(HOME, case.get("environment", {}))
    return plan([source], directory / "gateway.yaml", surroundings, ["/bin/callability"], installing=False)


@pytest.mark.parametrize("case", PUBLISHED, ids=lambda case: case["name"])
def test_every_server_of_a_published_config_is_taken_or_left_with_a_reason(
    case: Mapping[str, Any], tmp_path: Path
) -> None:
    """As the documentation of the client shows it."""
    made = _planned(case, tmp_path, case["client"])
    left = case.get("left", {})
    assert {each.given: each.entry for each in made.taken} == case.get("taken", {})
    assert {each.given for each in made.kept} == set(left)
    for kept in made.kept:
        assert left[kept.given] in kept.reason
    assert "hush-hush" not in repr(made)
    assert made.after == b"" or b"hush-hush" not in made.after


@pytest.mark.parametrize("case", PUBLISHED, ids=lambda case: case["name"])
def test_what_is_taken_loads(case: Mapping[str, Any], tmp_path: Path) -> None:
    """With the secrets beside it; and no secret is in it."""
    made = _planned(case, tmp_path, case["client"])
    made.config.write_bytes(made.after)
    secrets = made.config.with_name("secrets.env")
    secrets.write_text("".join(f"{name}={json.dumps(value)}\n" for name, value in made.secrets.items()))
    secrets.chmod(0o600)
    config = load_config(made.config, case.get("environment", {}))
    assert set(config.servers) == {each.name for each in made.taken}
    assert config.agents[case["client"]].servers == tuple(config.servers)
    for name, value in made.secrets.items():
        assert value not in made.after.decode(), name


def test_the_form_of_a_file_shows_whose_it_is(tmp_path: Path) -> None:
    """Clients with `mcpServers` share a form, which is read as the one of Claude Code."""
    for case in PUBLISHED:
        found = _planned(case, tmp_path).sources[0].client
        assert found.keys == next(each for each in CLIENTS if each.name == case["client"]).keys
        assert found.form is next(each for each in CLIENTS if each.name == case["client"]).form


def test_twenty_configs_of_twelve_clients_are_published() -> None:
    """So that no client is read by guesses."""
    assert len(PUBLISHED) >= 20
    assert {case["client"] for case in PUBLISHED} == {client.name for client in CLIENTS}
    assert all(client.source.startswith("https://") and client.date for client in CLIENTS)


def test_the_page_names_each_client_with_its_file() -> None:
    """As the data has it, the source included."""
    rows = [line for line in (ROOT / "docs/setup.md").read_text().splitlines() if line.startswith("| [")]
    assert len(rows) == len(CLIENTS)
    for client, row in zip(CLIENTS, rows, strict=True):
        assert row.startswith(f"| [{client.title}]({client.source}) | `{client.name}` | `{client.linux[0]}` | ")
        assert f"`{client.keys[0]}` | {'is read' if client.cannot_be_installed else client.reload}" in row


def test_a_secret_is_found_again_by_its_reference() -> None:
    """A text that looks like a variable stays that text."""
    filled = fill_secrets({"env": {"A": "${secret:A}", "B": "$${secret:A}"}}, {"A": "x${y}"})
    assert filled == {"env": {"A": "x$${y}", "B": "$${secret:A}"}}
