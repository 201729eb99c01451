"""Tags of one hardware queue, and the submitters that wait for one.

Waiters stand in 8 queues, are woken in batches, round robin, and must then take a tag like anyone else.
Kernel: struct sbitmap_queue, lib/sbitmap.c; blk_mq_get_tag(), block/blk-mq-tag.c, v6.12.
Differs: free tags are a stack; the kernel scans a bitmap from a per-CPU hint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.vecs import vec
from mypy_extensions import i64

if TYPE_CHECKING:
    from blktwin.block.machine import Machine, Task

SBQ_WAIT_QUEUES: Final = 8
SBQ_WAKE_BATCH: Final = 8


class TagWaiter:
    """A task asleep for a tag; a link of one wait queue."""

    def __init__(self, task: Task) -> None:
        self.task: Task = task
        self.next: TagWaiter | None = None


class WaitQueue:
    """A FIFO of waiters."""

    def __init__(self) -> None:
        self.head: TagWaiter | None = None
        self.tail: TagWaiter | None = None


class Tags:
    """`depth` tags, numbered from 0."""

    def __init__(self, depth: int, machine: Machine) -> None:
        assert depth >= 1, f"a tag map of {depth}"
        self.machine: Machine = machine
        self.depth: i64 = depth
        self.free: vec[i64] = vec[i64](list(range(depth - 1, -1, -1)))
        self.nr_free: i64 = depth
        self.is_busy: vec[i64] = vec[i64]([0] * depth)
        self.wake_batch: i64 = max(1, min(SBQ_WAKE_BATCH, depth // SBQ_WAIT_QUEUES))
        self.wait_queues: list[WaitQueue] = [WaitQueue() for _ in range(SBQ_WAIT_QUEUES)]
        self.nr_waiting: i64 = 0
        self.wait_index: i64 = 0
        self.wake_index: i64 = 0
        self.freed_since_wake: i64 = 0

    def in_use(self) -> i64:
        """Return how many tags are taken."""
        return self.depth - self.nr_free

    def get(self, shallow_depth: i64) -> i64:
        """Take a tag and return it, or -1; shallow_depth > 0 refuses when that many are in use already."""
        n = self.nr_free
        if n == 0 or (shallow_depth > 0 and self.depth - n >= shallow_depth):
            return -1
        n -= 1
        self.nr_free = n
        tag = self.free[n]
        self.is_busy[tag] = 1
        return tag

    def put(self, tag: i64) -> None:
        """Give a tag back, and wake a batch of waiters when enough have come back."""
        assert self.is_busy[tag] == 1, f"tag {tag} is freed twice"
        self.is_busy[tag] = 0
        self.free[self.nr_free] = tag
        self.nr_free += 1
        if self.nr_waiting > 0:
            self.freed_since_wake += 1
            if self.freed_since_wake >= self.wake_batch:
                self.freed_since_wake -= self.wake_batch
                self.wake_up(self.wake_batch)

    def wait(self, task: Task) -> None:
        """Put task to sleep in the next wait queue."""
        queue = self.wait_queues[self.wait_index]
        self.wait_index = (self.wait_index + 1) & (SBQ_WAIT_QUEUES - 1)
        waiter = TagWaiter(task)
        if queue.tail is None:
            queue.head = waiter
        else:
            queue.tail.next = waiter
        queue.tail = waiter
        self.nr_waiting += 1

    def wake_up(self, nr: i64) -> None:
        """Wake nr waiters, taking the wait queues in turn."""
        for _ in range(SBQ_WAIT_QUEUES):
            queue = self.wait_queues[self.wake_index]
            self.wake_index = (self.wake_index + 1) & (SBQ_WAIT_QUEUES - 1)
            while nr > 0:
                waiter = queue.head
                if waiter is None:
                    break
                queue.head = waiter.next
                if queue.head is None:
                    queue.tail = None
                self.nr_waiting -= 1
                nr -= 1
                self.machine.wake_task(waiter.task)
            if nr == 0:
                return
