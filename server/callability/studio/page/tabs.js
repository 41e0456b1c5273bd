/** The tabs of the files; arrow keys select another one. */

import { byId, make, numberOf } from "./dom.js";

export class Tabs {
  /** `chosen` is called with the name of a file. */
  constructor(names, chosen) {
    this.chosen = chosen;
    this.tabs = new Map(names.map((name, number) => [name, this.#tab(name, number)]));
    byId("tabs").append(...this.tabs.values());
  }

  /** Mark the selected file. */
  select(name) {
    for (const [other, tab] of this.tabs) {
      tab.setAttribute("aria-selected", String(other === name));
      tab.tabIndex = other === name ? 0 : -1;
    }
  }

  /** Mark whether a file is edited, and how many errors and warnings it has. */
  mark(name, edited, errors, warnings) {
    const [sign, text] = this.tabs.get(name).querySelectorAll("span");
    sign.textContent = `${edited ? " •" : ""}${errors ? " ✖" : warnings ? " ▲" : ""}`;
    const parts = [edited && "edited", errors && numberOf(errors, "error"), warnings && numberOf(warnings, "warning")];
    text.textContent = parts.filter(Boolean).map((part) => `, ${part}`).join("");
  }

  #tab(name, number) {
    const tab = make(
      "button",
      { type: "button", role: "tab", id: `tab-${number}`, "aria-controls": `panel-${number}`, tabindex: "-1" },
      name,
      make("span", { "aria-hidden": "true" }),
      make("span", { class: "unseen" }),
    );
    tab.addEventListener("click", () => this.chosen(name));
    tab.addEventListener("keydown", (event) => this.#move(event, name));
    return tab;
  }

  #move(event, name) {
    const names = [...this.tabs.keys()];
    const at = names.indexOf(name);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: names.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = names[(to + names.length) % names.length];
    this.chosen(next);
    this.tabs.get(next).focus();
  }
}
