"""The MCP gateway: it connects to upstream servers and serves agents what a policy lets them call."""
