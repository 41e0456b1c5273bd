"""Mutants: copies of a module that differ from it in one place.

A place is named by its function's syntax tree, so that a move of the function, or another name for what it uses, is no
matter: the same mutants can be made before and after modules are rearranged.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

Function = ast.FunctionDef | ast.AsyncFunctionDef

KINDS = ("comparison", "junction", "constant", "return", "statement")
"""What is changed: a comparison is flipped, `and` and `or` are swapped, a constant is changed, what a predicate
returns is negated, a statement is left out."""
_FLIPPED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    **{
        ast.Eq: ast.NotEq,
        ast.NotEq: ast.Eq,
        ast.Is: ast.IsNot,
        ast.IsNot: ast.Is,
        ast.In: ast.NotIn,
        ast.NotIn: ast.In,
    },
    **{ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt},
}
_NOT_CODE = (ast.arguments, ast.JoinedStr, ast.Import, ast.ImportFrom)
"""Nothing is changed in defaults, in imports, and in formatted strings, whose parts Python 3.11 places wrongly."""
_NOT_RUN = {"annotation", "returns", "decorator_list", "type_params"}
_TREE_LETTERS = 16


class LostPlace(Exception):
    """No function, or more than one, has the syntax tree of a place: it was changed."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place in a function: the name that it had, a hash of its syntax tree, and which of its changes of a kind."""

    function: str
    tree: str
    kind: str
    number: int


@dataclass(frozen=True, slots=True)
class Mutant:
    """A file with one change, the lines of what is changed, and the first line of the statement around it."""

    path: Path
    source: str
    lines: range
    statement: int


@dataclass(frozen=True, slots=True)
class _Change:
    kind: str
    node: ast.expr | ast.stmt
    text: str
    statement: int


class Functions:
    """The functions of some files by their syntax trees. Those that look alike are left out: no hash would name one."""

    def __init__(self, paths: Iterable[Path]) -> None:
        found = [
            (tree_hash(function), name, function, path)
            for path in sorted(paths)
            for name, function in _functions(ast.parse(path.read_text(encoding="utf-8")), "")
        ]
        alike = Counter(tree for tree, *_ in found)
        self._by_tree = {tree: (name, function, path) for tree, name, function, path in found if alike[tree] == 1}

    def draw(self, modules: Iterable[Path], count: int, seed: int) -> list[Place]:
        """Return places in these files or directories, by turns of each kind, as a seed decides."""
        wanted = tuple(modules)
        by_kind: dict[str, list[Place]] = {kind: [] for kind in KINDS}
        for tree, (name, function, path) in sorted(self._by_tree.items(), key=lambda item: item[0]):
            if any(path.is_relative_to(module) for module in wanted):
                for place in _places(name, tree, _changes(function, path.read_text(encoding="utf-8"))):
                    by_kind[place.kind].append(place)
        random = Random(seed)
        for places in by_kind.values():
            random.shuffle(places)
        turns = (places[turn] for turn in range(count) for places in by_kind.values() if turn < len(places))
        return sorted(place for place, _ in zip(turns, range(count), strict=False))

    def mutate(self, place: Place) -> Mutant:
        """Return the mutant of a place, wherever its function is now.

        Raises:
            LostPlace: no function has this syntax tree any more.
        """
        if place.tree not in self._by_tree:
            raise LostPlace(f"no function has the syntax tree of `{place.function}` any more, or several have it")
        _, function, path = self._by_tree[place.tree]
        source = path.read_text(encoding="utf-8")
        change = [change for change in _changes(function, source) if change.kind == place.kind][place.number]
        first, end = _offsets(source, change.node)
        changed = source.encode()[:first] + change.text.encode() + source.encode()[end:]
        lines = range(change.node.lineno, (change.node.end_lineno or change.node.lineno) + 1)
        return Mutant(path, changed.decode(), lines, change.statement)


def tree_hash(function: Function) -> str:
    """Return a hash of what a function does: without its docstring, and with names numbered as they first occur."""
    return hashlib.sha256(_normal_form(function, {}).encode()).hexdigest()[:_TREE_LETTERS]


def _normal_form(part: object, names: dict[str, int]) -> str:
    match part:
        case ast.Import() | ast.ImportFrom():
            return "import"
        case ast.Constant(value=value):
            return repr(value)
        case ast.AST():
            # What only newer versions of Python have is no part of it.
            values = [value for name, value in ast.iter_fields(part) if name != "type_params"]
            fields = ",".join(_normal_form(value, names) for value in values)
            return f"{type(part).__name__}({fields})"
        case list():
            return f"[{','.join(_normal_form(each, names) for each in part if not _is_text(each))}]"
        case str():
            return f"name {names.setdefault(part, len(names))}"
        case _:
            return repr(part)


def _is_text(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    """Yield the functions and methods below a node with their names; what a function defines is part of it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name, child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


def _places(name: str, tree: str, changes: Iterable[_Change]) -> Iterator[Place]:
    numbers = Counter[str]()
    for change in changes:
        yield Place(name, tree, change.kind, numbers[change.kind])
        numbers[change.kind] += 1


def _changes(function: Function, source: str) -> Iterator[_Change]:
    """Yield what can be changed in a function, in the order of the text."""
    predicate = isinstance(function.returns, ast.Name) and function.returns.id == "bool"
    for node, statement in _run_nodes(function, function.lineno):
        match node:
            case ast.Compare(ops=[first, *others]):
                flipped = copy.copy(node)
                flipped.ops = [_FLIPPED[type(first)](), *others]
                yield _Change("comparison", node, f"({ast.unparse(flipped)})", statement)
            case ast.BoolOp(op=operator):
                swapped = copy.copy(node)
                swapped.op = ast.And() if isinstance(operator, ast.Or) else ast.Or()
                yield _Change("junction", node, f"({ast.unparse(swapped)})", statement)
            case ast.Constant(value=bool() | int() | float() | str() as value) if value != "":
                yield _Change("constant", node, repr(_another(value)), statement)
            case ast.Return(value=ast.expr() as value) if predicate:
                yield _Change("return", value, f"(not ({ast.unparse(value)}))", statement)
            case ast.stmt() if _can_be_left_out(node, source):
                yield _Change("statement", node, "pass", statement)


def _run_nodes(node: ast.AST, statement: int) -> Iterator[tuple[ast.AST, int]]:
    """Yield what is run below a node, each with the line where its statement begins."""
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if name in _NOT_RUN or not isinstance(child, ast.AST) or isinstance(child, _NOT_CODE) or _is_text(child):
                continue
            line = child.lineno if isinstance(child, ast.stmt) else statement
            yield child, line
            yield from _run_nodes(child, line)


def _another(value: bool | float | str) -> bool | float | str:
    match value:
        case bool():
            return not value
        case str():
            return value + "~"
        case _:
            return value + 1


def _can_be_left_out(node: ast.stmt, source: str) -> bool:
    """Say whether the module still compiles without a statement, and does not just miss a name then."""
    match node:
        case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Delete():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
        case ast.If(orelse=[]):
            return source.encode()[_offsets(source, node)[0] :].startswith(b"if")
        case _:
            return False


def _offsets(source: str, node: ast.expr | ast.stmt) -> tuple[int, int]:
    """Return where the text of a node begins and ends, in bytes."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
