"""What an agent and its people see of a gateway, on real MCP servers; `python -m demo` exits with 1 if a step fails."""
