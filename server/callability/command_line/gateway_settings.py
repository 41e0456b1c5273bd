"""The keys of a gateway's config that are in effect, each with its place in the file; none of the secrets."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel

from callability.command_line.gateway_files import config_or_default
from callability.command_line.options import refuse
from callability.gateway.config import Config, ConfigRefused, load_config
from callability.gateway.config.content import content
from callability.gateway.config.default_place import VARIABLE
from callability.gateway.config.model import ConfigFile

NOT_SHOWN = "(not shown)"


def gateway_rows(given: Path | None) -> Sequence[tuple[str, str, str]]:
    """Return each key with its value and its source; exit with 1 if the config is refused, with 2 if there is none."""
    try:
        path = config_or_default(given)
        config = load_config(path, os.environ)
    except ConfigRefused as refused:
        refuse(refused.findings, "the config is refused")
    source = "--config" if given else f"${VARIABLE}" if os.environ.get(VARIABLE) else "default"
    file = ConfigFile.model_validate(content(config.root))
    return [("config", str(path), source), *_rows(file, (), config)]


def _rows(model: BaseModel, above: tuple[str, ...], config: Config) -> Iterator[tuple[str, str, str]]:
    for name, field in type(model).model_fields.items():
        key = field.alias or name
        location = (*above, key)
        value = getattr(model, name)
        if key == "$schema" or (value is None and name not in model.model_fields_set):
            continue
        source = str(config.place(*location)) if name in model.model_fields_set else "default"
        shown_key = ".".join(location)
        if not field.repr:
            if value:
                yield shown_key, NOT_SHOWN, source
        elif isinstance(value, BaseModel):
            yield from _rows(value, location, config)
        elif isinstance(value, Mapping) and any(isinstance(each, BaseModel) for each in value.values()):
            for inner, each in value.items():
                yield from _rows(each, (*location, inner), config)
        else:
            yield shown_key, _text(value), source


def _text(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case None | {}:
            return "-"
        case Mapping():
            return ", ".join(f"{key}: {_text(each)}" for key, each in value.items()) or "-"
        case tuple():
            return ", ".join(map(str, value)) or "-"
        case float():
            return f"{value:g}"
        case _:
            return str(value)
