"""Per-entity load tracking: a running average of how much of a CPU somebody uses; half-life: 32 periods of 1024 us.

Integers throughout: a level is 0..1024, its average is kept in units of 2**-20.
Kernel: kernel/sched/pelt.c, v6.12.
Differs: time is cut into 1024 ns, not 1024 us, and the level between two of them counts as what it is at the end.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

UNIT_BITS: Final = 10
HALF_LIFE: Final = 32_000
"""In units of 1024 ns."""
FINE: Final = 256
LEVEL_BITS: Final = 20
ONE: Final = 1 << 20

COARSE_DECAY: Final = vec[i64]([round(ONE * 2 ** (-at * FINE / HALF_LIFE)) for at in range(HALF_LIFE // FINE + 1)])
FINE_DECAY: Final = vec[i64]([round(ONE * 2 ** (-at / HALF_LIFE)) for at in range(FINE)])


def decay_of(units: i64) -> i64:
    """Return what is left of 1 after so many units, in units of 2**-20."""
    halvings = units // HALF_LIFE
    if halvings > 40:
        return 0
    rest = units % HALF_LIFE
    return ((COARSE_DECAY[rest // FINE] * FINE_DECAY[rest % FINE]) >> LEVEL_BITS) >> halvings


def average(value: i64, from_ns: i64, to_ns: i64, level: i64) -> i64:
    """Return the average at to_ns, out of that at from_ns and the level (0..1024) between."""
    units = (to_ns >> UNIT_BITS) - (from_ns >> UNIT_BITS)
    if units <= 0:
        return value
    left = decay_of(units)
    return (value * left >> LEVEL_BITS) + level * (ONE - left)
