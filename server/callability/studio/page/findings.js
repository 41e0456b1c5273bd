/** The findings of the draft, errors first, each with a button that goes to its line. */

import { byId, button, draw, make, numberOf, prose, say } from "./dom.js";

const SEVERITIES = ["error", "warning", "note"];

/** Return the sentence of a finding, with its hint. */
export const findingText = (finding) => finding.sentence + (finding.hint ? ` (${finding.hint})` : "");

/** Show findings; `goTo` goes to the place of one, and `tryFacts` sets the facts of one. */
export function showFindings(checked, goTo, tryFacts) {
  const { error, warning } = checked.counts;
  const counts = [error && numberOf(error, "error"), warning && numberOf(warning, "warning")].filter(Boolean);
  const state = checked.sound ? "accepted" : "refused";
  byId("state").className = state;
  say(byId("state"), make("strong", {}, state), `, ${counts.join(", ") || "no findings"}`);
  const found = Object.values(checked.counts).reduce((sum, count) => sum + count, 0);
  const more = found - checked.findings.length;
  byId("findings-said").textContent = [more ? `${numberOf(more, "more finding")} left out.` : found ? "" : "No findings.", proved(checked)].filter(Boolean).join(" ");
  const ordered = SEVERITIES.flatMap((each) => checked.findings.filter((finding) => finding.severity === each));
  draw(byId("findings"), ordered, () => ordered.map((finding) => item(finding, goTo, tryFacts)));
}

/** Show how far the rules engine is, while it confirms the draft. */
export function showProgress({ decided, of }) {
  const share = of ? `: ${decided.toLocaleString("en")} of ${numberOf(of, "witness", "witnesses")}` : "";
  byId("confirmation").textContent = `The rules engine confirms the draft${share} …`;
}

/** Show that nothing is confirmed now. */
export function endProgress() {
  byId("confirmation").textContent = "";
}

function proved(checked) {
  const all = Object.values(checked.proved);
  if (!checked.sound) return "";
  const sum = (count) => all.reduce((total, each) => total + count(each), 0);
  const combinations = numberOf(all.reduce((total, each) => total + BigInt(each.combinations), 0n), "combination");
  const laws = numberOf(sum((each) => each.laws.length), "law");
  const tests = numberOf(sum((each) => each.tests_passed), "test");
  const engine = all[0]?.engine;
  const confirmed = engine ? `confirmed by ${engine}` : "not confirmed by the rules engine yet";
  return `${combinations} decided, ${confirmed}; ${laws} hold, ${tests} pass. Revision ${checked.revision.slice(0, 12)}.`;
}

function item(finding, goTo, tryFacts) {
  const place = finding.line ? `${finding.file}:${finding.line}:${finding.column}` : finding.file || "the policy";
  return make(
    "li",
    { class: finding.severity },
    finding.file ? button(place, () => goTo(finding)) : place,
    " ",
    make("strong", {}, finding.severity),
    " ",
    ...prose(findingText(finding)),
    " ",
    make("code", { class: "code" }, finding.code),
    ...(finding.witness ? [" ", button("Show these facts", () => tryFacts(finding.file, finding.witness))] : []),
  );
}
