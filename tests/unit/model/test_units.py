import pytest

from penstock.model.config_def import parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5s", 5), ("100ms", 0.1), ("250", 0.25), ("1.5h", 5400), ("2 min", 120), ("7us", 7e-6)],
)
def test_a_duration_is_in_seconds_and_a_bare_number_in_milliseconds(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("1MiB", 1 << 20), ("64k", 64 << 10), ("4096", 4096), ("1.5KiB", 1536), ("2MB", 2_000_000)],
)
def test_a_size_is_in_bytes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "5 parsecs", "-1s", "1e3", "s", "٣s", "inf"])
def test_what_is_not_a_duration_is_refused(text):
    with pytest.raises(ValueError, match=r".*"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "1.5", "1 MIB", "-4", "0x10"])
def test_what_is_not_a_whole_number_of_bytes_is_refused(text):
    with pytest.raises(ValueError, match=r".*"):
        parse_size(text)
