"""What `make cpu` records."""

from __future__ import annotations

from support.cpu_baseline import cost, passed


def test_the_tests_that_passed_are_counted_by_the_last_line() -> None:
    """Skipped and deselected tests cost next to nothing."""
    assert passed("3 passed in 1.00s\n= 1360 passed, 2 skipped, 7 warnings in 20.51s =\n") == 1360


def test_the_cost_of_a_test_is_recorded_to_the_millisecond() -> None:
    """Of all CPU, that of the start included."""
    assert cost(1360, 40.4, 24.6) == {
        "tests": 1360,
        "cpu_seconds": 40,
        "wall_seconds": 25,
        "cpu_seconds_per_test": 0.03,
    }
