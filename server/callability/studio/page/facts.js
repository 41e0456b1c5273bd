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

  /** Show the facts of a question, as they were when it was last looked at. */
  show(question) {
    const now = JSON.stringify([question.name, question.facts]);
    if (this.drawn === now) return;
    this.drawn = now;
    this.question = question;
    this.set(this.values.get(question.name) ?? {});
    byId("facts-form").replaceChildren(...question.facts.map((fact) => this.#control(fact)));
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
    if (this.question?.name === name) this.set(facts);
  }

  get current() {
    return this.values.get(this.question.name);
  }

  /** Set facts; those that are not named, or that have no such value, become open. */
  set(facts) {
    const values = this.question.facts.map(({ name, readings, open_value }) => [
      name,
      Object.hasOwn(facts, name) && readings.includes(facts[name]) ? facts[name] : open_value,
    ]);
    this.values.set(this.question.name, Object.fromEntries(values));
    this.#write();
  }

  /** Take over facts as they were answered, and tell which had to be moved to occur together. */
  take(facts, moved) {
    this.values.set(this.question.name, facts);
    this.#write();
    const told = moved.map((fact) => `${fact} is ${written(facts[fact])}`).join(", ");
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

function radio(fact, value, set) {
  const input = make("input", { type: "radio", name: fact.name, value });
  input.addEventListener("change", () => set(value));
  return make("label", { class: value === "unknown" ? "unknown" : undefined }, input, written(value));
}

function select(fact, set) {
  const id = `fact-${fact.name}`;
  const made = make("select", { name: fact.name, id }, ...fact.readings.map((value) => make("option", { value }, written(value))));
  made.addEventListener("change", () => set(made.value));
  return make("div", { class: "select", "data-fact": fact.name }, make("label", { for: id }, fact.name), made);
}
