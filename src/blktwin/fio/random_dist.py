"""fio's distributions of random offsets: zipf, pareto, normal and zoned.

fio spreads zipf and pareto ranks over the file by a hash, and shifts them by a random start.
"""

from __future__ import annotations

import math
from typing import Final

from mypy_extensions import i64

from blktwin.fio.random_state import FioRandom

ZIPF_MAX_GEN: Final = 10_000_000
GOLDEN_RATIO_32: Final = 0x61C88647
GOLDEN_RATIO_64: Final = 0x61C8864680B583EB
MASK64: Final = (1 << 64) - 1


class RankSource:
    """Base: ranks 0 to nr_ranges - 1."""

    def __init__(self, nr_ranges: int, seed: int) -> None:
        self.nr_ranges: int = nr_ranges
        self.rand: FioRandom = FioRandom(seed)
        self.start: int = 0

    def spread(self, rank: int) -> i64:
        """Return the block of a rank."""
        return i64((rank * GOLDEN_RATIO_64 + self.start & MASK64) % self.nr_ranges)

    def uniform(self) -> float:
        """Return a float in [0, 1]."""
        return float(int(self.rand.next32())) / 4294967295.0

    def next_block(self) -> i64:
        """Return the next block."""
        raise NotImplementedError


class Zipf(RankSource):
    """random_distribution=zipf:theta (Gray et al., "Quickly generating billion-record synthetic databases")."""

    def __init__(self, nr_ranges: int, theta: float, center: float, seed: int) -> None:
        super().__init__(nr_ranges, seed)
        drawn = int(self.rand.next32())
        self.start = drawn if center < 0.0 else int(nr_ranges * center)
        self.theta: float = theta
        self.zeta_2: float = 1.0 + 0.5**theta
        total = zeta(min(nr_ranges, ZIPF_MAX_GEN), theta)
        self.zeta_n: float = total
        self.alpha: float = 1.0 / (1.0 - theta)
        self.eta: float = 0.0
        if nr_ranges > 2:
            self.eta = (1.0 - (2.0 / nr_ranges) ** (1.0 - theta)) / (1.0 - self.zeta_2 / total)

    def next_block(self) -> i64:
        """Return the next block."""
        u = self.uniform()
        z = u * self.zeta_n
        if z < 1.0:
            rank = 0
        elif z < self.zeta_2:
            rank = 1
        else:
            rank = int(self.nr_ranges * (self.eta * u - self.eta + 1.0) ** self.alpha)
        return self.spread(rank)


ZETAS: Final[dict[tuple[int, float], float]] = {}
"""What zeta() has computed: the threads of a job all ask for the same sum of millions."""


def zeta(n: int, theta: float) -> float:
    """Return the sum of the first n terms of the zeta series, added up from the first on."""
    key = (n, theta)
    total = ZETAS.get(key, 0.0)
    if total == 0.0:
        for rank in range(1, n + 1):
            total += (1.0 / rank) ** theta
        ZETAS[key] = total
    return total


class Pareto(RankSource):
    """random_distribution=pareto:h."""

    def __init__(self, nr_ranges: int, h: float, center: float, seed: int) -> None:
        super().__init__(nr_ranges, seed)
        drawn = int(self.rand.next32())
        self.start = drawn if center < 0.0 else int(nr_ranges * center)
        self.power: float = math.log(h) / math.log(1.0 - h)

    def next_block(self) -> i64:
        """Return the next block."""
        return self.spread(int((self.nr_ranges - 1) * self.uniform() ** self.power))


class Normal(RankSource):
    """random_distribution=normal:deviation (percent of the file): the mean of twelve draws, moved and spread.

    fio adds one uniform step of the deviation's width, and spreads the result by its hash as the others.
    """

    def __init__(self, nr_ranges: int, deviation: float, center: float, seed: int) -> None:
        super().__init__(nr_ranges, seed)
        if center >= 0.0:
            self.start = int(nr_ranges * (center - 0.5))
        self.stddev: int = min(math.ceil(nr_ranges * deviation / 100.0), nr_ranges // 2)

    def next_block(self) -> i64:
        """Return the next block."""
        n = self.nr_ranges
        total = 11
        for _ in range(12):
            total += int(self.rand.next32()) % (n + 1)
        rank = total // 12
        if self.stddev > 0:
            step = int(self.rand.below(self.stddev)) - self.stddev // 2
            while not 0 <= rank + step < n and step != 0:
                step = step // 2 if step > 0 else -(-step // 2)
            rank += step
        return self.spread(rank)


def jhash(name: str) -> int:
    """Return Bob Jenkins' lookup3-style hash of a file name, as fio seeds its distributions (initval 0)."""
    data = name.encode()
    a = b = c = (GOLDEN_RATIO_32 + len(data)) & 0xFFFFFFFF
    at = 0
    left = len(data)
    while left > 12:
        # fio adds one byte of each word here, and whole words only at the end.
        a = (a + data[at]) & 0xFFFFFFFF
        b = (b + data[at + 4]) & 0xFFFFFFFF
        c = (c + data[at + 8]) & 0xFFFFFFFF
        a, b, c = jhash_mix(a, b, c)
        at += 12
        left -= 12
    tail = data[at:] + bytes(12 - left)
    a = (a + int.from_bytes(tail[0:4], "little")) & 0xFFFFFFFF
    b = (b + int.from_bytes(tail[4:8], "little")) & 0xFFFFFFFF
    c = (c + int.from_bytes(tail[8:12], "little")) & 0xFFFFFFFF
    return jhash_final(a, b, c) if left > 0 else c


def rot(x: int, k: int) -> int:
    """Rotate a 32-bit word left."""
    return ((x << k) | (x >> (32 - k))) & 0xFFFFFFFF


def jhash_mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    """Mix three words, reversibly."""
    for k, turn in ((4, 0), (6, 1), (8, 2), (16, 0), (19, 1), (4, 2)):
        if turn == 0:
            a = ((a - c) & 0xFFFFFFFF) ^ rot(c, k)
            c = (c + b) & 0xFFFFFFFF
        elif turn == 1:
            b = ((b - a) & 0xFFFFFFFF) ^ rot(a, k)
            a = (a + c) & 0xFFFFFFFF
        else:
            c = ((c - b) & 0xFFFFFFFF) ^ rot(b, k)
            b = (b + a) & 0xFFFFFFFF
    return a, b, c


def jhash_final(a: int, b: int, c: int) -> int:
    """Mix three words for good."""
    c = ((c ^ b) - rot(b, 14)) & 0xFFFFFFFF
    a = ((a ^ c) - rot(c, 11)) & 0xFFFFFFFF
    b = ((b ^ a) - rot(a, 25)) & 0xFFFFFFFF
    c = ((c ^ b) - rot(b, 16)) & 0xFFFFFFFF
    a = ((a ^ c) - rot(c, 4)) & 0xFFFFFFFF
    b = ((b ^ a) - rot(a, 14)) & 0xFFFFFFFF
    return ((c ^ b) - rot(b, 24)) & 0xFFFFFFFF
