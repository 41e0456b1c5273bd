"""Checking the form of a file's nodes; whatever does not have the expected form becomes a finding."""

from __future__ import annotations

from collections.abc import Collection

from callability.document import Mapping, Node, Scalar, Sequence
from callability.finding import Finding, Place, did_you_mean, nearest, shown

MAX_TEXT = 2_000
"""Characters of one text of an author's."""


class Form:
    """Reads nodes and collects what is wrong with them."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def find(self, place: Place, code: str, sentence: str, hint: str = "") -> None:
        """Add an error."""
        self.findings.append(Finding(place, code, sentence, hint))

    def mapping(
        self, node: Node, what: str, *, required: Collection[str], optional: Collection[str] = ()
    ) -> dict[str, Node] | None:
        """Return the entries of a mapping that has all the required keys and none but the known ones."""
        entries = self.entries(node, what)
        if entries is None:
            return None
        known = (*required, *optional)
        misspelled = set()
        for key in entries:
            if key.value not in known:
                hint = did_you_mean(str(key.value), known)
                self.find(key.place, "unknown-key", f"unknown key {shown(str(key.value))} in {what}", hint)
                misspelled.add(nearest(str(key.value), known))
        found = {str(key.value): value for key, value in entries.items()}
        missing = [name for name in required if name not in found]
        for name in missing:
            # The hint of the misspelled key names it already.
            if name not in misspelled:
                self.find(node.place, "missing-key", f"{what} has no `{name}`")
        return None if missing else found

    def entries(self, node: Node, what: str) -> dict[Scalar, Node] | None:
        """Return the entries of a mapping."""
        if not isinstance(node, Mapping):
            self._wanted(node, what, "a mapping (`key: value`)")
            return None
        return dict(node.entries)

    def items(self, node: Node, what: str) -> tuple[Node, ...]:
        """Return the items of a list that is not empty."""
        if not isinstance(node, Sequence):
            self._wanted(node, what, "a list")
            return ()
        if not node.items:
            self.find(node.place, "empty-list", f"{what} is an empty list")
        return node.items

    def text(self, node: Node, what: str) -> str | None:
        """Return a text that is not blank."""
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            hint = "put a sentence that begins with `{` in quotes" if isinstance(node, Mapping) else ""
            self._wanted(node, what, "text", hint)
            return None
        if not node.value.strip():
            self.find(node.place, "empty-text", f"{what} is blank")
            return None
        if any(not character.isprintable() and not character.isspace() for character in node.value):
            self.find(node.place, "control-character", f"{what} contains a control character")
            return None
        if len(node.value) > MAX_TEXT:
            self.find(node.place, "text-too-long", f"{what} has more than {MAX_TEXT:,} characters")
            return None
        return node.value

    def truth(self, node: Node, what: str) -> bool | None:
        """Return true or false."""
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return node.value
        self._wanted(node, what, "`true` or `false`")
        return None

    def _wanted(self, node: Node, what: str, wanted: str, hint: str = "") -> None:
        self.find(node.place, "wrong-type", f"{what} is {described(node)}, but must be {wanted}", hint)


def described(node: Node) -> str:
    """Say what a node is, in the author's words."""
    match node:
        case Mapping():
            return "a mapping"
        case Sequence():
            return "a list"
        case Scalar(value=None):
            return "empty"
        case Scalar(value=bool() as value):
            return f"`{str(value).lower()}`"
        case Scalar(value=str() as value):
            return f"the text {shown(value)}"
        case Scalar(written=written):
            return f"the number {shown(written)}"
