/** The page: after each change of the draft or of the facts, it asks the server again. */

import { follow } from "./disk.js";
import { button, byId, prose, say } from "./dom.js";
import { showDifference } from "./difference.js";
import { Editor } from "./editor.js";
import { Facts } from "./facts.js";
import { endProgress, showFindings, showProgress } from "./findings.js";
import { save } from "./saving.js";
import { ask, leave, PageError, readPolicy } from "./server.js";
import { clearTable, lightRow, showTable } from "./table.js";
import { Tabs } from "./tabs.js";
import { showTests } from "./tests.js";
import { clearVerdict, showVerdict } from "./verdict.js";

const PAUSE = 250;
/** Milliseconds without an edit after which the rules engine confirms the draft, since the next edit ends that. */
const QUIET = 800;
/** Milliseconds between two questions about the progress of that. */
const STEP = 500;

let policy;
let editors;
let tabs;
let shown;
let checked = { findings: [], tests: [] };
let lines = {};
/** The draft to which `lines` belong. */
let seen;
let saving = false;
let timer;
let confirmation;
let latest = 0;
let asked = 0;
/** The function whose error is shown. */
let failed;

const facts = new Facts((name) => attempt(decide, name));

/** Call a function and show its error; an error about the draft is shown until a check succeeds. */
async function attempt(act, ...given) {
  try {
    if ((await act(...given)) === false) return;
    if (act === study || failed === act) clearError();
  } catch (error) {
    if (!(error instanceof PageError)) throw error;
    if (error.code === "superseded") return;
    if (error.code === "not-checked") return attempt(study);
    failed = act;
    const again = () => (shown ? attempt(study) : location.reload());
    byId("error").replaceChildren(...prose(`${error.message}. `), button("Try again", again));
  }
}

function clearError() {
  failed = undefined;
  if (byId("error").contains(document.activeElement)) shown.focus();
  say(byId("error"));
}

const questionOf = (file) => policy.questions.find((each) => each === file.replace(/(_test)?\.yaml$/, ""));

/** Return the texts of edited files, by name. */
function draft() {
  const typed = [...editors.values()].filter((editor) => editor.edited);
  return Object.fromEntries(typed.map((editor) => [editor.name, editor.value]));
}

/** Check the draft, and show its findings, answers and changes. Return false if a newer draft replaced it. */
async function study(again = true) {
  clearTimeout(timer);
  clearTimeout(confirmation);
  timer = undefined;
  const mine = ++latest;
  busy(true);
  try {
    await look(draft(), mine);
    return mine === latest;
  } catch (error) {
    // A request can overtake the one before it, so that the older draft replaces this one at the server.
    if (error.code !== "superseded" || mine !== latest || !again) throw error;
    return await study(false);
  } finally {
    if (mine === latest && timer === undefined) busy(false);
  }
}

/** Mark whether a newer draft than the shown one is being checked. */
function busy(is) {
  document.body.setAttribute("aria-busy", String(is));
}

async function look(texts, mine) {
  const large = Object.keys(texts).find((name) => new Blob([texts[name]]).size > policy.max_bytes);
  if (large) {
    const limit = policy.max_bytes.toLocaleString("en");
    throw new PageError("too-large", `${large} is larger than ${limit} bytes, and cannot be checked`);
  }
  const reply = await ask("check", { texts });
  if (mine !== latest) return;
  endProgress();
  showChecked(reply);
  await Promise.all([answer(), compare(texts, mine), follow(editors, reply.digests, () => attempt(study))]);
  if (mine === latest) confirmation = setTimeout(() => attempt(confirm, mine), QUIET);
}

function showChecked(reply) {
  checked = reply;
  showFindings(checked, goTo, tryFacts);
  showTests(checked, questionOf(shown.name), goTo, tryFacts);
  mark();
}

/** Let the rules engine confirm the draft, and show what it finds. Return false if a newer draft replaced it. */
async function confirm(mine) {
  const show = (progress) => mine === latest && progress.of && showProgress(progress);
  const watching = setInterval(() => ask("progress").then(show, () => {}), STEP);
  try {
    const reply = await ask("confirm");
    if (mine !== latest) return false;
    showChecked(reply);
  } finally {
    clearInterval(watching);
    if (mine === latest) endProgress();
  }
}

/** Show the verdict of the question of the shown file, and then its table, which takes longer. */
async function answer() {
  const question = questionOf(shown.name);
  await decide("", false);
  if (question !== questionOf(shown.name)) return;
  const mine = asked;
  const table = await ask("table", { question, facts: facts.of(question) });
  if (question !== questionOf(shown.name)) return;
  showTable(table);
  if (mine === asked) lightRow(table.row);
}

/** Show the verdict for the facts; `changed` is the fact that was just set. */
async function decide(changed, row = true) {
  const mine = ++asked;
  const question = questionOf(shown.name);
  const verdict = await ask("decide", { question, facts: facts.of(question), changed, row });
  if (mine !== asked || question !== questionOf(shown.name)) return;
  facts.show(verdict.question, verdict.read ?? verdict.question.facts.map((fact) => fact.name));
  facts.take(verdict.facts, verdict.moved);
  showVerdict(verdict, verdict.question.actions);
  if (row) lightRow(verdict.row);
  const lit = verdict.of === "draft" ? verdict.line : 0;
  for (const [name, editor] of editors) {
    editor.mark(editor.findings, name === `${question}.yaml` ? lit : 0);
  }
}

async function compare(texts, mine) {
  const difference = await ask("difference");
  if (mine !== latest) return;
  lines = difference.lines;
  seen = JSON.stringify(texts);
  showDifference(difference, tryFacts);
}

/** Mark each file that is edited or has findings. */
function mark() {
  for (const [name, editor] of editors) {
    const mine = checked.findings.filter((finding) => finding.file === name);
    const errors = mine.filter((finding) => finding.severity === "error").length;
    tabs.mark(name, editor.edited, errors, mine.length - errors);
    editor.mark(mine);
  }
  byId("save").disabled = !policy.writable || !shown.edited;
}

/** Show a file; if it belongs to another question than the one before, show the answers of that question. */
function show(name) {
  const before = shown && questionOf(shown.name);
  shown = editors.get(name);
  tabs.select(name);
  for (const editor of editors.values()) editor.show(editor === shown);
  mark();
  if (before === questionOf(name)) return;
  asked++;
  facts.clear();
  clearTable();
  clearVerdict();
  showTests(checked, questionOf(name), goTo, tryFacts);
  if (before) attempt(answer);
}

function goTo(finding) {
  if (!editors.has(finding.file)) return;
  show(finding.file);
  if (finding.line) shown.goTo(finding.line);
}

function tryFacts(file, wanted) {
  facts.want(questionOf(file), wanted);
  if (questionOf(file) === questionOf(shown.name)) attempt(decide, "");
  show(file);
  byId("facts").focus();
  byId("facts").scrollIntoView({ block: "nearest" });
}

function edited() {
  mark();
  busy(true);
  clearTimeout(timer);
  clearTimeout(confirmation);
  timer = setTimeout(() => attempt(study), PAUSE);
}

async function askToSave() {
  if (!policy.writable || !shown.edited || saving) return;
  saving = true;
  try {
    await saveShown(shown);
  } finally {
    saving = false;
  }
}

function ignoreOlder(error) {
  if (!["superseded", "not-checked"].includes(error.code)) throw error;
}

/** Save a file, once the shown lines that change belong to its current text. */
async function saveShown(editor) {
  while (seen !== JSON.stringify(draft())) await study().catch(ignoreOlder);
  if (!editor.edited) return;
  try {
    const saved = await save(editor, policy.directory, lines[editor.name] ?? []);
    if (!saved) return;
    editor.keep(saved);
    mark();
  } catch (error) {
    if (error.code === "changed-meanwhile") await study();
    throw error;
  }
  await study();
}

function nextFinding(back) {
  const found = checked.findings.filter((finding) => finding.line && editors.has(finding.file));
  if (!found.length) return;
  const { line } = shown;
  const order = [...editors.keys()];
  const place = (file, at) => order.indexOf(file) * 1e9 + at;
  const here = place(shown.name, line);
  const sorted = found.toSorted((one, other) => place(one.file, one.line) - place(other.file, other.line));
  const next = back
    ? sorted.findLast((each) => place(each.file, each.line) < here) ?? sorted.at(-1)
    : sorted.find((each) => place(each.file, each.line) > here) ?? sorted[0];
  goTo(next);
}

function pressed(event) {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "s") {
    event.preventDefault();
    attempt(askToSave);
  } else if (event.key === "F8") {
    event.preventDefault();
    nextFinding(event.shiftKey);
  }
}

async function begin() {
  policy = await readPolicy();
  byId("directory").textContent = policy.directory;
  byId("directory").title = policy.directory;
  const names = policy.files.map((file) => file.name);
  editors = new Map(policy.files.map((file, number) => [file.name, new Editor(file, number, edited)]));
  tabs = new Tabs(names, show);
  byId("save").title = policy.writable ? "" : "To save an edit, export the policy first: callability policy export DIR";
  byId("save").addEventListener("click", () => attempt(askToSave));
  addEventListener("keydown", pressed);
  addEventListener("focus", () => saving || attempt(study));
  addEventListener("pagehide", leave);
  addEventListener("beforeunload", (event) => {
    if ([...editors.values()].some((editor) => editor.edited)) event.preventDefault();
  });
  show(names[0]);
  await study();
}

attempt(begin);
