"""Setting up: from the configs of MCP clients to one gateway that all of them use, and back."""
