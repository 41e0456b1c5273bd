"""What the conformance suites of MCP are run against."""
