"""What a request may hold: at the limit it is accepted, and beyond it is refused by a reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from callability.kernel.limits import (
    DECLARED_FACT_NAME_BYTES,
    DECLARED_FACT_VALUE_BYTES,
    DECLARED_FACTS,
    ERROR_TEXT_BYTES,
    FACTS_BYTES,
    LABEL_KEY_BYTES,
    LABEL_VALUE_BYTES,
    LABELS,
    NAME_BYTES,
    POLICY_BYTES,
    POLICY_FILES,
    InvalidName,
    InvalidRequest,
    check_agent,
    check_declared_facts,
    check_error_text,
    check_facts,
    check_labels,
    check_name,
    check_policy_files,
)


@pytest.mark.parametrize(
    ("check", "most", "reason"),
    [
        (lambda size: check_labels({str(number): "" for number in range(size)}, "tool"), LABELS, "TOO_MANY_LABELS"),
        (lambda size: check_labels({"é" * (size // 2): ""}, "tool"), LABEL_KEY_BYTES, "LABEL_KEY_SIZE"),
        (lambda size: check_labels({"key": "x" * size}, "tool"), LABEL_VALUE_BYTES, "LABEL_VALUE_TOO_LONG"),
        (
            lambda size: check_declared_facts({str(number): "x" for number in range(size)}, "tool"),
            DECLARED_FACTS,
            "TOO_MANY_DECLARED_FACTS",
        ),
        (
            lambda size: check_declared_facts({"x" * size: "x"}, "tool"),
            DECLARED_FACT_NAME_BYTES,
            "DECLARED_FACT_NAME_SIZE",
        ),
        (
            lambda size: check_declared_facts({"name": "x" * size}, "tool"),
            DECLARED_FACT_VALUE_BYTES,
            "DECLARED_FACT_VALUE_SIZE",
        ),
        (lambda size: check_error_text("x" * size), ERROR_TEXT_BYTES, "ERROR_TEXT_TOO_LONG"),
        (check_agent, FACTS_BYTES, "FACTS_TOO_LARGE"),
        (lambda size: check_facts(b"", b"x" * size), FACTS_BYTES, "FACTS_TOO_LARGE"),
        (lambda size: check_name(b"x" * size, "tool"), NAME_BYTES, "NAME_TOO_LONG"),
        (lambda size: check_policy_files([(str(number), 1) for number in range(size)]), POLICY_FILES, "TOO_MANY_FILES"),
        (lambda size: check_policy_files([("a", size - 1), ("b", 1)]), POLICY_BYTES, "POLICY_TOO_LARGE"),
    ],
)
def test_what_is_one_more_than_the_limit_is_refused(check: Callable[[int], None], most: int, reason: str) -> None:
    """Sizes are those of UTF-8."""
    check(most)
    with pytest.raises(InvalidRequest) as refused:
        # An even limit, of letters of two bytes, is passed by two.
        check(most + 2)
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["a/b"], "FILE_NAME_IS_PATH"),
        (["a\0b"], "FILE_NAME_IS_PATH"),
        ([".."], "FILE_NAME_IS_PATH"),
        (["a", "b", "a"], "DUPLICATE_FILE"),
        ([""], "NAME_EMPTY"),
    ],
)
def test_the_name_of_a_file_of_a_policy_is_no_path_and_not_repeated(names: list[str], reason: str) -> None:
    """An author who sends one expects something that does not happen."""
    check_policy_files([("..a", 1), ("b", 1)])
    with pytest.raises(InvalidName) as refused:
        check_policy_files([(name, 1) for name in names])
    assert refused.value.reason == reason


def test_a_name_is_utf_8() -> None:
    """Others cannot be shown, nor sent back."""
    check_name("é".encode(), "tool")
    with pytest.raises(InvalidName) as refused:
        check_name(b"\xff", "tool")
    assert refused.value.reason == "NAME_NOT_UTF8"
