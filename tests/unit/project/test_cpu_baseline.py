"""What `make cpu` records."""

from __future__ import annotations

from support.cpu_baseline import cost, parts, passed


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


def test_the_parts_of_the_run_are_named_by_their_targets() -> None:
    """Without the options and variables of the call."""
    first = "make test TEST=-m 'not repeated': 300.2 s, CPU 500.6 s and 60.0 s in the kernel"
    second = "make --jobs 2 --output-sync rounds wheel SEED=1: 100.0 s, CPU 150.0 s and 9.9 s in the kernel"
    assert parts(f"4 passed\n{first}\n{second}\n") == {
        "test": {"cpu_seconds": 561, "wall_seconds": 300},
        "rounds wheel": {"cpu_seconds": 160, "wall_seconds": 100},
    }
