/** The decision table, with the row that decides lit. */

import { byId, draw, make, numberOf, say, written } from "./dom.js";

const DECIDES = "▶";

/** Show a table. */
export function showTable(told) {
  if (!told.rows) {
    draw(byId("table"), told, () => []);
    say(byId("table-said"), "There is none: neither the draft nor the saved file can be decided.");
    return;
  }
  const whose = told.of === "saved" ? "That of the saved file: the draft cannot be decided. " : "";
  const more = told.left_out ? ` ${numberOf(told.left_out, "row")} more ${told.left_out === 1 ? "is" : "are"} left out.` : "";
  say(byId("table-said"), `${whose}The first row that matches is the answer; – is any value, ? a rule that cannot be decided.${more}`);
  const head = ["", ...told.facts, "status", "rule", "combinations"];
  const columns = head.map((name) => make("th", { scope: "col" }, ...(name ? broken(name) : [unseen("decides")])));
  draw(byId("table"), told, () => [
    make(
      "table",
      {},
      make("thead", {}, make("tr", {}, ...columns)),
      make("tbody", {}, ...told.rows.map((row) => line(row, told.facts))),
    ),
  ]);
}

/** Show nothing, until there is something to show. */
export function clearTable() {
  say(byId("table-said"));
  draw(byId("table"), null, () => []);
}

/** Light the row of a number, or none. */
export function lightRow(number) {
  byId("table")
    .querySelectorAll("tbody tr")
    .forEach((row, at) => {
      const lit = at === number;
      row.classList.toggle("lit", lit);
      row.toggleAttribute("aria-current", lit);
      if (lit) row.setAttribute("aria-current", "true");
      row.cells[0].replaceChildren(...(lit ? [make("span", { "aria-hidden": "true" }, DECIDES), unseen("decides")] : []));
    });
}

function line(row, facts) {
  const values = facts.map((fact) => {
    const told = row.facts[fact];
    return make("td", { class: told ? undefined : "any" }, told ? told.map(written).join(", ") : "–");
  });
  const undetermined = [" ", make("span", { "aria-hidden": "true" }, "?"), unseen("undetermined")];
  return make(
    "tr",
    { class: row.undetermined ? "undetermined" : undefined },
    make("td", { class: "sign" }),
    ...values,
    make("td", {}, make("strong", {}, row.status)),
    make("th", { scope: "row" }, make("code", {}, row.rule), ...(row.undetermined ? undetermined : [])),
    make("td", { class: "number" }, row.combinations.toLocaleString("en")),
  );
}

const unseen = (text) => make("span", { class: "unseen" }, text);

/** Return a name that may be broken behind its dots and underscores. */
function broken(name) {
  return name.split(/(?<=[._])/).flatMap((part) => [part, make("wbr")]);
}
