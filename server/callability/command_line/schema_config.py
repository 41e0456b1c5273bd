"""`callability schema config`: write the schema of the gateway's config, for editors or for people."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from callability.gateway.config.page import config_page
from callability.gateway.config.schema import config_schema


def config(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a page for people instead, with the approvals file.")
    ] = False,
) -> None:
    """Print the JSON Schema of the gateway's config, for editors."""
    typer.echo(config_page() if markdown else json.dumps(config_schema(), indent=2), nl=not markdown)
