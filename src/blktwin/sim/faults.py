"""Faults on purpose, all drawn from one seeded generator; rates in parts per million, 0 for never."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from blktwin.block.bio import BLK_STS_IOERR, BLK_STS_OK, BLK_STS_RESOURCE
from blktwin.rng import Rng

FAULT_STREAM: Final = 7_001
FAULT_NAMES: Final = (
    "io_error_ppm",
    "refuse_ppm",
    "slow_io_ppm",
    "slow_io_ns",
    "late_timer_ppm",
    "late_timer_ns",
    "slow_work_ppm",
    "slow_work_ns",
)


class Faults:
    """What goes wrong, how often and by how much."""

    def __init__(self, seed: int, rates: dict[str, int]) -> None:
        self.rng: Rng = Rng(seed, FAULT_STREAM)
        self.io_error_ppm: i64 = rates.get("io_error_ppm", 0)
        self.refuse_ppm: i64 = rates.get("refuse_ppm", 0)
        """The driver answers "no memory, again later"."""
        self.slow_io_ppm: i64 = rates.get("slow_io_ppm", 0)
        self.slow_io_ns: i64 = rates.get("slow_io_ns", 0)
        self.late_timer_ppm: i64 = rates.get("late_timer_ppm", 0)
        self.late_timer_ns: i64 = rates.get("late_timer_ns", 0)
        self.slow_work_ppm: i64 = rates.get("slow_work_ppm", 0)
        self.slow_work_ns: i64 = rates.get("slow_work_ns", 0)
        self.is_active: bool = any(rates.values())

    def hits(self, ppm: i64) -> bool:
        """Draw; a rate of 0 draws nothing."""
        return ppm > 0 and self.rng.below(1_000_000) < ppm

    def queue_status(self) -> i64:
        """Return what the driver answers to a new request."""
        return BLK_STS_RESOURCE if self.hits(self.refuse_ppm) else BLK_STS_OK

    def io_status(self) -> i64:
        """Return the status of one I/O."""
        return BLK_STS_IOERR if self.hits(self.io_error_ppm) else BLK_STS_OK

    def io_delay_ns(self) -> i64:
        """Return what a slow I/O takes longer."""
        return self.slow_io_ns if self.hits(self.slow_io_ppm) else 0

    def timer_delay_ns(self) -> i64:
        """Return how late a timer fires."""
        return self.late_timer_ns if self.hits(self.late_timer_ppm) else 0

    def work_delay_ns(self) -> i64:
        """Return how late a worker begins."""
        return self.slow_work_ns if self.hits(self.slow_work_ppm) else 0
