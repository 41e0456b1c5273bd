"""Reading `laws`: each has a name, and `always` or `never` with a status or a list of them."""

from __future__ import annotations

from callability.document import Node, Sequence
from callability.finding import shown
from callability.policy.questions.question import Question
from callability.policy.reading.form import Form
from callability.policy.reading.when import read_status, read_when
from callability.policy.rules.law import Law

MAX_LAWS = 1_000
_KINDS = ("always", "never")


def read_laws(node: Node, question: Question, form: Form) -> tuple[Law, ...]:
    """Return the laws that a node writes, as far as they have the form of one."""
    items = form.items(node, "`laws`")
    if len(items) > MAX_LAWS:
        form.find(node.place, "too-many-laws", f"`laws` has {len(items):,} laws; the maximum is {MAX_LAWS:,}")
        return ()
    laws = tuple(law for item in items if (law := _law(item, question, form)))
    names: set[str] = set()
    for law in laws:
        if law.name in names:
            form.find(law.place, "duplicate-law", f"law {shown(law.name)} is repeated")
        names.add(law.name)
    return laws


def _law(node: Node, question: Question, form: Form) -> Law | None:
    entries = form.mapping(node, "a law", required=("name",), optional=("when", *_KINDS))
    if entries is None:
        return None
    name = form.text(entries["name"], "`name` of a law")
    where = f"law {shown(name)}" if name else "a law"
    when = read_when(entries["when"], question, where, form) if "when" in entries else None
    kinds = [kind for kind in _KINDS if kind in entries]
    if len(kinds) != 1:
        wanted = "one of `always` and `never`"
        form.find(node.place, "law-of-no-kind", f"{where} must have {wanted}, but has {'both' if kinds else 'neither'}")
        return None
    statuses = _statuses(entries[kinds[0]], question, where, form)
    if name is None or not statuses or ("when" in entries and when is None):
        return None
    return Law(" ".join(name.split()), when, statuses, node.place, always=kinds == ["always"])


def _statuses(node: Node, question: Question, where: str, form: Form) -> tuple[str, ...]:
    nodes = form.items(node, f"the statuses of {where}") if isinstance(node, Sequence) else (node,)
    read = [read_status(item, question, where, form) for item in nodes]
    return () if None in read else tuple(dict.fromkeys(status for status in read if status))
