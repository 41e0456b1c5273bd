/** The page: what is edited and which facts are set is looked at anew after each change. */

import { button, byId, prose, say } from "./dom.js";
import { showDifference } from "./difference.js";
import { Editor } from "./editor.js";
import { Facts } from "./facts.js";
import { showFindings } from "./findings.js";
import { save } from "./saving.js";
import { ask, readPolicy, Trouble } from "./server.js";
import { lightRow, showTable } from "./table.js";
import { Tabs } from "./tabs.js";
import { showVerdict } from "./verdict.js";

const PAUSE = 250;

let policy;
let editors;
let tabs;
let shown;
let checked = { findings: [] };
let lines = {};
let timer;
let latest = 0;
let asked = 0;

const facts = new Facts((name) => attempt(() => decide(name)));

/** Do something, and tell what is in the way. */
async function attempt(act) {
  try {
    await act();
    say(byId("trouble"));
  } catch (trouble) {
    if (!(trouble instanceof Trouble)) throw trouble;
    if (trouble.code === "superseded") return;
    if (trouble.code === "not-checked") return attempt(study);
    busy(false);
    const again = () => (policy ? attempt(study) : location.reload());
    byId("trouble").replaceChildren(...prose(`${trouble.message}. `), button("Try again", again));
  }
}

const questionOf = (file) => policy.questions.find((each) => each.name === file.replace(/(_test)?\.yaml$/, ""));

function busy(on) {
  document.body.setAttribute("aria-busy", String(on));
}

/** Look at the draft anew: what is wrong with it, what it answers, and what it changes. */
async function study() {
  const mine = ++latest;
  const edited = [...editors.values()].filter((editor) => editor.edited);
  const large = edited.find((editor) => new Blob([editor.text.value]).size > policy.max_bytes);
  if (large) {
    const limit = policy.max_bytes.toLocaleString("en");
    throw new Trouble("too-large", `${large.name} is larger than ${limit} bytes, and is not checked`);
  }
  busy(true);
  const told = await ask("check", { texts: Object.fromEntries(edited.map((each) => [each.name, each.text.value])) });
  if (mine !== latest) return;
  checked = told;
  showFindings(checked, goTo, tryFacts);
  mark();
  await Promise.all([answer(), compare(mine), follow(told.digests)]);
  if (mine === latest) busy(false);
}

/** Show table and verdict of the question that the file is about. */
async function answer() {
  const question = questionOf(shown.name);
  const told = await ask("table", { question: question.name });
  if (question !== questionOf(shown.name)) return;
  showTable(told);
  facts.tellRead(told.facts ?? []);
  await decide("");
}

/** Show the verdict for the facts; `changed` is the one that was just set. */
async function decide(changed) {
  const mine = ++asked;
  const question = questionOf(shown.name);
  const told = await ask("decide", { question: question.name, facts: facts.current, changed });
  if (mine !== asked || question !== questionOf(shown.name)) return;
  facts.take(told.facts, told.moved);
  showVerdict(told, question.actions);
  lightRow(told.row);
  const lit = told.of === "draft" ? told.line : 0;
  for (const [name, editor] of editors) {
    editor.mark(editor.findings, name === `${question.name}.yaml` ? lit : 0);
  }
}

async function compare(mine) {
  const told = await ask("difference");
  if (mine !== latest) return;
  lines = told.lines;
  showDifference(told, tryFacts);
}

/** Notice files that changed on disk: what is not edited is taken over, and what is edited is told of. */
async function follow(digests) {
  if ([...editors.values()].every((editor) => editor.saved.digest === digests[editor.name])) return;
  const now = await readPolicy();
  for (const saved of now.files) {
    const editor = editors.get(saved.name);
    if (saved.digest === editor.saved.digest) continue;
    const take = () => {
      editor.take(saved);
      attempt(study);
    };
    if (editor.edited && editor.text.value !== saved.text) {
      editor.tell("This file has changed on disk since it was read. ", button("Take what is on disk, and lose the edit", take));
    } else {
      take();
    }
  }
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

function show(name) {
  const before = shown && questionOf(shown.name);
  shown = editors.get(name);
  tabs.select(name);
  for (const editor of editors.values()) editor.show(editor === shown);
  facts.show(questionOf(name));
  mark();
  if (before && before !== questionOf(name)) attempt(answer);
}

function goTo(finding) {
  if (!editors.has(finding.file)) return;
  show(finding.file);
  if (finding.line) shown.goTo(finding.line);
}

function tryFacts(file, wanted) {
  show(file);
  facts.set(wanted);
  byId("facts").focus();
  byId("facts").scrollIntoView({ block: "nearest" });
  attempt(() => decide(""));
}

function edited() {
  mark();
  clearTimeout(timer);
  timer = setTimeout(() => attempt(study), PAUSE);
}

async function askToSave() {
  if (!policy.writable || !shown.edited || byId("saving").open) return;
  const editor = shown;
  const saved = await save(editor, policy.directory, lines[editor.name] ?? []);
  if (!saved) return;
  editor.saved = saved;
  editor.tell("");
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
  const names = policy.files.map((file) => file.name);
  editors = new Map(policy.files.map((file, number) => [file.name, new Editor(file, number, edited)]));
  tabs = new Tabs(names, show);
  byId("save").title = policy.writable ? "" : "To save an edit, export the policy first: callability policy export DIR";
  byId("save").addEventListener("click", () => attempt(askToSave));
  addEventListener("keydown", pressed);
  addEventListener("focus", () => byId("saving").open || attempt(study));
  addEventListener("beforeunload", (event) => {
    if ([...editors.values()].some((editor) => editor.edited)) event.preventDefault();
  });
  show(names[0]);
  await study();
}

attempt(begin);
