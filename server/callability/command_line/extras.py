"""The extras of the distribution, and the message if a command's extra is not installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import NoReturn

import typer

from callability.command_line.commands import BASE

_POLICY = (
    *("cryptography", "durable", "grpc_health", "grpc_reflection", "grpc_status", "prometheus_client", "pydantic"),
    *("rich", "ruamel", "uvloop", "watchfiles"),
)
_PAGES = ("starlette", "uvicorn")
MODULES: Mapping[str, tuple[str, ...]] = {
    BASE: (),
    "bundle": ("cryptography",),
    "policy": _POLICY,
    "gateway": (*_POLICY, *_PAGES, "anyio", "httpx2", "mcp", "mcp_types", "pydantic_core", "tantivy", "tenacity"),
    "studio": (*_POLICY, *_PAGES),
    "columns": (*_POLICY, "numpy", "pyarrow"),
    "otel": ("opentelemetry",),
}
"""For each extra, the top-level modules that it installs for this program, beside those of the base installation."""

WRONG_INSTALLATION = 2
"""The exit code of a command whose extra is not installed: 1 would say that a file is refused."""


def check_extra(extra: str) -> None:
    """Check that what an extra adds to `policy` is installed, without importing it: that may take long.

    Raises:
        ModuleNotFoundError: a module is missing.
    """
    for module in MODULES[extra]:
        if module not in _POLICY and find_spec(module) is None:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)


def refuse_without_extra(command: str, extra: str, error: ImportError) -> NoReturn:
    """Say which extra a command needs, and exit.

    Raises:
        ImportError: the error itself, if the module that was not found is not one that the extra installs.
        SystemExit: always otherwise.
    """
    name = error.name or ""
    if name.partition(".")[0] not in MODULES[extra]:
        raise error
    typer.echo(
        f"callability: `callability {command}` needs the extra `{extra}` (`{name}` cannot be imported):"
        f" run pip install 'callability[{extra}]'",
        err=True,
    )
    raise SystemExit(WRONG_INSTALLATION)
