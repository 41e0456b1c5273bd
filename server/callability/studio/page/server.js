/** Asking the server, and what it means when it does not answer. */

let token = document.querySelector('meta[name="callability-token"]').content;
let directory;
const page = crypto.randomUUID().replaceAll("-", "");

/** What cannot be done: a code, and a sentence for the person at the page. */
export class Trouble extends Error {
  constructor(code, sentence) {
    super(sentence);
    this.code = code;
  }
}

/** Return the policy as it is on disk. */
export async function readPolicy() {
  const policy = await answered("/policy", {});
  directory ??= policy.directory;
  if (directory === policy.directory) return policy;
  throw new Trouble("elsewhere", "another policy is served here by now. What was typed is still here");
}

/** Ask something about the draft of this page. */
export async function ask(what, asked = {}) {
  try {
    return await post(what, asked);
  } catch (trouble) {
    if (trouble.code !== "elsewhere" || !(await renewed())) throw trouble;
    return post(what, asked);
  }
}

/** Say that the page is closed, which waits for no answer. */
export function leave() {
  post("leave", {}, { keepalive: true }).catch(() => {});
}

function post(what, asked, options = {}) {
  return answered(`/${what}`, {
    method: "POST",
    headers: { "content-type": "application/json", "callability-token": token },
    body: JSON.stringify({ page, ...asked }),
    ...options,
  });
}

/** Take the token of a server that was started anew, if it serves the same policy. */
async function renewed() {
  await readPolicy();
  const html = await fetch("/").then((response) => response.text(), () => "");
  const found = /name="callability-token" content="([^"]+)"/.exec(html)?.[1] ?? token;
  const other = found !== token;
  token = found;
  return other;
}

async function answered(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Trouble("unreachable", "the server does not answer: it may have ended. What was typed is still here");
  }
  if (response.status === 204) return undefined;
  let told;
  try {
    told = await response.json();
  } catch {
    throw new Trouble("failed", `the server failed (${response.status}): its log says more`);
  }
  if (!response.ok) throw new Trouble(told.code, told.sentence);
  return told;
}
