"""fio's distributions of random offsets: zipf, pareto, normal and zoned.

fio spreads zipf and pareto ranks over the file by a hash, and shifts them by a random start.
"""

from __future__ import annotations

import math
from typing import Final

from mypy_extensions import i64

from blktwin.fio.random_state import FioRandom

ZIPF_MAX_GEN: Final = 10_000_000
GOLDEN_RATIO_64: Final = 0x61C8864680B583EB
MASK64: Final = (1 << 64) - 1


class RankSource:
    """Base: ranks 0 to nr_ranges - 1."""

    def __init__(self, nr_ranges: int, seed: int, center: float) -> None:
        self.nr_ranges: int = nr_ranges
        self.rand: FioRandom = FioRandom(seed)
        self.start: int = int(self.rand.next32())
        self.has_hash: bool = center < 0.0
        if center >= 0.0:
            self.start = int(nr_ranges * center)

    def spread(self, rank: int) -> i64:
        """Return the block of a rank."""
        if self.has_hash:
            rank = rank * GOLDEN_RATIO_64 & MASK64
        return i64((rank + self.start) % self.nr_ranges)

    def next_block(self) -> i64:
        """Return the next block."""
        raise NotImplementedError


class Zipf(RankSource):
    """random_distribution=zipf:theta (Gray et al., "Quickly generating billion-record synthetic databases")."""

    def __init__(self, nr_ranges: int, theta: float, center: float, seed: int) -> None:
        super().__init__(nr_ranges, seed, center)
        self.theta: float = theta
        terms = min(nr_ranges, ZIPF_MAX_GEN)
        self.zeta_2: float = 1.0 + 0.5**theta
        total = 0.0
        for rank in range(1, terms + 1):
            total += (1.0 / rank) ** theta
        self.zeta_n: float = total

    def next_block(self) -> i64:
        """Return the next block."""
        n = self.nr_ranges
        alpha = 1.0 / (1.0 - self.theta)
        eta = (1.0 - (2.0 / n) ** (1.0 - self.theta)) / (1.0 - self.zeta_2 / self.zeta_n)
        u = float(int(self.rand.next32())) / 4294967295.0
        z = u * self.zeta_n
        if z < 1.0:
            rank = 1
        elif z < 1.0 + 0.5**self.theta:
            rank = 2
        else:
            rank = 1 + int(n * (eta * u - eta + 1.0) ** alpha)
        return self.spread(rank - 1)


class Pareto(RankSource):
    """random_distribution=pareto:h."""

    def __init__(self, nr_ranges: int, h: float, center: float, seed: int) -> None:
        super().__init__(nr_ranges, seed, center)
        self.power: float = math.log(h) / math.log(1.0 - h)

    def next_block(self) -> i64:
        """Return the next block."""
        u = float(int(self.rand.next32())) / 4294967295.0
        return self.spread(int((self.nr_ranges - 1) * u**self.power))


class Normal(RankSource):
    """random_distribution=normal:deviation (percent of the file)."""

    def __init__(self, nr_ranges: int, deviation: float, center: float, seed: int) -> None:
        super().__init__(nr_ranges, seed, center)
        self.has_hash = False
        self.stddev: int = min(math.ceil(nr_ranges * deviation / 100.0), nr_ranges // 2)
        self.middle: int = nr_ranges // 2 if center < 0.0 else self.start

    def next_block(self) -> i64:
        """Return the next block: the mean of twelve draws around the middle."""
        total = 0
        if self.stddev > 0:
            for _ in range(12):
                total += int(self.rand.below(self.stddev)) * 2 - self.stddev + 1
        vr = self.middle + (total >> 2)
        return i64(vr % self.nr_ranges)
