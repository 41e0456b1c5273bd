"""The main job on real MCP servers, told step by step; `python -m demo` ends with 1 if a step is not as it should."""
