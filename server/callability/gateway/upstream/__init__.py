"""The connections to upstream MCP servers: each has one owner, and one that fails harms no other."""
