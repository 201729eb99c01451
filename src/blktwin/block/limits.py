"""Queue limits, and the split of a bio that exceeds them.

Kernel: struct queue_limits, include/linux/blkdev.h; bio_split_rw(), block/blk-merge.c, v6.12.
Differs: a segment is one 4 KiB page; pages are never physically adjacent. A discard has one range, as if
max_discard_segments were 1.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from blktwin.block.bio import REQ_OP_DISCARD, REQ_OP_WRITE_ZEROES

SECTORS_PER_PAGE: Final = 8


class QueueLimits:
    """What one request may be; sectors of 512 bytes, block sizes in bytes."""

    def __init__(self) -> None:
        self.logical_block_bytes: i64 = 512
        self.max_sectors: i64 = 2560
        self.max_segments: i64 = 128
        self.max_discard_sectors: i64 = 8388607
        self.discard_granularity_bytes: i64 = 0
        self.max_write_zeroes_sectors: i64 = 8388607
        self.has_write_cache: bool = False
        self.has_fua: bool = False
        self.is_rotational: bool = False

    def max_sectors_of(self, op: i64) -> i64:
        """Return the largest request of this operation, in sectors."""
        if op == REQ_OP_DISCARD:
            return self.max_discard_sectors
        if op == REQ_OP_WRITE_ZEROES:
            return self.max_write_zeroes_sectors
        return self.max_sectors

    def prefix_sectors(self, op: i64, sector: i64, nr_sectors: i64) -> i64:
        """Return how many of nr_sectors from sector one request may take, whole logical blocks, at least one.

        Kernel: bio_split_rw_at() and bio_split_discard(), block/blk-merge.c, v6.12.
        """
        limit = self.max_sectors_of(op)
        if op == REQ_OP_DISCARD:
            granule = self.discard_granularity_bytes >> 9
            if granule > 1:
                limit -= limit % granule
            if nr_sectors <= limit:
                return nr_sectors
            if granule > 1:
                # The next piece begins at a granule.
                beyond = (sector + limit) % granule
                if limit > beyond:
                    limit -= beyond
        elif op != REQ_OP_WRITE_ZEROES:
            by_segments = self.max_segments * SECTORS_PER_PAGE
            if by_segments < limit:
                limit = by_segments
        if nr_sectors <= limit:
            return nr_sectors
        block = self.logical_block_bytes >> 9
        limit -= limit % block
        return limit if limit > 0 else block


def segments_of(nr_sectors: i64) -> i64:
    """Return how many 4 KiB segments hold nr_sectors."""
    return (nr_sectors + (SECTORS_PER_PAGE - 1)) // SECTORS_PER_PAGE


def segments_of_op(op: i64, nr_sectors: i64) -> i64:
    """Return how many segments a bio of this operation has; one without data in memory has one (a discard) or none."""
    if op == REQ_OP_DISCARD:
        return 1
    if op == REQ_OP_WRITE_ZEROES:
        return 0
    return segments_of(nr_sectors)
