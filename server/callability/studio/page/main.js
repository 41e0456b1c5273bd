/** The page: what is edited and which facts are set is looked at anew after each change. */

import { follow } from "./disk.js";
import { button, byId, prose, say } from "./dom.js";
import { showDifference } from "./difference.js";
import { Editor } from "./editor.js";
import { Facts } from "./facts.js";
import { showFindings } from "./findings.js";
import { save } from "./saving.js";
import { ask, leave, readPolicy, Trouble } from "./server.js";
import { clearTable, lightRow, showTable } from "./table.js";
import { Tabs } from "./tabs.js";
import { clearVerdict, showVerdict } from "./verdict.js";

const PAUSE = 250;

let policy;
let editors;
let tabs;
let shown;
let checked = { findings: [] };
let lines = {};
/** The draft that `lines` are of. */
let seen;
let saving = false;
let timer;
let latest = 0;
let asked = 0;
/** What the trouble that is told was in the way of. */
let troubled;

const facts = new Facts((name) => attempt(decide, name));

/** Do something, and tell what is in the way; what is in the way of the draft is told until that is looked at. */
async function attempt(act, ...given) {
  try {
    if ((await act(...given)) === false) return;
    if (act === study || troubled === act) clearTrouble();
  } catch (trouble) {
    if (!(trouble instanceof Trouble)) throw trouble;
    if (trouble.code === "superseded") return;
    if (trouble.code === "not-checked") return attempt(study);
    troubled = act;
    const again = () => (shown ? attempt(study) : location.reload());
    byId("trouble").replaceChildren(...prose(`${trouble.message}. `), button("Try again", again));
  }
}

function clearTrouble() {
  troubled = undefined;
  if (byId("trouble").contains(document.activeElement)) shown.text.focus();
  say(byId("trouble"));
}

const questionOf = (file) => policy.questions.find((each) => each === file.replace(/(_test)?\.yaml$/, ""));

/** Return what is typed, by file. */
function draft() {
  const typed = [...editors.values()].filter((editor) => editor.edited);
  return Object.fromEntries(typed.map((editor) => [editor.name, editor.text.value]));
}

/** Look at the draft anew: what is wrong with it, what it answers, and what it changes. False: a newer one is. */
async function study() {
  clearTimeout(timer);
  timer = undefined;
  const mine = ++latest;
  busy(true);
  try {
    await look(draft(), mine);
    return mine === latest;
  } finally {
    if (mine === latest && timer === undefined) busy(false);
  }
}

/** Say whether something newer than what is shown has still to be looked at. */
function busy(is) {
  document.body.setAttribute("aria-busy", String(is));
}

async function look(texts, mine) {
  const large = Object.keys(texts).find((name) => new Blob([texts[name]]).size > policy.max_bytes);
  if (large) {
    const limit = policy.max_bytes.toLocaleString("en");
    throw new Trouble("too-large", `${large} is larger than ${limit} bytes, and is not checked`);
  }
  const told = await ask("check", { texts });
  if (mine !== latest) return;
  checked = told;
  showFindings(checked, goTo, tryFacts);
  mark();
  await Promise.all([answer(), compare(texts, mine), follow(editors, told.digests, () => attempt(study))]);
}

/** Show table and verdict of the question that the file is about. */
async function answer() {
  const question = questionOf(shown.name);
  const told = await ask("table", { question });
  if (question !== questionOf(shown.name)) return;
  facts.show(told.question, told.facts ?? told.question.facts.map((fact) => fact.name));
  showTable(told);
  await decide("");
}

/** Show the verdict for the facts; `changed` is the one that was just set. */
async function decide(changed) {
  const mine = ++asked;
  const question = facts.question;
  if (!question) return;
  const told = await ask("decide", { question: question.name, facts: facts.current, changed });
  if (mine !== asked || question !== facts.question) return;
  facts.take(told.facts, told.moved);
  showVerdict(told, question.actions);
  lightRow(told.row);
  const lit = told.of === "draft" ? told.line : 0;
  for (const [name, editor] of editors) {
    editor.mark(editor.findings, name === `${question.name}.yaml` ? lit : 0);
  }
}

async function compare(texts, mine) {
  const told = await ask("difference");
  if (mine !== latest) return;
  lines = told.lines;
  seen = JSON.stringify(texts);
  showDifference(told, tryFacts);
}

/** Show for each file whether it is edited and what was found in it. */
function mark() {
  for (const [name, editor] of editors) {
    const mine = checked.findings.filter((finding) => finding.file === name);
    const errors = mine.filter((finding) => finding.severity === "error").length;
    tabs.tell(name, editor.edited, errors, mine.length - errors);
    editor.mark(mine);
  }
  byId("save").disabled = !policy.writable || !shown.edited;
}

/** Show a file; where it is about another question than the one before, that is asked. */
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

function ignoreOlder(trouble) {
  if (!["superseded", "not-checked"].includes(trouble.code)) throw trouble;
}

/** Save a file, when the lines that change are those of what is typed. */
async function saveShown(editor) {
  while (seen !== JSON.stringify(draft())) await study().catch(ignoreOlder);
  if (!editor.edited) return;
  try {
    const saved = await save(editor, policy.directory, lines[editor.name] ?? []);
    if (!saved) return;
    editor.keep(saved);
    mark();
  } catch (trouble) {
    if (trouble.code === "changed-meanwhile") await study();
    throw trouble;
  }
  await study();
}

function nextFinding(back) {
  const found = checked.findings.filter((finding) => finding.line && editors.has(finding.file));
  if (!found.length) return;
  const line = shown.text.value.slice(0, shown.text.selectionStart).split("\n").length;
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
