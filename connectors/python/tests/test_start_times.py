"""Times at which reading begins."""

import pytest

from penstock_values.start_times import is_start_time, parse_duration, start_time_ms


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT1H", 3600), ("P1DT1.5S", 86_401.5), ("PT1H30M", 5400), ("P2D", 172_800),
        ("P", None), ("PT", None), ("1h", None), ("PT-1H", None), ("P1W", None), ("", None),
    ],
)  # fmt: skip
def test_durations_are_those_of_iso_8601(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("reset", "at_ms"),
    [
        ("timestamp:2026-01-31T12:00:00Z", 1_769_860_800_000),
        ("timestamp:2026-01-31T12:00:00.5+01:00", 1_769_857_200_500),
        ("by_duration:PT1H", 6_400_000),
        ("earliest", None),
    ],
)
def test_a_reset_may_mean_a_time(reset, at_ms):
    assert start_time_ms(reset, 10_000.0) == at_ms
    assert is_start_time(reset) is (at_ms is not None)


@pytest.mark.parametrize(
    "reset", ["timestamp:", "timestamp:2026-01-31T12:00:00", "by_duration:PT0S", "by_duration:1h"]
)
def test_what_means_no_time_is_none(reset):
    assert not is_start_time(reset)
