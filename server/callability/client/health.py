"""The health protocol of gRPC (`grpc.health.v1`), without its package, which the base install does not have."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from callability.client.rotation import ReplicaState

WATCH = "/grpc.health.v1.Health/Watch"
SERVICE = "callability.v1.CallabilityService"
"""The service whose health is watched."""
_STATES = {1: ReplicaState.SERVING, 2: ReplicaState.DOWN}


def _message(name: str, field_type: descriptor_pb2.FieldDescriptorProto.Type.ValueType) -> Any:
    # A pool of its own: `grpcio-health-checking` registers the same names in the default one.
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package="callability.health", syntax="proto3")
    field = file.message_type.add(name=name).field.add(name="value", number=1)
    field.type, field.label = field_type, descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"callability.health.{name}"))


_Request = _message("HealthCheckRequest", descriptor_pb2.FieldDescriptorProto.TYPE_STRING)
_Response = _message("HealthCheckResponse", descriptor_pb2.FieldDescriptorProto.TYPE_INT32)

REQUEST: bytes = _Request(value=SERVICE).SerializeToString()
"""A `HealthCheckRequest` about the service, encoded."""


def state_in(response: bytes) -> ReplicaState:
    """Return the state that an encoded `HealthCheckResponse` reports; one that is not known counts as no report."""
    return _STATES.get(_Response.FromString(response).value, ReplicaState.UNKNOWN)
