"""A rule file can do no harm: any file is either refused with findings, or proved."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.hostile import bounded, drawn, judged, mutated, odd, valid, written_as

pytestmark = pytest.mark.repeated


@bounded(40)
@given(files=mutated())
def test_a_file_with_anything_changed_is_refused_with_findings_or_proved(
    files: dict[str, bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    """At places in the file, by codes that are explained, in readable lines; and no other output."""
    judged(files)
    assert capfd.readouterr() == ("", "")


@bounded(25)
@given(file=drawn())
def test_whatever_is_accepted_is_proved(file: dict[str, Any]) -> None:
    """By every combination, for any rules: refused parts are removed until the rest is valid."""
    for _ in range(20):
        check = judged({"callability.yaml": written_as(file)})
        if check.policy:
            return
        file = valid(file, check)
    pytest.fail("it is never sound")


@bounded(40)
@given(file=drawn(), data=st.data())
def test_an_odd_scalar_anywhere_in_a_sound_form_does_no_harm(file: dict[str, Any], data: st.DataObject) -> None:
    """As a value and as a key, in quotes or without."""
    text = written_as(file).decode()
    parts = text.split('"')
    at = data.draw(st.integers(0, len(parts) // 2 - 1)) * 2 + 1
    parts[at] = data.draw(odd)
    quote = data.draw(st.sampled_from(['"', "'", ""]))
    text = '"'.join(parts[:at]) + quote + parts[at] + quote + '"'.join(parts[at + 1 :])
    judged({"callability.yaml": text.encode(errors="surrogatepass")})
