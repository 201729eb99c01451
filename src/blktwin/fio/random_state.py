"""fio's random streams: taus88 seeded as fio seeds it, one stream per purpose and thread.

The same job gives the same offsets, sizes and directions as fio 3.33 (checked against its iolog in tests/oracle).
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from blktwin.rng import Taus88

MASK32: Final = 0xFFFFFFFF
DEFAULT_SEED: Final = 0x89
BLOCK_SEED: Final = 0xB1899BED
SEED_FACTOR: Final = 0x9E370001

RAND_BS_READ: Final = 0
RAND_BS_WRITE: Final = 1
RAND_BS_TRIM: Final = 2
RAND_MIX: Final = 4
RAND_BLOCK: Final = 6
RAND_SEQ: Final = 10
"""percentage_random; every direction has a stream of its own from this one seed."""
RAND_START_DELAY: Final = 13
RAND_ZONE: Final = 16
RAND_POISSON: Final = (15, 17, 18)
"""For reads, writes and trims."""


class FioRandom(Taus88):
    """One stream of 32-bit numbers, seeded as in fio."""

    def __init__(self, seed: int) -> None:
        low = seed & MASK32
        first = lcg(53, low)
        first = first if first >= 1 else first + 1
        second = lcg(first, low)
        second = second if second >= 7 else second + 7
        third = lcg(second, low)
        super().__init__(first, second, third if third >= 15 else third + 15)
        for _ in range(6):
            self.next32()

    def below(self, n: i64) -> i64:
        """Return a number from 0 to n - 1, as fio scales it; n at most 2**31 takes the exact integer path."""
        if n <= 0x7FFFFFFF:
            return (self.next32() * n) >> 32
        return i64(int(float(int(n)) * self.unit()))

    def percent(self) -> i64:
        """Return a number from 1 to 100."""
        return 1 + self.below(100)

    def copy_from(self, other: FioRandom) -> None:
        """Take another stream's state."""
        self.s1 = other.s1
        self.s2 = other.s2
        self.s3 = other.s3


def lcg(x: int, seed: int) -> int:
    """Return the seeding step of taus88 (53 is fio's first x)."""
    return ((x * 69069) & MASK32) ^ seed


def thread_seeds(seed: int, thread_number: int, nr: int) -> list[int]:
    """Return the seeds of one thread's streams; thread_number counts from 1."""
    mask64 = (1 << 64) - 1
    factor = seed
    for _ in range(4):
        factor = factor * SEED_FACTOR & mask64
    seeds: list[int] = []
    for index in range(nr):
        seeds.append((factor * thread_number + index) & mask64)
        factor = factor * SEED_FACTOR & mask64
    return seeds
