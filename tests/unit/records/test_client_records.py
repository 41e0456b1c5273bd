"""Records of a local client: each decision about a call, by a hook that a proxy gives it."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from callability.adapter import ALL_SERVERS
from callability.client import BlockingClient, Inventory
from callability.records import ClientRecords, DestinationRefused
from callability.records.reading import RecordReading, sources_of
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2
from support.bundles import bundle_of

REFUSED = pb.CheckToolRequest(server="s", tool="t", server_facts=facts_pb2.ServerFacts(enabled=False))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Return the file of a bundle."""
    (tmp_path / "policy.bundle").write_bytes(bundle_of("shipped"))
    return tmp_path / "policy.bundle"


def test_a_local_client_records_its_decisions_about_calls_and_not_discovery(bundle: Path, tmp_path: Path) -> None:
    """They are lines as a gateway and a service write them."""
    records = ClientRecords(str(tmp_path / "records"), level="all")
    with BlockingClient.local(bundle, decided=records) as client:
        client.check_tools(pb.CheckToolsRequest())
        client.judge(Inventory(), visible=ALL_SERVERS)
        client.check_tool(REFUSED)
        client.classify_load(pb.ClassifyLoadRequest(error_text="connection refused"))
    records.close()
    lines = [json.loads(line) for line in RecordReading(sources_of([str(tmp_path / "records")])).lines()]
    assert [(line.get("by"), line.get("question"), line.get("status")) for line in lines[:-1]] == [
        ("client", "tool", "server_disabled"),
        ("client", "load", "permanent"),
    ]
    assert records.dropped == 0


def test_a_hook_that_fails_changes_no_answer(bundle: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log says that it failed."""

    def fail(method: str, request: bytes, reply: bytes, seconds: float) -> None:
        raise OSError("no space")

    with caplog.at_level(logging.ERROR), BlockingClient.local(bundle, decided=fail) as client:
        assert client.check_tool(REFUSED).HasField("verdict")
    assert "a hook failed at a decision of CheckTool" in caplog.text


def test_records_of_a_client_go_to_a_directory_of_its_user_alone(tmp_path: Path) -> None:
    """A wrong place is refused at once."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(DestinationRefused, match="is open to others"):
        ClientRecords(str(tmp_path / "open"))
