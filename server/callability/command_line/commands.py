"""The list of commands: the module of each, the extra that it needs, and its help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

BASE = ""
"""The extra of a command that the base installation runs."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command.

    `place` is `module:function` below `callability.command_line`, and `extra` is the extra of the distribution that
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
    "table": Command("table:table", "policy", "Print the decision table of a policy."),
    "diff": Command("diff:diff", "policy", "Compare the answers of two policies."),
    "studio": Command("studio:studio", "studio", "Serve a page to view, try and edit a policy."),
    "serve": Command("serve:serve", "policy", "Answer proxies over gRPC."),
    "gateway": Command("gateway:gateway", "gateway", "Run an MCP server in front of other MCP servers."),
    "healthcheck": Command("healthcheck:healthcheck", "policy", "Ask a service whether it serves."),
    "inventory": Group(
        "Write a gateway's tools and their facts as JSON, or decide tables of tools.",
        {
            "decide": Command("inventory_decide:decide", "columns", "Decide the rows of tables of tools."),
            "counts": Command("inventory_counts:counts", "columns", "Count the verdicts of tables of tools."),
            "diff": Command(
                "inventory_diff:diff", "columns", "Compare the verdicts of two policies for tables of tools."
            ),
        },
        Command("inventory:inventory", "gateway", "Write a gateway's tools and their facts as JSON."),
    ),
    "callers": Group(
        "Check the callers of a service, and make tokens for them.",
        {
            "check": Command("callers:check", "policy", "Print the findings of a callers file."),
            "token": Command("callers:token", "policy", "Write a new token, and print its entry."),
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
            "verify": Command("bundle_file:verify", BASE, "Check a bundle as a proxy does."),
            "inspect": Command("bundle_file:inspect", BASE, "Print what a bundle contains."),
        },
    ),
    "config": Group(
        "Check the config of a gateway, and show what is in effect.",
        {
            "check": Command("config:check", "gateway", "Print what a gateway would find in its files at start."),
            "show": Command("config_show:show", "policy", "Print the effective settings, and where each comes from."),
        },
    ),
    "servers": Group(
        "List the servers of a gateway's config, and switch them on or off.",
        {
            "list": Command("servers:list_servers", "gateway", "List the servers of a config."),
            "enable": Command("servers:enable", "gateway", "Switch a server on."),
            "disable": Command("servers:disable", "gateway", "Switch a server off."),
            "quarantine": Command("servers:quarantine", "gateway", "Hold a server for review."),
            "release": Command("servers:release", "gateway", "Release a server from quarantine."),
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
    "schema": Group(
        "Print or write JSON Schemas of files, for editors.",
        {
            "config": Command("schema_config:config", "gateway", "Print the JSON Schema of the gateway's config."),
            "rules": Command("schema:rules", "policy", "Print the JSON Schema of a rule file."),
            "tests": Command("schema:cases", "policy", "Print the JSON Schema of the tests of a rule file."),
            "policy": Command("schema:every", "policy", "Write the JSON Schemas of all rule files and tests."),
        },
    ),
}
