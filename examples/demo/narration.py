"""Prints what happens, and checks that it is what should happen."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

WIDTH = 118
_INDENT = " " * 10
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


class Narration:
    """Prints a story step by step, and counts the checks that failed.

    With `verbose`, it also prints every check that held, and the JSON of every answer.
    """

    def __init__(self, *, verbose: bool = False, width: int = WIDTH) -> None:
        self._console = Console(highlight=False, soft_wrap=True, record=True, width=width)
        self._verbose = verbose
        self._steps = 0
        self.checks = 0
        self.failures = 0

    def title(self, text: str) -> None:
        """Print what the story is about."""
        self._console.print(f"[bold]{escape(text)}[/bold]")

    def step(self, title: str) -> None:
        """Begin a step."""
        self._steps += 1
        self._console.print(f"\n[bold]{self._steps}. {escape(title)}[/bold]")

    def says(self, who: str, text: str) -> None:
        """Print what somebody says or does, in lines that fit."""
        first, *others = textwrap.wrap(text, WIDTH - len(_INDENT), break_long_words=False, break_on_hyphens=False) or [
            ""
        ]
        self._console.print(f"[cyan]{escape(who):>8}[/cyan]  {escape(first)}")
        for line in others:
            self._console.print(f"{_INDENT}{escape(line)}")

    def runs(self, command: str) -> None:
        """Print a command that a person runs, in one line, so that it can be copied."""
        self._console.print(f"[cyan]{'person':>8}[/cyan]  [bold]$ {escape(command)}[/bold]")

    def returned(self, value: Mapping[str, Any]) -> None:
        """Print an object of an answer, if the story is verbose."""
        if self._verbose:
            for line in json.dumps(value, indent=2, ensure_ascii=False).splitlines():
                self._console.print(f"{_INDENT}[dim]{escape(line)}[/dim]")

    def check(self, what: str, found: object, wanted: object) -> None:
        """Compare what was found with what is wanted."""
        self.checks += 1
        if found == wanted:
            if self._verbose:
                self._console.print(f"{_INDENT}[green]✓[/green] [dim]{escape(what)}[/dim]")
            return
        self.failures += 1
        self._console.print(f"{_INDENT}[bold red]✗ {escape(what)}[/bold red]")
        self._console.print(f"{_INDENT}  found  {escape(repr(found))}\n{_INDENT}  wanted {escape(repr(wanted))}")

    def end(self, what_next: str) -> None:
        """Print what a reader can do next, unless a check failed, and how many checks held."""
        self._console.print()
        if not self.failures:
            self._console.print(escape(what_next))
        colour = "red" if self.failures else "green"
        self._console.print(
            f"[bold {colour}]{self.checks - self.failures} of {self.checks} checks passed[/bold {colour}]"
        )

    def save(self, picture: Path, title: str) -> None:
        """Write what was printed as an SVG that needs nothing from the network."""
        self._console.save_svg(str(picture), title=title, clear=False)
        picture.write_text(_FONTS.sub("", picture.read_text(encoding="utf-8")), encoding="utf-8")
