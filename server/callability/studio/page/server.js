/** Requests to the server, and the errors of failed ones. */

let token = document.querySelector('meta[name="callability-token"]').content;
let directory;
const page = crypto.randomUUID().replaceAll("-", "");

/** An error that the page shows: a code, and a sentence. */
export class PageError extends Error {
  constructor(code, sentence) {
    super(sentence);
    this.code = code;
  }
}

/** Return the current policy on disk. */
export async function readPolicy() {
  const policy = await answered("/policy", {});
  directory ??= policy.directory;
  if (directory === policy.directory) return policy;
  throw new PageError("elsewhere", "this address serves another policy now. Your edits are still in this page");
}

/** Send a request about the draft of this page. */
export async function ask(what, asked = {}) {
  try {
    return await post(what, asked);
  } catch (error) {
    if (error.code !== "elsewhere" || !(await renewed())) throw error;
    return post(what, asked);
  }
}

/** Report that the page is closed, without waiting for an answer. */
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

/** Get the token of a restarted server, if it serves the same policy; return whether the token changed. */
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
    throw new PageError("unreachable", "the server does not answer; it may have stopped. Your edits are still in this page");
  }
  if (response.status === 204) return undefined;
  let reply;
  try {
    reply = await response.json();
  } catch {
    throw new PageError("failed", `the server failed (${response.status}): see its log`);
  }
  if (!response.ok) throw new PageError(reply.code, reply.sentence);
  return reply;
}
