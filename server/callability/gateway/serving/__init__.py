"""MCP over stdio and over HTTP, from start to shutdown."""
