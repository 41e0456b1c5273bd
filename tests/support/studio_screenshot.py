"""Take the picture of `callability studio` that its page in `docs/` shows."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

from support.checkout import POLICY
from support.studio_editor import editor_of, scroll_to_top, text_of, write
from support.studios import studio

MILLISECONDS = 120_000
SIZE = ViewportSize(width=1440, height=1000)


def main(picture: str) -> None:
    """Show a rule that was narrowed by mistake, and what is said about it."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("there is no chromium")
    expect.set_options(timeout=MILLISECONDS)
    with TemporaryDirectory() as temporary, sync_playwright() as playwright:
        policy = Path(temporary) / "my-policy"
        shutil.copytree(POLICY, policy)
        browser = playwright.chromium.launch(executable_path=chromium)
        with studio(policy) as url:
            page = browser.new_page(viewport=SIZE)
            page.goto(url)
            _edit(page)
            # The name of the directory is another one each time.
            page.locator("#directory").evaluate("(each) => { each.textContent = '/home/me/my-policy' }")
            page.screenshot(path=picture)
        browser.close()


def _edit(page: Page) -> None:
    text = editor_of(page)
    page.get_by_role("group", name="approval.status").get_by_label("changed").check()
    narrower = ("when: {approval.status: changed}", "when: {approval.status: changed, tool.name: wipe}")
    write(text, text_of(text).replace(*narrower))
    expect(page.locator("#difference .change")).not_to_have_count(0)
    expect(page.locator("#verdict-said")).to_have_text("callable, by rule open")
    scroll_to_top(text)


if __name__ == "__main__":
    main(sys.argv[1])
