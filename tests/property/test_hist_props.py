"""Properties of the latency statistics: merging is adding, percentiles are near the true quantiles."""

from __future__ import annotations

import statistics
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from blktwin.fio.hist import LatencyStat, bin_index, bin_value

latencies = st.one_of(st.integers(0, 300), st.integers(0, 10**7), st.integers(0, 17 * 10**9), st.integers(0, 1 << 52))
streams = st.lists(latencies, max_size=80)
percents = st.floats(0.01, 100.0, exclude_min=True)


def filled(values: list[int]) -> LatencyStat:
    """Return the statistics of a stream."""
    stat = LatencyStat()
    for value in values:
        stat.add(value)
    return stat


def state(stat: LatencyStat) -> tuple[object, ...]:
    """Everything that a reader can learn of a LatencyStat."""
    moments = (stat.count, stat.low, stat.high, stat.total, stat.mean(), stat.deviation())
    return (*moments, stat.filled_bins(), stat.percentiles([1.0, 50.0, 99.99]))


@given(st.lists(streams, max_size=5))
def test_merge_is_adding_all(parts: list[list[int]]) -> None:
    """However a stream is cut and whichever part comes first, the merged statistics are the stream's, exactly."""
    whole = state(filled([value for part in parts for value in part]))
    for order in (parts, parts[::-1]):
        merged = LatencyStat(has_bins=False)
        for part in order:
            merged.merge(filled(part))
        merged.merge(filled([]))
        assert state(merged) == whole


@given(streams.filter(bool))
def test_moments(values: list[int]) -> None:
    """Count, extremes, mean and deviation are the textbook's."""
    stat = filled(values)
    assert (stat.count, stat.low, stat.high) == (len(values), min(values), max(values))
    assert stat.mean() == float(statistics.mean(values))
    if len(values) > 1:
        variance = float(statistics.variance([Fraction(value) for value in values]))
        assert abs(stat.deviation() ** 2 - variance) <= 1e-9 * variance


@given(streams.filter(bool), st.lists(percents, min_size=1, max_size=12).map(sorted))
def test_percentiles_are_monotone_and_near(values: list[int], wanted: list[float]) -> None:
    """Each percentile is the reported value of the bin that holds the exact quantile, so within 1/128 of it."""
    found = filled(values).percentiles(wanted)
    assert found == sorted(found)
    assert len(found) == len(wanted)
    ordered = sorted(values)
    for percent, value in zip(wanted, found, strict=True):
        numerator, denominator = percent.as_integer_ratio()
        exact = ordered[-(-numerator * len(values) // (denominator * 100)) - 1]
        assert value == bin_value(bin_index(exact))
        if exact < 1 << 34:
            assert abs(value - exact) <= exact / 128


@given(latencies, latencies)
def test_bins_keep_order(left: int, right: int) -> None:
    """A larger value is never in a lower bin."""
    if left <= right:
        assert bin_index(left) <= bin_index(right)
    assert bin_index(bin_value(bin_index(left))) == bin_index(left)


@given(streams)
def test_bins_count_everything(values: list[int]) -> None:
    """No sample is lost between the bins."""
    assert sum(count for _, count in filled(values).filled_bins()) == len(values)
