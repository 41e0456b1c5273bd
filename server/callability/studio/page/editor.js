/** The text of one file, with line numbers, and its findings beside the lines. */

import { byId, make, prose } from "./dom.js";

const LINE = 20;
const ABOVE = 8;

export class Editor {
  /** `edited` is called after each edit. */
  constructor(saved, number, edited) {
    this.name = saved.name;
    this.findings = [];
    this.lit = 0;
    this.text = make("textarea", {
      "aria-label": `Text of ${saved.name}`,
      autocapitalize: "off",
      autocomplete: "off",
      spellcheck: "false",
      wrap: "off",
    });
    this.numbers = make("div", { class: "numbers" });
    this.bands = make("div", { class: "bands" });
    this.notes = make("div", { class: "notes" });
    this.stale = make("p", { class: "stale", role: "status" });
    this.panel = make(
      "div",
      { class: "editor", role: "tabpanel", id: `panel-${number}`, "aria-labelledby": `tab-${number}`, hidden: true },
      this.stale,
      make(
        "div",
        { class: "paper" },
        make("div", { class: "gutter", "aria-hidden": "true" }, this.numbers),
        make("div", { class: "sheet" }, this.bands, this.text),
        make("div", { class: "margin", "aria-hidden": "true" }, this.notes),
      ),
    );
    this.text.addEventListener("input", () => {
      this.#count();
      edited(this);
    });
    this.text.addEventListener("scroll", () => this.#follow());
    byId("editors").append(this.panel);
    this.take(saved);
  }

  /** Load the current file on disk, and discard the edit. */
  take(saved) {
    this.saved = saved;
    this.noticed = undefined;
    this.text.value = saved.text;
    this.text.readOnly = saved.problem !== "";
    this.text.placeholder = saved.digest ? "" : "There is no such file yet.";
    this.notice(saved.problem ? `This file cannot be edited here: it ${saved.problem}.` : "");
    this.#count();
  }

  /** Record the current file on disk, and keep the edit. */
  keep(saved) {
    this.saved = saved;
    this.noticed = undefined;
    this.notice("");
  }

  /** Show a notice about the file, above its text. */
  notice(sentence, ...buttons) {
    if (this.stale.contains(document.activeElement)) this.text.focus();
    this.stale.replaceChildren(sentence, ...buttons);
  }

  get edited() {
    return this.text.value !== this.saved.text;
  }

  /** Show the file, or hide it. */
  show(shown) {
    this.panel.hidden = !shown;
    if (shown) this.#mark();
  }

  /** Mark the findings of the file, and the line of the rule that decides (0: none). */
  mark(findings, lit = this.lit) {
    this.findings = findings.filter((finding) => finding.line > 0);
    this.lit = lit;
    this.text.setAttribute("aria-invalid", String(this.findings.some((finding) => finding.severity === "error")));
    this.#mark();
  }

  /** Put the cursor on a line. */
  goTo(line) {
    const lines = this.text.value.split("\n");
    const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
    this.text.focus();
    this.text.setSelectionRange(start, start + (lines[line - 1] ?? "").length);
    this.text.scrollTop = Math.max(0, (line - 6) * LINE);
    this.text.scrollLeft = 0;
  }

  #count() {
    const count = this.text.value.split("\n").length;
    if (count === this.counted) return;
    this.counted = count;
    this.numbers.textContent = Array.from({ length: count }, (_, number) => number + 1).join("\n");
  }

  #mark() {
    const bands = this.findings.map((finding) => band(finding.line, finding.severity));
    const over = this.findings.some((finding) => finding.line === this.lit);
    this.bands.replaceChildren(...bands, ...(this.lit ? [band(this.lit, over ? "lit over" : "lit")] : []));
    this.panel.classList.toggle("found", this.findings.length > 0);
    let free = 0;
    this.notes.replaceChildren();
    for (const finding of this.findings) {
      const note = make("p", { class: `note ${finding.severity}` }, ...prose(findingText(finding)));
      note.addEventListener("click", () => this.goTo(finding.line));
      const top = Math.max(free, ABOVE + (finding.line - 1) * LINE);
      note.style.top = `${top}px`;
      this.notes.append(note);
      free = top + note.offsetHeight + 2;
    }
    this.#follow();
  }

  #follow() {
    const scrolled = `translateY(${-this.text.scrollTop}px)`;
    for (const each of [this.numbers, this.bands, this.notes]) each.style.transform = scrolled;
  }
}

/** Return the sentence of a finding, with its hint. */
export const findingText = (finding) => finding.sentence + (finding.advice ? ` (${finding.advice})` : "");

function band(line, kind) {
  const made = make("div", { class: `band ${kind}` });
  made.style.top = `${ABOVE + (line - 1) * LINE}px`;
  return made;
}
