"""From rule files to a proved policy. Nothing here knows gRPC or MCP."""
