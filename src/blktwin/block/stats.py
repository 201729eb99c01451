"""The disk's counters, as /sys/block/X/stat has them.

Kernel: struct disk_stats, include/linux/part_stat.h, v6.12.
Differs: io_ns (utilisation) is exact; the kernel samples it at jiffies.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from blktwin.block.bio import REQ_OP_DISCARD, REQ_OP_READ

STAT_READ: Final = 0
STAT_WRITE: Final = 1
STAT_DISCARD: Final = 2
STAT_FLUSH: Final = 3


def stat_group(op: i64) -> i64:
    """Return the row that counts an operation; an empty flush counts as a write of no sectors.

    Kernel: op_stat_group(), include/linux/blk_types.h, v6.12.
    """
    if op == REQ_OP_READ:
        return STAT_READ
    if op == REQ_OP_DISCARD:
        return STAT_DISCARD
    return STAT_WRITE


class DiskStats:
    """Counts per kind of operation (read, write, discard, flush); times in ns."""

    def __init__(self) -> None:
        self.ios: vec[i64] = vec[i64]([0, 0, 0, 0])
        self.merges: vec[i64] = vec[i64]([0, 0, 0, 0])
        self.sectors: vec[i64] = vec[i64]([0, 0, 0, 0])
        self.ticks_ns: vec[i64] = vec[i64]([0, 0, 0, 0])
        self.in_flight: i64 = 0
        self.io_ns: i64 = 0
        self.busy_since_ns: i64 = 0

    def start(self, now_ns: i64) -> None:
        """Count a request in."""
        if self.in_flight == 0:
            self.busy_since_ns = now_ns
        self.in_flight += 1

    def done(self, kind: i64, sectors: i64, start_ns: i64, now_ns: i64) -> None:
        """Count a request out."""
        self.ios[kind] += 1
        self.sectors[kind] += sectors
        self.ticks_ns[kind] += now_ns - start_ns
        self.in_flight -= 1
        if self.in_flight == 0:
            self.io_ns += now_ns - self.busy_since_ns

    def merged(self) -> None:
        """Count a request out that went into its neighbour."""
        self.in_flight -= 1

    def flushed(self, start_ns: i64, now_ns: i64) -> None:
        """Count a flush of the device's cache, which is never in flight here: the requests that it serves are.

        Kernel: blk_account_io_flush(), block/blk-flush.c, v6.12.
        """
        self.ios[STAT_FLUSH] += 1
        self.ticks_ns[STAT_FLUSH] += now_ns - start_ns

    def busy_ns(self, now_ns: i64) -> i64:
        """Return the time with at least one request in flight, up to now."""
        if self.in_flight > 0:
            return self.io_ns + now_ns - self.busy_since_ns
        return self.io_ns
