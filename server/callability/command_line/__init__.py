"""The `callability` command: it joins policy, service and gateway, which do not know each other."""

from callability.command_line.application import main

__all__ = ["main"]
