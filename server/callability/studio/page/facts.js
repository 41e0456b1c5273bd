/** The controls that set the facts of a question. */

import { byId, make, say, written } from "./dom.js";

/** A fact with more readings than these (four values, and unknown) gets a list instead of radio buttons. */
const MOST_RADIOS = 5;

export class Facts {
  /** `changed` is called with the name of the fact that was set, or with an empty name if several were. */
  constructor(changed) {
    this.changed = changed;
    this.values = new Map();
    this.drawn = "";
    byId("facts-form").addEventListener("submit", (event) => event.preventDefault());
    byId("reset-facts").addEventListener("click", () => {
      if (!this.question) return;
      this.set({});
      changed("");
    });
  }

  /** Show the facts of a question with their last values; those that a rule or law reads come first. */
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
    say(byId("adjusted"));
    this.#write();
  }

  /** Show no facts. */
  clear() {
    this.drawn = "";
    this.question = undefined;
    byId("facts-form").replaceChildren();
    say(byId("adjusted"));
  }

  /** Set facts of a question, even if another one is shown. */
  want(name, facts) {
    this.values.set(name, facts);
  }

  /** Return the facts of a question that were set last. */
  of(name) {
    return this.values.get(name) ?? {};
  }

  get current() {
    return this.values.get(this.question.name);
  }

  /** Set facts; the server gives the others their defaults. */
  set(facts) {
    this.values.set(this.question.name, facts);
  }

  /** Set the facts of an answer, and show which ones the server adjusted because facts depend on each other. */
  take(facts, adjusted) {
    this.values.set(this.question.name, facts);
    this.#write();
    const changes = adjusted.map((fact) => `${fact} is ${written(facts[fact])}`).join(", ");
    say(byId("adjusted"), changes && `Adjusted, because these facts depend on each other: ${changes}`);
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
      make("div", { class: "values" }, ...fact.readings.map((reading) => radio(fact, reading, set))),
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

function radio(fact, { value, text }, set) {
  const input = make("input", { type: "radio", name: fact.name, value });
  input.addEventListener("change", () => set(value));
  return make("label", { class: value === "unknown" ? "unknown" : undefined }, input, written(text));
}

function select(fact, set) {
  const id = `fact-${fact.name}`;
  const options = fact.readings.map(({ value, text }) => make("option", { value }, written(text)));
  const made = make("select", { name: fact.name, id }, ...options);
  made.addEventListener("change", () => set(made.value));
  return make("div", { class: "select" }, make("label", { for: id }, fact.name), made);
}
