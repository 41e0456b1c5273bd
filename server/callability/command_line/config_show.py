"""`callability config show`: the effective settings of a gateway or a service, and where each comes from."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from callability.command_line.extras import refuse_without_extra
from callability.command_line.options import JsonOption
from callability.command_line.service_settings import settings_or_exit, shown_value, unused_variables

_GATEWAY_SETTINGS = "callability.command_line.gateway_settings"
"""The module that needs the extra `gateway`; this command is installed without it too."""
Row = tuple[str, str, str]
"""A key, its value as it is shown, and its source."""


def show(
    service: Annotated[
        bool, typer.Option("--service", help="Show the settings of `callability serve` in place of the gateway's.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="The config. Default: that of the gateway, or with `--service` `$CALLABILITY_SERVE_CONFIG`.",
        ),
    ] = None,
    form: JsonOption = False,
) -> None:
    """Print the settings that are in effect without options, and where each comes from; secrets are not shown.

    Exit code 0: printed. 1: the config is refused. 2: usage error.
    """
    rows = _of_service(config) if service else _of_gateway(config)
    if form:
        data = [{"key": key, "value": value, "source": source} for key, value, source in rows]
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
        return
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for key, value, source in rows:
        typer.echo(f"{key:{widths[0]}}  {value:{widths[1]}}  {source}")


def _of_service(config: Path | None) -> Sequence[Row]:
    settings = settings_or_exit({}, config)
    for name in unused_variables(os.environ):
        typer.echo(f"callability: `${name}` is not a setting, and is not used", err=True)
    return [(name, shown_value(name, each.value), each.source) for name, each in settings.items()]


def _of_gateway(config: Path | None) -> Sequence[Row]:
    try:
        settings = import_module(_GATEWAY_SETTINGS)
    except ImportError as error:
        refuse_without_extra("config show", "gateway", error)
    rows: Sequence[Row] = settings.gateway_rows(config)
    return rows
