/** The page: it shows what the gateway says every few seconds, and sends what a person decides. */

import { button, byId, make, numberOf, prose, say } from "/dom.js";
import { PageError, forget, hasSession, post, signIn, signOut } from "/gateway.js";
import { callableParts, changeParts, drawList, lockedParts, refusedParts, serverParts, waitingParts, whyParts } from "/parts.js";

const LOOK_MILLISECONDS = 3000;
const UNDONE_BY = { block: "unblock", unblock: "block", release: "quarantine" };
const DONE = { approve: "Approved", block: "Blocked", unblock: "Unblocked", quarantine: "Put in quarantine", release: "Released", enable: "Switched on", retry: "Tried again" };

let state;
let agent = "";
let acting = false;

/** Show an error of the whole page, or none. */
function showError(error) {
  say(byId("error"), ...(error ? prose(error.message) : []));
  for (const each of document.querySelectorAll("#gateway .buttons button, #done button")) each.disabled = Boolean(error);
}

/** Show the form for a code, or the gateway. */
function show(signedIn) {
  byId("sign-in").hidden = signedIn;
  byId("gateway").hidden = !signedIn;
  byId("account").hidden = !signedIn;
  document.body.setAttribute("aria-busy", "false");
  if (!signedIn) byId("code").focus();
}

/** Read the state, and draw what changed of it. */
async function look() {
  if (!hasSession()) return;
  try {
    const found = await post("state", { agent, seen: state?.agent === agent ? state.digest : "" });
    if (!found.unchanged) {
      state = found;
      drawState();
    }
    showError();
    show(true);
  } catch (error) {
    if (!(error instanceof PageError)) throw error;
    if (error.code === "signed-out") leave();
    else showError(error);
  }
}

function leave() {
  forget();
  state = undefined;
  say(byId("directory"));
  showError();
  show(false);
}

function drawState() {
  say(byId("directory"), state.config);
  drawAgents();
  const words = byId("filter").value.toLowerCase();
  const fits = (item) => `${item.server ?? item.name}:${item.tool ?? ""}`.toLowerCase().includes(words);
  const key = (item) => JSON.stringify([item.server, item.tool, item.agent, item.status, item.time]);
  const waiting = state.waiting.filter(fits);
  const [changed, fresh] = ["changed", "new"].map((kind) => waiting.filter((item) => item.kind === kind));
  const named = (item) => `${item.server}:${item.tool}`;
  drawList(byId("changed-list"), changed, named, (item) => waitingParts(item, act));
  drawList(byId("new-list"), fresh, named, (item) => waitingParts(item, act));
  byId("changed-title").hidden = changed.length === 0;
  byId("new-title").hidden = fresh.length === 0;
  drawList(byId("servers-list"), state.servers.filter(fits), (item) => item.name, (item) => serverParts(item, act));
  drawList(byId("locked-list"), state.locked.filter(fits), named, (item) => lockedParts(item, act, tellWhy));
  drawList(byId("callable-list"), state.callable.filter(fits), named, (item) => callableParts(item, act));
  drawList(byId("refused-list"), state.refused.filter(fits), key, refusedParts);
  drawList(byId("changes-list"), state.changes.filter(fits), key, changeParts);
  sayCounts();
}

function sayCounts() {
  const { waiting, servers, locked, callable, refused, changes } = state;
  const files = Object.values(state.files).join("; ");
  say(byId("waiting-said"), waiting.length ? `${numberOf(waiting.length, "tool")} cannot be called before a review.` : "Nothing waits for a review.");
  say(byId("servers-said"), files || (servers.length ? "" : "The config has no servers."));
  say(byId("locked-said"), locked.length ? "" : "No tool is locked.");
  say(byId("callable-said"), callable.length ? "" : "No tool can be called.");
  say(byId("refused-said"), refused.length ? "Counted since the gateway started." : "No agent has called a locked tool since the gateway started.");
  say(byId("changes-said"), changes.length ? "" : "Nothing has changed since the gateway started.");
  for (const [name, list] of Object.entries({ waiting, servers, locked, callable, refused })) say(byId(`${name}-count`), String(list.length));
}

function drawAgents() {
  const select = byId("agent");
  const names = JSON.stringify(state.agents);
  if (select.dataset.names === names) return;
  select.dataset.names = names;
  select.replaceChildren(...state.agents.map((name) => make("option", { value: name }, name || "no agent in particular")));
  select.value = agent;
}

/** Send what a person decided about what was shown, and report the result. */
async function act(what, item, seen) {
  if (acting) return;
  acting = true;
  try {
    await post("act", { act: what, server: item.server, tool: item.tool ?? "", seen });
    acting = false;
    const name = item.tool ? `${item.tool} of ${item.server}` : item.server;
    await look();
    report(`${DONE[what]}: ${name}.`, what, item);
  } catch (error) {
    if (!(error instanceof PageError)) throw error;
    if (error.code === "signed-out") leave();
    else if (error.code === "gone") showError(error);
    else {
      await look();
      byId("done").className = "refused";
      say(byId("done"), make("strong", {}, "Not done: "), ...prose(error.message));
    }
  } finally {
    acting = false;
  }
}

function report(sentence, what, item) {
  byId("done").className = "";
  const undo = item.tool && UNDONE_BY[what] && ["block", "unblock"].includes(what);
  const nodes = [make("span", {}, sentence)];
  if (undo) {
    nodes.push(button("Undo", () => act(UNDONE_BY[what], item, seenNow(item)), { "aria-label": `Undo: ${sentence}` }));
  }
  byId("done").replaceChildren(...nodes);
  // The element that had the focus may be gone.
  if (document.activeElement === document.body) byId("waiting").focus();
}

/** Return the fingerprint of a tool as the page shows it now. */
function seenNow(item) {
  const same = (each) => each.server === item.server && each.tool === item.tool;
  return ([...state.waiting, ...state.locked, ...state.callable].find(same) ?? item).sha256 ?? "";
}

/** Fetch why a tool is locked, and show it below the tool. */
async function tellWhy(item, place) {
  try {
    place.replaceChildren(...whyParts(await post("why", { agent, server: item.server, tool: item.tool })));
  } catch (error) {
    if (!(error instanceof PageError)) throw error;
    say(place, ...prose(error.message));
  }
}

byId("sign-in-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  say(byId("code-said"));
  try {
    await signIn(byId("code").value);
    byId("code").value = "";
    await look();
    byId("waiting").focus();
  } catch (error) {
    if (!(error instanceof PageError)) throw error;
    say(byId("code-said"), ...prose(error.message));
    byId("code").select();
  }
});
byId("sign-out").addEventListener("click", async () => {
  await signOut().catch(() => {});
  leave();
});
byId("agent").addEventListener("change", () => {
  agent = byId("agent").value;
  look();
});
byId("filter").addEventListener("input", () => state && drawState());
if (hasSession()) await look();
else show(false);
setInterval(() => document.visibilityState === "visible" && !acting && look(), LOOK_MILLISECONDS);
