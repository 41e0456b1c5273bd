"""The golden vectors of paths, which each implementation answers alike: by a bundle and by the rule files."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict

from callability.compiler.bundle_writing import compile_rule_set
from callability.kernel.calls import LocalCalls
from callability.kernel.path import path_to_callable
from callability.kernel.policy import read
from callability.v1 import callability_service_pb2 as pb
from support.path_vectors import DIRECTORY, path_bundles, path_policy

VECTORS: list[dict[str, Any]] = json.loads((DIRECTORY / "paths.json").read_text())


def test_the_bundles_of_the_vectors_are_those_of_their_policies() -> None:
    """`python -m support.path_vectors` writes them."""
    assert [path.name for path, data in path_bundles() if path.read_bytes() != data] == []


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_path_is_that_of_its_vector(vector: dict[str, Any]) -> None:
    """From the bundle, and from the diagram that a service has."""
    calls = LocalCalls(read((DIRECTORY / f"{vector['policy']}.bundle").read_bytes()))
    reply = calls.explain_tool(ParseDict(vector["request"], pb.ExplainToolRequest()))
    assert pb.PathEnd.Name(reply.path.end) == f"PATH_END_{vector['end'].upper()}"
    assert list(reply.path.find_out) == vector["find_out"]
    assert [
        {
            "rule": step.rule,
            "changes": [f"{each.fact}: {each.current} to {' or '.join(each.wanted_values)}" for each in step.changes],
        }
        for step in reply.path.steps
    ] == vector["steps"]
    proved = path_policy(vector["policy"]).rule_sets["callability"]
    facts = proved.rule_set.question.open_facts | {each.fact: each.value for each in reply.facts}
    path = path_to_callable(compile_rule_set(proved), facts)
    assert path is not None
    assert (path.end, list(path.find_out)) == (vector["end"], vector["find_out"])
    assert [(step.rule.id, [each.wanted_values for each in step.changes]) for step in path.steps] == [
        (step.rule, [tuple(each.wanted_values) for each in step.changes]) for step in reply.path.steps
    ]
