"""Telling what happens, and whether it is what should happen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape


class Narration:
    """Prints a story step by step, and counts what went wrong."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._steps = 0
        self.checks = 0
        self.failures = 0

    def step(self, title: str, why: str) -> None:
        """Begin a step."""
        self._steps += 1
        self._console.print(f"\n[bold]{self._steps}. {escape(title)}[/bold]\n   [dim]{escape(why)}[/dim]")

    def said(self, who: str, text: str) -> None:
        """Show what somebody said."""
        self._console.print(f"   [cyan]{escape(who)}[/cyan] {escape(text)}")

    def shown(self, value: Mapping[str, Any]) -> None:
        """Show an object of an answer."""
        for line in json.dumps(value, indent=2, ensure_ascii=False).splitlines():
            self._console.print(f"     {escape(line)}")

    def check(self, what: str, found: object, wanted: object) -> None:
        """Hold what was found against what is wanted."""
        self.checks += 1
        if found == wanted:
            self._console.print(f"   [green]as it should be:[/green] {escape(what)}")
        else:
            self.failures += 1
            self._console.print(f"   [bold red]not as it should be:[/bold red] {escape(what)}")
            self._console.print(f"     found  {escape(repr(found))}\n     wanted {escape(repr(wanted))}")

    def end(self) -> None:
        """Tell how it went."""
        colour = "red" if self.failures else "green"
        held = self.checks - self.failures
        self._console.print(f"\n[bold {colour}]{held} of {self.checks} checks are as the policy says.[/bold {colour}]")
