"""The page of `callability studio` in a real browser: what a person sees, by mouse and by keyboard alone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import POLICY
from studios import studio, studio_process

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from playwright.sync_api import Browser, Locator, Page, Request, ViewportSize, expect, sync_playwright  # noqa: E402

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
MILLISECONDS = 60_000
RULES = (POLICY / "callability.yaml").read_text()
RULE = "when: {approval.disabled: true}, "
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
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const disabled = element.closest(":disabled, script, noscript, .unseen, .skip");
    if (!texts.currentNode.data.trim() || disabled || !element.checkVisibility()) continue;
    const [one, other] = [light(channels(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) found.push(`${texts.currentNode.data.trim()}: ${ratio.toFixed(2)}`);
  }
  return found;
}"""
"""Texts whose contrast with what is behind them is less than 4.5 (WCAG AA)."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's chromium."""
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM)
        yield launched
        launched.close()


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


@pytest.fixture(params=["light"])
def page(request: pytest.FixtureRequest, browser: Browser, url: str, policy: Path) -> Iterator[Page]:
    """The page, which asks no other host, writes nothing to the console, and has nothing on disk changed by default."""
    (policy / "callability.yaml").write_text(RULES)
    opened = browser.new_page(viewport=ViewportSize(width=1440, height=1000), color_scheme=request.param)
    opened.set_default_timeout(MILLISECONDS)
    expect.set_options(timeout=MILLISECONDS)
    asked: list[Request] = []
    told: list[str] = []
    opened.on("request", lambda request: asked.append(request))  # noqa: PLW0108  # the library marks the function
    opened.on("console", lambda message: told.append(message.text))
    opened.on("pageerror", lambda error: told.append(str(error)))
    opened.goto(url)
    _at_rest(opened)
    yield opened
    opened.close()
    assert asked
    assert [each.url for each in asked if not each.url.startswith(url)] == []
    # A browser writes each answer of an error to its console by itself.
    assert [text for text in told if not text.startswith("Failed to load resource")] == []


def _at_rest(page: Page) -> None:
    expect(page.locator("body")).to_have_attribute("aria-busy", "false")


def _text(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Text of callability.yaml")


def _type_in(page: Page, old: str, new: str) -> None:
    """Put the cursor on a text of the rule file, and type another in its place."""
    at = RULES.index(old)
    _text(page).evaluate(
        "(text, [start, end]) => { text.focus(); text.setSelectionRange(start, end) }", [at, at + len(old)]
    )
    page.keyboard.type(new)


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
    expect(page.locator("#verdict")).to_contain_text("change the lists of tools in the server's configuration")
    expect(page.locator("#verdict")).to_contain_text("lifted bythe operator")
    _fact(page, "server.enabled", "unknown").check()
    expect(page.locator("#verdict-said")).to_have_text("disabled_unknown, undetermined at rule server-off")
    expect(lit.get_by_role("rowheader")).to_have_text("server-off ?undetermined")
    page.get_by_role("button", name="Every fact open").click()
    expect(lit.get_by_role("rowheader")).to_have_text("open")


def test_a_file_of_another_question_brings_its_facts_and_its_table(page: Page) -> None:
    """Facts that vary together are moved, and that is told."""
    page.get_by_role("tab", name="load_outcome.yaml").click()
    expect(page.locator("#verdict-said")).to_contain_text("available")
    page.get_by_label("load.http_status").select_option("403")
    expect(page.locator("#verdict-said")).to_contain_text("denied")
    expect(page.locator("#moved")).to_contain_text("load.failure is http_status")
    expect(page.get_by_label("load.failure")).to_have_value("http_status")


def test_the_keyboard_alone_reaches_and_does_everything(page: Page, policy: Path) -> None:
    """Tab leads through, arrows choose, and what has the focus is seen to have it."""
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        focused = page.locator(":focus")
        seen.append(str(focused.evaluate("each => each.name || each.id || each.textContent.trim()")))
        assert focused.evaluate("each => getComputedStyle(each).outlineStyle") != "none", seen
        if "caller.refuses" in seen:
            break
    assert {"tab-0", "open-facts", "server.enabled", "approval.status", "caller.refuses"} <= set(seen), seen
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
    here = _text(page).evaluate("each => each.value.slice(0, each.selectionStart).split('\\n').length - 1")
    assert here == line
    page.keyboard.press("Control+s")
    expect(page.get_by_role("dialog")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert (policy / "callability.yaml").read_text() == RULES


def test_a_faulty_rule_has_its_finding_beside_its_line(page: Page) -> None:
    """As soon as it is typed; the verdict is then the saved file's, and says so."""
    _type_in(page, RULE, "when: {aproval.disabled: true}, ")
    note = page.locator(".editor:not([hidden]) .note")
    expect(note).to_contain_text("unknown fact aproval.disabled")
    expect(page.locator("#soundness")).to_have_text("refused, 1 error")
    expect(page.locator("#verdict-said")).to_contain_text("the saved file's")
    expect(page.get_by_role("tab", name=re.compile(r"callability\.yaml ?, edited, 1 error$"))).to_be_visible()
    _text(page).evaluate("text => { text.scrollTop = 60 }")
    band = page.locator(".editor:not([hidden]) .band.error")
    boxes = note.bounding_box(), band.bounding_box(), _text(page).bounding_box()
    assert boxes[0]
    assert boxes[1]
    assert boxes[2]
    assert abs(boxes[0]["y"] - boxes[1]["y"]) < 3
    line = RULES[: RULES.index(RULE)].count("\n")
    assert abs(boxes[1]["y"] - (boxes[2]["y"] + 8 + 20 * line - 60)) < 3
    page.get_by_role("button", name=re.compile(r"callability\.yaml:\d+")).click()
    expect(_text(page)).to_be_focused()


def test_a_sound_edit_says_which_answers_it_changes(page: Page) -> None:
    """With an example whose facts can be looked at."""
    _type_in(page, "The user switched this tool off.", "It is off.")
    expect(page.locator("#difference-said")).to_contain_text("changed")
    expect(page.locator("#soundness")).to_have_text("sound, nothing found")
    change = page.locator("#difference .change")
    expect(change).to_contain_text("disabled_by_user: other words")
    expect(change).to_contain_text("It is off.")
    change.get_by_role("button", name="Show an example").click()
    expect(page.locator("#verdict-said")).to_have_text("disabled_by_user, by rule user-off")


def test_a_broken_law_shows_facts_that_break_it(page: Page) -> None:
    """A button sets them."""
    _type_in(page, "approval.status: [pending, changed]}, status", "approval.status: pending}, status")
    law = page.locator("#findings li", has_text="what may be locked is never callable")
    law.get_by_role("button", name="Show these facts").click()
    expect(_fact(page, "approval.status", "changed")).to_be_checked()
    expect(page.locator("#verdict-said")).to_have_text("callable, by rule open")


def test_saving_asks_and_then_writes(page: Page, policy: Path) -> None:
    """What is shown in the question is what changes."""
    _type_in(page, "The user switched this tool off.", "It is off.")
    expect(page.locator("#difference-said")).to_contain_text("changed")
    _at_rest(page)
    page.get_by_role("button", name="Save…").click()
    dialog = page.get_by_role("dialog", name="Write callability.yaml?")
    expect(dialog.locator(".added")).to_contain_text("It is off.")
    dialog.get_by_role("button", name="Cancel").click()
    assert (policy / "callability.yaml").read_text() == RULES
    page.keyboard.press("Control+s")
    dialog.get_by_role("button", name="Write", exact=True).click()
    expect(page.locator("#difference-said")).to_have_text("Nothing is edited.")
    assert (policy / "callability.yaml").read_text() == RULES.replace("The user switched this tool off.", "It is off.")


def test_what_is_refused_is_saved_after_a_second_question_only(page: Page, policy: Path) -> None:
    """And the second is another one."""
    _type_in(page, RULE, "when: {aproval.disabled: true}, ")
    expect(page.locator("#findings li")).to_have_count(1)
    _at_rest(page)
    for sure in (False, True):
        page.keyboard.press("Control+s")
        page.get_by_role("button", name="Write", exact=True).click()
        second = page.get_by_role("dialog", name="callability.yaml is refused. Write it all the same?")
        expect(second).to_contain_text("1 error")
        assert (policy / "callability.yaml").read_text() == RULES
        second.get_by_role("button", name="Write it all the same" if sure else "Cancel").click()
        expect(second).to_be_hidden()
    expect(page.locator("#difference-said")).to_contain_text("Nothing is edited.")
    assert "aproval" in (policy / "callability.yaml").read_text()


def test_a_file_that_changes_on_disk_is_taken_over_unless_it_is_edited(page: Page, policy: Path) -> None:
    """Then it is told of, and the edit stays until it is given up."""
    (policy / "callability.yaml").write_text(f"# from elsewhere\n{RULES}")
    page.evaluate("dispatchEvent(new Event('focus'))")
    expect(_text(page)).to_have_value(f"# from elsewhere\n{RULES}")
    _at_rest(page)
    _text(page).fill(f"# typed\n{RULES}")
    expect(page.locator("#difference-said")).to_contain_text("No answer changes")
    (policy / "callability.yaml").write_text(RULES)
    page.evaluate("dispatchEvent(new Event('focus'))")
    take = page.get_by_role("button", name="Take what is on disk, and lose the edit")
    expect(take).to_be_visible()
    expect(_text(page)).to_have_value(f"# typed\n{RULES}")
    take.click()
    expect(_text(page)).to_have_value(RULES)
    expect(take).to_be_hidden()


def test_what_looks_like_markup_is_text(page: Page) -> None:
    """In findings, in the margin and in the difference."""
    markup = "<img src=x onerror=alert(1)>"
    _type_in(page, RULE, f'when: {{"{markup}": true}}, ')
    expect(page.locator("#findings li").first).to_contain_text(markup)
    _at_rest(page)
    assert page.locator("img").count() == 0


def test_a_draft_that_is_too_large_is_told_with_the_limit(page: Page) -> None:
    """And the page goes on with the next one."""
    _text(page).fill("#" * 524_289)
    expect(page.get_by_role("alert")).to_contain_text("larger than 524,288 bytes")
    _text(page).fill(RULES)
    expect(page.get_by_role("alert")).to_have_text("")


def test_a_server_that_is_gone_is_told_and_what_was_typed_stays(browser: Browser) -> None:
    """With a way to try again."""
    with studio_process("--policy", str(POLICY)) as (process, bound):
        opened = browser.new_page()
        opened.goto(bound)
        _at_rest(opened)
        process.terminate()
        process.wait(timeout=30)
        _text(opened).fill("rules: []")
        expect(opened.get_by_role("alert")).to_contain_text("the server does not answer")
        expect(opened.get_by_role("button", name="Try again")).to_be_visible()
        expect(_text(opened)).to_have_value("rules: []")
        opened.close()


def test_everything_that_can_be_used_has_a_name(page: Page) -> None:
    """As a screen reader is told of it."""
    _type_in(page, "approval.status: [pending, changed]}, status", "approval.status: pending}, status")
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
def test_it_can_be_read_in_light_and_in_dark(page: Page, paper: str, tmp_path: Path) -> None:
    """Every text has the contrast that WCAG AA asks for, also what is lit and what was found."""
    _fact(page, "approval.status", "changed").check()
    _type_in(page, "approval.status: [pending, changed]}, status", "approval.status: pending}, status")
    expect(page.locator("#difference .change")).not_to_have_count(0)
    expect(page.locator(".editor:not([hidden]) .note")).not_to_have_count(0)
    page.locator("#keys summary").click()
    assert page.evaluate(UNREADABLE) == []
    assert page.evaluate("() => getComputedStyle(document.querySelector('.editor')).backgroundColor") == paper
    assert page.screenshot(path=tmp_path / "page.png", full_page=True).startswith(b"\x89PNG")


@pytest.mark.parametrize("width", [1440, 1000, 360])
def test_it_fits_wide_and_narrow_windows(page: Page, width: int) -> None:
    """The page itself never has to be scrolled sideways."""
    page.set_viewport_size(ViewportSize(width=width, height=800))
    for name in ("callability.yaml", "load_outcome.yaml"):
        page.get_by_role("tab", name=name).click()
        expect(page.locator("#table tr.lit")).to_have_count(1)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
