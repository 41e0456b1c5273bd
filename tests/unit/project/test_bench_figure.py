"""The figure of `make bench`: every row that has an aim is a bar, and a missed aim is shown as missed."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from bench.figure import bar, drawn
from bench.report import Aim, Aimed, Row, as_json
from support.checkout import DOCS, ROOT

_NAMESPACE = "{http://www.w3.org/2000/svg}"
ROWS = (
    Row("part", "an if-chain", "ns", (100.0, 100.0, 100.0)),
    Row("part", "a `look-up` <b>", "ns", (150.0, 160.0, 170.0), against=(100.0, 100.0, 100.0), aim=Aim(3)),
    Row("part", "throughput", "decisions/s", (900.0, 1000.0, 1100.0), aim=Aim(2000, Aimed.VALUE, at_least=True)),
    Row("part", "far too slow", "s", (50.0, 50.0, 50.0), aim=Aim(1, Aimed.VALUE)),
)
MACHINE = {"rounds": 3, "cores": 2, "python": "3.11.7", "load_generator": "h2load"}


def _result() -> dict[str, Any]:
    return {"machine": MACHINE, "failed": [], "rows": as_json(ROWS)}


def test_only_rows_with_an_aim_are_bars_and_the_colour_says_whether_it_is_met() -> None:
    """In their order; the words are escaped."""
    picture = ElementTree.fromstring(drawn(_result()))
    _, *bars = picture.iter(f"{_NAMESPACE}rect")
    assert [each.get("fill") for each in bars] == ["#2f7d4f", "#b3382c", "#b3382c"]
    texts = [text.text for text in picture.iter(f"{_NAMESPACE}text")]
    for words in ("a look-up <b>", "1.60x  (≤ 3.00x)", "1,000 decisions/s  (≥ 2,000)", "50.0 s  (≤ 1.00)"):
        assert words in texts


@pytest.mark.parametrize(("row", "share"), [(1, 1.6 / 3), (2, 2.0), (3, 50.0)])
def test_the_length_of_a_bar_is_the_share_of_the_aim_that_is_used_up(row: int, share: float) -> None:
    """For an aim that should not be fallen below, the other way round."""
    drawn_bar = bar(as_json(ROWS)[row])
    assert drawn_bar.share == pytest.approx(share)
    assert drawn_bar.quartiles[0] <= drawn_bar.share <= drawn_bar.quartiles[1]
    assert drawn_bar.met is ROWS[row].met


def test_a_bar_far_beyond_its_aim_stays_in_the_picture() -> None:
    """It is cut off, and its text has the number."""
    picture = ElementTree.fromstring(drawn(_result()))
    width = float(picture.get("width", "0"))
    for each in picture.iter(f"{_NAMESPACE}rect"):
        assert float(each.get("x", "0")) + float(each.get("width", "0")) <= width


def test_the_figure_in_the_readme_is_that_of_the_published_result() -> None:
    """`make figure` draws it again."""
    result = json.loads((DOCS / "bench.json").read_text(encoding="utf-8"))
    assert (DOCS / "bench.svg").read_text(encoding="utf-8") == drawn(result), "run `make figure`"
    assert result["machine"]["result"]
    assert "(docs/bench.svg)" in (ROOT / "README.md").read_text(encoding="utf-8")
