"""The change of labels that lifts a lock, as an operator writes it in the config."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from callability.gateway.tools.decisions import phrases
from callability.v1.callability_service_pb2 import FactChange

CONFIG = Path("/srv/gateway.yaml")


def _change(fact: str, *values: str) -> FactChange:
    return FactChange(fact=fact, wanted_values=values, action="edit_labels")


@pytest.mark.parametrize(
    ("changes", "phrase"),
    [
        ([_change("server.label.stage", "none", "adopted")], "set `labels.stage` to `adopted` or remove it"),
        ([_change("server.label.stage", "test", "staging")], "set `labels.stage` to `test` or `staging`"),
        ([_change("server.label.stage", "none")], "remove `labels.stage`"),
        ([_change("tool.label.reviewed", "yes")], "set `tool_labels.push.reviewed` to `yes`"),
        (
            [_change("server.label.stage", "none"), _change("tool.label.reviewed", "yes")],
            "remove `labels.stage` and set `tool_labels.push.reviewed` to `yes`",
        ),
        ([], "edit `labels` or `tool_labels`"),
    ],
)
def test_a_phrase_names_the_keys_and_the_values_that_lift_a_lock(changes: list[FactChange], phrase: str) -> None:
    """And the file; without changes, as in a list of many tools, the two keys alone."""
    commands = phrases(CONFIG, None)
    assert commands.about("git", "push", labels=changes)["edit_labels"] == f"{phrase} in `{CONFIG}`"
    in_default_place = replace(commands, is_default=True).about("git", "push", labels=changes)
    assert in_default_place["edit_labels"] == f"{phrase} in the gateway's config"


def test_other_phrases_do_not_depend_on_labels() -> None:
    """Only one action is about them."""
    commands = phrases(CONFIG, None)
    with_labels = commands.about("git", "push", labels=[_change("server.label.stage", "none")])
    without = commands.about("git", "push")
    assert {key for key in without if without[key] != with_labels[key]} == {"edit_labels"}
