"""How many CPUs share a hardware queue at present: what its contended cache lines cost grows with them."""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

RECENT: Final = 32
"""So many requests back are remembered."""


class Sharers:
    """Counts the CPUs that made the last requests of one hardware queue."""

    def __init__(self, nr_cpus: int) -> None:
        self.ring: vec[i64] = vec[i64]([-1] * RECENT)
        self.at: i64 = 0
        self.nr_of: vec[i64] = vec[i64]([0] * nr_cpus)
        """How often each CPU is in the ring."""
        self.nr_cpus: i64 = 0
        """How many different CPUs are in the ring."""

    def add(self, cpu: i64) -> i64:
        """Remember a request of cpu in place of the oldest; return how many other CPUs the ring holds."""
        oldest = self.ring[self.at]
        if oldest >= 0:
            self.nr_of[oldest] -= 1
            if self.nr_of[oldest] == 0:
                self.nr_cpus -= 1
        self.ring[self.at] = cpu
        self.at = (self.at + 1) % RECENT
        self.nr_of[cpu] += 1
        if self.nr_of[cpu] == 1:
            self.nr_cpus += 1
        return self.nr_cpus - 1
