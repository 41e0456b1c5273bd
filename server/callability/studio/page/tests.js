/** The tests of the draft: which failed, and why. */

import { byId, button, draw, make, numberOf, prose, say } from "./dom.js";

/** Show the tests of a question; `goTo` goes to the place of one, and `tryFacts` sets its facts. */
export function showTests(checked, question, goTo, tryFacts) {
  const mine = checked.tests.filter((test) => test.file === `${question}_test.yaml`);
  const [failed, passed] = [true, false].map((wanted) => mine.filter((test) => Boolean(test.failed) === wanted));
  const elsewhere = checked.tests.filter((test) => test.failed).length - failed.length;
  const more = elsewhere ? ` ${numberOf(elsewhere, "test")} of other files failed.` : "";
  const counts = failed.length ? `${failed.length} of ${numberOf(mine.length, "test")} failed.` : `${numberOf(mine.length, "test")} passed.`;
  say(byId("tests-said"), mine.length ? counts : "No test has run: there is none, or the rules cannot be decided.", more);
  const item = (test) => testItem(test, question, goTo, tryFacts);
  draw(byId("tests"), mine, () => [
    ...(failed.length ? [make("ol", { class: "failed", "aria-label": "Tests that failed" }, ...failed.map(item))] : []),
    ...(passed.length ? [make("details", { "data-key": "passed" }, make("summary", {}, `Tests that passed: ${passed.length}`), make("ol", {}, ...passed.map(item)))] : []),
  ]);
}

function testItem(test, question, goTo, tryFacts) {
  const sign = make("span", { class: `truth ${!test.failed}`, "aria-hidden": "true" }, test.failed ? "✘" : "✔");
  const why = test.differences.length ? test.differences : test.failed ? [test.failed] : [];
  return make(
    "li",
    {},
    make("p", {}, sign, " ", test.name),
    ...why.map((each) => make("p", { class: "why" }, ...prose(each))),
    make(
      "p",
      {},
      button("Show these facts", () => tryFacts(`${question}.yaml`, test.facts), { "aria-label": `Show these facts: ${test.name}` }),
      " ",
      button(`${test.file}:${test.line}`, () => goTo(test)),
    ),
  );
}
