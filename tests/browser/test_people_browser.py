"""The page for people in a real browser: what a person sees and does, by mouse and by keyboard alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.gateways import READ, SEND, shelf
from support.user_gateways import UserHome, user_home

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from playwright.sync_api import Page, ViewportSize, expect, sync_playwright  # noqa: E402

from support.page_access import access_faults, unreadable_texts  # noqa: E402

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
MILLISECONDS = 120_000
LONG = {"name": "x" * 128, "description": "A text without spaces: " + "y" * 3_000 + " and what turns it round: \u202e."}
NARROW = ViewportSize(width=390, height=844)
WIDE = ViewportSize(width=1440, height=1000)
CHANGED = {**READ, "description": "Reads a file, and sends it away."}


def _tool(number: int) -> dict[str, object]:
    return {"name": f"tool_{number:03}", "description": f"Does thing {number}."}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UserHome]:
    """Return a home whose gateway the tests share: 500 tools wait in it."""
    directory = tmp_path_factory.mktemp("servers")
    servers = {
        "files": shelf(directory, "files", READ, LONG, trust="manual"),
        "many": shelf(directory, "many", *map(_tool, range(500)), trust="manual"),
        "mail": shelf(directory, "mail", SEND),
        "denied": shelf(directory, "denied", SEND, trust="manual", disabled_tools=["send_mail"]),
        "broken": {"command": "/bin/false"},
    }
    with user_home(servers) as made:
        yield made


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    """Return a tab of Debian's chromium that asks no other host, and writes nothing to the console."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--disable-gpu"])
        opened = browser.new_page(viewport=WIDE)
        opened.set_default_timeout(MILLISECONDS)
        expect.set_options(timeout=MILLISECONDS)
        requested: list[str] = []
        reports: list[str] = []
        opened.on("request", lambda request: requested.append(request.url))
        opened.on("console", lambda message: reports.append(message.text))
        opened.on("pageerror", lambda error: reports.append(str(error)))
        yield opened
        browser.close()
    assert {urlsplit(each).hostname for each in requested} == {"127.0.0.1"}
    # A browser writes each answer of an error to its console by itself.
    assert [text for text in reports if not text.startswith("Failed to load resource")] == []


@pytest.fixture(scope="module")
def page(tab: Page, home: UserHome) -> Page:
    """Return the page, signed in by the keyboard alone, with all servers loaded."""
    url, code = home.open_page()
    tab.goto(url)
    expect(tab.get_by_label("Code")).to_be_focused()
    assert access_faults(tab) == []
    tab.keyboard.type("WRONG")
    tab.keyboard.press("Enter")
    expect(tab.locator("#code-said")).to_contain_text("this code is not valid")
    tab.keyboard.type(code)
    tab.keyboard.press("Enter")
    expect(tab.locator("#waiting-count")).to_have_text("503")
    expect(tab.locator("#servers-list")).to_contain_text("exited with code 1")
    return tab


def test_of_500_tools_the_first_are_drawn_and_a_filter_finds_any(page: Page) -> None:
    """The page stays quick, and nothing is out of reach."""
    expect(page.locator("#new-list > li")).to_have_count(51)
    page.get_by_role("button", name="Show 50 more of 453").first.click()
    expect(page.locator("#new-list > li")).to_have_count(101)
    page.get_by_label("Show only names with").fill("tool_499")
    expect(page.locator("#new-list > li")).to_have_count(1)
    page.get_by_label("Show only names with").fill("")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["1440", "390"])
def test_nothing_is_cut_off_unnamed_or_unreadable(page: Page, scheme: str, size: ViewportSize) -> None:
    """At each width and in both schemes, with names of 128 characters; odd characters are written out."""
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # one of its words
    page.set_viewport_size(size)
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert unreadable_texts(page) == []
    assert access_faults(page) == []
    expect(page.locator("#new-list").get_by_text("U+202E")).to_be_visible()
    page.set_viewport_size(WIDE)


def test_a_tool_is_approved_blocked_and_unblocked_by_the_keyboard_alone(page: Page, home: UserHome) -> None:
    """What was done is announced; a block can be undone at once."""
    page.get_by_role("link", name="Waiting").focus()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('aria-label')") == "Approve read_file of files":
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("Approved: read_file of files.")
    assert "read_file: {status: approved" in home.approvals.read_text()
    page.get_by_role("button", name="Block send_mail of mail").press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Blocked: send_mail of mail.")
    page.get_by_role("button", name="Undo: Blocked: send_mail of mail.").press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Unblocked: send_mail of mail.")
    expect(page.locator("#callable-list")).to_contain_text("send_mail of mail")


def test_a_lock_of_the_operator_has_no_button_and_says_its_line(page: Page, home: UserHome) -> None:
    """The rule, the file and the line."""
    card = page.locator("#locked-list > li").filter(has_text="send_mail of denied")
    page.get_by_label("Show only names with").fill("denied:")
    expect(card).to_contain_text("denied by the operator")
    expect(card.get_by_role("button")).to_have_count(0)
    card.get_by_text("Why").click()
    expect(card).to_contain_text(f"{home.config}:")
    expect(card).to_contain_text("operator-denied")
    page.get_by_label("Show only names with").fill("")


def test_a_server_that_failed_can_be_tried_again(page: Page) -> None:
    """The page reports the click, and then why the server failed again."""
    broken = page.locator("#servers-list > li", has_text="broken")
    page.get_by_role("button", name="Try again broken").click()
    expect(page.locator("#done")).to_contain_text("Tried again: broken.")
    expect(broken).to_contain_text("exited")


def test_a_tool_that_changes_while_the_page_is_open_is_shown_again_field_by_field(
    page: Page, home: UserHome, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The click on what was shown before is refused; the difference to what was approved is shown."""
    tools = Path(json.loads(home.config.read_text())["mcpServers"]["files"]["args"][1])
    tools.write_text(json.dumps([CHANGED, LONG]))
    # What the page shows is of the moment before: it does not look while this test holds its requests.
    page.route("**/state", lambda route: route.abort())
    expect(page.get_by_role("alert").first).to_contain_text("does not answer")
    page.unroute("**/state")
    held = page.locator("#servers-list > li").filter(has_text="files")
    expect(held.get_by_role("button", name="Quarantine files")).to_be_enabled()
    held.get_by_role("button", name="Quarantine files").click()
    expect(held.locator(".head")).to_contain_text("connected quarantine", use_inner_text=True)
    page.get_by_role("button", name="Release files").click()
    changed = page.locator("#changed-list > li")
    expect(changed).to_contain_text("read_file of files")
    expect(changed.locator("del")).to_have_text("before: Reads a file.")
    expect(changed.locator("ins")).to_have_text("now: Reads a file, and sends it away.")
    expect(changed.locator("dt")).to_have_text(["description"])
    expect(page.locator("#changes-list")).to_contain_text("the server changed its definition")


def test_a_gateway_that_ends_is_reported_and_nothing_can_be_clicked(page: Page, home: UserHome) -> None:
    """What was shown stays readable."""
    home.end()
    expect(page.get_by_role("alert").first).to_contain_text("The gateway does not answer")
    expect(page.get_by_role("button", name="Quarantine mail")).to_be_disabled()
    expect(page.get_by_role("alert").first).to_be_in_viewport()


def test_a_gateway_without_servers_says_so(tab: Page) -> None:
    """Each part has a sentence, and none is empty."""
    with user_home({}) as empty:
        url, code = empty.open_page()
        tab.goto(url)
        tab.get_by_label("Code").fill(code)
        tab.keyboard.press("Enter")
        for name, sentence in {
            "waiting": "Nothing waits for a review.",
            "servers": "The config has no servers.",
            "locked": "No tool is locked.",
            "callable": "No tool can be called.",
            "refused": "No agent has called a locked tool since the gateway started.",
            "changes": "Nothing has changed since the gateway started.",
        }.items():
            expect(tab.locator(f"#{name}-said")).to_have_text(sentence)
        tab.get_by_role("button", name="Sign out").click()
        expect(tab.get_by_label("Code")).to_be_focused()
