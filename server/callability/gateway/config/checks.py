"""Checks of a config beyond its file: labels and facts that the policy does not declare, and missing commands."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from callability.adapter import DeclaredInputs, InputFault, UnreadInput
from callability.contract.finding import Finding, Severity, as_code, did_you_mean, in_order
from callability.gateway.config.config import Config
from callability.gateway.config.findings import server_subject
from callability.gateway.config.model import CatalogEntry, ServerConfig
from callability.gateway.config.variables import Unfillable, fill, unset

_PART_OF = {"uv": "uv", "uvx": "uv", "node": "Node.js", "npm": "Node.js", "npx": "Node.js"}
"""What a person installs for a command that is a part of something else."""


def missing_commands(config: Config, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a warning for each command that cannot be found; servers that are switched off are left out."""
    sections: dict[str, Mapping[str, ServerConfig | CatalogEntry]] = {
        "mcpServers": {name: server for name, server in config.servers.items() if server.enabled},
        "catalog": config.catalog,
    }
    for section, servers in sections.items():
        for name, server in servers.items():
            if server.command is not None and not _exists(server.command, server, environment):
                sentence = f"command {as_code(server.command)} of {server_subject(section, name)} is not found"
                where = "" if os.sep in server.command else ", or write its absolute path"
                at = config.place(section, name, "command")
                what = _PART_OF.get(server.command, "it")
                yield Finding(at, "missing-command", sentence, f"install {what}{where}", Severity.WARNING)


def _exists(command: str, server: ServerConfig | CatalogEntry, environment: Mapping[str, str]) -> bool:
    """Look for a command like the start of its server does: with the server's own `PATH` and from its own `cwd`."""
    if os.sep in command:
        return shutil.which(Path(server.cwd or ".") / command) is not None
    try:
        own = {} if unset(server, environment) else fill(server, environment).env
    except Unfillable:
        own = {}
    return shutil.which(command, path={**environment, **own}.get("PATH", os.defpath)) is not None


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The labels, or the declared facts, that the config gives a server, a tool or an agent, and where."""

    kind: str
    subject: str
    location: tuple[str, ...]
    values: Mapping[str, str]
    are_labels: bool


def has_labels(config: Config) -> bool:
    """Say whether a server, a tool or an agent of a config has a label or a declared fact."""
    return any(True for _ in _inputs(config))


def label_findings(config: Config, declared: DeclaredInputs | None, *, answered: bool = True) -> tuple[Finding, ...]:
    """Return a finding for each label and fact that the policy does not declare; None: what it declares is not known.

    They are warnings, and errors under `strict_labels`. `answered` is false if the policy service gave no answer.
    """
    if declared is None:
        return tuple(_not_checked(config, answered=answered))
    return in_order(_find_undeclared(config, declared))


def _not_checked(config: Config, *, answered: bool) -> Iterator[Finding]:
    if has_labels(config):
        at = config.place("strict_labels") if config.strict_labels else config.place("mcpServers")
        why = "does not say which labels it declares" if answered else "gave no answer"
        sentence = f"the labels of the config are not checked: the policy service {why}"
        hint = "use a newer service" if answered else "start the service"
        yield Finding(at, "labels-not-checked", sentence, hint, _severity(config))


def _find_undeclared(config: Config, declared: DeclaredInputs) -> Iterator[Finding]:
    for inputs in _inputs(config):
        if inputs.are_labels:
            for key, found in declared.labels.find_undeclared(inputs.kind, inputs.values):
                keys, values = declared.labels.keys(inputs.kind), declared.labels.values.get(found.fact, ())
                yield _label_finding(config, inputs, key, found, keys, values)
        else:
            for found in declared.find_undeclared(inputs.kind, inputs.values):
                fact = declared.facts.get(found.fact)
                yield _label_finding(
                    config, inputs, found.fact, found, declared.names(inputs.kind), fact.values if fact else ()
                )


def _label_finding(
    config: Config, inputs: _Inputs, key: str, found: UnreadInput, keys: Iterable[str], values: Iterable[str]
) -> Finding:
    noun = "label" if inputs.are_labels else "fact"
    has_value = found.fault is InputFault.UNDECLARED_VALUE
    hint = f"did you mean {as_code(found.near)}?" if found.near else did_you_mean("", values if has_value else keys)
    location, severity = (*inputs.location, key), _severity(config)
    if has_value:
        sentence = (
            f"{noun} {as_code(key)} of {inputs.subject} is {as_code(found.value)}, a value that the policy does not"
            f" declare, so that {_consequence(noun)}"
        )
        at = config.place(*location)
        if inputs.are_labels:
            return Finding(at, "undeclared-label-value", sentence, hint, severity)
        return Finding(at, "undeclared-fact-value", sentence, hint, severity)
    sentence = f"{noun} {as_code(key)} of {inputs.subject} is not declared by the policy, so no rule reads it"
    at = config.key_place(*location)
    if inputs.are_labels:
        return Finding(at, "undeclared-label", sentence, hint, severity)
    return Finding(at, "undeclared-fact", sentence, hint, severity)


def _consequence(noun: str) -> str:
    undetermined = "every rule that reads it is undetermined"
    return undetermined if noun == "label" else f"{undetermined}, or has its default if it is asserted"


def _inputs(config: Config) -> Iterator[_Inputs]:
    """Yield the labels and the facts of each server, tool and agent that has some."""
    return (inputs for inputs in _every_input(config) if inputs.values)


def _every_input(config: Config) -> Iterator[_Inputs]:
    for section, servers in (("mcpServers", config.servers), ("catalog", config.catalog)):
        for name, server in servers.items():
            of_server, at = f"server {as_code(name)}", (section, name)
            yield _Inputs("server", of_server, (*at, "labels"), server.labels, True)
            yield _Inputs("server", of_server, (*at, "facts"), server.facts, False)
            for tool, labels in server.tool_labels.items():
                yield _Inputs("tool", f"tool {as_code(tool)} of {of_server}", (*at, "tool_labels", tool), labels, True)
            of_tools = f"the tools of {of_server}"
            yield _Inputs("tool", of_tools, (*at, "tool_fact_defaults"), server.tool_fact_defaults, False)
            for tool, facts in server.tool_facts.items():
                yield _Inputs("tool", f"tool {as_code(tool)} of {of_server}", (*at, "tool_facts", tool), facts, False)
    for name, agent in config.agents.items():
        subject, at = f"agent {as_code(name)}", ("agents", name)
        yield _Inputs("agent", subject, (*at, "labels"), agent.labels, True)
        yield _Inputs("agent", subject, (*at, "facts"), agent.facts, False)


def _severity(config: Config) -> Severity:
    return Severity.ERROR if config.strict_labels else Severity.WARNING
