/** The names of the files: one is shown, and arrow keys lead to the others. */

import { byId, make, numberOf } from "./dom.js";

export class Tabs {
  /** `chosen` is called with the name of a file. */
  constructor(names, chosen) {
    this.chosen = chosen;
    this.tabs = new Map(names.map((name, number) => [name, this.#tab(name, number)]));
    byId("tabs").append(...this.tabs.values());
  }

  /** Show which file is looked at. */
  select(name) {
    for (const [other, tab] of this.tabs) {
      tab.setAttribute("aria-selected", String(other === name));
      tab.tabIndex = other === name ? 0 : -1;
    }
  }

  /** Tell of a file whether it is edited, and what was found in it. */
  tell(name, edited, errors, warnings) {
    const [mark, said] = this.tabs.get(name).querySelectorAll("span");
    mark.textContent = `${edited ? " •" : ""}${errors ? " ✖" : warnings ? " ▲" : ""}`;
    const parts = [edited && "edited", errors && numberOf(errors, "error"), warnings && numberOf(warnings, "warning")];
    said.textContent = parts.filter(Boolean).map((part) => `, ${part}`).join("");
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
