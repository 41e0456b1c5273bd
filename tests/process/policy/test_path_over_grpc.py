"""The path to callable of labels, over gRPC."""

from __future__ import annotations

import json
from pathlib import Path

import grpc

from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2, verdict_pb2
from callability.v1.callability_service_pb2_grpc import CallabilityServiceStub
from support.commands import callability
from support.label_rules import RULES
from support.policies import write_policy
from support.running import serving


def test_explain_names_the_labels_and_their_owner(tmp_path: Path) -> None:
    """On the command line and over gRPC: every value that helps, the first of which is `wanted`."""
    policy = write_policy(tmp_path, RULES)
    arguments = ("explain", "--policy", str(policy), "server.label.environment=production")
    done = callability(*arguments)
    assert done.stdout.split("path to callable\n")[1].splitlines()[:2] == [
        "  1. `server.label.environment` from production to none, staging or test: the operator, by `edit_labels`",
        "  then it is callable",
    ]
    report = json.loads(
        callability("explain", "--json", "--policy", str(policy), "server.label.environment=production").stdout
    )
    assert report["path"]["steps"][0]["changes"] == [
        {
            "fact": "server.label.environment",
            "current": "production",
            "wanted": "none",
            "wanted_values": ["none", "staging", "test"],
            "changed_by": "operator",
            "action": "edit_labels",
        }
    ]
    with serving("--policy", str(policy)) as address, grpc.insecure_channel(address) as channel:
        server = facts_pb2.ServerFacts(
            enabled=True, quarantined=False, labels=facts_pb2.Labels(values={"environment": "production"})
        )
        tool = facts_pb2.ToolFacts(
            approval=facts_pb2.Approval(), annotations=facts_pb2.Annotations(), labels=facts_pb2.Labels()
        )
        request = pb.ExplainToolRequest(server="s", server_facts=server, tool="t", tool_facts=tool)
        [step] = CallabilityServiceStub(channel).ExplainTool(request).path.steps
    [change] = step.changes
    assert (change.wanted, list(change.wanted_values)) == ("none", ["none", "staging", "test"])
    assert (change.changed_by, change.action) == (verdict_pb2.LIFTED_BY_OPERATOR, "edit_labels")
