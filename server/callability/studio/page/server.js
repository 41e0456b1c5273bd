/** Asking the server, and what it means when it does not answer. */

const token = document.querySelector('meta[name="callability-token"]').content;
const page = crypto.randomUUID().replaceAll("-", "");

/** What cannot be done: a code, and a sentence for the person at the page. */
export class Trouble extends Error {
  constructor(code, sentence) {
    super(sentence);
    this.code = code;
  }
}

/** Return the policy as it is on disk, and the words of the page. */
export const readPolicy = () => answered("/policy", {});

/** Ask something about the draft of this page. */
export function ask(what, asked = {}) {
  return answered(`/${what}`, {
    method: "POST",
    headers: { "content-type": "application/json", "callability-token": token },
    body: JSON.stringify({ page, ...asked }),
  });
}

async function answered(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Trouble("unreachable", "the server does not answer: it may have ended. What was typed is still here");
  }
  let told;
  try {
    told = await response.json();
  } catch {
    throw new Trouble("failed", `the server failed (${response.status}): its log says more`);
  }
  if (!response.ok) throw new Trouble(told.code, told.sentence);
  return told;
}
