/** Elements and texts. Content of files is inserted as text only, never as markup. */

/** Return the element of an id. */
export const byId = (id) => document.getElementById(id);

/** Return a new element; an attribute that is false or undefined is left out. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== false && value !== undefined) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

/** Return a button that calls a function. */
export function button(text, act, attributes = {}) {
  const made = make("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", act);
  return made;
}

/** Return a sentence as nodes; text in backticks becomes code. */
export function prose(sentence) {
  return sentence.split("`").map((part, number) => (number % 2 ? make("code", {}, part) : part));
}

/** Set the text of a live region, unless it is the same: a screen reader announces each change. */
export function say(element, ...nodes) {
  const holder = make("span", {}, ...nodes);
  if (element.textContent !== holder.textContent) element.replaceChildren(...holder.childNodes);
}

/** Return a value of a fact for display. */
export const written = (value) => value || "(empty)";

/** Return a count as text; the server sends large ones as text. */
export const countText = (count) => BigInt(count).toLocaleString("en");

/** Return a count with its noun. */
export const numberOf = (count, noun, nouns = `${noun}s`) => `${countText(count)} ${BigInt(count) === 1n ? noun : nouns}`;

const drawn = new WeakMap();

/** Draw data in an element. Equal data is not drawn again, so the focus stays; open details stay open. */
export function draw(element, data, parts) {
  const now = JSON.stringify(data);
  if (drawn.get(element) === now) return;
  drawn.set(element, now);
  const opened = new Set([...element.querySelectorAll("details[open]")].map((each) => each.dataset.key));
  element.replaceChildren(...parts());
  for (const each of element.querySelectorAll("details")) each.open = opened.has(each.dataset.key);
}
