"""How long one step of a device takes: a fixed time, or a draw from a table of equally likely times.

The table is made once, with floats; a draw is one random number and one look-up. Knows nothing of requests.
"""

from __future__ import annotations

import math
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from blktwin.rng import Rng

TABLE_BITS: Final = 10
TABLE_SIZE: Final = 1 << TABLE_BITS
DRAW_SHIFT: Final = 32 - TABLE_BITS


class Latency:
    """Times in ns, equally likely; values holds one, or TABLE_SIZE in rising order. text is how it was written."""

    def __init__(self, values: list[int], text: str) -> None:
        assert len(values) in (1, TABLE_SIZE), f"a table of {len(values)} times"
        self.text: str = text
        self.is_fixed: bool = len(values) == 1
        self.fixed_ns: i64 = values[0]
        self.table: vec[i64] = vec[i64](values)

    def draw(self, rng: Rng) -> i64:
        """Return one time in ns; a fixed one draws nothing."""
        if self.is_fixed:
            return self.fixed_ns
        return self.table[rng.next32() >> DRAW_SHIFT]

    def mean_ns(self) -> int:
        """Return the mean, rounded."""
        values = [int(value) for value in self.table]
        return (sum(values) + len(values) // 2) // len(values)


def fixed(ns: int, text: str = "") -> Latency:
    """Return a constant."""
    return Latency([ns], text or f"{ns}ns")


def uniform(mean_ns: int, percent: float, text: str = "") -> Latency:
    """Return times spread evenly over mean +- percent (0 to 100)."""
    step = percent / 100.0 * mean_ns / TABLE_SIZE
    return Latency([round(mean_ns + (2 * at + 1 - TABLE_SIZE) * step) for at in range(TABLE_SIZE)], text)


def normal(mean_ns: int, deviation_ns: int, text: str = "") -> Latency:
    """Return normally distributed times, none below 0; the mean holds unless many would be."""
    return Latency([max(0, round(mean_ns + deviation_ns * z)) for z in normal_quantiles()], text)


def lognormal(mean_ns: int, sigma: float, text: str = "") -> Latency:
    """Return lognormal times of that mean; sigma is the deviation of the logarithm."""
    shape = [math.exp(sigma * z) for z in normal_quantiles()]
    scale = mean_ns * TABLE_SIZE / math.fsum(shape)
    return Latency([round(scale * value) for value in shape], text)


QUANTILES: Final[list[float]] = []


def normal_quantiles() -> list[float]:
    """Return the middles of TABLE_SIZE equally likely slices of the standard normal distribution, rising."""
    if not QUANTILES:
        half = TABLE_SIZE // 2
        upper = []
        z = 0.0
        for at in range(half):
            target = 0.5 + (at + 0.5) / TABLE_SIZE
            # Newton's method from the last quantile; five steps are exact to the last digits.
            for _ in range(5):
                below = 0.5 * (1.0 + math.erf(z / math.sqrt(2.0)))
                z += (target - below) * math.sqrt(2.0 * math.pi) * math.exp(z * z / 2.0)
            upper.append(z)
        QUANTILES.extend([-value for value in reversed(upper)] + upper)
    return QUANTILES
