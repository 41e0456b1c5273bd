/** The text of one file in an editor, with its findings below their lines. */

import { defaultKeymap, EditorState, EditorView, highlightActiveLine, highlightSelectionMatches, history, historyKeymap, keymap, lineNumbers, placeholder, search, searchKeymap, yaml } from "./codemirror.js";
import { byId, make } from "./dom.js";
import { annotations, annotate } from "./annotations.js";
import { highlighting } from "./highlighting.js";

const NONCE = document.querySelector('meta[name="callability-nonce"]').nonce;

export class Editor {
  /** `edited` is called after each edit. */
  constructor(saved, number, edited) {
    this.name = saved.name;
    this.findings = [];
    this.lit = 0;
    this.changed = () => edited(this);
    this.stale = make("p", { class: "stale", role: "status" });
    this.panel = make(
      "div",
      { class: "editor", role: "tabpanel", id: `panel-${number}`, "aria-labelledby": `tab-${number}`, hidden: true },
      this.stale,
    );
    byId("editors").append(this.panel);
    this.saved = saved;
    this.view = new EditorView({ parent: this.panel, state: this.#state() });
    this.take(saved);
  }

  /** Load the current file on disk, and discard the edit. */
  take(saved) {
    this.saved = saved;
    this.noticed = undefined;
    // The text stays where the cursor is, and can be undone, if nothing about it differs.
    if (this.value !== saved.text || this.kind !== kindOf(saved)) this.view.setState(this.#state());
    this.notice(saved.problem ? `This file cannot be edited here: it ${saved.problem}.` : "");
    this.#mark();
  }

  /** Record the current file on disk, and keep the edit. */
  keep(saved) {
    this.saved = saved;
    this.noticed = undefined;
    this.notice("");
  }

  /** Show a notice about the file, above its text. */
  notice(sentence, ...buttons) {
    if (this.stale.contains(document.activeElement)) this.focus();
    this.stale.replaceChildren(sentence, ...buttons);
  }

  get value() {
    this.text ??= this.view.state.doc.toString();
    return this.text;
  }

  get edited() {
    return this.value !== this.saved.text;
  }

  /** The number of the line of the cursor. */
  get line() {
    return this.view.state.doc.lineAt(this.view.state.selection.main.head).number;
  }

  focus() {
    this.view.focus();
  }

  /** Show the file, or hide it. */
  show(shown) {
    this.panel.hidden = !shown;
    if (shown) this.view.requestMeasure();
  }

  /** Mark the findings of the file, and the line of the rule that decides (0: none). */
  mark(findings, lit = this.lit) {
    this.findings = findings.filter((finding) => finding.line > 0);
    this.lit = lit;
    this.#mark();
  }

  /** Put the cursor on a line. */
  goTo(number) {
    const { doc } = this.view.state;
    const line = doc.line(Math.min(number, doc.lines));
    this.view.dispatch({ selection: { anchor: line.from, head: line.to }, effects: EditorView.scrollIntoView(line.from, { y: "center" }) });
    this.focus();
  }

  #mark() {
    const now = JSON.stringify([this.findings, this.lit]);
    if (this.marked === now) return;
    this.marked = now;
    this.view.dispatch({ effects: annotate.of({ findings: this.findings, lit: this.lit }) });
  }

  #state() {
    this.text = undefined;
    this.marked = undefined;
    this.kind = kindOf(this.saved);
    const readOnly = this.saved.problem !== "";
    return EditorState.create({
      doc: this.saved.text,
      extensions: [
        EditorView.cspNonce.of(NONCE),
        EditorState.readOnly.of(readOnly),
        EditorView.contentAttributes.of({ "aria-label": `Text of ${this.name}`, "aria-readonly": String(readOnly) }),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged) return;
          this.text = undefined;
          this.changed();
        }),
        EditorView.lineWrapping,
        lineNumbers(),
        history(),
        highlightActiveLine(),
        highlightSelectionMatches(),
        search({ top: true }),
        yaml(),
        highlighting,
        annotations,
        placeholder(this.saved.digest ? "" : "There is no such file yet."),
        // Tab stays what moves the focus.
        keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap]),
      ],
    });
  }
}

const kindOf = (saved) => [saved.digest === "", saved.problem !== ""].join();
