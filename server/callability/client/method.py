"""The calls of the contract that a client makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from google.protobuf.message import Message

from callability.v1 import callability_service_pb2 as pb
from callability.v1 import policy_service_pb2

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[Request, Response]):
    """A unary call: its name, its path on the wire, and its messages."""

    name: str
    path: str
    request: type[Request]
    response: type[Response]


_CALLABILITY = pb.DESCRIPTOR.services_by_name["CallabilityService"].full_name
_POLICY = policy_service_pb2.DESCRIPTOR.services_by_name["PolicyService"].full_name

CHECK_TOOL = Method("CheckTool", f"/{_CALLABILITY}/CheckTool", pb.CheckToolRequest, pb.CheckToolResponse)
CHECK_TOOLS = Method("CheckTools", f"/{_CALLABILITY}/CheckTools", pb.CheckToolsRequest, pb.CheckToolsResponse)
EXPLAIN_TOOL = Method("ExplainTool", f"/{_CALLABILITY}/ExplainTool", pb.ExplainToolRequest, pb.ExplainToolResponse)
CLASSIFY_LOAD = Method("ClassifyLoad", f"/{_CALLABILITY}/ClassifyLoad", pb.ClassifyLoadRequest, pb.ClassifyLoadResponse)
CLASSIFY_ENABLE = Method(
    "ClassifyEnable", f"/{_CALLABILITY}/ClassifyEnable", pb.ClassifyEnableRequest, pb.ClassifyEnableResponse
)
GET_POLICY = Method(
    "GetPolicy", f"/{_POLICY}/GetPolicy", policy_service_pb2.GetPolicyRequest, policy_service_pb2.GetPolicyResponse
)
