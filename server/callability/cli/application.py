"""The command line: its commands, their help and completion, and the extra that each needs.

A call imports only the module of the command that it names.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from inspect import cleandoc
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

import callability
from callability.cli.terminal import run_guarded
from callability.contract.finding import as_code

BASE = ""
"""The extra of a command that the base installation runs."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command.

    `place` is `module:function` below `callability.cli`, and `extra` is the extra of the distribution that
    installs what the module imports. The help that lists commands shows the `summary` and imports no module.
    """

    place: str
    extra: str
    summary: str


@dataclass(frozen=True, slots=True)
class Group:
    """A group of commands, and what they are about.

    `own` runs if none of them is named.
    """

    summary: str
    commands: Mapping[str, Command]
    own: Command | None = None


COMMANDS: Mapping[str, Command | Group] = {
    "check": Command("check:check", "policy", "Prove a policy and print its findings."),
    "test": Command("test:test", "policy", "Run the tests of a policy."),
    "explain": Command("explain:explain", "policy", "Explain the answer for given facts."),
    "table": Command("explain:table", "policy", "Print the decision table of a policy."),
    "diff": Command("diff:diff", "policy", "Compare the answers of two policies."),
    "studio": Command("studio:studio", "studio", "Serve a page to view, try and edit a policy."),
    "serve": Command("serve:serve", "policy", "Answer proxies over gRPC."),
    "gateway": Command("gateway:gateway", "gateway", "Run an MCP server in front of other MCP servers."),
    "setup": Command("setup:setup", "gateway", "Set up one gateway for the MCP clients of this machine."),
    "import": Command("setup:import_servers", "gateway", "Take the servers of a client's config into the gateway."),
    "install": Command("setup:install", "gateway", "Put the gateway into a client's config."),
    "uninstall": Command("setup:uninstall", "gateway", "Restore the config of a client."),
    "connect": Command("connect:connect", "gateway", "Join the gateway that this user runs, as an agent over stdio."),
    "page": Command("connect:page", "gateway", "Open the page on which people unlock tools."),
    "why": Command("why:why", "gateway", "Say why an agent can or cannot call a tool, by file and line."),
    "preflight": Command("preflight:preflight", "gateway", "Say whether the tools that a job needs can be called."),
    "healthcheck": Command("policy_service:healthcheck", "policy", "Ask a service whether it serves."),
    "inventory": Group(
        "Write a gateway's tools and their facts as JSON, or decide tables of tools.",
        {
            "decide": Command("inventory_decide:decide", "columns", "Decide the rows of tables of tools."),
            "counts": Command("inventory_decide:counts", "columns", "Count the verdicts of tables of tools."),
            "diff": Command(
                "inventory_decide:diff", "columns", "Compare the verdicts of two policies for tables of tools."
            ),
        },
        Command("inventory:inventory", "gateway", "Write a gateway's tools and their facts as JSON."),
    ),
    "callers": Group(
        "Check the callers of a service, and make tokens for them.",
        {
            "check": Command("serve:check", "policy", "Print the findings of a callers file."),
            "token": Command("serve:token", "policy", "Write a new token, and print its entry."),
        },
    ),
    "policy": Group(
        "Export the shipped policy.",
        {"export": Command("export:export", "", "Write the shipped policy into a directory.")},
    ),
    "bundle": Group(
        "Compile a policy into one file that proxies decide from.",
        {
            "build": Command("bundle_build:build", "policy", "Compile a policy into a bundle."),
            "verify": Command("bundle:verify", BASE, "Check a bundle as a proxy does."),
            "inspect": Command("bundle:inspect", BASE, "Print what a bundle contains."),
        },
    ),
    "config": Group(
        "Check the config of a gateway, and show what is in effect.",
        {
            "check": Command("config:check", "gateway", "Print what a gateway would find in its files at start."),
            "show": Command(
                "service_settings:show", "policy", "Print the effective settings, and where each comes from."
            ),
        },
    ),
    "servers": Group(
        "List the servers of a gateway's config, add, remove and switch them, and log in to them.",
        {
            "add": Command("server_entries:add", "gateway", "Add a server to a config."),
            "remove": Command("server_entries:remove", "gateway", "Remove a server from a config."),
            "show": Command("server_entries:show", "gateway", "Show how a server is reached, and who sees it."),
            "list": Command("servers:list_servers", "gateway", "List the servers of a config."),
            "enable": Command("servers:enable", "gateway", "Switch a server on."),
            "disable": Command("servers:disable", "gateway", "Switch a server off."),
            "quarantine": Command("servers:quarantine", "gateway", "Hold a server for review."),
            "release": Command("servers:release", "gateway", "Release a server from quarantine."),
            "login": Command("servers:login", "gateway", "Log in to a server by OAuth."),
            "logout": Command("servers:logout", "gateway", "Remove the stored login of a server."),
        },
    ),
    "tools": Group(
        "Deny single tools of a server by the config of a gateway.",
        {
            "deny": Command("server_entries:deny", "gateway", "Deny tools of a server."),
            "allow": Command("server_entries:allow", "gateway", "Stop denying tools of a server."),
        },
    ),
    "agents": Group(
        "Add agents to a gateway's config, list them, and revoke their tokens.",
        {
            "add": Command("agents:add", "gateway", "Add an agent, with a token or without."),
            "list": Command("agents:list_agents", "gateway", "List the agents of a config."),
            "revoke": Command("agents:revoke", "gateway", "Revoke the token of an agent."),
        },
    ),
    "approvals": Group(
        "Review single tools of a gateway, and approve or switch them off.",
        {
            "list": Command("approvals:list_approvals", "gateway", "List the tools and their approvals."),
            "show": Command("approvals:show", "gateway", "Show a tool's definition and what changed in it."),
            "approve": Command("approvals:approve", "gateway", "Approve tools with their current definitions."),
            "disable": Command("approvals:disable", "gateway", "Switch a tool off."),
            "enable": Command("approvals:enable", "gateway", "Switch a tool on again."),
        },
    ),
    "records": Group(
        "Look at records of decisions and changes, and decide them again.",
        {
            "show": Command("records:show", "policy", "Print records."),
            "stats": Command("records:stats", "policy", "Count records by rule, agent, tool and day."),
            "replay": Command("records:replay", "policy", "Decide records again by another policy."),
        },
    ),
    "schema": Group(
        "Print or write JSON Schemas of files, for editors.",
        {
            "config": Command("config:config", "gateway", "Print the JSON Schema of the gateway's config."),
            "rules": Command("policies:rules", "policy", "Print the JSON Schema of a rule file."),
            "tests": Command("policies:cases", "policy", "Print the JSON Schema of the tests of a rule file."),
            "policy": Command("policies:every", "policy", "Write the JSON Schemas of all rule files and tests."),
            "records": Command("records:print_schema", "policy", "Print the JSON Schema of a record."),
        },
    ),
}


COMPLETING = "_CALLABILITY_COMPLETE"
"""The variable by which a completion script asks what comes next (typer's name)."""
_LINES = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""The variables that hold the line so far: bash's, and that of the other shells."""


def line_to_complete(environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the words after `callability` in the line that a shell completes; None if none is being completed.

    The names of commands come first and are never quoted, so the rest may be split at any space.
    """
    if COMPLETING not in environment:
        return None
    line = next((environment[name] for name in _LINES if name in environment), "")
    return tuple(line.split()[1:])


_POLICY = (
    *("cryptography", "durable", "grpc_health", "grpc_reflection", "grpc_status", "prometheus_client", "pydantic"),
    *("rich", "ruamel", "uvloop", "watchfiles"),
)
_PAGES = ("starlette", "uvicorn")
MODULES: Mapping[str, tuple[str, ...]] = {
    BASE: (),
    "bundle": ("cryptography",),
    "policy": _POLICY,
    "gateway": (
        *_POLICY,
        *_PAGES,
        "anyio",
        "httpx2",
        "mcp",
        "mcp_types",
        "pydantic_core",
        "tantivy",
        "tenacity",
        "tomlkit",
    ),
    "studio": (*_POLICY, *_PAGES),
    "columns": (*_POLICY, "numpy", "pyarrow"),
    "otel": ("opentelemetry",),
    "semantic": ("numpy", "tokenizers", "wordllama"),
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


_HELP = ("-h", "--help")
_READS_YAML = "ruamel"
WithoutExtra = Callable[[str, str, ImportError], Callable[..., None]]
"""What becomes of a command, by its name and its extra, if importing it failed."""


class _Commands(TyperGroup):
    """The commands; a value that an option cannot have is refused in words of ours."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = _refusal_of(error)
            raise


_BOUNDS = {
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
}
_QUOTED = re.compile(r"'([^']*)'")


def _refusal_of(error: typer.BadParameter) -> str:
    """Return why a value is refused; the library that reads it has words for those who program with it."""
    faults = getattr(error.__cause__, "errors", None)
    if faults is None:
        return error.message
    fault = faults()[0]
    if words := _BOUNDS.get(fault["type"]):
        bounds = {name: f"{bound:,}".removesuffix(".0") for name, bound in fault.get("ctx", {}).items()}
        return f"{words.format(**bounds)}, and is {as_code(str(fault['input']))}"
    return _QUOTED.sub(r"`\1`", fault["msg"].removeprefix("Value error, ").removesuffix("."))


def application(arguments: Sequence[str], without_extra: WithoutExtra = refuse_without_extra) -> typer.Typer:
    """Return the command line for a call with these arguments.

    Every command is in it, so that help lists them all; only the one that the arguments name can be run.
    `without_extra` returns the function of a command whose extra is not installed.

    Raises:
        SystemExit: the extra that the command needs is not installed, and `without_extra` is the default.
    """
    made = typer.Typer(
        name="callability",
        cls=_Commands,
        help="Say why an AI agent cannot call a tool that exists, and what it should tell its user.",
        epilog="Exit code 0: done. 1: a file is refused, or something failed. 2: usage error. Each command's help has"
        " the details.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": [*_HELP]},
    )
    made.callback()(_common)
    _add(made, COMMANDS, _leading_names(arguments), (), without_extra, helping=not {*arguments}.isdisjoint(_HELP))
    return made


def main() -> NoReturn:
    """Run the command that the arguments name, and exit with its exit code."""
    run_guarded(_run)


def _run() -> None:
    # gRPC writes lines of its own to standard error, beside the log and in another form.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    line = line_to_complete(os.environ)
    with importing():
        command = application(sys.argv[1:]) if line is None else application(line, _nothing_to_complete)
    command()


@contextmanager
def importing() -> Iterator[None]:
    """Import in this context: what stays is no garbage, and to look for some takes a sixth of the time of a start."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _leading_names(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the names at the start of the arguments, up to the first option; `--` is skipped."""
    names: list[str] = []
    for argument in arguments:
        if argument.startswith("-") and argument != "--":
            break
        names += [argument] if argument != "--" else []
    return tuple(names)


def _add(
    to: typer.Typer,
    commands: Mapping[str, Command | Group],
    named: Sequence[str],
    parents: tuple[str, ...],
    without_extra: WithoutExtra,
    *,
    helping: bool,
) -> None:
    for name, command in commands.items():
        wanted = named[:1] == (name,)
        if isinstance(command, Group):
            own = command.own if wanted and (not named[1:] or named[1] not in command.commands) else None
            # With one command it would not be a group without a callback.
            # The help of a group lists its commands, even if the extra of its own command is not installed.
            common = (
                _function(own, name, _nothing_of_its_own if helping else without_extra) if own else _nothing_in_common
            )
            # Its own command is in no list of commands, so the help of the group is the help of both.
            about = cleandoc(common.__doc__ or "") if own else ""
            alone = f"\n\nWithout a command: {about[0].lower()}{about[1:]}" if about else ""
            group = typer.Typer(help=f"{command.summary}{alone}", no_args_is_help=command.own is None)
            group.callback(invoke_without_command=command.own is not None)(common)
            _add(group, command.commands, named[1:] if wanted else (), (*parents, name), without_extra, helping=helping)
            to.add_typer(group, name=name)
        else:
            function = _function(command, " ".join((*parents, name)), without_extra) if wanted else _not_named
            to.command(name, short_help=command.summary)(function)


def _function(command: Command, name: str, without_extra: WithoutExtra) -> Callable[..., None]:
    """Return the function of a command, or what `without_extra` makes of it if its extra is not installed."""
    module, _, function = command.place.partition(":")
    try:
        found: Callable[..., None] = getattr(import_module(f"callability.cli.{module}"), function)
        # What reads YAML is imported with the first file that is read, which is too late to say which extra is missing.
        if command.extra != BASE and find_spec(_READS_YAML) is None:
            raise ModuleNotFoundError(f"No module named {_READS_YAML!r}", name=_READS_YAML)
    except ImportError as error:
        return without_extra(name, command.extra, error)
    return found


def _show_version(value: bool) -> None:  # typer calls it with the value
    if value:
        typer.echo(f"callability {callability.__version__}")
        raise typer.Exit


def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def _nothing_in_common() -> None:
    pass


def _nothing_of_its_own(name: str, extra: str, error: ImportError) -> Callable[..., None]:
    return _nothing_in_common


def _nothing_to_complete(name: str, extra: str, error: ImportError) -> Callable[..., None]:
    """Return a command without options: a press of the tab key is no place for an error."""
    return _not_named


def _not_named() -> None:
    raise AssertionError("a command ran that the arguments did not name")
