"""Numbers as fio writes them; the expected strings were printed by fio 3.33."""

from __future__ import annotations

import pytest

from blktwin.fio.output_units import both_ways, date, latency_unit, percent_of_group, scaled, shares, version


@pytest.mark.parametrize(
    ("number", "digits", "binary", "unit", "text"),
    [
        (4096, 4, True, "B", "4096B"),
        (16384, 4, True, "B", "16.0KiB"),
        (132000, 4, False, "", "132k"),
        (70922, 4, False, "", "70.9k"),
        (290496671, 4, True, "B/s", "277MiB/s"),
        (290496671, 4, False, "B/s", "290MB/s"),
        (69208473, 4, True, "B/s", "66.0MiB/s"),
        (1048576000, 4, True, "B/s", "1000MiB/s"),
        (1048576000, 4, False, "B/s", "1049MB/s"),
        (1833925, 6, False, "", "1833.9k"),
        (999999, 6, False, "", "999999"),
        (1000000, 6, False, "", "1000.0k"),
        (0, 4, True, "B", "0B"),
        (9999999, 4, False, "", "10000k"),
        (1 << 50, 4, True, "B", "1024TiB"),
    ],
)
def test_scaled(number: int, digits: int, binary: bool, unit: str, text: str) -> None:
    """Divide until it fits, then fill up with decimals; a rounded-up fraction carries."""
    assert scaled(number, digits, binary, unit) == text


def test_both_ways() -> None:
    """Binary first, decimal second."""
    assert both_ways(67720533, 4, "B/s") == ("64.6MiB/s", "67.7MB/s")


@pytest.mark.parametrize(
    ("low", "high", "deviation", "unit"),
    [
        (461, 1833925, 30336.6, "nsec"),
        (2001, 100_000, 1000.5, "usec"),
        (2000, 100_000, 1000.5, "nsec"),
        (2001, 99_999, 1000.5, "nsec"),
        (2001, 100_000, 1000.0, "nsec"),
        (2_000_001, 100_000_000, 1_000_000.5, "msec"),
        (2_000_001, 100_000_000, 1_000_000.0, "usec"),
    ],
)
def test_latency_unit(low: int, high: int, deviation: float, unit: str) -> None:
    """A line is in us or ms only when minimum, maximum and deviation are all large enough."""
    assert latency_unit(low, high, deviation)[0] == unit


def test_shares() -> None:
    """What happened at all is never printed as 0; of nothing everything is 0."""
    assert shares([999_999, 1, 0], 1_000_000, 0.01) == [99.9999, 0.01, 0.0]
    assert shares([1, 2], 0, 0.1) == [0.0, 0.0]


def test_percent_of_group() -> None:
    """The mean is cut to whole KiB/s first; tiny groups and more than all are 100 %."""
    assert percent_of_group(50.9, 102_400) == 50.0
    assert percent_of_group(500.0, 102_400) == 100.0
    assert percent_of_group(1.0, 1024) == 100.0


def test_date_is_utc() -> None:
    """One form of one instant, whatever the machine's time zone."""
    assert date(1_700_000_000_999) == "Tue Nov 14 22:13:20 2023"
    assert date(0) == "Thu Jan  1 00:00:00 1970"


def test_version() -> None:
    """Consumers that look for fio-3.x find it."""
    assert version("1.2.3") == "fio-3.33-blktwin-1.2.3"
