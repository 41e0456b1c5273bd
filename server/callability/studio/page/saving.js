/** Saving a file: never without a question, and never over what somebody else wrote. */

import { byId, say } from "./dom.js";
import { colored } from "./difference.js";
import { ask, Trouble } from "./server.js";

const dialog = byId("saving");

/** Ask to write a file. Return it as it is on disk then, or nothing where it was not written. */
export async function save(editor, directory, lines) {
  const asked = { name: editor.name, text: editor.text.value, digest: editor.saved.digest };
  const said = `${asked.digest ? "The file in" : "A new file in"} ${directory} ${asked.digest ? "is replaced" : "is written"}. These lines change:`;
  if (!(await question(`Write ${editor.name}?`, said, lines, "Write"))) return undefined;
  try {
    return await ask("save", { ...asked, even_refused: false });
  } catch (trouble) {
    if (!(trouble instanceof Trouble) || trouble.code !== "refused") throw trouble;
    const why = `Careful: ${trouble.message}. A server that starts with it does not start, and one that runs keeps the old one.`;
    const even = await question(`${editor.name} is refused. Write it all the same?`, why, [], "Write it all the same");
    return even ? ask("save", { ...asked, even_refused: true }) : undefined;
  }
}

/** Ask something that is not done by chance: what is focused first is to cancel. */
function question(title, said, lines, act) {
  byId("saving-title").textContent = title;
  say(byId("saving-said"), said);
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
    // The end of a question before is told when this one may be open already.
    dialog.onclose = () => dialog.open || done(false);
    dialog.showModal();
    byId("saving-cancel").focus();
  });
}
