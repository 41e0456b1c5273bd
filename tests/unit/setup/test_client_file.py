"""The files of clients in every way in which they are written: servers are replaced, and the rest stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from callability.setup.client_file import Unusable, read_client_file, with_members
from callability.setup.clients import ConfigForm

OURS = {"callability": {"command": "/c", "args": ["connect"]}}
SERVERS = ("mcpServers",)
CASES: dict[str, tuple[ConfigForm, tuple[str, ...], str, tuple[str, ...]]] = {
    "a mark, tabs, and line ends of Windows": (
        ConfigForm.JSON,
        SERVERS,
        '\ufeff{\r\n\t"a": 1,\r\n\t"mcpServers": {\r\n\t\t"x": {\r\n\t\t\t"command": "y"\r\n\t\t}\r\n\t}\r\n}\r\n',
        ('\ufeff{\r\n\t"a": 1,\r\n\t"mcpServers": {\r\n', "\r\n\t}\r\n}\r\n"),
    ),
    "one line": (
        ConfigForm.JSON,
        SERVERS,
        '{"mcpServers":{"x":{"command":"y","args":["-y"]},"z":{"command":"q"}},"b":[1,2]}',
        ('{"mcpServers":{"z":{"command":"q"}', '},"b":[1,2]}'),
    ),
    "no servers": (ConfigForm.JSON, SERVERS, "{}", ("{", "}")),
    "an empty file": (ConfigForm.JSON, SERVERS, "", ("{", "}\n")),
    "the key elsewhere": (
        ConfigForm.JSON,
        SERVERS,
        '{"q": "mcpServers", "n": {"mcpServers": {"x": 1}}}\n',
        ('{"q": "mcpServers", "n": {"mcpServers": {"x": 1}}', "}\n"),
    ),
    "keys above": (
        ConfigForm.JSON,
        ("projects", "/a/b", *SERVERS),
        '{"projects": {"/a/b": {"mcpServers": {"x": {"command": "c"}}, "k": 1}}}\n',
        ('{"projects": {"/a/b": {"mcpServers": {', '}, "k": 1}}}\n'),
    ),
    "a key without a value": (ConfigForm.YAML, ("extensions",), "extensions:\n", ("extensions:", "\n")),
    "a list in lines": (
        ConfigForm.YAML,
        ("extensions",),
        "A: 1 # a\nextensions:\n  x:\n    cmd: y\n    args:\n    - a\nB: 2",
        ("A: 1 # a\nextensions:\n", "\nB: 2"),
    ),
    "tables": (
        ConfigForm.TOML,
        ("mcp_servers",),
        'a = 1\r\n\r\n[mcp_servers.x]\r\ncommand = "c"\r\n\r\n# of b\r\n[b]\r\nc = 1\r\n',
        ("a = 1\r\n\r\n[mcp_servers.callability]\r\n", "\r\n\r\n# of b\r\n[b]\r\nc = 1\r\n"),
    ),
    "a table in a text": (
        ConfigForm.TOML,
        ("mcp_servers",),
        '[mcp_servers."x"]\ncommand = """\n[b]\n"""\n[[l]]\nq = 1\n',
        ("", "[[l]]\nq = 1\n"),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_servers_are_replaced_and_put_back_and_the_rest_stays(
    case: tuple[ConfigForm, tuple[str, ...], str, tuple[str, ...]], tmp_path: Path
) -> None:
    """However the file is written."""
    form, keys, text, (before, after) = case
    path = tmp_path / f"file.{form}"
    path.write_bytes(text.encode())
    file = read_client_file(path, form, keys)
    gone = {name: entry for name, entry in file.servers.items() if name == "x" and isinstance(entry, dict)}
    data = with_members(file, gone, OURS)
    assert data.decode().startswith(before)
    assert data.decode().endswith(after)
    path.write_bytes(data)
    again = read_client_file(path, form, keys)
    assert again.servers == {name: each for name, each in file.servers.items() if name not in gone} | OURS
    path.write_bytes(with_members(again, OURS, gone))
    assert read_client_file(path, form, keys).servers == file.servers


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (ConfigForm.TOML, 'mcp_servers.x.command = "hush-hush"\nz = 1\n'),
        (ConfigForm.JSON, '{"mcpServers": ["hush-hush"]}'),
    ],
)
def test_a_file_that_cannot_be_edited_is_left_to_a_person(form: ConfigForm, text: str, tmp_path: Path) -> None:
    """Without a value of it in the error, which may be a secret."""
    path = tmp_path / f"file.{form}"
    path.write_text(text)
    file = read_client_file(path, form, ("mcp_servers",) if form is ConfigForm.TOML else SERVERS)
    with pytest.raises(Unusable, match="edit it by hand") as error:
        with_members(file, file.servers, OURS)
    assert "hush-hush" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"mcpServers":\r\n {"x": {"a": "hush-hush",\r\n  "a": 2}}}', ":3:3: key `a` is repeated"),
        ('{"mcpServers": {"x": {"a": "hush-hush", "a": 2}}}', ":1:41: key `a` is repeated"),
        ('// \u2028\n{"mcpServers": {}, "mcpServers": {"x": "hush-hush"}}', ":2:20: key `mcpServers` is repeated"),
    ],
)
def test_a_key_that_is_repeated_is_found_when_the_file_is_read(text: str, place: str, tmp_path: Path) -> None:
    """A client takes one of the two, and it cannot be known which; what is beside the servers does not matter."""
    path = tmp_path / "file.json"
    path.write_bytes(text.encode())
    with pytest.raises(Unusable) as error:
        read_client_file(path, ConfigForm.JSON, SERVERS)
    assert str(error.value).startswith(f"{path}{place}")
    assert "hush-hush" not in str(error.value)
    path.write_text('{"a": 1, "a": 2, "mcpServers": {"x": {}}}')
    assert read_client_file(path, ConfigForm.JSON, SERVERS).servers == {"x": {}}
