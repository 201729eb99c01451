"""The plug: requests that a task collects before it hands them over in one go. Read next: unplug.py.

Kernel: struct blk_plug, include/linux/blkdev.h; blk_add_rq_to_plug(), block/blk-mq.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.request import NO_TAG, Request, RequestList

if TYPE_CHECKING:
    from blktwin.block.rules import Rules

PLUG_FLUSH_SECTORS: Final = 256
"""128 KiB: a request of this size or more flushes the plug when the next one comes."""


class Plug:
    """One task's plug; nested starts are the task's business (the outermost wins)."""

    def __init__(self) -> None:
        self.mq_list: RequestList = RequestList()
        self.spare_list: RequestList = RequestList()
        """Takes the place of mq_list while that is flushed."""
        self.nr_flushing: i64 = 0
        self.multiple_queues: bool = False
        """Has held requests of several queues at once since it was started."""
        self.has_elevator: bool = False
        """Has held a request with a scheduler tag since it was started."""
        self.cached_now_ns: i64 = 0
        """The clock reading that the block layer reuses while the plug is up; 0 for none."""

    def reset(self) -> None:
        """Make the plug as new; it must be empty."""
        assert self.mq_list.count == 0, f"a plug with {self.mq_list.count} requests is reused"
        self.multiple_queues = False
        self.has_elevator = False
        self.cached_now_ns = 0

    def is_full(self, rq: Request, rules: Rules) -> bool:
        """Say whether the plug must be flushed before rq is added.

        The thresholds are looked at only when a new request comes, never on a merge.
        Kernel: blk_plug_max_rq_count() and blk_add_rq_to_plug(), block/blk-mq.c, v6.12.
        """
        mq_list = self.mq_list
        count = mq_list.count
        if count == 0:
            return False
        if count >= (rules.plug_max_requests_multi if self.multiple_queues else rules.plug_max_requests):
            return True
        if rq.q.nomerges > 1:
            return False
        seen = mq_list.head if rules.plug_size_of_oldest else self.newest(rules.plug_is_fifo)
        return seen is not None and seen.nr_sectors >= PLUG_FLUSH_SECTORS

    def newest(self, is_fifo: bool) -> Request | None:
        """Return the request that was added last."""
        return self.mq_list.tail if is_fifo else self.mq_list.head

    def add(self, rq: Request, is_fifo: bool) -> None:
        """Add rq; is_full() has been asked."""
        head = self.mq_list.head
        if head is not None and head.q is not rq.q:
            self.multiple_queues = True
        if rq.sched_tag != NO_TAG:
            self.has_elevator = True
        if is_fifo:
            self.mq_list.append(rq)
        else:
            self.mq_list.prepend(rq)

    def detach(self) -> RequestList:
        """Begin a flush: take all requests out as a list, and give it back, empty, to end_flush()."""
        batch = self.mq_list
        if self.nr_flushing == 0:
            self.mq_list = self.spare_list
            self.spare_list = batch
        else:
            # A flush within a flush: the driver has submitted.
            self.mq_list = RequestList()
        self.nr_flushing += 1
        return batch

    def end_flush(self, batch: RequestList) -> None:
        """End a flush; the clock is read anew from here on."""
        assert batch.count == 0, f"{batch.count} requests of a plug were lost"
        self.nr_flushing -= 1
        self.cached_now_ns = 0
