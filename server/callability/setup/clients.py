"""The MCP clients that callability reads and writes the configs of, as data from their documentation.

Of each: where its file is, in which form, under which key its servers are, how its keys and variables translate, and
what the entry of callability looks like there. Only the paths on Linux have been run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

COMMAND, ARGUMENTS, LINE = "{command}", "{arguments}", "{line}"
"""In the entry of a client: the program, its arguments, and both as one list."""
ENTRY_NAME = "callability"


class ConfigForm(StrEnum):
    """How a file is written."""

    JSON = "json"
    YAML = "yaml"
    TOML = "toml"


class Variables(StrEnum):
    """How a client writes environment variables in its config."""

    NONE = "none"
    SHELL = "${NAME}, ${NAME:-default}"
    PREFIXED = "${env:NAME}"
    DOLLAR = "$NAME, ${NAME}"
    BRACES = "{env:NAME}"


_STDIO = {"command": COMMAND, "args": ARGUMENTS}
_DIALOGS = "it only silences dialogs of the client; the gateway has none"
_NO_SANDBOX = "the client runs it in a sandbox, and the gateway has none"
_COMMON_KEYS = {"command": "command", "args": "args", "env": "env", "cwd": "cwd", "url": "url", "headers": "headers"}
_COMMON_LEFT_OUT = {
    "alwaysAllow": _DIALOGS,
    "autoApprove": _DIALOGS,
    "autoApproved": _DIALOGS,
    "description": "it is text for people",
    "name": "it is text for people",
    "icon": "it is text for people",
}
_OWN_OAUTH = "it has settings of OAuth, which the gateway does not take from a client"
_COMMON_REFUSING = {"oauth": _OWN_OAUTH, "auth": _OWN_OAUTH}


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the servers of a client translate.

    `keys` are the client's names of our keys. `seconds` are keys with a time, each with our deadline and how many
    seconds its unit has. `left_out` keys change nothing that a server may do; a `refusing` key keeps its server at the
    client, unless its value is false or empty. Each has its reason.
    """

    variables: Variables = Variables.NONE
    keys: Mapping[str, str] = field(default_factory=lambda: dict(_COMMON_KEYS))
    seconds: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=lambda: dict(_COMMON_LEFT_OUT))
    refusing: Mapping[str, str] = field(default_factory=lambda: dict(_COMMON_REFUSING))
    allowed_tools: str = ""
    denied_tools: str = ""
    url_is_sse: bool = False
    """A `url` without a type is that of HTTP+SSE."""
    trust: str = ""
    """The trust of every server, if it is not the default: its tools need approvals that cannot be read."""
    approvals_left: str = ""
    """Why the approvals of its tools are not taken, if it has some."""


@dataclass(frozen=True, slots=True)
class McpClient:
    """A client: `name` is that of its agent, and the paths are relative to the home directory.

    `cannot_be_installed` is a reason, empty if our entry can be written. `processes` are the names by which a running
    one is found. `source` and `date` are where the data comes from, and when it was read.
    """

    name: str
    title: str
    linux: Sequence[str]
    macos: Sequence[str]
    windows: Sequence[str]
    source: str
    date: str
    keys: Sequence[str] = ("mcpServers",)
    form: ConfigForm = ConfigForm.JSON
    project: str = ""
    entry: Mapping[str, object] = field(default_factory=lambda: dict(_STDIO))
    dialect: Dialect = field(default_factory=Dialect)
    reload: str = "restart it"
    limit: str = ""
    cannot_be_installed: str = ""
    processes: Sequence[str] = ()

    def files(self, home: Path) -> tuple[Path, ...]:
        """Return where its config of a user may be on this platform, the usual place first."""
        return tuple(home / place for place in self.places(sys.platform))

    def places(self, platform: str) -> Sequence[str]:
        """Return the paths on a platform, as `sys.platform` names it."""
        return self.macos if platform == "darwin" else self.windows if platform == "win32" else self.linux

    def filled_entry(self, command: Sequence[str]) -> dict[str, object]:
        """Return the entry of callability in the client's form, for a command line."""
        values: dict[object, object] = {COMMAND: command[0], ARGUMENTS: [*command[1:]], LINE: [*command]}
        return {key: values.get(value, value) if isinstance(value, str) else value for key, value in self.entry.items()}


def moved_by_environment(client: McpClient) -> Path | None:
    """Return the file that a variable of the client names instead of the usual place."""
    if client.name == "codex" and os.path.isabs(os.environ.get("CODEX_HOME", "")):
        return Path(os.environ["CODEX_HOME"], "config.toml")
    if client.name == "opencode" and os.path.isabs(os.environ.get("OPENCODE_CONFIG", "")):
        return Path(os.environ["OPENCODE_CONFIG"])
    return None


_CODE = {"linux": ".config/Code/User", "macos": "Library/Application Support/Code/User"}
_WINDOWS_CODE = "AppData/Roaming/Code/User"
_CLINE = "globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"

CLIENTS: Sequence[McpClient] = (
    McpClient(
        name="claude-desktop",
        title="Claude Desktop",
        # There is no official build for Linux; the builds that exist look here.
        linux=(".config/Claude/claude_desktop_config.json",),
        macos=("Library/Application Support/Claude/claude_desktop_config.json",),
        windows=("AppData/Roaming/Claude/claude_desktop_config.json",),
        source="https://modelcontextprotocol.io/docs/develop/connect-local-servers",
        date="2026-11",
        dialect=Dialect(
            keys={"command": "command", "args": "args", "env": "env", "cwd": "cwd"},
            refusing={**_COMMON_REFUSING, "url": "the client runs servers on stdio alone"},
        ),
        reload="quit it, and start it again",
        processes=("claude-desktop", "Claude"),
    ),
    McpClient(
        name="claude-code",
        title="Claude Code",
        linux=(".claude.json",),
        macos=(".claude.json",),
        windows=(".claude.json",),
        project=".mcp.json",
        source="https://code.claude.com/docs/en/mcp",
        date="2026-11",
        entry={"type": "stdio", **_STDIO},
        dialect=Dialect(
            Variables.SHELL,
            seconds={"timeout": ("call_seconds", 0.001)},
            refusing={
                **_COMMON_REFUSING,
                "headersHelper": "a command of the client makes its headers",
            },
        ),
        reload="start a new session",
        limit="answers of more than 25,000 tokens are cut (`MAX_MCP_OUTPUT_TOKENS`)",
        processes=("claude",),
    ),
    McpClient(
        name="cursor",
        title="Cursor",
        linux=(".cursor/mcp.json",),
        macos=(".cursor/mcp.json",),
        windows=(".cursor/mcp.json",),
        project=".cursor/mcp.json",
        source="https://cursor.com/docs/mcp",
        date="2026-11",
        entry={"type": "stdio", **_STDIO},
        dialect=Dialect(Variables.PREFIXED, keys={**_COMMON_KEYS, "envFile": "env_file"}),
        reload="reloads by itself, or by the switch in its settings",
        limit="names of server and tool together have at most 60 characters",
        processes=("cursor", "Cursor"),
    ),
    McpClient(
        name="vscode",
        title="VS Code",
        linux=(f"{_CODE['linux']}/mcp.json",),
        macos=(f"{_CODE['macos']}/mcp.json",),
        windows=(f"{_WINDOWS_CODE}/mcp.json",),
        keys=("servers",),
        project=".vscode/mcp.json",
        source="https://code.visualstudio.com/docs/copilot/reference/mcp-configuration",
        date="2026-05-20",
        entry={"type": "stdio", **_STDIO},
        dialect=Dialect(
            Variables.PREFIXED,
            keys={**_COMMON_KEYS, "envFile": "env_file"},
            left_out={
                **_COMMON_LEFT_OUT,
                "dev": "it is for the development of a server",
                "gallery": "it says where the server was installed from",
                "version": "it says what was installed",
            },
            refusing={**_COMMON_REFUSING, "sandboxEnabled": _NO_SANDBOX},
        ),
        reload="reloads by itself; it may ask whether you trust the server",
        limit="128 tools a request",
        processes=("code",),
    ),
    McpClient(
        name="windsurf",
        title="Windsurf",
        linux=(".codeium/windsurf/mcp_config.json", ".codeium/mcp_config.json"),
        macos=(".codeium/windsurf/mcp_config.json", ".codeium/mcp_config.json"),
        windows=(".codeium/windsurf/mcp_config.json", ".codeium/mcp_config.json"),
        source="https://docs.windsurf.com/windsurf/cascade/mcp",
        date="2026-11",
        dialect=Dialect(Variables.PREFIXED, keys={**_COMMON_KEYS, "serverUrl": "url"}, denied_tools="disabledTools"),
        reload="press the refresh button of its MCP settings",
        limit="100 tools in all",
        processes=("windsurf", "Windsurf"),
    ),
    McpClient(
        name="cline",
        title="Cline",
        linux=(f"{_CODE['linux']}/{_CLINE}",),
        macos=(f"{_CODE['macos']}/{_CLINE}",),
        windows=(f"{_WINDOWS_CODE}/{_CLINE}",),
        source="https://docs.cline.bot/mcp/configuring-mcp-servers",
        date="2026-11",
        dialect=Dialect(
            Variables.PREFIXED,
            seconds={"timeout": ("call_seconds", 1.0)},
            url_is_sse=True,
        ),
        reload="reloads by itself",
        processes=("code",),
    ),
    McpClient(
        name="zed",
        title="Zed",
        linux=(".config/zed/settings.json",),
        macos=(".config/zed/settings.json",),
        windows=("AppData/Roaming/Zed/settings.json",),
        keys=("context_servers",),
        project=".zed/settings.json",
        source="https://zed.dev/docs/ai/mcp",
        date="2026-11",
        entry={"source": "custom", **_STDIO, "env": {}},
        dialect=Dialect(
            seconds={"timeout": ("call_seconds", 0.001)},
            left_out={**_COMMON_LEFT_OUT, "source": "it says who wrote the entry"},
            refusing={**_COMMON_REFUSING, "settings": "an extension of the client provides it"},
        ),
        reload="reloads by itself",
        processes=("zed", "zed-editor"),
    ),
    McpClient(
        name="gemini",
        title="Gemini CLI",
        linux=(".gemini/settings.json",),
        macos=(".gemini/settings.json",),
        windows=(".gemini/settings.json",),
        project=".gemini/settings.json",
        source="https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md",
        date="2026-11",
        dialect=Dialect(
            Variables.DOLLAR,
            keys={**_COMMON_KEYS, "httpUrl": "url"},
            seconds={"timeout": ("call_seconds", 0.001)},
            left_out={**_COMMON_LEFT_OUT, "trust": _DIALOGS},
            refusing={
                **_COMMON_REFUSING,
                "authProviderType": _OWN_OAUTH,
                "targetAudience": _OWN_OAUTH,
                "targetServiceAccount": _OWN_OAUTH,
            },
            allowed_tools="includeTools",
            denied_tools="excludeTools",
            url_is_sse=True,
        ),
        reload="start it again, or `/mcp refresh`",
        limit="names of tools have at most 63 characters",
        processes=("gemini",),
    ),
    McpClient(
        name="codex",
        title="Codex",
        linux=(".codex/config.toml",),
        macos=(".codex/config.toml",),
        windows=(".codex/config.toml",),
        keys=("mcp_servers",),
        form=ConfigForm.TOML,
        project=".codex/config.toml",
        source="https://developers.openai.com/codex/mcp",
        date="2026-11",
        dialect=Dialect(
            keys={
                **_COMMON_KEYS,
                "http_headers": "headers",
                "env_vars": "inherit",
                "env_http_headers": "headers from variables",
                "bearer_token_env_var": "bearer from a variable",
            },
            seconds={
                "startup_timeout_sec": ("open_seconds", 1.0),
                "startup_timeout_ms": ("open_seconds", 0.001),
                "tool_timeout_sec": ("call_seconds", 1.0),
            },
            left_out={
                **_COMMON_LEFT_OUT,
                "required": "it stops the client if the server does not start",
                "supports_parallel_tool_calls": "the gateway calls in parallel",
                "default_tools_approval_mode": _DIALOGS,
                "tools": _DIALOGS,
            },
            refusing={
                **_COMMON_REFUSING,
                "scopes": _OWN_OAUTH,
                "oauth_resource": _OWN_OAUTH,
                "experimental_environment": "it runs on another machine",
                "bearer_token": "the client refuses this key itself",
            },
            allowed_tools="enabled_tools",
            denied_tools="disabled_tools",
        ),
        reload="start a new session",
        processes=("codex",),
    ),
    McpClient(
        name="goose",
        title="Goose",
        linux=(".config/goose/config.yaml",),
        macos=(".config/goose/config.yaml",),
        windows=("AppData/Roaming/Block/goose/config/config.yaml",),
        keys=("extensions",),
        form=ConfigForm.YAML,
        source="https://block.github.io/goose/docs/guides/config-files",
        date="2026-11",
        entry={
            "type": "stdio",
            "enabled": True,
            "name": ENTRY_NAME,
            "description": "The MCP servers of this machine",
            "cmd": COMMAND,
            "args": ARGUMENTS,
            "timeout": 300,
        },
        dialect=Dialect(
            keys={"cmd": "command", "args": "args", "envs": "env", "uri": "url", "headers": "headers", "cwd": "cwd"},
            seconds={"timeout": ("call_seconds", 1.0)},
            left_out={
                **_COMMON_LEFT_OUT,
                "display_name": "it is text for people",
                "bundled": "it says where the extension comes from",
            },
            refusing={
                **_COMMON_REFUSING,
                "env_keys": "the client has values of it in a store of its own",
            },
            allowed_tools="available_tools",
        ),
        reload="start a new session",
        processes=("goose", "goosed"),
    ),
    McpClient(
        name="opencode",
        title="opencode",
        linux=(".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"),
        macos=(".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"),
        windows=(".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"),
        keys=("mcp",),
        project="opencode.json",
        source="https://opencode.ai/docs/mcp-servers",
        date="2026-11",
        entry={"type": "local", "command": LINE, "enabled": True},
        dialect=Dialect(
            Variables.BRACES,
            keys={**_COMMON_KEYS, "environment": "env"},
            left_out={**_COMMON_LEFT_OUT, "timeout": "it is for the list of tools"},
        ),
        reload="start it again",
        processes=("opencode",),
    ),
    McpClient(
        name="mcpproxy-go",
        title="mcpproxy-go",
        linux=(".mcpproxy/mcp_config.json",),
        macos=(".mcpproxy/mcp_config.json",),
        windows=(".mcpproxy/mcp_config.json",),
        source="https://github.com/smart-mcp-proxy/mcpproxy-go/blob/main/docs/configuration/upstream-servers.md",
        date="2026-11",
        dialect=Dialect(
            Variables.PREFIXED,
            keys={**_COMMON_KEYS, "working_dir": "cwd"},
            left_out={
                **_COMMON_LEFT_OUT,
                "created": "it says when the entry was made",
                "updated": "it says when the entry was changed",
                "health_check_interval": "the gateway has its own",
                "tool_discovery_interval": "it is `deadlines: {refresh_seconds: SECONDS}` here",
                "max_concurrent_requests": "the gateway has its own limits",
                "queue_size": "the gateway has its own limits",
                "queue_timeout": "the gateway has its own limits",
                "annotation_overrides": "the gateway does not change annotations",
                "skip_quarantine": "its approvals are not taken",
            },
            refusing={
                **_COMMON_REFUSING,
                "isolation": "the proxy runs it in a container, and the gateway does not",
                "auth_broker": _OWN_OAUTH,
            },
            allowed_tools="enabled_tools",
            denied_tools="disabled_tools",
            trust="manual",
            approvals_left="they are in `config.db`, a database of its own, which callability does not read",
        ),
        cannot_be_installed="it is a proxy itself: its servers are read, and it is not changed",
        processes=("mcpproxy",),
    ),
)


def client_named(name: str) -> McpClient | None:
    """Return a client by its name."""
    return next((client for client in CLIENTS if client.name == name), None)
