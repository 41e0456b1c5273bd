/** Saving a file, after a confirmation, and only if nobody else changed it. */

import { byId, say } from "./dom.js";
import { colored } from "./difference.js";
import { ask, PageError } from "./server.js";

const dialog = byId("saving");

/** Ask to write a file. Return its state on disk, or undefined if it was not written. */
export async function save(editor, directory, lines) {
  const asked = { name: editor.name, text: editor.value, digest: editor.saved.digest };
  const sentence = `${asked.digest ? "The file in" : "A new file in"} ${directory} ${asked.digest ? "is replaced" : "is written"}. These lines change:`;
  if (!(await question(`Write ${editor.name}?`, sentence, lines, "Write", true))) return undefined;
  try {
    return await ask("save", { ...asked, even_refused: false });
  } catch (error) {
    if (!(error instanceof PageError) || error.code !== "refused") throw error;
    const why = `Warning: ${error.message}. A server does not start with this policy, and a running server keeps its current one.`;
    const even = await question(`${editor.name} is refused. Write it anyway?`, why, [], "Write it anyway");
    return even ? ask("save", { ...asked, even_refused: true }) : undefined;
  }
}

/** Ask for a confirmation. The focus, and so Enter, is on the button that agrees if that is `safe`, or else on Cancel. */
function question(title, sentence, lines, act, safe = false) {
  byId("saving-title").textContent = title;
  say(byId("saving-said"), sentence);
  byId("saving-lines").replaceChildren(...colored(lines));
  byId("saving-lines").hidden = lines.length === 0;
  const agree = byId("saving-do");
  agree.textContent = act;
  return new Promise((answer) => {
    const done = (sure) => {
      dialog.onclose = null;
      dialog.close();
      answer(sure);
    };
    agree.onclick = () => done(true);
    byId("saving-cancel").onclick = () => done(false);
    // The close event of an earlier question may arrive after this one is open.
    dialog.onclose = () => dialog.open || done(false);
    dialog.showModal();
    (safe ? agree : byId("saving-cancel")).focus();
  });
}
