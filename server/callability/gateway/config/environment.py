"""Finds what the environment of a gateway lacks for its config: variables that are not set, and values that do not fit.

Servers of the catalog are left out: an agent that enables one learns what is not set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from callability import document
from callability.document import Node
from callability.finding import Finding, Severity, shown
from callability.gateway.config.disagreements import server_subject
from callability.gateway.config.model import ServerConfig
from callability.gateway.config.place import place
from callability.gateway.config.variables import FILLED, Unfillable, filled, unset, unset_in

_SECTION = "mcpServers"


def unset_variables(root: Node, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding for each variable that is not set and has no default, whatever else is wrong with the file."""
    servers = root.get(_SECTION) if isinstance(root, document.Mapping) else None
    for name, server in servers.entries if isinstance(servers, document.Mapping) else ():
        for key, value in server.entries if isinstance(server, document.Mapping) else ():
            if key.value in FILLED:
                subject = f"`{key.value}` of {server_subject(_SECTION, str(name.value))}"
                yield from _unset(value, subject, environment, _severity(server))


def unfit_variables(
    root: Node, servers: Mapping[str, ServerConfig], environment: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield a finding for each key that its variables make invalid, such as a line break in a header."""
    for name, server in servers.items():
        if unset(server, environment):
            continue
        try:
            filled(server, environment)
        except Unfillable as error:
            for key in error.keys:
                sentence = f"`{key}` of {server_subject(_SECTION, name)} is invalid after its variables are filled in"
                hint = "check the values of the variables in the environment of the gateway"
                severity = Severity.ERROR if server.enabled else Severity.WARNING
                yield Finding(place(root, (_SECTION, name, key)), "unfit-variable", sentence, hint, severity)


def _unset(node: Node, subject: str, environment: Mapping[str, str], severity: Severity) -> Iterator[Finding]:
    match node:
        case document.Mapping(entries=entries):
            for _, value in entries:
                yield from _unset(value, subject, environment, severity)
        case document.Sequence(items=items):
            for item in items:
                yield from _unset(item, subject, environment, severity)
        case document.Scalar(value=str() as text):
            for variable in unset_in(text, environment):
                state = "empty" if variable in environment else "not set"
                sentence = f"{subject} needs the environment variable {shown(variable)}, which is {state}"
                hint = f"set it for the gateway, or give it a default: `${{{variable}:-DEFAULT}}`"
                yield Finding(node.place, "unset-variable", sentence, hint, severity)


def _severity(server: Node) -> Severity:
    """Return a warning for a disabled server: it is not connected."""
    enabled = server.get("enabled") if isinstance(server, document.Mapping) else None
    disabled = isinstance(enabled, document.Scalar) and enabled.value is False
    return Severity.WARNING if disabled else Severity.ERROR
