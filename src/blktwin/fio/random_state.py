"""fio's random streams: taus88 seeded as fio seeds it, one stream per purpose and thread.

The same job gives the same offsets, sizes and directions as fio 3.33 (checked against its iolog in tests/oracle).
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

MASK32: Final = 0xFFFFFFFF
TWO32: Final = 4294967296.0
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


class FioRandom:
    """One stream of 32-bit numbers."""

    def __init__(self, seed: int) -> None:
        low = seed & MASK32
        first = lcg(53, low)
        self.s1: i64 = first if first >= 1 else first + 1
        second = lcg(int(self.s1), low)
        self.s2: i64 = second if second >= 7 else second + 7
        third = lcg(int(self.s2), low)
        self.s3: i64 = third if third >= 15 else third + 15
        for _ in range(6):
            self.next32()

    def next32(self) -> i64:
        """Return the next number, 0 to 2**32 - 1."""
        s1 = self.s1
        s2 = self.s2
        s3 = self.s3
        s1 = ((s1 & 0xFFFFFFFE) << 12 & MASK32) ^ (((s1 << 13 & MASK32) ^ s1) >> 19)
        s2 = ((s2 & 0xFFFFFFF8) << 4 & MASK32) ^ (((s2 << 2 & MASK32) ^ s2) >> 25)
        s3 = ((s3 & 0xFFFFFFF0) << 17 & MASK32) ^ (((s3 << 3 & MASK32) ^ s3) >> 11)
        self.s1 = s1
        self.s2 = s2
        self.s3 = s3
        return s1 ^ s2 ^ s3

    def unit(self) -> float:
        """Return a float in [0, 1)."""
        return float(int(self.next32())) / TWO32

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
