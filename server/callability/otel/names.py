"""Names of attributes: of OpenTelemetry's conventions for RPC and MCP, and our own.

RPC: semantic conventions v1.45.0. MCP: GenAI semantic conventions v0.1.0.
"""

from __future__ import annotations

RPC_SYSTEM = "rpc.system.name"
GRPC = "grpc"
RPC_METHOD = "rpc.method"
RPC_STATUS = "rpc.response.status_code"
ERROR_TYPE = "error.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
MCP_METHOD = "mcp.method.name"
TOOL = "gen_ai.tool.name"
OPERATION = "gen_ai.operation.name"
EXECUTE_TOOL = "execute_tool"
OURS = "callability."
"""How our own attributes begin: the fields that log lines have too."""
