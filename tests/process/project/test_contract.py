"""The contract: its stubs, its words in Python, and its style."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from enum import StrEnum
from pathlib import Path

import pytest
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

from callability.contract.vocabulary import (
    ACTIONS,
    EnableAuthorization,
    EnableCredentials,
    EnableEnd,
    EnableEntry,
    EnableStatus,
    LiftedBy,
    LoadFailure,
    LoadPhase,
    LoadStatus,
    Retry,
    ToolStatus,
)
from callability.kernel import limits
from callability.v1 import outcome_pb2, verdict_pb2
from support.checkout import ROOT

BIN = Path(sys.executable).parent


def test_the_stubs_are_what_the_contract_generates(tmp_path: Path) -> None:
    """Every generated file is equal, and there are no others."""
    make = ["make", "-s", "stubs", f"STUBS={tmp_path}", f"PYTHON={sys.executable}"]
    # The generator has an environment of its own, which is made first if it is not there.
    done = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    made = {path.name: path.read_text() for path in (tmp_path / "callability/v1").iterdir()}
    kept = {path.name: path.read_text() for path in (ROOT / "server/callability/v1").iterdir() if path.is_file()}
    assert kept.keys() == made.keys() | {"__init__.py"}
    assert [name for name in made if made[name] != kept[name]] == []


def test_the_base_requires_no_newer_versions_than_the_stubs_do() -> None:
    """Generated code refuses older ones, so that these are the oldest with which it runs."""
    stubs = ROOT / "server/callability/v1"
    [grpcio] = re.findall(r"GRPC_GENERATED_VERSION = '(.+)'", (stubs / "policy_service_pb2_grpc.py").read_text())
    [protobuf] = re.findall(r"# Protobuf Python Version: (.+)", (stubs / "facts_pb2.py").read_text())
    following = int(protobuf.partition(".")[0]) + 2
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {f"grpcio>={grpcio}", f"protobuf>={protobuf},<{following}"} <= {*required}


@pytest.mark.parametrize("arguments", [("lint",), ("format", "--diff", "--exit-code"), ("build",)])
def test_the_contract_is_clean(arguments: tuple[str, ...]) -> None:
    """Linted with comments required, and formatted."""
    done = subprocess.run(
        [BIN / "buf", *arguments], cwd=ROOT / "proto", capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_contract_only_ever_grows() -> None:
    """Within v1 nothing that was released is removed or given another meaning; `contract.binpb` is what was."""
    compare = [str(BIN / "buf"), "breaking", "--against", str(ROOT / "tests/contract.binpb")]
    broken = subprocess.run(compare, cwd=ROOT / "proto", capture_output=True, text=True, timeout=120, check=False)
    assert (broken.returncode, broken.stdout) == (0, ""), broken.stderr


@pytest.mark.parametrize(
    ("wire", "prefix", "names"),
    [
        (verdict_pb2.ToolStatus, "TOOL_STATUS_", ToolStatus),
        (verdict_pb2.LiftedBy, "LIFTED_BY_", LiftedBy),
        (verdict_pb2.Retry, "RETRY_", Retry),
        (outcome_pb2.LoadStatus, "LOAD_STATUS_", LoadStatus),
        (outcome_pb2.LoadPhase, "LOAD_PHASE_", LoadPhase),
        (outcome_pb2.LoadFailure, "LOAD_FAILURE_", LoadFailure),
        (outcome_pb2.EnableStatus, "ENABLE_STATUS_", EnableStatus),
        (outcome_pb2.EnableCredentials, "ENABLE_CREDENTIALS_", EnableCredentials),
        (outcome_pb2.EnableAuthorization, "ENABLE_AUTHORIZATION_", EnableAuthorization),
        (outcome_pb2.EnableEnd, "ENABLE_END_", EnableEnd),
        (outcome_pb2.EnableEntry, "ENABLE_ENTRY_", EnableEntry),
    ],
)
def test_the_names_in_python_are_those_of_the_contract(
    wire: EnumTypeWrapper, prefix: str, names: type[StrEnum]
) -> None:
    """In the same order."""
    assert wire.keys() == [f"{prefix}UNSPECIFIED", *(f"{prefix}{name.upper()}" for name in names)]


def test_what_is_fixed_about_each_status_is_what_the_specification_says() -> None:
    """The two columns of spec A.1."""
    fixed = {status.value: (status.lifted_by.value, status.retry.value) for status in ToolStatus}
    assert fixed == {
        "server_disabled": ("user", "never"),
        "disabled_by_config": ("operator", "never"),
        "server_quarantined": ("user", "never"),
        "disabled_by_user": ("user", "never"),
        "pending_approval": ("user", "never"),
        "disabled_unknown": ("undetermined", "later"),
        "callable": ("none", "now"),
    }


def test_what_is_fixed_about_each_outcome_is_what_the_specification_says() -> None:
    """Spec B: a denial is never retried; spec C: error result, entry and whether tools changed."""
    assert {status.value: (status.lifted_by.value, status.retry.value) for status in LoadStatus} == {
        "available": ("none", "now"),
        "transient": ("none", "later"),
        "denied": ("operator", "never"),
        "permanent": ("operator", "never"),
    }
    fixed = {
        status.value: (status.error, status.entry.value, status.tools_changed, status.lifted_by.value)
        for status in EnableStatus
    }
    assert fixed == {
        "unknown_server": (True, "none", 0, "operator"),
        "already_enabled": (False, "kept", 0, "none"),
        "missing_credentials": (True, "none", 0, "operator"),
        "enabled": (False, "kept", 1, "none"),
        "declined": (True, "rolled_back", 0, "user"),
        "authorization_required": (False, "kept", 0, "user"),
        "cancelled": (True, "rolled_back", 0, "user"),
        "connect_failed": (True, "rolled_back", 0, "undetermined"),
    }


def test_each_action_has_its_owner_and_its_fact() -> None:
    """SC-003 rests on this table."""
    assert {(action.name, action.owner.value, action.fact) for action in ACTIONS} == {
        ("enable_server", "user", "server.enabled"),
        ("edit_config", "operator", "tool.config_denied"),
        ("release_server", "user", "server.quarantined"),
        ("enable_tool", "user", "approval.disabled"),
        ("approve_tool", "user", "approval.status"),
        ("check_logs", "undetermined", None),
        ("edit_labels", "operator", None),
        ("edit_policy", "operator", None),
        ("grant_access", "operator", None),
        ("check_server", "operator", None),
    }


def test_the_limits_are_the_numbers_in_the_comments() -> None:
    """A caller reads them there."""
    proto = (ROOT / "proto/callability/v1/callability_service.proto").read_text()
    for number in (limits.TOOLS, limits.SERVERS, limits.ERROR_TEXT_BYTES, limits.MESSAGE_BYTES):
        assert f"{number:,}" in proto
    assert f"1 to {limits.NAME_BYTES}" in " ".join(proto.split())
