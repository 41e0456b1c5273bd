/** What the draft changes in the saved policy: groups of answers, and lines. */

import { byId, button, draw, make, numberOf, prose, say } from "./dom.js";

/** Show a difference; `tryFacts` sets the facts of an example. */
export function showDifference(difference, tryFacts) {
  const edited = Object.keys(difference.lines).length > 0;
  const missing = difference.compared ? "" : " Rule sets that cannot be decided are not compared.";
  const much = difference.too_much.map((sentence) => ` Not compared: ${sentence}.`).join("");
  const summary = difference.answers ? `${numberOf(difference.answers, "answer")} changed` : edited && difference.compared && !much ? "No answer changes." : edited ? "No answer is known to change." : "No edits.";
  const more = difference.left_out ? ` ${numberOf(difference.left_out, "more group")} left out.` : "";
  say(byId("difference-said"), summary, more, missing, ...prose(much));
  draw(byId("difference"), difference, () => [
    ...difference.changes.map((change) => card(change, tryFacts)),
    ...Object.entries(difference.lines).map(([name, lines]) => {
      const shown = make("pre", { tabindex: "0", "aria-label": `Lines of ${name}` }, ...colored(lines));
      return make("details", { "data-key": name }, make("summary", {}, `Lines of ${name}`), shown);
    }),
  ]);
}

/** Return lines of a difference as elements: added, removed, or neither. */
export function colored(lines) {
  const kinds = { "+": "added", "-": "taken", "@": "place" };
  return lines.map((line) => make("span", { class: kinds[line[0]] }, `${line}\n`));
}

function card(change, tryFacts) {
  const { before, after } = change;
  const title = change.words_only
    ? [make("strong", {}, before.status), ": different words"]
    : [make("strong", {}, before.status), " → ", make("strong", {}, after.status)];
  const rules = [before, after].map((each) => each.rules.join(", "));
  const more = change.conditions - change.where.length;
  const where = change.where.map((facts) => make("li", {}, ...prose(condition(facts))));
  const by = rules[0] === rules[1] ? `by \`${rules[0]}\`` : `by \`${rules[0]}\` before, \`${rules[1]}\` after`;
  return make(
    "article",
    { class: "change" },
    make("h3", {}, `${change.question}: `, ...title),
    make("p", {}, `in ${numberOf(change.combinations, "combination")}, `, ...prose(by)),
    make("ul", { "aria-label": "Where" }, ...where, ...(more ? [make("li", {}, `and ${numberOf(more, "condition")} more`)] : [])),
    ...(change.words_only ? otherWords(before.words ?? {}, after.words ?? {}) : []),
    button("Show an example", () => tryFacts(`${change.question}.yaml`, change.example)),
  );
}

function condition(facts) {
  const values = Object.entries(facts).map(([fact, each]) => `\`${fact}\`: ${each.join(" or ")}`);
  return values.join(", ") || "everywhere";
}

function otherWords(before, after) {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  const lines = [...names].filter((name) => before[name] !== after[name]).flatMap((name) => [
    ...(name in before ? [`- ${name}: ${before[name]}`] : []),
    ...(name in after ? [`+ ${name}: ${after[name]}`] : []),
  ]);
  return [make("pre", { class: "words", tabindex: "0", "aria-label": "Words that change" }, ...colored(lines))];
}
