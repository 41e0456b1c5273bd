"""The page of `callability studio` in a real browser: what a person sees, by mouse and by keyboard alone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.checkout import POLICY
from support.studios import studio, studio_process

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from playwright.sync_api import (  # noqa: E402
    ConsoleMessage,
    Error,
    Locator,
    Page,
    Request,
    Route,
    ViewportSize,
    expect,
    sync_playwright,
)

from support.studio_editor import editor_of, line_of, select, wait_for_text, write  # noqa: E402

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
MILLISECONDS = 120_000
RULES = (POLICY / "callability.yaml").read_text()
RULE = "when: {approval.disabled: true}, "
WAITING = "when: {approval.status: changed}"
NARROWER = "when: {approval.status: changed, tool.name: wipe}"
UNREADABLE = """() => {
  const channels = (color) => color.match(/[\\d.]+/g).map(Number);
  const part = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([red, green, blue]) => 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const color = channels(getComputedStyle(each).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const found = [];
  const least = {};
  const compare = (what, color, paper, wanted) => {
    const [one, other] = [light(channels(color)), light(paper)];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    least[wanted] = Math.min(least[wanted] ?? 21, ratio);
    if (ratio < wanted) found.push(`${what}: ${ratio.toFixed(2)}`);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const disabled = element.closest(":disabled, script, noscript, .unseen, .skip");
    if (!texts.currentNode.data.trim() || disabled || !element.checkVisibility()) continue;
    compare(texts.currentNode.data.trim(), getComputedStyle(element).color, behind(element), 4.5);
  }
  for (const each of document.querySelectorAll("button:enabled, select")) {
    if (!each.checkVisibility()) continue;
    compare(`border of ${each.textContent}`, getComputedStyle(each).borderTopColor, behind(each.parentElement), 3);
  }
  return { found, least };
}"""
"""Texts whose contrast with what is behind them is less than 4.5, borders with less than 3, and the least of each."""


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    """A tab of Debian's chromium; a new one for each test would take most of the time."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--disable-gpu"])
        opened = browser.new_page()
        opened.set_default_timeout(MILLISECONDS)
        expect.set_options(timeout=MILLISECONDS)
        opened.on("dialog", lambda dialog: dialog.accept())
        yield opened
        browser.close()


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the shipped policy."""
    directory = tmp_path_factory.mktemp("browser") / "policy"
    shutil.copytree(POLICY, directory)
    return directory


@pytest.fixture(scope="module")
def url(policy: Path) -> Iterator[str]:
    """A studio of the copy."""
    with studio(policy) as bound:
        yield bound


@pytest.fixture
def empty_tab(tab: Page) -> Iterator[Page]:
    """The tab, whose page asks no host but its own, and writes nothing to the console."""
    requested: list[str] = []
    reports: list[str] = []

    def note_request(request: Request) -> None:
        requested.append(request.url)

    def note_message(message: ConsoleMessage) -> None:
        reports.append(message.text)

    def note_error(error: Error) -> None:
        reports.append(str(error))

    tab.set_viewport_size(ViewportSize(width=1440, height=1000))
    tab.on("request", note_request)
    tab.on("console", note_message)
    tab.on("pageerror", note_error)
    yield tab
    tab.unroute_all(behavior="wait")
    tab.goto("about:blank")
    tab.remove_listener("request", note_request)
    tab.remove_listener("console", note_message)
    tab.remove_listener("pageerror", note_error)
    assert requested
    assert {urlsplit(each).hostname for each in requested} == {"127.0.0.1"}
    # A browser writes each answer of an error to its console by itself.
    assert [text for text in reports if not text.startswith("Failed to load resource")] == []


@pytest.fixture(params=["light"])
def page(request: pytest.FixtureRequest, empty_tab: Page, url: str, policy: Path) -> Page:
    """The page, in one color scheme, with the policy as it is shipped."""
    (policy / "callability.yaml").write_text(RULES)
    empty_tab.emulate_media(color_scheme=request.param)
    empty_tab.goto(url)
    _at_rest(empty_tab)
    return empty_tab


def _at_rest(page: Page) -> None:
    expect(page.locator("body")).to_have_attribute("aria-busy", "false")


def _text(page: Page) -> Locator:
    return editor_of(page)


def _type_in(page: Page, old: str, new: str) -> None:
    """Put the cursor on a text of the rule file, and type another in its place."""
    at = RULES.index(old)
    select(_text(page), at, at + len(old))
    # In one step, since the page might check a half-typed text, which has other findings.
    page.keyboard.insert_text(new)


def _fact(page: Page, fact: str, value: str) -> Locator:
    return page.get_by_role("group", name=fact).get_by_label(value, exact=True)


def test_setting_facts_changes_the_verdict_and_the_row_that_is_lit(page: Page) -> None:
    """And the words, and who lifts it."""
    lit = page.locator("#table tr.lit")
    expect(page.locator("#verdict-said")).to_have_text("callable, by rule open")
    expect(lit.get_by_role("rowheader")).to_have_text("open")
    _fact(page, "tool.config_denied", "true").check()
    expect(page.locator("#verdict-said")).to_have_text("disabled_by_config, by rule operator-denied")
    expect(lit).to_have_count(1)
    expect(lit.get_by_role("rowheader")).to_have_text("operator-denied")
    expect(lit).to_have_attribute("aria-current", "true")
    expect(page.locator("#verdict")).to_contain_text("edit the server's tool lists in the config")
    expect(page.locator("#verdict")).to_contain_text("lifted bythe operator")
    _fact(page, "server.enabled", "unknown").check()
    expect(page.locator("#verdict-said")).to_have_text("disabled_unknown, undetermined at rule server-off")
    expect(lit.get_by_role("rowheader")).to_have_text("server-off ?undetermined")
    page.get_by_role("button", name="Reset all facts").click()
    expect(lit.get_by_role("rowheader")).to_have_text("open")


def test_a_file_of_another_question_brings_its_facts_and_its_table(page: Page) -> None:
    """Facts that depend on each other are adjusted, and the page says so."""
    page.get_by_role("tab", name="load_outcome.yaml").click()
    expect(page.locator("#verdict-said")).to_contain_text("available")
    page.get_by_label("load.http_status").select_option("403")
    expect(page.locator("#verdict-said")).to_contain_text("denied")
    expect(page.locator("#adjusted")).to_contain_text("load.failure is http_status")
    expect(page.get_by_label("load.failure")).to_have_value("http_status")


def test_the_keyboard_alone_reaches_and_does_everything(page: Page, policy: Path) -> None:
    """Tab moves the focus, arrows select, and the focus is visible."""
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        focused = page.locator(":focus")
        seen.append(str(focused.evaluate("each => each.name || each.id || each.textContent.trim()")))
        ring = "each => getComputedStyle(each.closest('.cm-editor') ?? each).outlineStyle"
        assert focused.evaluate(ring) != "none", seen
        if "caller.refuses" in seen:
            break
    assert {"tab-0", "reset-facts", "server.enabled", "approval.status", "caller.refuses"} <= set(seen), seen
    page.keyboard.press("ArrowUp")
    expect(_fact(page, "caller.refuses", "true")).to_be_checked()
    expect(page.locator("#verdict-said")).to_have_text("disabled_unknown, by rule refused-elsewhere")
    page.get_by_role("tab", name="callability.yaml").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="callability_test.yaml")).to_be_focused()
    expect(page.get_by_role("textbox", name="Text of callability_test.yaml")).to_be_visible()
    page.keyboard.press("Home")
    _type_in(page, RULE, "when: {aproval.disabled: true}, ")
    expect(page.locator("#findings li")).to_have_count(1)
    page.keyboard.press("Control+Home")
    page.keyboard.press("F8")
    line = RULES[: RULES.index(RULE)].count("\n")
    assert line_of(_text(page)) == line + 1
    page.keyboard.press("Control+s")
    expect(page.get_by_role("dialog")).to_be_visible()
    expect(page.get_by_role("button", name="Write", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert (policy / "callability.yaml").read_text() == RULES


def test_a_faulty_rule_has_its_finding_below_its_line(page: Page) -> None:
    """While typing; the verdict is then that of the saved file, and says so."""
    _type_in(page, RULE, "when: {aproval.disabled: true}, ")
    note = page.locator(".editor:not([hidden]) .note")
    expect(note).to_contain_text("unknown fact aproval.disabled")
    expect(page.locator("#state")).to_have_text("refused, 1 error")
    expect(page.locator("#verdict-said")).to_contain_text("in the saved file")
    expect(page.get_by_role("tab", name=re.compile(r"callability\.yaml ?, edited, 1 error$"))).to_be_visible()
    _at_rest(page)
    line = page.locator(".editor:not([hidden]) .found.error")
    boxes = note.bounding_box(), line.bounding_box()
    assert boxes[0]
    assert boxes[1]
    assert abs(boxes[0]["y"] - (boxes[1]["y"] + boxes[1]["height"])) < 3
    page.get_by_role("button", name=re.compile(r"callability\.yaml:\d+")).click()
    expect(_text(page)).to_be_focused()


def test_a_sound_edit_says_which_answers_it_changes(page: Page) -> None:
    """With an example whose facts can be shown."""
    _type_in(page, "The user disabled this tool.", "It is off.")
    expect(page.locator("#difference-said")).to_contain_text("changed")
    expect(page.locator("#state")).to_have_text("accepted, no findings")
    change = page.locator("#difference .change")
    expect(change).to_contain_text("disabled_by_user: different words")
    expect(change).to_contain_text("It is off.")
    change.get_by_role("button", name="Show an example").click()
    expect(page.locator("#verdict-said")).to_have_text("disabled_by_user, by rule user-off")


def test_a_broken_law_shows_facts_that_break_it(page: Page) -> None:
    """A button sets them."""
    _type_in(page, WAITING, NARROWER)
    law = page.locator("#findings li", has_text="a tool that may be locked is never callable")
    law.get_by_role("button", name="Show these facts").click()
    expect(_fact(page, "approval.status", "changed")).to_be_checked()
    expect(page.locator("#verdict-said")).to_have_text("callable, by rule open")
    expect(page.locator(".editor:not([hidden]) .cm-line.lit")).to_contain_text("id: open")


def test_an_agent_reads_what_is_shown(page: Page) -> None:
    """Nothing if the tool is called."""
    agent = page.locator("#verdict .agent")
    expect(agent).to_have_count(0)
    _fact(page, "tool.config_denied", "true").check()
    expect(agent).to_contain_text('Not called: disabled_by_config, by policy. The config denies tool "tool"')
    page.get_by_text("Structured content", exact=True).click()
    expect(page.locator("#verdict pre")).to_contain_text('"lifted_by": "operator"')


def test_a_failed_test_says_why_and_shows_its_facts(page: Page) -> None:
    """A button sets them."""
    expect(page.locator("#tests-said")).to_contain_text("tests passed.")
    _type_in(page, RULE, "when: {approval.disabled: true, server.enabled: false}, ")
    failed = page.get_by_role("list", name="Tests that failed").get_by_role("listitem")
    expect(failed).not_to_have_count(0)
    first = failed.first
    expect(first).to_contain_text("where disabled_by_user is expected")
    first.get_by_role("button", name="Show these facts").click()
    expect(_fact(page, "approval.disabled", "true")).to_be_checked()
    expect(page.locator("#verdict-said")).not_to_contain_text("disabled_by_user")
    first.get_by_role("button", name=re.compile(r"callability_test\.yaml:\d+")).click()
    expect(editor_of(page, "callability_test.yaml")).to_be_focused()


def test_the_engine_confirms_the_draft_later(page: Page) -> None:
    """The page says by what, and nothing is left of the progress."""
    _type_in(page, "The user disabled this tool.", "It is off.")
    expect(page.locator("#findings-said")).to_contain_text("No findings.")
    expect(page.locator("#findings-said")).to_contain_text("confirmed by")
    expect(page.locator("#findings-said")).not_to_contain_text("not confirmed")
    expect(page.locator("#confirmation")).to_have_text("")


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_verdict_status_and_rule_stay_in_view(page: Page, width: int, height: int) -> None:
    """The verdict above everything else, and the first columns while a table scrolls sideways."""
    page.set_viewport_size(ViewportSize(width=width, height=height))
    expect(page.locator("#verdict-said")).to_be_in_viewport(ratio=1)
    page.locator("#table").evaluate(
        "(table) => { table.scrollIntoView(); table.scrollLeft = 300; table.scrollTop = 50 }"
    )
    expect(page.locator("#verdict-said")).to_be_in_viewport(ratio=1)
    region = page.locator("#table").bounding_box()
    assert region
    for number in (2, 3):
        for part in ("thead", "tbody"):
            cell = page.locator(f"#table {part} tr > :nth-child({number})").last.bounding_box()
            assert cell
            assert region["x"] <= cell["x"] < cell["x"] + cell["width"] <= region["x"] + region["width"]


def test_enter_saves_and_an_edit_can_be_undone(page: Page, policy: Path) -> None:
    """Enter agrees to what is safe, and to nothing that is refused."""
    _type_in(page, "The user disabled this tool.", "It is off.")
    page.keyboard.press("Control+z")
    wait_for_text(_text(page), RULES)
    _type_in(page, "The user disabled this tool.", "It is off.")
    page.keyboard.press("Control+s")
    expect(page.get_by_role("button", name="Write", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#difference-said")).to_have_text("No edits.")
    saved = (policy / "callability.yaml").read_text()
    assert "It is off." in saved
    write(_text(page), "rules: []")
    page.keyboard.press("Control+s")
    expect(page.get_by_role("button", name="Write", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="callability.yaml is refused. Write it anyway?")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert (policy / "callability.yaml").read_text() == saved


def test_saving_asks_and_then_writes(page: Page, policy: Path) -> None:
    """The dialog shows the lines that change."""
    _type_in(page, "The user disabled this tool.", "It is off.")
    expect(page.locator("#difference-said")).to_contain_text("changed")
    _at_rest(page)
    page.get_by_role("button", name="Save…").click()
    dialog = page.get_by_role("dialog", name="Write callability.yaml?")
    expect(dialog.locator(".added")).to_contain_text("It is off.")
    dialog.get_by_role("button", name="Cancel").click()
    assert (policy / "callability.yaml").read_text() == RULES
    page.keyboard.press("Control+s")
    dialog.get_by_role("button", name="Write", exact=True).click()
    expect(page.locator("#difference-said")).to_have_text("No edits.")
    assert (policy / "callability.yaml").read_text() == RULES.replace("The user disabled this tool.", "It is off.")


AGAIN = """async () => {
    document.getElementById("saving-cancel").click();
    for (let turn = 0; turn < 100; turn++) await null;
    dispatchEvent(new KeyboardEvent("keydown", { key: "s", ctrlKey: true }));
}"""
"""In one task of the browser: the dialog is cancelled, and opened again before its close event arrives."""


def test_a_question_that_is_repeated_at_once_stays(page: Page, policy: Path) -> None:
    """The close event of the first dialog does not close the second."""
    _type_in(page, "The user disabled this tool.", "It is off.")
    _at_rest(page)
    page.keyboard.press("Control+s")
    write = page.get_by_role("dialog").get_by_role("button", name="Write", exact=True)
    expect(write).to_be_visible()
    page.evaluate(AGAIN)
    write.click()
    expect(page.locator("#difference-said")).to_have_text("No edits.")
    assert "It is off." in (policy / "callability.yaml").read_text()


def test_what_is_refused_is_saved_after_a_second_question_only(page: Page, policy: Path) -> None:
    """And the second dialog is another one."""
    _type_in(page, RULE, "when: {aproval.disabled: true}, ")
    expect(page.locator("#findings li")).to_have_count(1)
    _at_rest(page)
    for sure in (False, True):
        page.keyboard.press("Control+s")
        page.get_by_role("button", name="Write", exact=True).click()
        second = page.get_by_role("dialog", name="callability.yaml is refused. Write it anyway?")
        expect(second).to_contain_text("1 error")
        assert (policy / "callability.yaml").read_text() == RULES
        second.get_by_role("button", name="Write it anyway" if sure else "Cancel").click()
        expect(second).to_be_hidden()
    expect(page.locator("#difference-said")).to_contain_text("No edits.")
    assert "aproval" in (policy / "callability.yaml").read_text()


def _come_back(page: Page) -> None:
    page.evaluate("dispatchEvent(new Event('focus'))")


def test_what_is_saved_is_what_is_shown_in_the_question(page: Page, policy: Path) -> None:
    """Even if it was typed a moment before."""
    _type_in(page, "The user disabled this tool.", "It is off.")
    page.keyboard.press("Control+s")
    expect(page.locator("#saving-lines .added")).to_contain_text("It is off.")
    page.get_by_role("button", name="Write", exact=True).click()
    expect(page.locator("#difference-said")).to_have_text("No edits.")
    assert "It is off." in (policy / "callability.yaml").read_text()


def test_a_file_that_changes_on_disk_is_applied_unless_it_is_edited(page: Page, policy: Path) -> None:
    """A notice says so, and the edit stays until it is discarded or replaces the other one."""
    take = page.get_by_role("button", name="Discard the edit and load the file")
    keep = page.get_by_role("button", name="Keep the edit")
    for button, kept in ((take, RULES), (keep, f"# typed\n{RULES}")):
        (policy / "callability.yaml").write_text(f"# from elsewhere\n{RULES}")
        _come_back(page)
        wait_for_text(_text(page), f"# from elsewhere\n{RULES}")
        write(_text(page), f"# typed\n{RULES}")
        expect(page.locator("#difference-said")).to_contain_text("No answer changes")
        (policy / "callability.yaml").write_text(RULES)
        if button is take:
            _come_back(page)
        else:
            page.keyboard.press("Control+s")
            page.get_by_role("button", name="Write", exact=True).click()
            expect(page.get_by_role("alert")).to_contain_text("callability.yaml has changed on disk since it was read")
        wait_for_text(_text(page), f"# typed\n{RULES}")
        button.click()
        wait_for_text(_text(page), kept)
        expect(_text(page)).to_be_focused()
        expect(page.get_by_role("alert")).to_have_text("")
        _at_rest(page)
    page.keyboard.press("Control+s")
    page.get_by_role("button", name="Write", exact=True).click()
    expect(page.locator("#difference-said")).to_have_text("No edits.")
    assert (policy / "callability.yaml").read_text() == f"# typed\n{RULES}"


def test_a_policy_that_vanishes_stays_in_the_page(page: Page, policy: Path) -> None:
    """Until it is back: the page may have the only copy."""
    away = policy.rename(policy.with_name("away"))
    _come_back(page)
    expect(page.locator("#findings")).to_contain_text("it may have been moved away")
    expect(page.locator(".editor:not([hidden]) .stale")).to_contain_text("This file is no longer on disk")
    wait_for_text(_text(page), RULES)
    _at_rest(page)
    away.rename(policy)
    _come_back(page)
    expect(page.locator("#state")).to_have_text("accepted, no findings")
    expect(page.locator(".editor:not([hidden]) .stale")).to_have_text("")
    (policy / "callability.yaml").unlink()
    _come_back(page)
    expect(page.locator("#difference details")).to_have_count(1)
    page.keyboard.press("Control+s")
    expect(page.locator("#saving-said")).to_contain_text("A new file")
    page.get_by_role("button", name="Write", exact=True).click()
    expect(page.locator("#difference-said")).to_have_text("No edits.")
    assert (policy / "callability.yaml").read_text() == RULES


def test_a_check_that_an_older_one_overtakes_is_made_again(page: Page, policy: Path) -> None:
    """Requests on two connections may arrive in the other order, and the server keeps to the one that came last."""
    _at_rest(page)
    held: list[Route] = []

    def overtaken(route: Route) -> None:
        held.append(route)
        arrived = {1: [], 2: held[::-1]}.get(len(held), [route])
        for each in arrived:
            each.continue_()

    page.route("**/check", overtaken)
    _come_back(page)
    (policy / "callability.yaml").unlink()
    _come_back(page)
    expect(page.locator("#difference details")).to_have_count(1)
    page.unroute("**/check", overtaken)


def test_what_looks_like_markup_is_text(page: Page) -> None:
    """In findings and words, in the margin and in the difference."""
    markup = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    _type_in(page, "The user disabled this tool.", markup)
    _fact(page, "approval.disabled", "true").check()
    expect(page.locator("#verdict .words").first).to_contain_text(markup)
    expect(page.locator("#difference .added").first).to_contain_text(markup)
    write(_text(page), RULES.replace(RULE, f'when: {{"{markup}": true}}, '))
    expect(page.locator("#findings li").first).to_contain_text(markup)
    expect(page.locator(".editor:not([hidden]) .note").first).to_contain_text(markup)
    _at_rest(page)
    assert page.locator("img, body script").count() == 0


def test_facts_are_those_that_the_server_returns(page: Page) -> None:
    """A few values have a button each; more than four are a list; and a value may be any text."""
    labels = 'labels:\n  server: {team: ["<b>", "`c`", d, none of these]}\nrules:\n'
    rule = "  - {id: mine, when: {agent.name: [\"\", '<i>*'], server.label.team: <b>}, status: disabled_by_user}\n"
    write(_text(page), RULES.replace("rules:\n", f"{labels}{rule}"))
    chosen = page.get_by_role("combobox", name="server.label.team")
    expect(chosen.locator("option")).to_have_text(["none", "<b>", "`c`", "d", "none of these", "unknown"])
    expect(chosen).to_have_value("none")
    agent = page.get_by_role("group", name="agent.name")
    expect(agent.get_by_role("radio")).to_have_count(3)
    chosen.select_option("<b>")
    expect(page.locator("#verdict-said")).to_have_text("disabled_by_user, by rule mine")
    agent.get_by_role("radio").last.check()
    expect(page.locator("#verdict-said")).to_have_text("disabled_unknown, undetermined at rule mine")
    write(_text(page), RULES)
    expect(chosen).to_have_count(0)
    _fact(page, "server.enabled", "false").check()
    expect(page.locator("#verdict-said")).to_have_text("server_disabled, by rule server-off")


def test_what_was_opened_and_what_has_the_focus_stays(page: Page) -> None:
    """When the page checks the same draft again, and when a fact is set."""
    page.locator("#verdict summary").click()
    _type_in(page, WAITING, NARROWER)
    expect(page.locator("#difference .change")).not_to_have_count(0)
    _at_rest(page)
    page.locator("#difference summary").click()
    to_line = page.get_by_role("button", name=re.compile(r"callability\.yaml:\d+")).first
    to_line.focus()
    with page.expect_response("**/difference"):
        _come_back(page)
    _at_rest(page)
    expect(to_line).to_be_focused()
    _fact(page, "server.enabled", "false").check()
    expect(page.locator("#verdict-said")).to_have_text("server_disabled, by rule server-off")
    for details in ("#verdict details[data-key=tried]", "#difference details"):
        expect(page.locator(details)).to_have_attribute("open", "")
    page.keyboard.press("Enter")
    _fact(page, "server.enabled", "true").check()
    expect(page.locator("#verdict-said")).to_have_text("callable, by rule open")


def test_a_draft_that_is_too_large_is_rejected_with_the_limit(page: Page) -> None:
    """Until it is smaller, whatever else is done."""
    write(_text(page), "#" * 524_289)
    expect(page.get_by_role("alert")).to_contain_text("larger than 524,288 bytes")
    _fact(page, "server.enabled", "false").check()
    expect(page.locator("#verdict-said")).to_contain_text("server_disabled")
    expect(page.get_by_role("alert")).to_contain_text("larger than 524,288 bytes")
    write(_text(page), RULES)
    expect(page.get_by_role("alert")).to_have_text("")


def test_a_page_outlives_its_server(empty_tab: Page, tmp_path: Path) -> None:
    """The edits stay, and a server that is started again for the same policy continues with them."""
    mine, others = tmp_path / "mine", tmp_path / "others"
    for directory in (mine, others):
        directory.mkdir()
        (directory / "callability.yaml").write_text(RULES)
    said = empty_tab.get_by_role("alert")
    with studio_process("--policy", str(mine)) as (_, bound):
        empty_tab.goto(bound)
        _at_rest(empty_tab)
    write(_text(empty_tab), "rules: []")
    expect(said).to_contain_text("the server does not answer")
    address = ("--address", urlsplit(bound).netloc)
    with studio_process("--policy", str(others), *address):
        empty_tab.get_by_role("button", name="Try again").click()
        expect(said).to_contain_text("this address serves another policy now")
    with studio_process("--policy", str(mine), *address):
        empty_tab.get_by_role("button", name="Try again").click()
        expect(said).to_have_text("")
        expect(_text(empty_tab)).to_be_focused()
        wait_for_text(_text(empty_tab), "rules: []")
        expect(empty_tab.locator("#findings")).to_contain_text("callability.yaml:1:")
        _at_rest(empty_tab)


def test_everything_that_can_be_used_has_a_name(page: Page) -> None:
    """As a screen reader reads it."""
    _type_in(page, WAITING, NARROWER)
    expect(page.locator("#difference .change")).not_to_have_count(0)
    page.get_by_role("tab", name="load_outcome.yaml").click()
    expect(page.locator("#verdict-said")).to_contain_text("available")
    lines = page.locator("body").aria_snapshot().splitlines()
    used = [line for line in lines if re.match(r"\s*- (textbox|button|radio|combobox|tab|group|region)\b", line)]
    assert len(used) > 25
    assert [line for line in used if not re.match(r'\s*- \w+ "[^"]+', line) and "- group:" not in line] == []
    assert page.locator("html").get_attribute("lang") == "en"
    ids = page.evaluate("() => [...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("page", "paper"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(23, 25, 30)")], indirect=["page"]
)
def test_it_can_be_read_in_light_and_in_dark(page: Page, paper: str) -> None:
    """Every text has the contrast that WCAG AA requires, also highlighted text and findings."""
    _fact(page, "approval.status", "changed").check()
    _type_in(page, WAITING, NARROWER)
    expect(page.locator("#difference .change")).not_to_have_count(0)
    expect(page.locator(".editor:not([hidden]) .note")).not_to_have_count(0)
    page.locator("#keys summary").click()
    page.get_by_role("tab", name="enable_outcome_test.yaml").click()
    write(editor_of(page, "enable_outcome_test.yaml"), "")
    page.get_by_role("tab", name="callability.yaml").click()
    _at_rest(page)
    reports = page.evaluate(UNREADABLE)
    assert reports["found"] == [], reports["least"]
    assert page.evaluate("() => getComputedStyle(document.querySelector('.editor')).backgroundColor") == paper


@pytest.mark.parametrize(("width", "height"), [(1440, 800), (1000, 600), (640, 400), (360, 640)])
def test_it_fits_wide_and_narrow_windows(page: Page, width: int, height: int) -> None:
    """Also 1280 by 800 at 200 %: only table and text scroll sideways, and everything can be reached."""
    page.set_viewport_size(ViewportSize(width=width, height=height))
    write(_text(page), RULES.replace("when: {", "when: {no.fact: true, "))
    expect(page.locator("#findings li").nth(9)).to_be_attached()
    for name in ("callability.yaml", "load_outcome.yaml"):
        page.get_by_role("tab", name=name).click()
        expect(page.locator("#table tr.lit")).to_have_count(1)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    for last in (page.locator("#findings li button").last, page.locator("#difference summary"), page.locator("#save")):
        last.scroll_into_view_if_needed()
        expect(last).to_be_in_viewport(ratio=1)


def test_nothing_moves_by_itself(page: Page) -> None:
    """So there is nothing to leave out for those who do not want it."""
    slow = """() => [...document.querySelectorAll("*")].map((each) => getComputedStyle(each))
      .filter((style) => style.transitionDuration !== "0s" || style.animationName !== "none"
        || style.scrollBehavior !== "auto").length"""
    assert page.evaluate(slow) == 0


def test_many_findings_leave_the_facts_within_reach(page: Page) -> None:
    """On a phone, where everything is in one column."""
    page.set_viewport_size(ViewportSize(width=390, height=844))
    faulty = "".join(f"  - {{id: r{n}, when: {{no.fact: true}}, status: server_disabled}}\n" for n in range(60))
    write(_text(page), RULES.replace("\nrules:\n", f"\nrules:\n{faulty}"))
    expect(page.locator("#findings li").nth(59)).to_be_attached()
    shown = page.locator("#findings").bounding_box()
    assert shown
    assert shown["height"] < 844


def test_errors_come_before_warnings(page: Page) -> None:
    """Wherever they are in the files."""
    text = RULES.replace("\nrules:\n", "\nlabels: {server: {stage: [trial]}}\n\nrules:\n")
    write(_text(page), text.replace(WAITING, NARROWER))
    expect(page.locator("#findings li.warning")).not_to_have_count(0)
    expect(page.locator("#findings li").first).to_have_class("error")
    expect(page.locator("#findings li").last).to_have_class("warning")


def test_a_status_is_not_cut_on_a_phone(page: Page) -> None:
    """It breaks after an underscore, beside the column of rules that stays in view too."""
    page.set_viewport_size(ViewportSize(width=390, height=844))
    expect(page.locator("#table tr.lit")).to_have_count(1)
    cut = """() => [...document.querySelectorAll("#table td.status")].filter((cell) =>
      cell.firstElementChild.getBoundingClientRect().right > cell.getBoundingClientRect().right).length"""
    assert page.evaluate(cut) == 0
