"""`python -m bench.figure RESULT PICTURE`: draws the result of `make bench` as SVG, each row against its aim."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from xml.sax.saxutils import escape

import typer

from bench.report import Aim, Aimed, number

_WIDTH, _TOP, _ROW = 980, 64, 26
_LABELS, _BARS = 440, 270
"""Where the bars begin, and how wide one is that uses its aim up."""
_LONGEST = 1.25
"""The share at which a bar is cut off: the text beside it has the number."""
_MET, _MISSED, _INK, _QUIET = "#2f7d4f", "#b3382c", "#1f2328", "#6e7781"


@dataclass(frozen=True, slots=True)
class Bar:
    """A row that has an aim: which share of it the median and the quartiles use up."""

    label: str
    share: float
    quartiles: tuple[float, float]
    says: str

    @property
    def met(self) -> bool:
        """Whether the aim is met."""
        return self.share <= 1


def bar(row: Mapping[str, Any]) -> Bar:
    """Return the bar of a row of a result that has an aim."""
    aim = Aim(row["aim"]["limit"], Aimed(row["aim"]["of"]), at_least=row["aim"]["at_least"])
    aimed = row["ratio"] if aim.of is Aimed.RATIO else row
    median = aimed["median"]
    # A result that was published without its quartiles is drawn without them.
    quartiles = aimed["quartiles"] or [median, median]
    says = f"{median:.2f}x" if aim.of is Aimed.RATIO else f"{number(median)} {row['unit']}"
    shares = [_share(value, aim) for value in (median, *quartiles)]
    return Bar(row["what"].replace("`", ""), shares[0], (min(shares[1:]), max(shares[1:])), f"{says}  ({aim})")


def _share(value: float, aim: Aim) -> float:
    return aim.limit / value if aim.at_least else value / aim.limit


def drawn(result: Mapping[str, Any]) -> str:
    """Return the SVG of a result."""
    bars = [bar(row) for row in result["rows"] if row["aim"]]
    height = _TOP + _ROW * len(bars) + 48
    machine = result["machine"]
    lines = any(each.quartiles[0] < each.quartiles[1] for each in bars)
    how = (
        f"Medians{' (and quartiles, as lines)' if lines else ''} of {machine['rounds']} interleaved rounds, "
        f"{machine['cores']} cores, "
        f"Python {machine['python']}, load by {machine['load_generator']}"
    )
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
            f'viewBox="0 0 {_WIDTH} {height}" font-family="system-ui, sans-serif" font-size="13">',
            f"<title>{escape(how)}</title>",
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            _text(16, 26, "What decisions cost, each against its aim: a shorter bar is better", weight=600, size=16),
            *_aim_line(len(bars)),
            *(line for place, each in enumerate(bars) for line in _row(each, _TOP + place * _ROW)),
            _text(16, height - 14, how, fill=_QUIET, size=12),
            "</svg>\n",
        )
    )


def _row(each: Bar, top: int) -> Sequence[str]:
    middle = top + _ROW // 2
    colour = _MET if each.met else _MISSED
    lower, upper, end = (_LABELS + min(share, _LONGEST) * _BARS for share in (*each.quartiles, each.share))
    return (
        _text(_LABELS - 10, middle + 4, each.label, anchor="end"),
        f'<rect x="{_LABELS}" y="{top + 5}" width="{end - _LABELS:.1f}" height="{_ROW - 10}" fill="{colour}"/>',
        f'<line x1="{lower:.1f}" x2="{upper:.1f}" y1="{middle}" y2="{middle}" stroke="{_INK}" stroke-width="2"/>',
        _text(max(end, upper, _LABELS + _BARS) + 10, middle + 4, each.says),
    )


def _aim_line(rows: int) -> Sequence[str]:
    x, bottom = _LABELS + _BARS, _TOP + rows * _ROW
    return (
        _text(x, _TOP - 8, "aim", anchor="middle", fill=_QUIET, size=12),
        f'<line x1="{x}" x2="{x}" y1="{_TOP}" y2="{bottom}" stroke="{_QUIET}" stroke-dasharray="4 3"/>',
    )


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", fill: str = _INK, size: int = 13, weight: int = 400
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" font-size="{size}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )


def main(
    result: Annotated[Path, typer.Argument(metavar="RESULT", help="What `python -m bench --json FILE` wrote.")],
    picture: Annotated[Path, typer.Argument(metavar="PICTURE", help="The SVG to write.")],
    medians: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the result without its single values too.")
    ] = None,
) -> None:
    """Draw the rows of a result that have an aim."""
    measured = json.loads(result.read_text(encoding="utf-8"))
    picture.write_text(drawn(measured), encoding="utf-8")
    if medians is not None:
        rows = [{key: value for key, value in row.items() if key != "values"} for row in measured["rows"]]
        medians.write_text(json.dumps({**measured, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
