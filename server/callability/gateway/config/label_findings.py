"""Compares the labels of the config with those that the policy declares: a typo would open what a rule locks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from callability.adapter import DeclaredLabels, InputFault, UnreadInput
from callability.finding import Finding, Severity, did_you_mean, in_order, shown
from callability.gateway.config import Config


def has_labels(config: Config) -> bool:
    """Say whether any server of a config has a label, or a tool of one."""
    return any(True for _ in _labels(config))


def label_findings(config: Config, declared: DeclaredLabels | None, *, answered: bool = True) -> tuple[Finding, ...]:
    """Return a finding for each label that the policy does not declare; None: what it declares is not known.

    They are warnings, and errors under `strict_labels`. `answered` is false if the policy service gave no answer.
    """
    if declared is None:
        return tuple(_not_checked(config, answered=answered))
    return in_order(_undeclared(config, declared))


def _not_checked(config: Config, *, answered: bool) -> Iterator[Finding]:
    if has_labels(config):
        at = config.place("strict_labels") if config.strict_labels else config.place("mcpServers")
        why = "does not say which labels it declares" if answered else "gave no answer"
        sentence = f"the labels of the config are not checked: the policy service {why}"
        hint = "use a newer service" if answered else "start the service"
        yield Finding(at, "labels-not-checked", sentence, hint, _severity(config))


def _undeclared(config: Config, declared: DeclaredLabels) -> Iterator[Finding]:
    for kind, location, labels in _labels(config):
        for key, found in declared.undeclared(kind, labels):
            known = declared.keys(kind) if found.fault is InputFault.UNDECLARED_LABEL else declared.values[found.fact]
            hint = f"did you mean {shown(found.near)}?" if found.near else did_you_mean("", known)
            yield _finding(config, kind, (*location, key), found, hint)


def _finding(config: Config, kind: str, location: tuple[str, ...], found: UnreadInput, hint: str) -> Finding:
    _, server, *_, key = location
    subject = f"server {shown(server)}" if kind == "server" else f"tool {shown(location[-2])} of server {shown(server)}"
    if found.fault is InputFault.UNDECLARED_LABEL:
        sentence = f"label {shown(key)} of {subject} is not declared by the policy, so no rule reads it"
        return Finding(config.key_place(*location), "undeclared-label", sentence, hint, _severity(config))
    sentence = (
        f"label {shown(key)} of {subject} is {shown(found.value)}, a value that the policy does not declare, so that"
        " every rule that reads it is undetermined"
    )
    return Finding(config.place(*location), "undeclared-label-value", sentence, hint, _severity(config))


def _labels(config: Config) -> Iterator[tuple[str, tuple[str, ...], Mapping[str, str]]]:
    """Yield the labels of each server and tool that has some, with their kind and location."""
    for section, servers in (("mcpServers", config.servers), ("catalog", config.catalog)):
        for name, server in servers.items():
            if server.labels:
                yield "server", (section, name, "labels"), server.labels
            for tool, labels in server.tool_labels.items():
                if labels:
                    yield "tool", (section, name, "tool_labels", tool), labels


def _severity(config: Config) -> Severity:
    return Severity.ERROR if config.strict_labels else Severity.WARNING
