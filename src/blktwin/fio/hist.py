"""Exact moments of a stream of integers and fio's latency histogram: 29 groups of 64 bins, up to 17 s.

Compiled: three calls per I/O end here. Sums are exact integers where fio keeps a running float mean, so merging is
associative, no compiler's rounding shows, and fio's own numbers agree to its rounding error.
Knows nothing of jobs or text: stats.py owns these objects, output_*.py print them.
"""

from __future__ import annotations

from fractions import Fraction
from math import sqrt
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

GROUP_BITS: Final = 6
GROUP_BINS: Final = 64
BIN_COUNT: Final = 1856
NO_MIN: Final = 9_223_372_036_854_775_807
"""low before the first sample."""
SQUARE_LIMIT: Final = 2_147_483_648
"""Values below this square to less than 2**62 and stay on the fast path (2.1 s in ns)."""
CARRY_BITS: Final = 60
CARRY: Final = 1_152_921_504_606_846_976
"""2**CARRY_BITS, what one of square_carries stands for (mypyc boxes constants from 2**62 up)."""


def bin_index(value: i64) -> i64:
    """Return the bin of a value: 0..BIN_COUNT-1, the last one open to the right. value: >= 0."""
    if value < 128:
        return value
    top = value >> 7
    shift: i64 = 1
    # The most significant bit by halving: at most six compares, and well predicted.
    if top >= 65536:
        if top >= 268435456:
            return BIN_COUNT - 1
        top >>= 16
        shift = 17
    if top >= 256:
        top >>= 8
        shift += 8
    if top >= 16:
        top >>= 4
        shift += 4
    if top >= 4:
        top >>= 2
        shift += 2
    if top >= 2:
        shift += 1
    index = (shift << 6) + (value >> shift)
    if index >= BIN_COUNT:
        return BIN_COUNT - 1
    return index


def bin_value(index: int) -> int:
    """Return the value that fio reports for a bin: the exact value below 128, else the middle of the bin."""
    if index < 2 * GROUP_BINS:
        return index
    shift = (index >> GROUP_BITS) - 1
    return ((GROUP_BINS + index % GROUP_BINS) << shift) + (1 << (shift - 1))


class RunningStat:
    """Count, extremes, sum and sum of squares of a stream of integers (ns, KiB/s, 1/s), all exact."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self.low: i64 = NO_MIN
        self.high: i64 = 0
        self.total: i64 = 0
        self.squares: i64 = 0
        self.square_carries: i64 = 0
        self.large_squares: int = 0
        """Squares of values from SQUARE_LIMIT up: beyond 64 bits, and rare."""

    def add(self, value: i64) -> None:
        """Count one sample. value: 0 <= value < 2**53."""
        self.count += 1
        self.total += value
        if value > self.high:
            self.high = value
        if value < self.low:
            self.low = value
        if value < SQUARE_LIMIT:
            squares = self.squares + value * value
            if squares >= CARRY:
                self.square_carries += squares >> CARRY_BITS
                squares &= CARRY - 1
            self.squares = squares
        else:
            self.add_large_square(value)

    def add_large_square(self, value: int) -> None:
        """Keep the square of a value from SQUARE_LIMIT up: apart, so that the fast path stays short."""
        self.large_squares += value * value

    def mean(self) -> float:
        """Return the mean; 0 without samples."""
        return float(Fraction(int(self.total), int(self.count))) if self.count else 0.0

    def squared_deviations(self) -> float:
        """Return the sum of (sample - mean)**2, what fio's merges of rates add up; 0 without samples."""
        if self.count == 0:
            return 0.0
        count: int = self.count
        total: int = self.total
        squares = int(self.square_carries) * CARRY + int(self.squares) + self.large_squares
        return float(Fraction(squares * count - total * total, count))

    def deviation(self) -> float:
        """Return the sample standard deviation; 0 for fewer than two samples."""
        if self.count < 2:
            return 0.0
        return sqrt(self.squared_deviations() / float(self.count - 1))

    def merge(self, other: RunningStat) -> None:
        """Add other's samples: the result is as if both streams had been one."""
        self.count += other.count
        self.total += other.total
        self.low = min(self.low, other.low)
        self.high = max(self.high, other.high)
        self.squares += other.squares
        # Both were below CARRY, so their sum fits and carries at most once.
        if self.squares >= CARRY:
            self.squares -= CARRY
            self.square_carries += 1
        self.square_carries += other.square_carries
        self.large_squares += other.large_squares


class LatencyStat(RunningStat):
    """A RunningStat of latencies (ns) with fio's histogram, which is kept only where percentiles are asked for."""

    def __init__(self, has_bins: bool = True) -> None:
        super().__init__()
        self.has_bins: bool = has_bins
        self.bins: vec[i64] = vec[i64]([0] * (BIN_COUNT if has_bins else 0))

    def add(self, value: i64) -> None:
        """Count one latency. value: ns, 0 <= value < 2**53."""
        if self.has_bins:
            self.add_at(value, bin_index(value))
        else:
            self.add_at(value, -1)

    def add_at(self, value: i64, index: i64) -> None:
        """Count one latency whose bin is known. index: bin_index(value), or -1 to count no bin."""
        # RunningStat.add once more: a call less for every latency, which interpreted code feels.
        self.count += 1
        self.total += value
        if value > self.high:
            self.high = value
        if value < self.low:
            self.low = value
        if value < SQUARE_LIMIT:
            squares = self.squares + value * value
            if squares >= CARRY:
                self.square_carries += squares >> CARRY_BITS
                squares &= CARRY - 1
            self.squares = squares
        else:
            self.add_large_square(value)
        if index >= 0:
            self.bins[index] += 1

    def merge(self, other: RunningStat) -> None:
        """Add other's samples and, where it keeps them, its bins."""
        RunningStat.merge(self, other)
        if isinstance(other, LatencyStat) and other.has_bins:
            if not self.has_bins:
                self.has_bins = True
                self.bins = vec[i64]([0] * BIN_COUNT)
            mine = self.bins
            theirs = other.bins
            for index in range(BIN_COUNT):
                mine[index] += theirs[index]

    def filled_bins(self) -> list[tuple[int, int]]:
        """Return (value as fio reports it, count) of every bin that has samples, in order."""
        return [(bin_value(index), int(count)) for index, count in enumerate(self.bins) if count]

    def percentiles(self, wanted: list[float]) -> list[int]:
        """Return the value (ns) of the first bin that reaches each percentile; empty without samples or bins.

        wanted: ascending, 0 < p <= 100. The comparison is exact, as good as fio's long double.
        """
        values: list[int] = []
        # In a group, threads without percentiles add samples but no bins.
        count = sum([int(samples) for samples in self.bins]) if self.has_bins else 0
        if count == 0:
            return values
        seen = 0
        index = -1
        for percentile in wanted:
            numerator, denominator = percentile.as_integer_ratio()
            while seen * denominator * 100 < numerator * count:
                index += 1
                seen += int(self.bins[index])
            values.append(bin_value(index))
        return values
