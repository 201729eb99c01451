"""The shared resources inside a device: links of a given speed, and channels that work in parallel.

All take a time "not before" and give a time back, so no event is needed; requests are served in the order of the calls.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from blktwin.units import NSEC_PER_SEC

FRACTION_BITS: Final = 20
"""A link keeps times with this many bits below the ns, so that rounding never adds up."""
FRACTION_MASK: Final = (1 << FRACTION_BITS) - 1
RATE_MIN: Final = 10
"""Units a second: 2**16 units at once stay below 2**63 even at this speed."""


class Link:
    """Passes units (sectors, commands) one after the other, at most units_per_s of them a second; 0: no limit."""

    def __init__(self, units_per_s: int) -> None:
        assert units_per_s == 0 or units_per_s >= RATE_MIN, f"a link of {units_per_s} units a second"
        self.unit_time: i64 = 0
        """Time of one unit in 2**-FRACTION_BITS ns, rounded up."""
        if units_per_s > 0:
            self.unit_time = -(-(NSEC_PER_SEC << FRACTION_BITS) // units_per_s)
        self.free_at_ns: i64 = 0
        self.fraction: i64 = 0

    def enter(self, at_ns: i64, units: i64) -> i64:
        """Occupy the link from at_ns or later; return when the units begin to pass."""
        if self.unit_time == 0:
            return at_ns
        start = self.free_at_ns
        if start < at_ns:
            start = at_ns
            self.fraction = FRACTION_MASK
        busy = units * self.unit_time + self.fraction
        self.fraction = busy & FRACTION_MASK
        self.free_at_ns = start + (busy >> FRACTION_BITS)
        return start

    def pass_through(self, at_ns: i64, units: i64) -> i64:
        """Occupy the link from at_ns or later; return when the last unit has passed."""
        if self.unit_time == 0:
            return at_ns
        self.enter(at_ns, units)
        return self.free_at_ns


class Channels:
    """`count` parallel servers; each request takes the one that is free first. 0: one for everybody, no waiting."""

    def __init__(self, count: int) -> None:
        self.count: i64 = count
        self.free_at_ns: vec[i64] = vec[i64]([0] * count)
        """A binary heap: the root is free first."""

    def serve(self, at_ns: i64, busy_ns: i64) -> i64:
        """Occupy a channel for busy_ns from at_ns or later; return the end."""
        count = self.count
        if count == 0:
            return at_ns + busy_ns
        heap = self.free_at_ns
        end = heap[0]
        if end < at_ns:
            end = at_ns
        end += busy_ns
        at: i64 = 0
        while True:
            child = 2 * at + 1
            if child >= count:
                break
            least = heap[child]
            if child + 1 < count:
                right = heap[child + 1]
                if right < least:
                    least = right
                    child += 1
            if least >= end:
                break
            heap[at] = least
            at = child
        heap[at] = end
        return end
