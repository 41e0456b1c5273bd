"""Health as `grpc.health.v1` defines it, and server reflection as `grpc.reflection.v1` and `v1alpha` do.

The library's servicer of reflection does not find the file of a method, and serves `v1alpha` alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import FileDescriptor
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection_pb2 as pb

from callability.kernel.calls import parse
from callability.kernel.limits import InvalidRequest
from callability.service import edge

SERVICES = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")
_REQUEST_BYTES = 4_096
_POOL = descriptor_pool.Default()


class Reflection:
    """Describes services and what their messages consist of."""

    def __init__(self, services: Collection[str], reading: edge.ReadingPlaces, ended: edge.Ended) -> None:
        self._reading = reading
        self._ended = ended
        self._services = sorted({*services, *SERVICES})

    @property
    def handlers(self) -> Mapping[str, edge.Handler]:
        """What answers each method, by its path."""
        return {
            path: edge.conversing(self.answer, path, _REQUEST_BYTES, self._reading, self._ended)
            for path in (f"/{service}/ServerReflectionInfo" for service in SERVICES)
        }

    async def answer(self, data: bytes) -> bytes:
        """Answer a `ServerReflectionRequest` with a `ServerReflectionResponse`.

        Raises:
            InvalidRequest: it is malformed.
        """
        request = parse(pb.ServerReflectionRequest, data)
        try:
            reply = self._reply(request)
        except KeyError:
            reply = _error(grpc.StatusCode.NOT_FOUND, "there is no such file, symbol or extension")
        reply.valid_host = request.host
        reply.original_request.CopyFrom(request)
        return reply.SerializeToString()

    def _reply(self, request: pb.ServerReflectionRequest) -> pb.ServerReflectionResponse:
        match request.WhichOneof("message_request"):
            case "list_services":
                services = [pb.ServiceResponse(name=name) for name in self._services]
                return pb.ServerReflectionResponse(list_services_response=pb.ListServiceResponse(service=services))
            case "file_by_filename":
                return _files(_POOL.FindFileByName(request.file_by_filename))
            case "file_containing_symbol":
                return _files(_file_of(request.file_containing_symbol))
            case "file_containing_extension":
                extension = request.file_containing_extension
                extended = _POOL.FindMessageTypeByName(extension.containing_type)
                found_field = _POOL.FindExtensionByNumber(extended, extension.extension_number)
                return _files(_POOL.FindFileContainingSymbol(found_field.full_name))
            case "all_extension_numbers_of_type":
                message = _POOL.FindMessageTypeByName(request.all_extension_numbers_of_type)
                numbers = sorted(extension.number for extension in _POOL.FindAllExtensions(message))
                found = pb.ExtensionNumberResponse(base_type_name=message.full_name, extension_number=numbers)
                return pb.ServerReflectionResponse(all_extension_numbers_response=found)
        return _error(grpc.StatusCode.INVALID_ARGUMENT, "the request asks for nothing")


def _file_of(symbol: str) -> FileDescriptor:
    """Return the file that declares a symbol.

    Raises:
        KeyError: none does.
    """
    try:
        return _POOL.FindFileContainingSymbol(symbol)
    except KeyError:
        # The pool finds services, messages, enums and fields; a method is found in its service.
        service, _, method = symbol.rpartition(".")
        return _POOL.FindServiceByName(service).methods_by_name[method].containing_service.file


def _files(wanted: FileDescriptor) -> pb.ServerReflectionResponse:
    """Return a file and the files that it imports, each once, the wanted one first."""
    files = {wanted.name: wanted}
    waiting = [wanted]
    while waiting:
        for imported in waiting.pop().dependencies:
            if imported.name not in files:
                files[imported.name] = imported
                waiting.append(imported)
    encoded = []
    for file in files.values():
        proto = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(proto)
        encoded.append(proto.SerializeToString())
    return pb.ServerReflectionResponse(
        file_descriptor_response=pb.FileDescriptorResponse(file_descriptor_proto=encoded)
    )


def _error(code: grpc.StatusCode, message: str) -> pb.ServerReflectionResponse:
    return pb.ServerReflectionResponse(error_response=pb.ErrorResponse(error_code=code.value[0], error_message=message))


SERVICE = health.SERVICE_NAME
CHECK = f"/{SERVICE}/Check"
_WATCH = f"/{SERVICE}/Watch"


class Health:
    """Whether services answer calls."""

    def __init__(self, reading: edge.ReadingPlaces, ended: edge.Ended) -> None:
        self._servicer: Any = health.aio.HealthServicer()
        self._reading = reading
        self._received = edge.at_most(_REQUEST_BYTES, ended)

    async def serving(self, *services: str) -> None:
        """Report services as SERVING."""
        for service in services:
            await self._servicer.set(service, health_pb2.HealthCheckResponse.SERVING)

    async def stopping(self) -> None:
        """Report every service as NOT_SERVING from now on."""
        await self._servicer.enter_graceful_shutdown()

    @property
    def handlers(self) -> Mapping[str, edge.Handler]:
        """What answers each method, by its path."""
        written = health_pb2.HealthCheckResponse.SerializeToString
        return {
            CHECK: grpc.stream_unary_rpc_method_handler(self._check, self._received, written),
            _WATCH: grpc.stream_stream_rpc_method_handler(self._watch, self._received, written),
        }

    async def _check(self, _requests: object, context: edge.Context) -> health_pb2.HealthCheckResponse:
        reply: health_pb2.HealthCheckResponse = await self._servicer.Check(await self._request(CHECK, context), context)
        return reply

    async def _watch(self, _requests: object, context: edge.Context) -> None:
        await self._servicer.Watch(await self._request(_WATCH, context), context)

    async def _request(self, path: str, context: edge.Context) -> health_pb2.HealthCheckRequest:
        request = await self._reading.request(path, context, context.peer())
        try:
            return parse(health_pb2.HealthCheckRequest, edge.check_request(request))
        except InvalidRequest as error:
            await edge.abort(context, edge.refusal(error))
