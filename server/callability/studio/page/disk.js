/** Files that change on disk while the page is open; an edit in the page stays until it is discarded. */

import { button } from "./dom.js";
import { readPolicy } from "./server.js";

/** Load files that changed on disk, or show a notice; `changed` is called if the text or the saved state of one changed. */
export async function follow(editors, digests, changed) {
  if ([...editors.values()].every((editor) => editor.saved.digest === digests[editor.name])) return;
  const { files } = await readPolicy();
  const others = files.filter((file) => file.digest !== editors.get(file.name).saved.digest);
  const updated = others.filter((file) => update(editors.get(file.name), file, changed));
  if (updated.length) changed();
}

function update(editor, file, changed) {
  const gone = !file.digest && !file.problem && editor.value !== "";
  const same = editor.value === file.text;
  if (same || (!editor.edited && !gone)) {
    editor.take(file);
    return true;
  }
  if (gone) editor.keep(file);
  if (gone || editor.noticed !== file.digest) notify(editor, file, gone, changed);
  return gone;
}

function notify(editor, file, gone, changed) {
  const act = (doing) => () => {
    doing.call(editor, file);
    changed();
  };
  const keep = button("Keep the edit", act(editor.keep));
  const take = button(gone ? "Clear the text" : "Discard the edit and load the file", act(editor.take));
  editor.noticed = file.digest;
  if (gone) editor.notice("This file is no longer on disk. Its last text is shown. ", take);
  else editor.notice("This file has changed on disk since it was read. ", take, ...(file.problem ? [] : [keep]));
}
