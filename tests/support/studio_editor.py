"""The text in an editor of the studio's page. It draws the lines in view alone, so that the page has not all of it."""

from __future__ import annotations

from playwright.sync_api import Locator, Page

_VIEW = """const { EditorView } = await import("/codemirror.js"); const view = EditorView.findFromDOM(element);"""


def editor_of(page: Page, name: str = "callability.yaml") -> Locator:
    """Return the editor of a file."""
    return page.get_by_role("textbox", name=f"Text of {name}", exact=True)


def text_of(editor: Locator) -> str:
    """Return the whole text."""
    return str(editor.evaluate(f"async (element) => {{ {_VIEW} return view.state.doc.toString(); }}"))


def write(editor: Locator, text: str) -> None:
    """Replace the whole text in one step, as a paste does."""
    editor.evaluate(
        f"""async (element, insert) => {{ {_VIEW}
            view.focus();
            view.dispatch({{ changes: {{ from: 0, to: view.state.doc.length, insert }}, userEvent: "input.paste" }});
        }}""",
        text,
    )


def select(editor: Locator, start: int, end: int) -> None:
    """Select a part of the text, and put the focus there."""
    editor.evaluate(
        f"""async (element, [anchor, head]) => {{ {_VIEW}
            view.focus();
            view.dispatch({{ selection: {{ anchor, head }}, scrollIntoView: true }});
        }}""",
        [start, end],
    )


def line_of(editor: Locator) -> int:
    """Return the number of the line of the cursor."""
    return int(
        editor.evaluate(
            f"async (element) => {{ {_VIEW} return view.state.doc.lineAt(view.state.selection.main.head).number; }}"
        )
    )


def wait_for_text(editor: Locator, text: str, milliseconds: int = 120_000) -> None:
    """Wait until this is the whole text."""
    found = editor.evaluate(
        f"""async (element, [wanted, milliseconds]) => {{ {_VIEW}
            const end = performance.now() + milliseconds;
            const text = () => view.state.doc.toString();
            while (text() !== wanted && performance.now() < end) await new Promise(requestAnimationFrame);
            return text();
        }}""",
        [text, milliseconds],
    )
    assert found == text


def scroll_to_top(editor: Locator) -> None:
    """Show the first line, without the focus."""
    editor.evaluate(f"async (element) => {{ {_VIEW} view.scrollDOM.scrollTop = 0; element.blur(); }}")
