"""Where the config is if no option names it: in the user's configuration directory, and never in the current one."""

from __future__ import annotations

import os
from pathlib import Path

from typer import get_app_dir

from callability.finding import Finding, Place, shown
from callability.gateway.config.config import ConfigRefused

VARIABLE = "CALLABILITY_CONFIG"
NAMES = ("gateway.yaml", "gateway.json")
_APP = "callability"


class NoConfig(Exception):
    """No config was given and none is in the default place; the message says where it was looked for."""


def default_config() -> Path:
    """Return the file that `$CALLABILITY_CONFIG` names, or else the one in the user's configuration directory.

    Raises:
        NoConfig: there is none, or the variable holds a relative path.
        ConfigRefused: the directory holds two, and either could be meant.
    """
    named = os.environ.get(VARIABLE, "")
    if named:
        if not os.path.isabs(named):
            raise NoConfig(f"`${VARIABLE}` must be an absolute path, and is {shown(named)}")
        return Path(named)
    directory = _directory()
    if directory is None:
        raise NoConfig(f"no config: give `--config`, or set `${VARIABLE}`; the home directory is not known")
    there = [directory / name for name in NAMES if os.path.lexists(directory / name)]
    if not there:
        places = " or ".join(shown(str(directory / name)) for name in NAMES)
        raise NoConfig(f"no config: give `--config`, set `${VARIABLE}`, or write {places}")
    if len(there) > 1:
        sentence = f"`{there[1].name}` is in the same directory, and only one of the two can be the config"
        raise ConfigRefused(
            (Finding(Place(str(there[0])), "two-configs", sentence, "remove one, or name one with `--config`"),)
        )
    return there[0]


def is_found_without_option(config: Path) -> bool:
    """Say whether a command finds a config by itself, from any directory and with nothing set but the home directory.

    So a command that an agent passes on to its user works in a shell that knows nothing of the gateway's environment.
    """
    home = os.path.expanduser("~")
    moved = os.environ.get("XDG_CONFIG_HOME", "")
    others = [config.with_name(name) for name in NAMES if name != config.name]
    return (
        config.name in NAMES
        and config.parent == _directory()
        and (not os.path.isabs(moved) or Path(moved) == Path(home, ".config"))
        and not any(map(os.path.lexists, others))
    )


def _directory() -> Path | None:
    """Return the user's configuration directory, None if the home directory is not known.

    A relative `$XDG_CONFIG_HOME` does not count: it would mean the current directory.
    """
    directory = Path(get_app_dir(_APP))
    if directory.is_absolute():
        return directory
    home = os.path.expanduser("~")
    return Path(home, ".config", _APP) if os.path.isabs(home) else None
