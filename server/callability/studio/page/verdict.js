/** The answer for the facts: the status, its words, the path to callable, and the rules that were tried. */

import { byId, draw, make, prose, say } from "./dom.js";

const OWNERS = { user: "the user", operator: "the operator", none: "nobody needs to", undetermined: "undetermined" };
const TRUTHS = { true: "✔", false: "✘", undetermined: "?" };

/** Show an answer; `actions` are those that the words may name. */
export function showVerdict(answer, actions) {
  const verdict = answer.verdict;
  const card = byId("verdict");
  card.className = byId("bar").className = verdict ? `status-${verdict.lifted_by === "none" ? "free" : verdict.retry}` : "";
  if (!verdict) {
    say(byId("verdict-said"), "No answer: neither the draft nor the saved file can be decided.");
    draw(card, null, () => []);
    return;
  }
  const how = verdict.undetermined ? ", undetermined at rule " : ", by rule ";
  const whose = answer.of === "saved" ? " (in the saved file, because the draft cannot be decided)" : "";
  say(byId("verdict-said"), make("strong", {}, verdict.status), how, make("code", {}, verdict.rule), whose);
  draw(card, [answer, actions], () => [fixed(verdict), ...read(answer.rejection), ...words(answer, actions), ...path(answer.path), tried(answer.trials)]);
}

/** Show no verdict. */
export function clearVerdict() {
  say(byId("verdict-said"));
  byId("verdict").className = byId("bar").className = "";
  draw(byId("verdict"), null, () => []);
}

function fixed(verdict) {
  const pairs = [
    ["lifted by", OWNERS[verdict.lifted_by]],
    ["retry", verdict.retry],
  ];
  if (verdict.unread) pairs.push(["could not be read", verdict.unread.join(", ")]);
  if ("withhold_text" in verdict) pairs.push(["upstream text", verdict.withhold_text ? "withheld" : "may be shown"]);
  return make("dl", { class: "fixed" }, ...pairs.map(([name, value]) => pair(name, value)));
}

const pair = (name, ...value) => make("div", {}, make("dt", {}, name), make("dd", {}, ...value));

/** Return what an agent reads if it calls the tool: the text and the structured content of the result. */
function read(rejection) {
  if (!rejection) return [];
  const text = rejection.content.map((each) => each.text).join("\n");
  const content = JSON.stringify(rejection.structuredContent, null, 2);
  return [
    make("h3", {}, "What the agent reads"),
    make("blockquote", { class: "agent" }, text),
    make("details", { "data-key": "structured" }, make("summary", {}, "Structured content"), make("pre", { tabindex: "0", "aria-label": "Structured content" }, content)),
  ];
}

function words(answer, actions) {
  if (!answer.words) return [];
  const texts = Object.entries(answer.words).map(([name, template]) => pair(name, ...filled(template, actions)));
  return [make("dl", { class: "words", "aria-label": "Words" }, ...texts)];
}

/** Return words with neutral phrases for actions; a placeholder that only a caller can fill in keeps its name. */
function filled(template, actions) {
  return template.split(/\{([a-z_]+)\}/).map((part, number) => {
    if (number % 2 === 0) return part;
    if (!Object.hasOwn(actions, part)) return make("code", {}, `{${part}}`);
    const action = actions[part];
    return make("mark", { title: `{${part}}: ${OWNERS[action.owner]}` }, action.phrase);
  });
}

function path(data) {
  if (!data) return [];
  const [end, ...changes] = data.sentences.toReversed();
  return [
    make("h3", {}, "Path to callable"),
    ...(changes.length ? [make("ol", {}, ...changes.reverse().map((change) => make("li", {}, ...prose(change))))] : []),
    make("p", {}, ...prose(end)),
  ];
}

function tried(trials) {
  const items = trials.map((trial) => {
    const sign = make("span", { class: `truth ${trial.truth}`, "aria-hidden": "true" }, TRUTHS[trial.truth]);
    return make("li", {}, sign, " ", make("code", {}, trial.rule), " ", ...prose(trial.why));
  });
  return make("details", { "data-key": "tried" }, make("summary", {}, `Rules tried, in order: ${items.length}`), make("ol", {}, ...items));
}
