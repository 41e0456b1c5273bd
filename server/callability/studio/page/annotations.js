/** Findings below their lines, and the line of the rule that decides. */

import { Decoration, EditorView, StateEffect, StateField, WidgetType } from "./codemirror.js";
import { findingText } from "./findings.js";
import { make, prose } from "./dom.js";

/** The effect that shows other findings, and another deciding line. */
export const annotate = StateEffect.define();

/** The extension that shows them. They move with the text until the next check. */
export const annotations = StateField.define({
  create: () => Decoration.none,
  update(shown, transaction) {
    const effect = transaction.effects.find((each) => each.is(annotate));
    return effect ? decorations(transaction.state.doc, effect.value) : shown.map(transaction.changes);
  },
  provide: (field) => [
    EditorView.decorations.from(field),
    EditorView.contentAttributes.compute([field], (state) => ({ "aria-invalid": String(hasError(state.field(field))) })),
  ],
});

class Note extends WidgetType {
  constructor(finding) {
    super();
    this.finding = finding;
  }

  eq(other) {
    return other.finding.severity === this.finding.severity && findingText(other.finding) === findingText(this.finding);
  }

  toDOM() {
    const text = findingText(this.finding);
    return make("div", { class: `note ${this.finding.severity}`, title: text }, make("p", {}, ...prose(text)));
  }
}

function decorations(doc, { findings, lit }) {
  const there = findings.filter((finding) => finding.line <= doc.lines);
  const lines = new Map(there.toReversed().map((finding) => [finding.line, []]));
  for (const finding of there) lines.get(finding.line).push(finding);
  const found = [];
  if (lit && lit <= doc.lines) found.push(Decoration.line({ class: "lit" }).range(doc.line(lit).from));
  for (const [number, mine] of lines) {
    const line = doc.line(number);
    const severity = mine.some((finding) => finding.severity === "error") ? "error" : mine[0].severity;
    found.push(Decoration.line({ class: `found ${severity}` }).range(line.from));
    mine.forEach((finding, at) => found.push(Decoration.widget({ widget: new Note(finding), block: true, side: at + 1 }).range(line.to)));
  }
  return Decoration.set(found, true);
}

function hasError(shown) {
  for (let at = shown.iter(); at.value; at.next()) {
    if (at.value.spec.class === "found error") return true;
  }
  return false;
}
