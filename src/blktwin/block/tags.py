"""Tags of one hardware queue, and the submitters that wait for one.

Waiters stand in 8 queues, are woken in batches, round robin, and must then take a tag like anyone else.
Kernel: struct sbitmap_queue, lib/sbitmap.c; blk_mq_get_tag(), block/blk-mq-tag.c, v6.12.
Differs: the free tag that came back last is taken, where the kernel begins at a hint of the CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.vecs import vec
from mypy_extensions import i64

if TYPE_CHECKING:
    from blktwin.block.machine import Machine, Task

SBQ_WAIT_QUEUES: Final = 8
SBQ_WAKE_BATCH: Final = 8


def word_tags(depth: int) -> int:
    """Return how many tags share a word of the map: at least four words, if there are four tags.

    Kernel: sbitmap_calculate_shift(), include/linux/sbitmap.h, v6.12.
    """
    shift = 6
    if depth >= 4:
        while (4 << shift) > depth:
            shift -= 1
    return 1 << shift


class TagWaiter:
    """A task's place in a wait queue; made once per task."""

    def __init__(self, task: Task) -> None:
        self.task: Task = task
        self.next: TagWaiter | None = None
        self.tags: Tags | None = None
        """Where it waits, or was woken last."""
        self.queue: WaitQueue | None = None
        """The wait queue that it stands in; None when it was woken."""


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
        self.nr_free: i64 = depth
        self.is_busy: vec[i64] = vec[i64]([0] * depth)
        word = word_tags(depth)
        order = sorted(range(depth), key=lambda tag: (tag % word, tag // word))
        self.shallow: vec[i64] = vec[i64](order)
        """Tags in the order in which shallow depths admit them: the first of each word, then the second, and so on."""
        place = [0] * depth
        for at, tag in enumerate(order):
            place[tag] = at
        self.rank: vec[i64] = vec[i64](place)
        self.free: vec[i64] = vec[i64](order)
        """A stack: who may have any tag takes those first that shallow depths admit last."""
        self.place: vec[i64] = vec[i64](place)
        """Where in `free` a free tag stands."""
        self.wake_batch: i64 = 1
        self.wait_queues: list[WaitQueue] = [WaitQueue() for _ in range(SBQ_WAIT_QUEUES)]
        self.nr_waiting: i64 = 0
        self.wait_index: i64 = 0
        self.wake_index: i64 = 0
        self.freed_since_wake: i64 = 0
        self.set_min_shallow_depth(depth)

    def set_min_shallow_depth(self, depth: int) -> None:
        """Prepare for get() with shallow depths down to this: wake no more at once than will ever come free together.

        Kernel: sbitmap_queue_min_shallow_depth(), lib/sbitmap.c, v6.12.
        """
        self.wake_batch = max(1, min(SBQ_WAKE_BATCH, min(int(self.depth), depth) // SBQ_WAIT_QUEUES))

    def in_use(self) -> i64:
        """Return how many tags are taken."""
        return self.depth - self.nr_free

    def get(self, shallow_depth: i64) -> i64:
        """Take a tag and return it, or -1; shallow_depth > 0: only one of so many, the first ones of each word.

        Others' tags may stand in the way there.
        Kernel: sbitmap_get_shallow(), lib/sbitmap.c, v6.12.
        """
        n = self.nr_free
        if n == 0:
            return -1
        n -= 1
        tag = self.free[n]
        if shallow_depth > 0 and self.rank[tag] >= shallow_depth:
            tag = self.find_shallow(shallow_depth)
            if tag < 0:
                return -1
            # The last free tag takes its place.
            last = self.free[n]
            at = self.place[tag]
            self.free[at] = last
            self.place[last] = at
        self.nr_free = n
        self.is_busy[tag] = 1
        return tag

    def find_shallow(self, shallow_depth: i64) -> i64:
        """Return a free tag that the depth admits, or -1."""
        if shallow_depth > self.depth:
            shallow_depth = self.depth
        for at in range(shallow_depth):
            tag = self.shallow[at]
            if self.is_busy[tag] == 0:
                return tag
        return -1

    def put(self, tag: i64) -> None:
        """Give a tag back, and wake a batch of waiters when enough have come back."""
        assert self.is_busy[tag] > 0, f"tag {tag} is freed twice"
        self.is_busy[tag] = 0
        self.free[self.nr_free] = tag
        self.place[tag] = self.nr_free
        self.nr_free += 1
        if self.nr_waiting > 0:
            self.count_freed()

    def count_freed(self) -> None:
        """Count one tag that came back while tasks wait; a full batch of them wakes as many tasks.

        Kernel: sbitmap_queue_wake_up(), lib/sbitmap.c, v6.12.
        """
        self.freed_since_wake += 1
        if self.freed_since_wake >= self.wake_batch:
            self.freed_since_wake -= self.wake_batch
            self.wake_up(self.wake_batch)

    def wait(self, task: Task) -> None:
        """Put task, which goes to sleep, last in the next wait queue."""
        waiter = task.tag_waiter
        if waiter is None:
            waiter = TagWaiter(task)
            task.tag_waiter = waiter
        waiter.tags = self
        waiter.next = None
        queue = self.wait_queues[self.wait_index]
        self.wait_index = (self.wait_index + 1) & (SBQ_WAIT_QUEUES - 1)
        if queue.tail is None:
            queue.head = waiter
        else:
            queue.tail.next = waiter
        queue.tail = waiter
        waiter.queue = queue
        self.nr_waiting += 1

    def finish_wait(self, waiter: TagWaiter) -> None:
        """Take a waiter out that was woken by something else than a tag."""
        queue = waiter.queue
        if queue is None:
            return
        before: TagWaiter | None = None
        at = queue.head
        while at is not waiter:
            assert at is not None, "a waiter is not in its queue"
            before = at
            at = at.next
        if before is None:
            queue.head = waiter.next
        else:
            before.next = waiter.next
        if queue.tail is waiter:
            queue.tail = before
        waiter.queue = None
        self.nr_waiting -= 1

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
                waiter.queue = None
                self.nr_waiting -= 1
                nr -= 1
                self.machine.wake_task(waiter.task)
            if nr == 0:
                return
