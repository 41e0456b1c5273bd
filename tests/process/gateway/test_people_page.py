"""The page on which people unlock tools, requested without a browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from callability.connect.joining import PROTOCOL
from callability.files.shipped_policy import shipped_policy
from support.gateways import READ, SEND, call, shelf
from support.page_requests import Browser
from support.running import COMMAND
from support.user_gateways import UserHome, agents, user_home
from support.waiting import eventually

pytestmark = pytest.mark.anyio
WIPE = {"name": "wipe", "description": "Wipes the disk."}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserHome]:
    """Return a home whose gateway the tests share."""
    directory = tmp_path_factory.mktemp("servers")
    servers = {
        "files": shelf(directory, "files", READ, WIPE, trust="manual"),
        "denied": shelf(directory, "denied", READ, WIPE, trust="manual", disabled_tools=["wipe"]),
        "mail": shelf(directory, "mail", SEND),
        "held": shelf(directory, "held", SEND, quarantined=True),
        "off": shelf(directory, "off", SEND, enabled=False),
        "absent": {**shelf(directory, "absent", SEND), "command": str(directory / "absent")},
    }
    keys = {"records": {"to": "records", "level": "all"}}
    with user_home(servers, agents=agents(cursor=["files", "mail"]), **keys) as made:
        yield made


@pytest.fixture(scope="module")
def browser(home: UserHome) -> Browser:
    """Return a browser that is signed in, once the servers are loaded."""
    url, code = home.open_page()
    made = Browser(url)
    made.sign_in(code)
    eventually(lambda: not any(each["loading"] for each in made.state()["servers"]))
    return made


def test_an_agent_with_every_url_and_a_shell_without_a_terminal_lifts_nothing(home: UserHome, browser: Browser) -> None:
    """It gets no code, by the command or by what that says to the gateway, whatever terminal it names."""
    before = home.approvals.read_text(), home.config.read_text()
    command = [*COMMAND, "page"]
    shell = subprocess.run(
        command,
        env=home.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    assert shell.returncode == 1
    assert "there is no terminal on which the code can be shown" in shell.stderr
    for terminal in ("/dev/pts/0", "/dev/tty", "/dev/stdout", ""):
        hello = f"{PROTOCOL}\nconfig {home.config}\npage {terminal}\n\n"
        saying = f"import os, socket, sys; os.setsid(); {_SAY}"
        said = subprocess.run(
            [COMMAND[0], "-c", saying, str(home.socket), hello], capture_output=True, text=True, check=False
        )
        assert said.stdout.startswith("no the code is shown on the terminal of the command"), said

    agent = Browser(browser.url)
    tool = browser.shown("waiting", "files", "wipe")
    for what in ("state", "why", "act"):
        answer = agent.post(what, act="approve", server="files", tool="wipe", seen=tool["sha256"])
        assert (answer.status_code, answer.json()["code"]) == (401, "signed-out")
        assert agent.post(what, {"callability-session": "guess"}).status_code == 401
    assert agent.post("sign-in", code="AAAA-AAAA").status_code == 403
    assert (home.approvals.read_text(), home.config.read_text()) == before


def test_a_code_is_valid_once_and_not_after_five_wrong_ones(home: UserHome, browser: Browser) -> None:
    """What could be guessed is void before that is likely."""
    url, code = home.open_page()
    other = Browser(url)
    assert url == browser.url
    other.sign_in(code)
    assert other.post("sign-in", code=code).status_code == 403
    _, another = home.open_page()
    assert [other.post("sign-in", code=f"AAAA-AAA{digit}").status_code for digit in range(2, 7)] == [403] * 5
    assert other.post("sign-in", code=another).status_code == 403
    assert other.post("sign-out").status_code == 200
    assert other.post("state").status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"origin": "http://evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"callability-token": "another"},
    ],
)
def test_what_comes_from_elsewhere_is_refused_even_in_a_session(browser: Browser, headers: dict[str, str]) -> None:
    """A page of another site, or a name that leads here, gets nothing."""
    assert browser.post("state", headers).status_code == 403


def test_what_changed_since_it_was_shown_is_refused(browser: Browser) -> None:
    """An approval names the form that the person read; that of a server names its tools and switches."""
    for act in ("approve", "block", "unblock"):
        refused = browser.act(act, "files", "wipe", "v2:" + "0" * 64)
        assert (refused.status_code, refused.json()["code"]) == (409, "changed-meanwhile")
    for act in ("quarantine", "release", "enable", "retry"):
        refused = browser.act(act, "held", seen="0" * 64)
        assert (refused.status_code, refused.json()["code"]) == (409, "changed-meanwhile")


async def test_an_approval_a_block_and_its_undo_take_effect_at_once(home: UserHome, browser: Browser) -> None:
    """For an agent that is connected; the page counts what it called in vain, by agent and tool."""
    async with home.client("cursor") as client:
        for _ in range(2):
            assert (await call(client, "files:read_file")).is_error
        shown = browser.shown("waiting", "files", "read_file")
        assert [field["field"] for field in shown["fields"]] == ["name", "description", "inputSchema.type"]
        assert browser.act("approve", "files", "read_file", shown["sha256"]).status_code == 200
        assert not (await call(client, "files:read_file")).is_error
        sha256 = browser.shown("callable", "mail", "send_mail")["sha256"]
        assert browser.act("block", "mail", "send_mail", sha256).status_code == 200
        assert (await call(client, "mail:send_mail")).is_error
        assert browser.shown("locked", "mail", "send_mail")["by_person"]
        assert browser.act("unblock", "mail", "send_mail", sha256).status_code == 200
        assert not (await call(client, "mail:send_mail")).is_error
    state = browser.state()
    refused = [(each["agent"], each["server"], each["tool"], each["count"]) for each in state["refused"]]
    assert refused == [("cursor", "mail", "send_mail", 1), ("cursor", "files", "read_file", 2)]
    changes = [(each["server"], each["tool"], each["what"]) for each in state["changes"]][:3]
    assert changes == [
        ("mail", "send_mail", "unblocked"),
        ("mail", "send_mail", "blocked"),
        ("files", "read_file", "approved"),
    ]


def test_a_server_is_released_and_held_and_switched_on(browser: Browser) -> None:
    """Each by the digest of what was shown; of a server in quarantine, the names of its tools."""
    held = browser.shown("servers", "held")
    assert held["names"] == ["send_mail"]
    assert browser.act("release", "held", seen=held["digest"]).status_code == 200
    eventually(lambda: browser.shown("servers", "held")["callable"] == 1)
    held = browser.shown("servers", "held")
    assert browser.act("quarantine", "held", seen=held["digest"]).status_code == 200
    assert browser.shown("servers", "held")["quarantined"]
    assert browser.act("enable", "off", seen=browser.shown("servers", "off")["digest"]).status_code == 200
    eventually(lambda: browser.shown("servers", "off")["state"] == "connected")


def test_a_server_that_failed_is_tried_again(home: UserHome, browser: Browser) -> None:
    """By a click, once what it lacked is there; the config stays as it is."""
    failed = browser.shown("servers", "absent")
    assert failed["state"] == "failed"
    before = home.config.read_text()
    Path(json.loads(before)["mcpServers"]["absent"]["command"]).symlink_to(sys.executable)
    assert browser.act("retry", "absent", seen=failed["digest"]).status_code == 200
    eventually(lambda: browser.shown("servers", "absent")["state"] == "connected")
    assert home.config.read_text() == before


def test_what_a_person_does_on_the_page_is_recorded_as_such(home: UserHome, browser: Browser) -> None:
    """Neither as an edit by hand nor as that of a command."""
    held = browser.shown("servers", "held")
    act = "release" if held["quarantined"] else "quarantine"
    assert browser.act(act, "held", seen=held["digest"]).status_code == 200
    sha256 = browser.shown("callable", "mail", "send_mail")["sha256"]
    for each in ("block", "unblock"):
        assert browser.act(each, "mail", "send_mail", sha256).status_code == 200
    records = home.config.with_name("records")

    def changes() -> list[dict[str, str]]:
        lines = [line for path in records.glob("*.jsonl") for line in path.read_text().splitlines()]
        return [each for line in lines if "command" in (each := json.loads(line))]

    eventually(lambda: {act, "block", "unblock"} <= {each["change"] for each in changes()})
    assert {each["command"] for each in changes()} == {"the page of the gateway"}


def test_a_lock_of_the_operator_is_shown_with_its_line_and_never_lifted(home: UserHome, browser: Browser) -> None:
    """Whatever a person does about the tool; and the config stays as it is."""
    before = home.config.read_text()
    shown = browser.shown("waiting", "denied", "wipe")
    assert shown["denied"]
    assert not browser.shown("locked", "denied", "wipe")["by_person"]
    refused = browser.act("approve", "denied", "wipe", shown["sha256"])
    assert (refused.status_code, refused.json()["code"]) == (409, "denied")
    browser.act("block", "denied", "wipe", shown["sha256"])
    browser.act("unblock", "denied", "wipe", shown["sha256"])
    assert browser.shown("locked", "denied", "wipe")["status"] == "disabled_by_config"
    assert home.config.read_text() == before
    why = browser.post("why", server="denied", tool="wipe").json()
    line = next(number for number, text in enumerate(before.splitlines(), 1) if text.strip() == '"wipe"')
    assert why["rule"] == "operator-denied"
    assert [each["place"] for each in why["places"]] == [_place_of_rule("operator-denied"), f"{home.config}:{line}:9"]


def test_a_lock_by_an_approval_record_is_shown_with_its_line(home: UserHome, browser: Browser) -> None:
    """And with the line of the rule that reads it; a tool without a record has the file alone."""
    fresh = browser.post("why", server="files", tool="wipe").json()
    assert [each["place"] for each in fresh["places"]] == [_place_of_rule("awaiting-review"), str(home.approvals)]
    assert browser.act(
        "block", "mail", "send_mail", browser.shown("callable", "mail", "send_mail")["sha256"]
    ).is_success
    why = browser.post("why", server="mail", tool="send_mail").json()
    rule, record = (each["place"] for each in why["places"])
    assert rule == _place_of_rule("user-off")
    file, line, column = record.rsplit(":", 2)
    assert file == str(home.approvals)
    assert home.approvals.read_text().splitlines()[int(line) - 1][int(column) - 1 :].strip('"').startswith("send_mail")
    seen = browser.shown("locked", "mail", "send_mail")["sha256"]
    assert browser.act("unblock", "mail", "send_mail", seen).is_success


def _place_of_rule(rule: str) -> str:
    """Return the place of a rule of the shipped policy."""
    file = shipped_policy() / "callability.yaml"
    for number, text in enumerate(file.read_text().splitlines(), 1):
        if found := re.match(rf"  - \{{?(?=id: {rule}\b)", text):
            return f"{file}:{number}:{5 if found[0].endswith('{') else found.end() + 1}"
    raise AssertionError(rule)


_SAY = (
    "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(sys.argv[2].encode());"
    " print(s.recv(1000).decode())"
)
