/** Files that change on disk while the page is open: what stands in the page stays until it is given up. */

import { button } from "./dom.js";
import { readPolicy } from "./server.js";

/** Take over what is on disk now, or tell of it; `changed` is called where something was taken over, or given up. */
export async function follow(editors, digests, changed) {
  if ([...editors.values()].every((editor) => editor.saved.digest === digests[editor.name])) return;
  const { files } = await readPolicy();
  const others = files.filter((file) => file.digest !== editors.get(file.name).saved.digest);
  const moved = others.filter((file) => moveOn(editors.get(file.name), file, changed));
  if (moved.length) changed();
}

function moveOn(editor, file, changed) {
  const gone = !file.digest && !file.problem && editor.text.value !== "";
  const same = editor.text.value === file.text;
  if (same || (!editor.edited && !gone)) {
    editor.take(file);
    return true;
  }
  if (gone) editor.keep(file);
  if (gone || editor.toldOf !== file.digest) tell(editor, file, gone, changed);
  return gone;
}

function tell(editor, file, gone, changed) {
  const act = (doing) => () => {
    doing.call(editor, file);
    changed();
  };
  const keep = button("Keep what is typed", act(editor.keep));
  const take = button(gone ? "Empty it" : "Take what is on disk, and lose the edit", act(editor.take));
  editor.toldOf = file.digest;
  if (gone) editor.tell("This file is no longer on disk; its last text is here. ", take);
  else editor.tell("This file has changed on disk since it was read. ", take, ...(file.problem ? [] : [keep]));
}
