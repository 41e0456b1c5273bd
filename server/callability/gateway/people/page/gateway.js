/** Requests to the gateway. The session is kept for this tab alone, and by no cookie: other ports would be sent one. */

const KEY = "callability-session";
const token = document.querySelector('meta[name="callability-token"]').content;

/** An error that the page shows: a code, and a sentence. */
export class PageError extends Error {
  constructor(code, sentence) {
    super(sentence);
    this.code = code;
  }
}

/** Return whether this tab has a session; the gateway may no longer accept it. */
export const hasSession = () => sessionStorage.getItem(KEY) !== null;

/** Forget the session of this tab. */
export const forget = () => sessionStorage.removeItem(KEY);

/** Sign in by a code from the terminal. */
export async function signIn(code) {
  const { session } = await post("sign-in", { code });
  sessionStorage.setItem(KEY, session);
}

/** Sign out, at the gateway too. */
export async function signOut() {
  try {
    await post("sign-out", {});
  } finally {
    forget();
  }
}

/** Send a request, and return its answer. */
export async function post(what, body) {
  const headers = { "content-type": "application/json", "callability-token": token };
  if (hasSession()) headers[KEY] = sessionStorage.getItem(KEY);
  let response;
  try {
    response = await fetch(`/${what}`, { method: "POST", headers, body: JSON.stringify(body) });
  } catch {
    throw new PageError("gone", "The gateway does not answer; it may have ended. Run `callability page` to open it again.");
  }
  let reply;
  try {
    reply = await response.json();
  } catch {
    throw new PageError("failed", `The gateway failed (${response.status}): see its log.`);
  }
  if (!response.ok) throw new PageError(reply.code, reply.sentence);
  return reply;
}
