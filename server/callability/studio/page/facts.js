/** The facts of a question, to be set one by one. */

import { byId, make, say } from "./dom.js";

const MOST_RADIOS = 7;

export class Facts {
  /** `changed` is called with the name of a fact that was set, and with an empty one where several were. */
  constructor(changed) {
    this.changed = changed;
    this.values = new Map();
    byId("open-facts").addEventListener("click", () => {
      this.set({});
      changed("");
    });
  }

  /** Show the facts of a question, as they were when it was last looked at. */
  show(question) {
    if (this.question === question) return;
    this.question = question;
    if (!this.values.has(question.name)) this.values.set(question.name, openValues(question));
    byId("facts-form").replaceChildren(...question.facts.map((fact) => this.#control(fact)));
    this.#write();
  }

  get current() {
    return this.values.get(this.question.name);
  }

  /** Set facts; those that are not named become open. */
  set(facts) {
    this.values.set(this.question.name, { ...openValues(this.question), ...facts });
    this.#write();
  }

  /** Take over facts as they were answered, and tell which had to be moved to occur together. */
  take(facts, moved) {
    this.values.set(this.question.name, facts);
    this.#write();
    const told = moved.map((fact) => `${fact} is ${facts[fact]}`).join(", ");
    say(byId("moved"), told && `Moved, since facts vary together: ${told}`);
  }

  /** Tell which facts some rule reads. */
  tellRead(names) {
    for (const control of byId("facts-form").children) {
      const read = names.includes(control.dataset.fact);
      control.classList.toggle("unread", !read);
      control.title = read ? "" : "no rule and no law reads it";
    }
  }

  #control(fact) {
    const set = (value) => {
      this.current[fact.name] = value;
      this.changed(fact.name);
    };
    if (fact.readings.length > MOST_RADIOS) return select(fact, set);
    return make(
      "fieldset",
      { "data-fact": fact.name },
      make("legend", {}, fact.name),
      ...fact.readings.map((value) => radio(fact, value, set)),
    );
  }

  #write() {
    for (const input of byId("facts-form").elements) {
      if (input.type === "radio") input.checked = this.current[input.name] === input.value;
      else if (input.name) input.value = this.current[input.name];
    }
  }
}

const openValues = (question) => Object.fromEntries(question.facts.map((fact) => [fact.name, fact.open_value]));

function radio(fact, value, set) {
  const input = make("input", { type: "radio", name: fact.name, value });
  input.addEventListener("change", () => set(value));
  return make("label", { class: value === "unknown" ? "unknown" : undefined }, input, value);
}

function select(fact, set) {
  const id = `fact-${fact.name}`;
  const made = make("select", { name: fact.name, id }, ...fact.readings.map((value) => make("option", { value }, value)));
  made.addEventListener("change", () => set(made.value));
  return make("div", { class: "select", "data-fact": fact.name }, make("label", { for: id }, fact.name), made);
}
