"""The plug: requests that a task collects before it hands them over in one go.

Kernel: struct blk_plug, include/linux/blkdev.h; blk_add_rq_to_plug(), block/blk-mq.c, v6.12.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from blktwin.block.request import Request, RequestList

PLUG_FLUSH_SECTORS: Final = 256
"""128 KiB: a request of this size or more flushes the plug when the next one comes."""


class Plug:
    """One task's plug; nested starts are the task's business (the outermost wins)."""

    def __init__(self) -> None:
        self.mq_list: RequestList = RequestList()
        self.multiple_queues: bool = False
        self.has_elevator: bool = False
        self.cached_now_ns: i64 = 0
        """The clock reading that the block layer reuses while the plug is up; 0 for none."""

    def reset(self) -> None:
        """Make the plug as new; it must be empty."""
        assert self.mq_list.count == 0, f"a plug with {self.mq_list.count} requests is reused"
        self.multiple_queues = False
        self.has_elevator = False
        self.cached_now_ns = 0

    def is_full(self, rq: Request, max_requests: i64, oldest_first: bool) -> bool:
        """Say whether the plug must be flushed before rq is added.

        The thresholds are looked at only when a new request comes, never on a merge.
        """
        count = self.mq_list.count
        if count == 0:
            return False
        limit = max_requests
        if self.multiple_queues:
            limit = 2 * max_requests
        if count >= limit:
            return True
        if rq.q.nomerges > 1:
            return False
        seen = self.mq_list.head if oldest_first else self.newest(oldest_first)
        return seen is not None and seen.nr_sectors >= PLUG_FLUSH_SECTORS

    def newest(self, is_fifo: bool) -> Request | None:
        """Return the request that was added last."""
        return self.mq_list.tail if is_fifo else self.mq_list.head

    def add(self, rq: Request, is_fifo: bool) -> None:
        """Add rq; is_full() has been asked."""
        head = self.mq_list.head
        if head is not None and head.q is not rq.q:
            self.multiple_queues = True
        if rq.sched_tag >= 0:
            self.has_elevator = True
        if is_fifo:
            self.mq_list.append(rq)
        else:
            self.mq_list.prepend(rq)
