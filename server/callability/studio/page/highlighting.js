/** The colours of YAML, and of the editor: those of the page, light or dark. */

import { EditorView, HighlightStyle, syntaxHighlighting, tags } from "./codemirror.js";

const yaml = HighlightStyle.define([
  { tag: tags.definition(tags.propertyName), color: "var(--key)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--string)" },
  { tag: [tags.lineComment, tags.meta], color: "var(--quiet)", fontStyle: "italic" },
  { tag: [tags.typeName, tags.labelName], color: "var(--accent)" },
  { tag: [tags.separator, tags.squareBracket, tags.brace, tags.punctuation], color: "var(--quiet)" },
]);

const colours = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "var(--paper)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { font: "12px/19px var(--mono)" },
  ".cm-content": { padding: "8px 0", caretColor: "var(--ink)" },
  // What goes on in the next line is indented.
  ".cm-line": { padding: "0 0.6rem 0 calc(0.6rem + 6ch)", textIndent: "-6ch" },
  ".cm-gutters": { backgroundColor: "var(--paper)", color: "var(--quiet)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "var(--active)" },
  ".cm-selectionMatch": { backgroundColor: "var(--mark)" },
  ".cm-content ::selection": { backgroundColor: "var(--selection)" },
  ".cm-placeholder": { color: "var(--quiet)" },
  ".cm-panels": { backgroundColor: "var(--around)", color: "var(--ink)" },
  ".cm-panels-top": { borderBottom: "1px solid var(--line)" },
  ".cm-panel input, .cm-panel .cm-textfield": { backgroundColor: "var(--paper)", color: "var(--ink)", borderColor: "var(--control)" },
  ".cm-panel .cm-button": { background: "var(--paper)", color: "var(--ink)", borderColor: "var(--control)" },
  ".cm-searchMatch": { backgroundColor: "var(--mark)" },
  ".cm-searchMatch-selected": { backgroundColor: "var(--lit)" },
});

/** The extension that gives an editor these colours. */
export const highlighting = [syntaxHighlighting(yaml), colours];
