"""Lazy forms of the contract's messages: the same wire, but parts that are messages or text stay bytes.

So the facts of a tool are one `bytes` value, and so is a server with all its tools; written, the results of a server
are bytes that are joined.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from callability.kernel.limits import PARTS_BYTES, InvalidRequest
from callability.v1 import callability_service_pb2 as pb
from callability.v1 import facts_pb2, outcome_pb2, verdict_pb2

_AS_BYTES = {
    "Agent": {"name"},
    "CheckToolRequest": {"server", "server_facts", "tool", "tool_facts"},
    "ServerTools": {"name", "facts"},
    "Tool": {"name", "facts"},
    "CheckToolsRequest": {"servers"},
    "CheckToolsResponse": {"servers", "words"},
}


def _lazy_pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for module in (facts_pb2, verdict_pb2, outcome_pb2, pb):
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        if module is pb:
            # The older syntax distinguishes an empty value from an absent one, so that sizes differ by parts alone.
            file.ClearField("syntax")
        for message in file.message_type:
            for field in message.field:
                if field.name in _AS_BYTES.get(message.name, ()):
                    field.type = descriptor_pb2.FieldDescriptorProto.Type.ValueType(FieldDescriptor.TYPE_BYTES)
                    field.ClearField("type_name")
        pool.Add(file)
    return pool


_POOL = _lazy_pool()


def _lazy(message: type[Message]) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(message.DESCRIPTOR.full_name))


_REQUESTS: dict[type[Message], Any] = {
    message: _lazy(message) for message in (pb.CheckToolRequest, pb.CheckToolsRequest, pb.ServerTools)
}
CheckToolsResponse: Any = _lazy(pb.CheckToolsResponse)


def read(message: type[Message], data: bytes) -> Any:
    """Read a request into its lazy form.

    A message may stand on the wire in parts, which are to be merged, where bytes would keep the last part alone. The
    sizes then differ, and the request is first brought to its usual form, unless that would make too many objects. The
    servers of a `CheckToolsRequest` are never merged, and its agent is merged by the lazy form.

    Raises:
        InvalidRequest: the bytes are not such a message, or too many and in parts.
    """
    try:
        request = _REQUESTS[message].FromString(data)
        if message is not pb.CheckToolsRequest and request.ByteSize() != len(data):
            if len(data) > PARTS_BYTES:
                found = f"a message that is written in parts has {len(data):,} bytes, and may have {PARTS_BYTES:,}"
                raise InvalidRequest("ITEM_TOO_LARGE", found)
            request = _REQUESTS[message].FromString(message.FromString(data).SerializeToString())
    except DecodeError:
        raise InvalidRequest("REQUEST_MALFORMED", f"the request is not a `{message.DESCRIPTOR.name}`") from None
    return request
