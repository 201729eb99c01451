"""The one random generator: L'Ecuyer's taus88, as fio's; equal numbers compiled and interpreted.

Every intermediate stays below 2**63, so i64 never wraps.
"""

from __future__ import annotations

import math
from typing import Final

from mypy_extensions import i64

MASK32: Final = 0xFFFFFFFF


def mix32(value: i64) -> i64:
    """Scramble a 32-bit value; equal inputs give equal outputs, near inputs far ones."""
    x = value & MASK32
    x ^= x >> 16
    x = (x * 0x7FEB352D) & MASK32
    x ^= x >> 15
    x = ((x & 0xFFFF) * 0x846CA68B + ((((x >> 16) * 0x846CA68B) & 0xFFFF) << 16)) & MASK32
    x ^= x >> 16
    return x


class Taus88:
    """The generator itself: three words of state, at least 2, 8 and 16."""

    def __init__(self, s1: i64, s2: i64, s3: i64) -> None:
        self.s1: i64 = s1
        self.s2: i64 = s2
        self.s3: i64 = s3

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
        return float(int(self.next32())) / 4294967296.0


class Rng(Taus88):
    """A stream of 32-bit numbers; `stream` separates users of one seed."""

    def __init__(self, seed: int, stream: int) -> None:
        low = seed & MASK32
        high = (seed >> 32) & MASK32
        a = mix32(low ^ mix32(high + 0x9E3779B9) ^ mix32(stream * 2 + 1))
        b = mix32(a + 0x85EBCA6B)
        c = mix32(b + 0xC2B2AE35)
        super().__init__(a | 2, b | 8, c | 16)

    def below(self, n: i64) -> i64:
        """Return a number from 0 to n - 1; n at most 2**62."""
        if n <= 0x7FFFFFFF:
            return (self.next32() * n) >> 32
        wide = (self.next32() << 30) | (self.next32() >> 2)
        return wide % n

    def normal(self) -> float:
        """Return a standard normal deviate (Box-Muller, one of the pair)."""
        u = 1.0 - self.unit()
        return math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * self.unit())
