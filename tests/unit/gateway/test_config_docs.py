"""`docs/config.md` and the schema of the config: generated from the model that checks the config, and as strict."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it comes without types
from jsonschema.exceptions import ValidationError  # type: ignore[import-untyped]
from jsonschema.validators import extend  # type: ignore[import-untyped]
from pydantic import BaseModel

from callability.contract.finding import Severity
from callability.files import document
from callability.gateway.config.approvals import ApprovalRecord, load_approvals
from callability.gateway.config.config import ConfigRefused, load_config
from callability.gateway.config.model import AgentConfig, ConfigFile, Deadlines, HttpConfig, ServerConfig
from callability.gateway.config.schema import config_schema
from support.checkout import DOCS
from support.commands import callability
from support.config_files import AGENTS, DIGEST, FAULTY, FILES, VALUES, WHOLE
from support.drawing import drawing

BEYOND_A_SCHEMA = {"unknown-server", "shared-token", "bad-url", "bad-length"}
"""Codes that a schema cannot find, or not always: relations of two parts, hosts and ports, lengths in bytes."""
NO_DOCUMENT = {"an empty file", "a server that is repeated"}
"""Faulty configs that an editor refuses without a schema."""


def _pattern(_: object, pattern: str, value: object, __: object) -> Any:
    """In a JSON Schema, `$` is the very end, as in ECMA-262; in Python, it also matches before a last line break."""
    assert pattern.startswith("^")
    assert pattern.endswith("$")
    if isinstance(value, str) and not re.fullmatch(pattern[1:-1], value):
        yield ValidationError("does not match")


VALIDATOR = extend(Draft202012Validator, {"pattern": _pattern})(config_schema())


def _refusal(directory: str | Path, text: str, name: str = "servers.yaml") -> tuple[object, set[str] | None]:
    """Return the data of a config, and the codes of the errors for which the gateway refuses it."""
    path = Path(directory, name)
    path.write_text(text, encoding="utf-8")
    data = document.plain(document.read(path))
    try:
        load_config(path)
    except ConfigRefused as refused:
        return data, {found.code for found in refused.findings if found.severity is Severity.ERROR}
    return data, None


def _agree(data: object, refusal: set[str] | None) -> bool:
    """Return whether schema and gateway agree, as far as a schema can decide."""
    valid = bool(VALIDATOR.is_valid(data))
    return valid if refusal is None else not valid or refusal <= BEYOND_A_SCHEMA


@pytest.mark.parametrize(
    ("file", "arguments"), [("config.md", ("--markdown",)), ("mcp_config.schema.json", ())], ids=["page", "schema"]
)
def test_what_is_committed_is_what_is_generated(file: str, arguments: tuple[str, ...]) -> None:
    """By `make docs`, to the byte."""
    done = callability("schema", "config", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (DOCS / file).read_text(encoding="utf-8"), "run `make docs`"


def test_every_key_is_on_the_page() -> None:
    """Those of the config, under the place where they stand, and those of an approval record."""
    page = (DOCS / "config.md").read_text(encoding="utf-8")
    sections = {part.partition("\n")[0]: part for part in page.split("\n## ")[1:]}
    models: dict[str, type[BaseModel]] = {
        "The config": ConfigFile,
        "`mcpServers.NAME`": ServerConfig,
        "`agents.NAME`": AgentConfig,
        "`deadlines`": Deadlines,
        "`http`": HttpConfig,
    }
    for heading, model in models.items():
        keys = [field.alias or name for name, field in model.model_fields.items()]
        assert re.findall(r"^\| `([\w$]+)` \|", sections[heading], re.MULTILINE) == keys
    keys = [field.name for field in fields(ApprovalRecord) if field.compare]
    assert re.findall(r"^\| `(\w+)` \|", sections["The approvals file"], re.MULTILINE) == keys


def test_the_page_says_what_a_record_is_that_leaves_a_key_out(tmp_path: Path) -> None:
    """The defaults of an approval record are those of one that is read, and each key on the page is known."""
    path = tmp_path / "approvals.yaml"
    path.write_text(f"git: {{left: {{}}, written: {{disabled: false, status: approved, sha256: {DIGEST}}}}}")
    approvals = load_approvals(path)
    assert approvals.warnings == ()
    assert approvals.record("git", "left") == ApprovalRecord(disabled=False, status="approved", sha256="")
    page = (DOCS / "config.md").read_text(encoding="utf-8")
    assert "| `disabled` | `true` or `false` | `false` |" in page
    assert "| `status` | `approved`, `pending`, `changed` | `approved` |" in page
    assert "| `sha256` | `v2:` and 64 hexadecimal digits, or `any` | none |" in page


def test_the_schema_is_one() -> None:
    """Of the dialect that it names, with patterns that cover the whole text."""
    schema = config_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema)
    patterns = re.findall(r'"pattern": "((?:[^"\\]|\\.)*)"', json.dumps(schema))
    assert {(pattern[0], pattern[-1]) for pattern in patterns} == {("^", "$")}


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        "mcpServers: {}",
        '{"$schema": "mcp_config.schema.json", "mcpServers": {}}',
        "mcpServers: {a: {command: x}}\ndeadlines: {}\nagents: {}",
        AGENTS + f"  one: {{token_sha256: {DIGEST}, servers: [git]}}\n  two: {{servers: []}}\n",
        "mcpServers: {a: {command: x, disabled_tools: [], env: {}, type: stdio}, b: {url: 'HTTPS://h:1?x'}}",
    ],
)
def test_what_the_gateway_takes_the_schema_takes(text: str, tmp_path: Path) -> None:
    """An editor marks nothing in a valid config."""
    data, refusal = _refusal(tmp_path, text)
    assert refusal is None
    assert VALIDATOR.is_valid(data), list(VALIDATOR.iter_errors(data))


@pytest.mark.parametrize("fault", [fault for fault in FAULTY if fault not in NO_DOCUMENT])
def test_what_the_gateway_refuses_the_schema_refuses(fault: str, tmp_path: Path) -> None:
    """As far as a schema can decide; here it always can, except for hosts and ports."""
    data, refusal = _refusal(tmp_path, FAULTY[fault][0])
    assert refusal
    assert not VALIDATOR.is_valid(data) or refusal <= {"bad-url"}


NAMES = st.sampled_from(["a", "b c", "A.b_c-1", "x" * 129, "a\n", "ä"])
TEXTS = st.sampled_from(
    ["x", "", "a\0", "x\n", " x", "é", "http://h", "http://", "https://h:9/p?q", "http://a b", "${A}/p", "a ${A}"]
)
SOUND = st.one_of(
    st.fixed_dictionaries(
        {"command": st.just("x")},
        optional={"args": st.lists(TEXTS, max_size=2), "env": st.dictionaries(TEXTS, TEXTS, max_size=2), "cwd": TEXTS},
    ),
    st.fixed_dictionaries(
        {"url": st.just("http://h")},
        optional={"headers": st.dictionaries(st.sampled_from(["A", "a b", "a\n", "É"]), TEXTS, max_size=2)},
    ),
)
SWITCHES = st.fixed_dictionaries(
    {},
    optional={
        "enabled": st.booleans(),
        "quarantined": st.booleans(),
        "trust": st.sampled_from(["auto", "manual", "none"]),
        "type": st.sampled_from(["stdio", "http", "streamable-http", "streamableHttp", "sse"]),
        "enabled_tools": st.lists(TEXTS, max_size=2),
        "disabled_tools": st.lists(TEXTS, max_size=2),
        "labels": st.dictionaries(TEXTS | st.just("x" * 129), TEXTS | st.just("é" * 257), max_size=2),
        "url": TEXTS,
        "tool_labels": st.dictionaries(TEXTS, st.dictionaries(TEXTS, TEXTS, max_size=1), max_size=2),
    },
)
SERVERS = st.builds(lambda one, other: other | one, SOUND, SWITCHES)
SECONDS = st.sampled_from([0, 0.1, 1, 86_400, 86_401, -1, True, "1"])
AGENT = st.fixed_dictionaries(
    {"servers": st.lists(NAMES, max_size=2)}, optional={"token_sha256": st.sampled_from([DIGEST, DIGEST + "\n", "x"])}
)
NEARLY_SOUND = st.fixed_dictionaries(
    {"mcpServers": st.dictionaries(NAMES, SERVERS, max_size=2)},
    optional={
        "deadlines": st.dictionaries(st.sampled_from(["call_seconds", "open_seconds", "x"]), SECONDS, max_size=2),
        "agents": st.dictionaries(NAMES, AGENT, max_size=2),
        "approvals": TEXTS,
        "$schema": TEXTS | st.sampled_from([None, 1]),
    },
)


@drawing(300)
@given(VALUES | FILES | NEARLY_SOUND)
def test_schema_and_gateway_agree_about_any_data(data: object) -> None:
    """Both accept the same, as far as a schema can decide."""
    with TemporaryDirectory() as directory:
        read, refusal = _refusal(directory, json.dumps(data), "servers.json")
    assert _agree(read, refusal), (refusal, list(VALIDATOR.iter_errors(read)))


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (AGENTS + "  a: {servers: [gitt]}", {"unknown-server"}),
        (
            AGENTS + f"  a: {{token_sha256: {DIGEST}, servers: []}}\n  b: {{token_sha256: {DIGEST}, servers: []}}",
            {"shared-token"},
        ),
        ("mcpServers: {a: {url: 'http://[h'}}", {"bad-url"}),
        (f"mcpServers: {{a: {{command: x, labels: {{{'é' * 65}: b}}}}}}", {"bad-length"}),
    ],
)
def test_what_a_schema_cannot_express_is_what_the_page_says(text: str, codes: set[str], tmp_path: Path) -> None:
    """Each exception is real: the schema accepts it and the gateway does not."""
    data, refusal = _refusal(tmp_path, text)
    assert refusal == codes
    assert VALIDATOR.is_valid(data)
