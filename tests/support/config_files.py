"""Configs of the gateway as text: sound, faulty, and drawn."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from callability.gateway.config.model import ServerConfig

WHOLE = """\
approvals: state/approvals.yaml
deadlines: {call_seconds: 30, open_seconds: 2.5}
mcpServers:
  zulu:
    command: python
    args: [-m, files, "8080"]
    env: {TOKEN: "${TOKEN}"}
    cwd: /srv
    type: stdio
    quarantined: true
    trust: manual
    disabled_tools: [delete_file, Move]
    labels: {team: storage}
    tool_labels: {read_file: {risk: low}}
  alpha:
    url: https://example.com:8443/mcp
    headers: {Authorization: "Bearer ${TOKEN}"}
    type: streamable-http
    enabled: false
    enabled_tools: [search]
"""

AGENTS = """\
mcpServers: {files: {command: x}, git: {command: x}}
agents:
"""

DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

ONE = "mcpServers:\n  files:\n    "

FAULTY = {
    "a key and a level of records that are not known, and no place of the tokens": (
        ONE + "command: x\nrecords: {lvel: all, level: evrything}\ntokens: flie",
        [
            "4:1: `records` has no `to`",
            "4:11: unknown key `lvel` in `records` (did you mean `level`?)",
            "4:29: `records.level` is `evrything`, which is not known (one of `all`, `refused`)",
            "5:9: `tokens` is `flie`, which is not known (did you mean `file`?)",
        ],
    ),
    "a key that is nearly known": (
        ONE + "comand: x\n    url: http://h",
        ["3:5: unknown key `comand` in server `files` (did you mean `command`?)"],
    ),
    "disabled: true, which other programs use": (
        ONE + "command: x\n    disabled: true",
        ["4:5: unknown key `disabled` in server `files` (write `enabled: false`)"],
    ),
    "disabled: false, too": (
        ONE + "command: x\n    disabled: false",
        ["4:5: unknown key `disabled` in server `files` (write `enabled: true`)"],
    ),
    "a key of another program": (
        ONE + "serverUrl: http://hunter2\n    url: http://h",
        ["3:5: unknown key `serverUrl` in server `files` (write `url`)"],
    ),
    "a key that is near nothing": (
        "mcpServers: {}\nzzz: 1",
        [
            "2:1: unknown key `zzz` (one of `agents`, `approvals`, `catalog`, `deadlines`, `http`, `mcpServers`,"
            " `records`, `strict_labels`, `tokens`)"
        ],
    ),
    "a key of a server that is near nothing": (
        ONE + "command: x\n    zzz: 1",
        [
            "4:5: unknown key `zzz` in server `files` (one of `command`, `args`, `env`, `env_file`, `inherit`, `cwd`, "
            "`url`, `headers`, `type`, `oauth`, `trust`, `enabled_tools`, `disabled_tools`, `labels`, `tool_labels`, "
            "`facts`, "
            "`tool_facts`, `tool_fact_defaults`, `deadlines`, `enabled` and 1 more)"
        ],
    ),
    "a key of the deadlines": (
        "mcpServers: {}\ndeadlines: {call: 3}",
        [
            "2:13: unknown key `call` in `deadlines` (one of `call_max_seconds`, `call_seconds`, `dialog_seconds`,"
            " `enable_seconds`, `open_seconds`, `recheck_seconds`, `refresh_seconds`, `reopen_seconds`)"
        ],
    ),
    "a word with a line break": (
        'mcpServers: {}\n"a\\nb`c": 1',
        [
            "2:1: unknown key `a\\u000ab\\u0060c` (one of `agents`, `approvals`, `catalog`, `deadlines`, `http`,"
            " `mcpServers`, `records`, `strict_labels`, `tokens`)"
        ],
    ),
    "servers under a misspelled key": (
        "mcpServer: {files: {command: x}}",
        ["1:1: unknown key `mcpServer` (did you mean `mcpServers`?)"],
    ),
    "an agent whose servers are under a misspelled key": (
        "mcpServers: {files: {command: x}}\nagents: {a: {server: [files]}}",
        ["2:14: unknown key `server` in agent `a` (did you mean `servers`?)"],
    ),
    "no servers": (
        "deadlines: {}",
        ["1:1: the file has no `mcpServers` (write `mcpServers: {}` for none)"],
    ),
    "a file that is a list": ("- a", ["1:1: the file is a list, but must be a mapping"]),
    "an empty file": ("", [" is empty"]),
    "servers that are a list": (
        "mcpServers: [a]",
        ["1:13: `mcpServers` is a list, but must be a mapping"],
    ),
    "a server without a value": (
        "mcpServers: {a: }",
        ["1:14: server `a` has no value (give it one, or leave the key out)"],
    ),
    "a server's name": (
        "mcpServers: {a b: {command: x}}",
        ["1:14: server `a b` is not named with 1 to 128 of `A-Za-z0-9_.-`"],
    ),
    "no name at all": (
        'mcpServers: {"": {command: x}}',
        ["1:14: server `` is not named with 1 to 128 of `A-Za-z0-9_.-`"],
    ),
    "a name that is too long": (
        f"mcpServers: {{{'a' * 129}: {{command: x}}}}",
        [f"1:14: server `{'a' * 127}…` is not named with 1 to 128 of `A-Za-z0-9_.-`"],
    ),
    "two transports": (
        ONE + "url: http://h\n    command: x\n    headers: {}\n    args: []",
        ["4:5: server `files` has both `command` and `url` (keep one of them)"],
    ),
    "no transport": (
        ONE + "enabled: true",
        ["2:3: server `files` has neither `command` nor `url` (give it one of them)"],
    ),
    "keys of a process on a url": (
        ONE + "url: http://h\n    args: [hunter2]\n    env: {A: hunter2}\n    cwd: /",
        [
            "4:5: `args` of server `files` does not go with `url` (it belongs to a server with `command`)",
            "5:5: `env` of server `files` does not go with `url` (it belongs to a server with `command`)",
            "6:5: `cwd` of server `files` does not go with `url` (it belongs to a server with `command`)",
        ],
    ),
    "headers on a process": (
        ONE + "command: x\n    headers: {A: hunter2}",
        ["4:5: `headers` of server `files` does not go with `command` (it belongs to a server with `url`)"],
    ),
    "a type that says http of a process": (
        ONE + "command: x\n    type: streamable-http",
        [
            "4:11: `type` of server `files` is `streamable-http`, but the server has `command` "
            "(write `type: stdio`, or leave it out)"
        ],
    ),
    "a type that says stdio of a url": (
        ONE + "url: http://h\n    type: stdio",
        ["4:11: `type` of server `files` is `stdio`, but the server has `url` (write `type: http`, or leave it out)"],
    ),
    "a type that is not known": (
        ONE + "url: http://h\n    type: rest",
        ["4:11: `type` of server `files` is `rest`, which is not known (one of `http`, `sse`, `stdio`)"],
    ),
    "the older transport of HTTP for a command": (
        ONE + "command: x\n    type: sse",
        [
            "4:11: `type` of server `files` is `sse`, but the server has `command` (write `type: stdio`, or leave it"
            " out)"
        ],
    ),
    "a transport of another client that is not known": (
        ONE + "url: http://h\n    transport: sse",
        ["4:5: unknown key `transport` in server `files` (write `type`)"],
    ),
    "another type that is not known": (
        ONE + "url: http://h\n    type: websocket",
        ["4:11: `type` of server `files` is `websocket`, which is not known (one of `http`, `sse`, `stdio`)"],
    ),
    "a trust that is a truth value": (
        ONE + "url: http://h\n    trust: true",
        ["4:12: `trust` of server `files` is a truth value, but must be text (one of `auto`, `first_use`, `manual`)"],
    ),
    "keys of other clients": (
        ONE + "command: x\n    disabled: 1\n    autoApprove: []\n    alwaysAllow: [a]\n    timeout: 60\n"
        "    transport: stdio\n    excludeTools: [a]\n    envFile: .env\n    oauth: {}",
        [
            "4:5: unknown key `disabled` in server `files` (write `enabled`, with `true` or `false`)",
            "5:5: unknown key `autoApprove` in server `files` (leave it out: the gateway asks for no confirmation;"
            " `disabled_tools` lists the tools that it refuses)",
            "6:5: unknown key `alwaysAllow` in server `files` (leave it out: the gateway asks for no confirmation;"
            " `disabled_tools` lists the tools that it refuses)",
            "7:5: unknown key `timeout` in server `files` (write `deadlines: {call_seconds: SECONDS}`)",
            "8:5: unknown key `transport` in server `files` (write `type`)",
            "9:5: unknown key `excludeTools` in server `files` (write `disabled_tools`)",
            "10:5: unknown key `envFile` in server `files` (write `env_file`)",
            "11:5: `oauth` of server `files` does not go with `command` (it belongs to a server with `url`)",
        ],
    ),
    "an address by another client's name": (
        ONE + "httpUrl: http://h",
        ["3:5: unknown key `httpUrl` in server `files` (write `url`)"],
    ),
    "the file of an editor": (
        '{"servers": {"files": {"command": "x"}}, "inputs": []}',
        [
            "1:2: unknown key `servers` (write `mcpServers`)",
            "1:42: unknown key `inputs` (leave it out: the gateway does not prompt for values; write `${NAME}` for an"
            " environment variable)",
        ],
    ),
    "disabled, in the catalog": (
        "mcpServers: {}\ncatalog: {x: {command: x, disabled: false}}",
        [
            "2:27: unknown key `disabled` in catalog server `x` (leave it out: a server of the catalog is connected"
            " when an agent enables it)"
        ],
    ),
    "a trust that is nearly known": (
        ONE + "url: http://h\n    trust: manuel",
        ["4:12: `trust` of server `files` is `manuel`, which is not known (did you mean `manual`?)"],
    ),
    "two tool lists": (
        ONE + "command: x\n    disabled_tools: []\n    enabled_tools: [a]",
        ["5:5: server `files` has both `enabled_tools` and `disabled_tools` (keep one of them)"],
    ),
    "an empty allow list": (
        ONE + "command: x\n    enabled_tools: []",
        [
            "4:20: `enabled_tools` of server `files` is empty, so no tool could be called "
            "(to switch the server off, write `enabled: false`)"
        ],
    ),
    "an allow list that is commented out": (
        ONE + "command: x\n    enabled_tools:\n    #- read_file",
        ["4:5: `enabled_tools` of server `files` has no value (give it one, or leave the key out)"],
    ),
    "a list that is one word": (
        ONE + "command: x\n    disabled_tools: a",
        ["4:21: `disabled_tools` of server `files` is text, but must be a list"],
    ),
    "an entry that is no name": (
        ONE + 'command: x\n    disabled_tools: [3, "", [a]]',
        [
            "4:22: an item in `disabled_tools` of server `files` is a number, but must be text (put it in quotes)",
            "4:25: an item in `disabled_tools` of server `files` is empty",
            "4:29: an item in `disabled_tools` of server `files` is a list, but must be text",
        ],
    ),
    "a switch in quotes": (
        ONE + 'command: x\n    enabled: "false"\n    quarantined: yes',
        [
            "4:14: `enabled` of server `files` is text, but must be `true` or `false` (write it without quotes)",
            "5:18: `quarantined` of server `files` is text, but must be `true` or `false`",
        ],
    ),
    "values of a process": (
        ONE + 'command: ""\n    args: [8080, hunter2]\n    env: {PORT: 8080, "hunter2=": a, OFF: false}\n    cwd: {}',
        [
            "3:14: `command` of server `files` is empty",
            "4:12: an item in `args` of server `files` is a number, but must be text (put it in quotes)",
            "5:17: a value in `env` of server `files` is a number, but must be text (put it in quotes)",
            "5:23: a key in `env` of server `files` cannot be the name of an environment variable",
            "5:43: a value in `env` of server `files` is a truth value, but must be text (put it in quotes)",
            "6:10: `cwd` of server `files` is a mapping, but must be text",
        ],
    ),
    "headers that cannot be sent": (
        ONE + 'url: http://h\n    headers: {Good: "", "hunter 2": a, A: "hunter2\\n", B: }',
        [
            "4:25: a key in `headers` of server `files` cannot be the name of a header",
            "4:43: a value in `headers` of server `files` is not text that a header can carry",
            "4:56: a value in `headers` of server `files` has no value (give it one, or leave the key out)",
        ],
    ),
    "a zero character": (
        ONE + 'command: x\n    args: ["a\\0"]',
        ["4:12: an item in `args` of server `files` contains a zero character, which cannot be passed to a program"],
    ),
    "addresses that are none": (
        "mcpServers:\n"
        "  a: {url: ftp://hunter2}\n"
        "  b: {url: example.com}\n"
        "  c: {url: 'http://'}\n"
        "  d: {url: 'http://[hunter2'}\n"
        "  e: {url: 'http://h:99999'}\n"
        "  f: {url: 'http://h/a b'}",
        [
            f"{line}:12: `url` of server `{server}` is not an http or https address with a host "
            "(for example `https://example.com/mcp`)"
            for line, server in enumerate("abcdef", 2)
        ],
    ),
    "labels": (
        ONE + 'command: x\n    labels: {a: 1, "": b}\n    tool_labels: {t: {a: []}, "": {}, u: x}',
        [
            "4:17: a value in `labels` of server `files` is a number, but must be text (put it in quotes)",
            "4:20: a key in `labels` of server `files` is not 1 to 128 bytes long",
            "5:26: a value in `tool_labels` of server `files` is a list, but must be text",
            "5:31: a key in `tool_labels` of server `files` is empty",
            "5:42: a value in `tool_labels` of server `files` is text, but must be a mapping",
        ],
    ),
    "more labels than the contract carries": (
        ONE + f"command: x\n    labels: {json.dumps({str(number): '' for number in range(65)})}",
        ["4:13: `labels` of server `files` has more than 64 entries"],
    ),
    "limits over HTTP": (
        "mcpServers: {}\nhttp: {sessions: 0, sessions_per_agent: 10001, request_bytes: 1.5, session: 1,"
        " requests_per_agent: 0}",
        [
            "2:18: `http.sessions` is not a whole number from 1 to 10,000",
            "2:41: `http.sessions_per_agent` is not a whole number from 1 to 10,000",
            "2:63: `http.request_bytes` is a number, but must be a whole number",
            "2:68: unknown key `session` in `http` (did you mean `sessions`?)",
            "2:100: `http.requests_per_agent` is not a whole number from 1 to 10,000",
        ],
    ),
    "deadlines of a server": (
        ONE + "command: x\n    deadlines: {call_seconds: 0, enable_seconds: 3, open_seconds: }",
        [
            "4:31: a value in `deadlines` of server `files` is not more than 0 and at most 86,400 seconds",
            "4:34: unknown key `enable_seconds` in `deadlines` of server `files` (did you mean `call_seconds`?)",
            "4:53: a value in `deadlines` of server `files` has no value (give it one, or leave the key out)",
        ],
    ),
    "deadlines": (
        "mcpServers: {}\ndeadlines:\n  call_seconds: 0\n  open_seconds: 1e400",
        [
            "3:17: `deadlines.call_seconds` is not more than 0 and at most 86,400 seconds",
            "4:17: `deadlines.open_seconds` is not more than 0 and at most 86,400 seconds",
        ],
    ),
    "a deadline with a unit": (
        "mcpServers: {}\ndeadlines: {call_seconds: 60s, open_seconds: true}",
        [
            "2:27: `deadlines.call_seconds` is text, but must be a number",
            "2:46: `deadlines.open_seconds` is a truth value, but must be a number",
        ],
    ),
    "an approvals path without a value": (
        "mcpServers: {}\napprovals:",
        ["2:1: `approvals` has no value (give it one, or leave the key out)"],
    ),
    "a server that is repeated": (
        "mcpServers: {a: {command: x}, a: {command: y}}",
        ["1:31: key `a` is repeated (first in line 1)"],
    ),
    "faults of several servers, with a warning among them": (
        "mcpServers:\n  a: {comand: x}\n  b: {command: x, disabled_tools: [t, t]}\n  c: {url: 3}",
        [
            "2:7: unknown key `comand` in server `a` (did you mean `command`?)",
            "3:39: `t` is repeated in `disabled_tools` of server `b` (keep one of them)",
            "4:12: `url` of server `c` is a number, but must be text (put it in quotes)",
        ],
    ),
}

SERVER_KEYS = tuple(ServerConfig.model_fields)

SCALARS = st.sampled_from(
    [None, True, False, 0, 3, 10**400, 1.5, float("nan"), "", "x", "http", "auto", "http://h", "a\0", "`\n"]
)

VALUES = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.sampled_from(["a", "[key]", ""]), SCALARS)

SERVERS = st.dictionaries(st.sampled_from([*SERVER_KEYS, "disabled", "[key]", ""]), VALUES, max_size=6)

FILES = st.fixed_dictionaries(
    {},
    optional={
        "mcpServers": VALUES | st.dictionaries(st.sampled_from(["s", "t t", "[key]"]), VALUES | SERVERS, max_size=3),
        "deadlines": VALUES | st.dictionaries(st.sampled_from(["call_seconds", "open_seconds", "x"]), VALUES),
        "http": VALUES | st.dictionaries(st.sampled_from(["sessions", "x"]), VALUES),
        "records": VALUES | st.dictionaries(st.sampled_from(["to", "level", "mib", "x"]), VALUES),
        "agents": VALUES | st.dictionaries(st.sampled_from(["servers", "facts", "x"]), VALUES),
        "catalog": VALUES | st.dictionaries(st.sampled_from(["s", "[key]"]), VALUES | SERVERS, max_size=3),
        "tokens": VALUES,
        "strict_labels": VALUES,
        "approvals": VALUES,
        "`": VALUES,
    },
)
