/** What the draft changes in the saved policy: answers in groups, and lines. */

import { byId, button, make, numberOf, prose, say } from "./dom.js";

/** Show a difference; `tryFacts` shows the facts of an example. */
export function showDifference(told, tryFacts) {
  const count = told.changes.reduce((sum, change) => sum + change.combinations, 0);
  const edited = Object.keys(told.lines).length > 0;
  const summary = count ? `${numberOf(count, "answer")} changed` : edited ? "No answer changes." : "Nothing is edited.";
  const missing = told.compared.length < 3 ? " What cannot be decided is not compared." : "";
  say(byId("difference-said"), summary, missing);
  byId("difference").replaceChildren(
    ...told.changes.map((change) => card(change, tryFacts)),
    ...Object.entries(told.lines).map(([name, lines]) =>
      make("details", {}, make("summary", {}, `Lines of ${name}`), make("pre", { tabindex: "0" }, ...colored(lines))),
    ),
  );
}

/** Return lines of a difference as elements: added, taken away, or neither. */
export function colored(lines) {
  const kinds = { "+": "added", "-": "taken", "@": "place" };
  return lines.map((line) => make("span", { class: kinds[line[0]] }, `${line}\n`));
}

function card(change, tryFacts) {
  const { before, after } = change;
  const title = change.words_only
    ? [make("strong", {}, before.status), ": other words"]
    : [make("strong", {}, before.status), " → ", make("strong", {}, after.status)];
  const rules = [before, after].map((each) => each.rules.join(", "));
  const by = rules[0] === rules[1] ? `by \`${rules[0]}\`` : `by \`${rules[0]}\` before, \`${rules[1]}\` after`;
  return make(
    "article",
    { class: "change" },
    make("h3", {}, `${change.question}: `, ...title),
    make("p", {}, `in ${numberOf(change.combinations, "combination")}, `, ...prose(by)),
    make("ul", { "aria-label": "Where" }, ...change.where.map((where) => make("li", {}, ...prose(condition(where))))),
    ...(change.words_only ? otherWords(before.words ?? {}, after.words ?? {}) : []),
    button("Show an example", () => tryFacts(`${change.question}.yaml`, change.example)),
  );
}

function condition(facts) {
  const told = Object.entries(facts).map(([fact, values]) => `\`${fact}\`: ${values.join(" or ")}`);
  return told.join(", ") || "everywhere";
}

function otherWords(before, after) {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  const lines = [...names].filter((name) => before[name] !== after[name]).flatMap((name) => [
    ...(name in before ? [`- ${name}: ${before[name]}`] : []),
    ...(name in after ? [`+ ${name}: ${after[name]}`] : []),
  ]);
  return [make("pre", { class: "words", tabindex: "0" }, ...colored(lines))];
}
