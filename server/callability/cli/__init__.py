"""The `callability` command: it connects policy, service and gateway, which do not import each other."""

from callability.cli.application import main

__all__ = ["main"]
