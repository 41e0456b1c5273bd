/** The parts of the page. What servers wrote is inserted as text only, and what cannot be seen in it is written out. */

import { button, make, prose } from "/dom.js";

const MOST = 50;
const PAUSE_MILLISECONDS = 600;
const shownOf = new WeakMap();
const drawnIn = new WeakMap();

const STATES = { connected: "good", failed: "bad", disabled: "", connecting: "attention" };
const STATUSES = {
  server_disabled: "its server is switched off",
  disabled_by_config: "denied by the operator",
  server_quarantined: "its server is in quarantine",
  disabled_by_user: "blocked",
  pending_approval: "waits for a review",
  disabled_unknown: "held back",
};

/** Return a text as nodes; a character that cannot be seen, or that turns text round, is written as its number. */
export function visible(text) {
  return text.split(/([\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}])/u).map((part, index) => {
    if (index % 2 === 0 || part === "\n" || part === "\t") return part;
    const number = part.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    return make("span", { class: "unprinted", title: "a character that cannot be seen" }, `U+${number}`);
  });
}

/**
 * Draw items in a list, each under a key. An item that is the same as before keeps its element, and so the focus in it.
 * Of many items the first are drawn, and a button shows more.
 */
export function drawList(list, items, keyOf, partsOf) {
  const most = shownOf.get(list) ?? MOST;
  const before = drawnIn.get(list) ?? new Map();
  const now = new Map();
  for (const item of items.slice(0, most)) {
    const key = keyOf(item);
    const text = JSON.stringify(item);
    const kept = before.get(key);
    if (kept?.text === text) now.set(key, kept);
    else now.set(key, { text, element: make("li", {}, ...partsOf(item)) });
    keepPlace(kept?.element, now.get(key).element);
  }
  const elements = [...now.values()].map((each) => each.element);
  if (items.length > most) {
    const more = button(`Show ${Math.min(MOST, items.length - most)} more of ${items.length - most}`, () => {
      shownOf.set(list, most + MOST);
      drawList(list, items, keyOf, partsOf);
      list.children[most]?.querySelector("button, summary")?.focus();
    });
    elements.push(make("li", {}, more));
  }
  const same = elements.length === list.children.length && elements.every((each, index) => each === list.children[index]);
  if (!same) place(list, elements);
  drawnIn.set(list, now);
}

/** Put elements into a list without moving those that stay: a moved element loses the focus. */
function place(list, elements) {
  const wanted = new Set(elements);
  const isFirst = list.children.length === 0;
  for (const each of [...list.children]) if (!wanted.has(each)) each.remove();
  elements.forEach((each, index) => {
    if (list.children[index] !== each) list.insertBefore(each, list.children[index] ?? null);
  });
  if (!isFirst) pauseButtons(list);
}

/** Let no click through for a moment: another button may have come under the pointer. */
function pauseButtons(list) {
  const buttons = [...list.querySelectorAll("button:enabled")].filter((each) => each !== document.activeElement);
  for (const each of buttons) each.disabled = true;
  setTimeout(() => buttons.forEach((each) => (each.disabled = false)), PAUSE_MILLISECONDS);
}

/** Keep what is open in an element that is replaced. A button that had the focus is for what was shown: the item gets it. */
function keepPlace(old, element) {
  if (!old || old === element) return;
  const isOpen = old.querySelector("details[open]") !== null;
  if (isOpen && element.querySelector("details")) element.querySelector("details").open = true;
  if (!old.contains(document.activeElement)) return;
  const summary = document.activeElement.tagName === "SUMMARY" && element.querySelector("summary");
  element.tabIndex = -1;
  requestAnimationFrame(() => (summary || element).focus());
}

const nameOf = (item) => make("span", { class: "name" }, ...visible(item.tool), make("span", { class: "server-of" }, ` of ${item.server}`));

/** Return the parts of a tool that waits for a review. */
export function waitingParts(item, act) {
  const differs = item.fields.some((field) => "before" in field);
  const fields = item.fields.flatMap((field) => [make("dt", {}, ...visible(field.field)), make("dd", {}, ...values(field))]);
  const head = [nameOf(item), make("span", { class: "tag attention" }, item.kind === "changed" ? "changed" : "new")];
  if (item.blocked) head.push(make("span", { class: "tag bad" }, "blocked"));
  const parts = [make("div", { class: "head" }, ...head)];
  if (item.kind === "changed" && !differs) parts.push(make("p", { class: "hint" }, "The text that was approved is not kept. This is what the tool is now:"));
  const label = differs ? `What changed of ${item.tool}` : `Definition of ${item.tool}`;
  parts.push(make("dl", { class: "fields", tabindex: "0", role: "group", "aria-label": label }, ...fields));
  parts.push(make("p", { class: "sha" }, "fingerprint ", make("code", {}, item.sha256)));
  if (item.denied) {
    parts.push(make("p", {}, "The operator denies this tool in the config of the gateway: this page does not lift that."));
    return parts;
  }
  const about = `${item.tool} of ${item.server}`;
  const buttons = [
    button("Approve", () => act("approve", item, item.sha256), { class: "main", "aria-label": `Approve ${about}` }),
    item.blocked
      ? button("Unblock", () => act("unblock", item, item.sha256), { "aria-label": `Unblock ${about}` })
      : button("Block", () => act("block", item, item.sha256), { "aria-label": `Block ${about}` }),
  ];
  parts.push(make("div", { class: "buttons" }, ...buttons));
  return parts;
}

function values(field) {
  if (!("before" in field)) return visible(field.now);
  const parts = [];
  if (field.before !== null) parts.push(make("del", {}, make("span", { class: "unseen" }, "before: "), ...visible(field.before)));
  if (field.now !== null) parts.push(make("ins", {}, make("span", { class: "unseen" }, "now: "), ...visible(field.now)));
  return parts;
}

/** Return the parts of a server. */
export function serverParts(item, act) {
  const state = item.loading ? "loading" : item.state;
  const head = [make("span", { class: "name" }, item.name), make("span", { class: `tag ${STATES[state] ?? "attention"}` }, state)];
  if (item.quarantined) head.push(make("span", { class: "tag bad" }, "quarantine"));
  head.push(make("span", { class: "hint" }, `${item.type}, trust: ${item.trust}`));
  const parts = [make("div", { class: "head" }, ...head)];
  parts.push(make("p", {}, `${item.callable} callable, ${item.locked} locked`));
  const reason = item.load?.error ?? item.reason;
  if (reason) parts.push(make("p", {}, ...visible(reason)));
  if (item.note) parts.push(make("p", { class: "hint" }, ...visible(item.note)));
  if (item.catalog) parts.push(make("p", { class: "hint" }, "It is of the catalog: agents enable and disable it, and no command does."));
  if (item.names.length) {
    const names = item.names.flatMap((name, index) => [index ? ", " : "", make("code", {}, ...visible(name))]);
    const summary = make("summary", {}, `Its tools (${item.names.length}); definitions are not kept in quarantine`);
    parts.push(make("details", { "data-key": item.name }, summary, make("p", {}, ...names)));
  }
  const buttons = item.catalog ? [] : serverButtons(item, act);
  if (buttons.length) parts.push(make("div", { class: "buttons" }, ...buttons));
  return parts;
}

function serverButtons(item, act) {
  const made = (what, text) => button(text, () => act(what, { server: item.name }, item.digest), { "aria-label": `${text} ${item.name}` });
  const buttons = [];
  if (!item.enabled) buttons.push(made("enable", "Switch on"));
  else if (item.state === "failed" && !item.loading) buttons.push(made("retry", "Try again"));
  buttons.push(item.quarantined ? made("release", "Release") : made("quarantine", "Quarantine"));
  return buttons;
}

/** Return the parts of a tool that is locked. */
export function lockedParts(item, act, why) {
  const parts = [nameOf(item), make("span", { class: "words" }, STATUSES[item.status] ?? item.status)];
  if (item.by_person && item.blocked) {
    const label = `Unblock ${item.tool} of ${item.server}`;
    parts.push(make("div", { class: "buttons" }, button("Unblock", () => act("unblock", item, item.sha256), { "aria-label": label })));
  } else if (!item.by_person) {
    parts.push(make("span", { class: "tag" }, "not by this page"));
  }
  const answer = make("div", {});
  const details = make("details", { "data-key": `${item.server}:${item.tool}` }, make("summary", {}, "Why"), answer);
  details.addEventListener("toggle", () => details.open && why(item, answer));
  parts.push(details);
  return parts;
}

/** Return the parts of a tool that can be called. */
export function callableParts(item, act) {
  const label = `Block ${item.tool} of ${item.server}`;
  const block = button("Block", () => act("block", item, item.sha256), { "aria-label": label });
  return [nameOf(item), make("div", { class: "buttons" }, block)];
}

/** Return the nodes that say why a tool is locked. */
export function whyParts(said) {
  const parts = [make("p", {}, "By the rule ", make("code", {}, said.rule), said.why ? ": " : ".", ...prose(said.why))];
  for (const each of said.places) parts.push(make("p", {}, make("code", {}, each.place), `: ${each.words.replaceAll("`", "")}`));
  return parts;
}

/** Return the parts of a call that was refused. */
export const refusedParts = (item) => [
  nameOf(item),
  make("span", { class: "words" }, `${item.agent || "an agent without a name"}: ${STATUSES[item.status] ?? item.status}`),
  make("span", { class: "tag" }, `${item.count.toLocaleString("en")} ×`),
];

/** Return the parts of a change. */
export function changeParts(item) {
  const at = new Date(item.time * 1000);
  const name = item.tool ? nameOf(item) : make("span", { class: "name" }, item.server);
  return [make("time", { datetime: at.toISOString() }, at.toLocaleTimeString()), name, make("span", { class: "words" }, ...visible(item.what))];
}
