/** The facts of a question, to be set one by one. */

import { byId, make, say, written } from "./dom.js";

/** More readings than these (four values, and unknown) are chosen from a list. */
const MOST_RADIOS = 5;

export class Facts {
  /** `changed` is called with the name of a fact that was set, and with an empty one where several were. */
  constructor(changed) {
    this.changed = changed;
    this.values = new Map();
    this.drawn = "";
    byId("facts-form").addEventListener("submit", (event) => event.preventDefault());
    byId("open-facts").addEventListener("click", () => {
      if (!this.question) return;
      this.set({});
      changed("");
    });
  }

  /** Show the facts of a question, as they were when it was last looked at: first those that some rule or law reads. */
  show(question, read) {
    const now = JSON.stringify([question, read]);
    if (this.drawn === now) return;
    this.drawn = now;
    this.question = question;
    if (!this.values.has(question.name)) this.values.set(question.name, {});
    const controls = new Map(question.facts.map((fact) => [fact.name, this.#control(fact)]));
    const [used, others] = [true, false].map((wanted) => [...controls].filter(([name]) => read.includes(name) === wanted));
    const rest = make("details", {}, make("summary", {}, `Facts that no rule reads: ${others.length}`), ...controlsOf(others));
    byId("facts-form").replaceChildren(...controlsOf(used), ...(others.length ? [rest] : []));
    say(byId("moved"));
    this.#write();
  }

  /** Show none, until there are some. */
  clear() {
    this.drawn = "";
    this.question = undefined;
    byId("facts-form").replaceChildren();
    say(byId("moved"));
  }

  /** Set facts of a question, which need not be the one that is shown. */
  want(name, facts) {
    this.values.set(name, facts);
  }

  get current() {
    return this.values.get(this.question.name);
  }

  /** Set facts; the server opens those that are not named. */
  set(facts) {
    this.values.set(this.question.name, facts);
  }

  /** Take over facts as they were answered, and tell which had to be moved to occur together. */
  take(facts, moved) {
    this.values.set(this.question.name, facts);
    this.#write();
    const told = moved.map((fact) => `${fact} is ${written(facts[fact])}`).join(", ");
    say(byId("moved"), told && `Moved, since facts vary together: ${told}`);
  }

  #control(fact) {
    const set = (value) => {
      this.current[fact.name] = value;
      this.changed(fact.name);
    };
    if (fact.readings.length > MOST_RADIOS) return select(fact, set);
    return make(
      "fieldset",
      {},
      make("legend", {}, fact.name),
      ...fact.readings.map((reading) => radio(fact, reading, set)),
    );
  }

  #write() {
    for (const input of byId("facts-form").elements) {
      if (input.type === "radio") input.checked = this.current[input.name] === input.value;
      else if (input.name) input.value = this.current[input.name];
    }
  }
}

const controlsOf = (facts) => facts.map(([, control]) => control);

function radio(fact, { value, told }, set) {
  const input = make("input", { type: "radio", name: fact.name, value });
  input.addEventListener("change", () => set(value));
  return make("label", { class: value === "unknown" ? "unknown" : undefined }, input, written(told));
}

function select(fact, set) {
  const id = `fact-${fact.name}`;
  const options = fact.readings.map(({ value, told }) => make("option", { value }, written(told)));
  const made = make("select", { name: fact.name, id }, ...options);
  made.addEventListener("change", () => set(made.value));
  return make("div", { class: "select" }, make("label", { for: id }, fact.name), made);
}
