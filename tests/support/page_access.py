"""What keeps people from using a page: texts that cannot be read, and parts without a name or out of order."""

from __future__ import annotations

from playwright.sync_api import Page

_UNREADABLE = """() => {
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
  const compare = (what, color, paper, wanted) => {
    const [one, other] = [light(channels(color)), light(paper)];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < wanted) found.push(`${what}: ${ratio.toFixed(2)}`);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const left = element.closest(":disabled, script, .unseen, .skip");
    if (!texts.currentNode.data.trim() || left || !element.checkVisibility()) continue;
    compare(texts.currentNode.data.trim(), getComputedStyle(element).color, behind(element), 4.5);
  }
  for (const each of document.querySelectorAll("button:enabled, select, input")) {
    if (!each.checkVisibility()) continue;
    compare(`border of ${each.textContent}`, getComputedStyle(each).borderTopColor, behind(each.parentElement), 3);
  }
  return found;
}"""
_FAULTS = """() => {
  const faults = [];
  const every = (selector) => [...document.querySelectorAll(selector)];
  const seen = (selector) => every(selector).filter((each) => each.checkVisibility());
  const texts = (elements) => [...elements].map((each) => each?.textContent ?? "").join("");
  const ids = (each) => (each.getAttribute("aria-labelledby") ?? "").split(" ").filter(Boolean);
  const named = (each) => each.getAttribute("aria-label")
    || texts(ids(each).map((id) => document.getElementById(id))) || texts(each.labels ?? []) || each.textContent.trim();
  for (const each of seen("button, a, input, select, summary, [role=group], section, nav")) {
    if (!named(each)) faults.push(`no name: ${each.outerHTML.slice(0, 80)}`);
  }
  const repeated = (names) => names.filter((name, index) => names.indexOf(name) !== index);
  const names = seen("button").map(named).filter((name) => !name.startsWith("Show "));
  faults.push(...repeated(names).map((name) => `two buttons have the name ${name}`));
  faults.push(...repeated(every("[id]").map((each) => each.id)).map((id) => `two elements have the id ${id}`));
  let level = 0;
  for (const each of every("h1, h2, h3, h4")) {
    const now = Number(each.tagName[1]);
    if (now > level + 1) faults.push(`a heading skips a level: ${each.textContent}`);
    level = now;
  }
  faults.push(...every("ul > :not(li), ol > :not(li)").map((each) => `a list holds ${each.tagName}`));
  faults.push(...every("[tabindex]").filter((each) => each.tabIndex > 0).map((each) => `tabindex of ${each.id}`));
  if (!document.documentElement.lang) faults.push("the page has no language");
  if (seen("main").length !== 1) faults.push("not one main part");
  return faults;
}"""


def unreadable_texts(page: Page) -> list[str]:
    """Return texts whose contrast with what is behind them is less than 4.5, and borders with less than 3."""
    found: list[str] = page.evaluate(_UNREADABLE)
    return found


def access_faults(page: Page) -> list[str]:
    """Return controls without a name or with that of another, and other faults for those who do not see the page."""
    found: list[str] = page.evaluate(_FAULTS)
    return found
