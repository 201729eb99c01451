"""Bins, moments and percentiles of blktwin.fio.hist on values worked out by hand."""

from __future__ import annotations

import statistics

import pytest

from blktwin.fio.hist import BIN_COUNT, CARRY, SQUARE_LIMIT, LatencyStat, RunningStat, bin_index, bin_value


@pytest.mark.parametrize(
    ("value", "index"),
    [(0, 0), (127, 127), (128, 128), (129, 128), (130, 129), (255, 191), (256, 192), (259, 192), (260, 193)],
)
def test_first_groups(value: int, index: int) -> None:
    """Exact up to 127 ns, then 64 bins for each doubling."""
    assert bin_index(value) == index


def test_bins_tile_the_line() -> None:
    """Neighbouring bins touch, and each bin's reported value lies in it."""
    lowest = 0
    for index in range(BIN_COUNT - 1):
        width = 1 << max(0, (index >> 6) - 1)
        assert bin_index(lowest) == bin_index(lowest + width - 1) == index
        assert bin_value(index) == lowest + width // 2
        lowest += width
    assert bin_index(lowest) == BIN_COUNT - 1


@pytest.mark.parametrize("value", [1 << 34, (1 << 34) + 1, 1 << 40, 1 << 52])
def test_last_bin_is_open(value: int) -> None:
    """Latencies beyond 17 s count in the last bin."""
    assert bin_index(value) == BIN_COUNT - 1


def test_percentiles_by_hand() -> None:
    """A percentile is the first bin at which that share of the samples is reached, not passed."""
    stat = LatencyStat()
    for value in range(1, 101):
        stat.add(value)
    assert stat.percentiles([1.0, 50.0, 99.0, 99.5, 100.0]) == [1, 50, 99, 100, 100]


def test_percentile_of_a_fraction_that_no_double_holds() -> None:
    """99.9 as a double is a little more than 99.9: as in fio, 999 of 1000 samples do not reach it."""
    stat = LatencyStat()
    for _ in range(999):
        stat.add(10)
    stat.add(90)
    assert stat.percentiles([99.9, 99.8]) == [90, 90]
    assert stat.percentiles([99.8, 99.9]) == [10, 90]


def test_no_samples() -> None:
    """Nothing is reported of nothing."""
    stat = LatencyStat()
    assert (stat.mean(), stat.deviation(), stat.high, stat.percentiles([50.0]), stat.filled_bins()) == (0, 0, 0, [], [])


def test_without_bins_only_moments() -> None:
    """A latency whose percentiles nobody asked for keeps no histogram."""
    stat = LatencyStat(has_bins=False)
    stat.add(5)
    stat.add(9)
    assert (stat.count, stat.low, stat.high, stat.mean()) == (2, 5, 9, 7.0)
    assert stat.filled_bins() == []
    assert stat.percentiles([50.0]) == []


@pytest.mark.parametrize(
    "values", [[7], [3, 3, 3], [SQUARE_LIMIT - 1, SQUARE_LIMIT, 10**15], [10**9 + i for i in (0, 1, 3)]]
)
def test_moments_are_exact(values: list[int]) -> None:
    """Mean and deviation are those of exact arithmetic, where a float sum of squares would have lost all digits."""
    stat = RunningStat()
    for value in values:
        stat.add(value)
    assert stat.mean() == statistics.mean(values)
    expected = statistics.stdev(values) if len(values) > 1 else 0.0
    assert stat.deviation() == pytest.approx(expected, rel=1e-15)


def test_sum_of_squares_carries() -> None:
    """Beyond 2**60 the sum of squares goes on in another word."""
    stat = RunningStat()
    value = SQUARE_LIMIT - 1
    for _ in range(5):
        stat.add(value)
        stat.add(0)
    assert stat.square_carries * CARRY + stat.squares == 5 * value * value
    assert stat.squares < CARRY
    assert stat.deviation() == pytest.approx(statistics.stdev([value, 0] * 5), rel=1e-15)


def test_merge_gives_bins_to_one_that_had_none() -> None:
    """A group with one member that keeps bins has those bins."""
    plain, full = LatencyStat(False), LatencyStat(True)
    full.add(1000)
    plain.merge(full)
    assert plain.filled_bins() == full.filled_bins() == [(1004, 1)]


def test_a_group_in_which_not_all_keep_percentiles_is_reported() -> None:
    """Bins that are there count; nothing is lost and nothing fails."""
    kept, plain = LatencyStat(), LatencyStat(has_bins=False)
    for value in (100, 200, 300, 400):
        kept.add(value)
        plain.add_at(value, -1)
    plain.merge(kept)
    assert plain.count == 8
    assert plain.percentiles([50.0, 99.0]) == kept.percentiles([50.0, 99.0])
