/** The decision table, with the deciding row highlighted. */

import { byId, countText, draw, make, numberOf, say, written } from "./dom.js";

const DECIDES = "▶";

/** Show a table. */
export function showTable(table) {
  if (!table.rows) {
    draw(byId("table"), table, () => []);
    say(byId("table-said"), "No table: neither the draft nor the saved file can be decided.");
    return;
  }
  const whose = table.of === "saved" ? "This is the table of the saved file, because the draft cannot be decided. " : "";
  const more = table.left_out ? ` ${numberOf(table.left_out, "more row")} left out.` : "";
  const named = table.facts.filter((fact) => table.rows.some((row) => row.facts[fact]));
  const same = table.facts.length - named.length;
  const head = ["", "status", "rule", ...named, "combinations"];
  const left = same ? ` ${numberOf(same, "fact")} that no row names ${same === 1 ? "has" : "have"} no column.` : "";
  say(byId("table-said"), `${whose}The first row that matches is the answer; “–” stands for any value, and “?” for a rule that cannot be decided.${left}${more}`);
  const columns = head.map((name) => make("th", { scope: "col" }, ...(name ? broken(name) : [unseen("decides")])));
  draw(byId("table"), table, () => [
    make(
      "table",
      {},
      make("thead", {}, make("tr", {}, ...columns)),
      make("tbody", {}, ...table.rows.map((row) => line(row, named))),
    ),
  ]);
}

/** Show no table. */
export function clearTable() {
  say(byId("table-said"));
  draw(byId("table"), null, () => []);
}

/** Highlight the row of a number, or no row. */
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
  const cells = facts.map((fact) => {
    const values = row.facts[fact];
    return make("td", { class: values ? undefined : "any" }, values ? values.map(written).join(", ") : "–");
  });
  const undetermined = [" ", make("span", { "aria-hidden": "true" }, "?"), unseen("undetermined")];
  return make(
    "tr",
    { class: row.undetermined ? "undetermined" : undefined },
    make("td", { class: "sign" }),
    make("td", { class: "status" }, make("strong", {}, ...broken(row.status))),
    make("th", { scope: "row" }, make("code", {}, row.rule), ...(row.undetermined ? undetermined : [])),
    ...cells,
    make("td", { class: "number" }, countText(row.combinations)),
  );
}

const unseen = (text) => make("span", { class: "unseen" }, text);

/** Return a name that may break after its dots and underscores. */
function broken(name) {
  return name.split(/(?<=[._])/).flatMap((part) => [part, make("wbr")]);
}
