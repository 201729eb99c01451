"""mq-deadline: sorted batches with a deadline per request, reads before writes, one set of lists per I/O class.

Kernel: block/mq-deadline.c, v6.12.
Differs: two requests that end at the same sector share one place in the merge hash.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from blktwin.block.bio import REQ_NOMERGE_FLAGS, REQ_OP_READ, Bio
from blktwin.block.elevator import Elevator, Tunable
from blktwin.block.hctx import HardwareQueue
from blktwin.block.ioprio import IOPRIO_CLASS_IDLE, IOPRIO_CLASS_RT, class_of
from blktwin.block.merge import attempt_merge_requests, back_merge, can_merge, front_merge
from blktwin.block.queue import RequestQueue
from blktwin.block.request import FifoList, Request, RequestList, SortList

DD_READ: Final = 0
DD_WRITE: Final = 1
DD_RT_PRIO: Final = 0
DD_BE_PRIO: Final = 1
DD_IDLE_PRIO: Final = 2


class DeadlineLists:
    """Requests of one I/O class: dispatch list, and per direction the sorted and the fifo list."""

    def __init__(self) -> None:
        self.dispatch: RequestList = RequestList()
        self.sort: list[SortList] = [SortList(), SortList()]
        self.fifo: list[FifoList] = [FifoList(), FifoList()]
        self.latest_pos: list[int] = [0, 0]
        self.nr_inserted: i64 = 0
        self.nr_completed: i64 = 0
        self.nr_dispatched: i64 = 0
        self.nr_merged: i64 = 0

    def nr_queued(self) -> i64:
        """Return how many are queued or in flight."""
        return self.nr_inserted - self.nr_completed

    def is_empty(self) -> bool:
        """Say whether nothing waits here."""
        return self.dispatch.count == 0 and self.fifo[DD_READ].count == 0 and self.fifo[DD_WRITE].count == 0


class Deadline(Elevator):
    """The scheduler; tunables have the kernel's names, times in ms."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "mq-deadline"
        for name, default, low, high, unit in (
            ("read_expire", 500, 0, 2147483647, "ms"),
            ("write_expire", 5000, 0, 2147483647, "ms"),
            ("writes_starved", 2, -2147483648, 2147483647, ""),
            ("front_merges", 1, 0, 1, ""),
            ("fifo_batch", 16, 0, 2147483647, ""),
            ("prio_aging_expire", 10000, 0, 2147483647, "ms"),
            ("async_depth", 0, 0, 2147483647, "requests"),
        ):
            self.tunables[name] = Tunable(name, default, low, high, unit)
        self.lists: list[DeadlineLists] = [DeadlineLists(), DeadlineLists(), DeadlineLists()]
        self.hash: dict[int, Request] = {}
        """By end sector, for back merges."""
        self.last_dir: i64 = DD_READ
        self.batching: i64 = 0
        self.starved: i64 = 0
        self.jiffy_ns: i64 = 4_000_000
        self.expire_jiffies: list[int] = [0, 0]
        self.aging_jiffies: i64 = 0
        self.fifo_batch: i64 = 16
        self.writes_starved: i64 = 2
        self.front_merges: bool = True
        self.async_depth: i64 = 0

    def attach(self, q: RequestQueue) -> None:
        """Take the queue and its clock."""
        super().attach(q)
        self.jiffy_ns = 1_000_000_000 // q.machine.hz
        if not q.rules.deadline_prio_classes:
            del self.tunables["async_depth"]
        if not q.rules.deadline_prio_aging:
            del self.tunables["prio_aging_expire"]
        self.load_tunables()

    def set_tunable(self, name: str, value: int) -> None:
        """Write a tunable; it takes effect at once."""
        super().set_tunable(name, value)
        self.load_tunables()

    def load_tunables(self) -> None:
        """Turn the tunables into what the hot path reads."""
        values = self.tunables
        ms_per_jiffy = max(1, int(self.jiffy_ns) // 1_000_000)
        self.expire_jiffies = [
            values["read_expire"].value // ms_per_jiffy,
            values["write_expire"].value // ms_per_jiffy,
        ]
        if "prio_aging_expire" in values:
            self.aging_jiffies = values["prio_aging_expire"].value // ms_per_jiffy
        self.fifo_batch = values["fifo_batch"].value
        self.writes_starved = values["writes_starved"].value
        self.front_merges = values["front_merges"].value != 0
        if "async_depth" in values:
            self.async_depth = values["async_depth"].value

    def queue(self) -> RequestQueue:
        """Return the queue it is attached to."""
        q = self.q
        assert q is not None
        return q

    def jiffies(self) -> i64:
        """Return the time in jiffies."""
        return self.queue().time_ns() // self.jiffy_ns

    def prio_of(self, ioprio: i64) -> i64:
        """Return the list index of an I/O priority."""
        if not self.queue().rules.deadline_prio_classes:
            return DD_BE_PRIO
        ioprio_class = class_of(int(ioprio))
        if ioprio_class == IOPRIO_CLASS_RT:
            return DD_RT_PRIO
        if ioprio_class == IOPRIO_CLASS_IDLE:
            return DD_IDLE_PRIO
        return DD_BE_PRIO

    def limit_depth(self, op: i64, flags: i64) -> i64:
        """Limit writes (and what else is not a read) to async_depth tags; reads have all.

        Kernel: dd_limit_depth(), block/mq-deadline.c, v6.12.
        """
        if op == REQ_OP_READ:
            return 0
        return self.async_depth

    # -- merging

    def bio_merge(self, bio: Bio) -> bool:
        """Try the request that ends where bio begins, then the one that begins where bio ends.

        Kernel: dd_bio_merge() and blk_mq_sched_try_merge(), block/mq-deadline.c and blk-merge.c, v6.12.
        """
        q = self.queue()
        lists = self.lists[self.prio_of(bio.ioprio)]
        rq = self.hash.get(int(bio.sector))
        if rq is not None and can_merge(rq, bio):
            end = rq.end_sector()
            if back_merge(q, rq, bio):
                self.rehash(rq, end)
                self.join(rq, lists.sort[direction(rq)].neighbour(rq, 1))
                return True
        if self.front_merges and q.nomerges == 0:
            sort = lists.sort[DD_READ if bio.op == REQ_OP_READ else DD_WRITE]
            behind = sort.starting_at(bio.sector + bio.nr_sectors)
            if behind is not None and can_merge(behind, bio):
                sort.remove(behind)
                is_merged = front_merge(q, behind, bio)
                sort.add(behind)
                if is_merged:
                    before = sort.neighbour(behind, -1)
                    if before is not None:
                        self.join(before, behind)
                return is_merged
        return False

    def join(self, rq: Request, behind: Request | None) -> None:
        """Join two neighbours if they touch; the earlier deadline is kept.

        Kernel: dd_merged_requests(), block/mq-deadline.c, v6.12.
        """
        q = self.queue()
        if behind is None or behind is rq:
            return
        end = rq.end_sector()
        end_behind = behind.end_sector()
        if not attempt_merge_requests(q, rq, behind):
            return
        lists = self.lists[self.prio_of(behind.ioprio)]
        if behind.fifo_expires < rq.fifo_expires:
            rq.fifo_expires = behind.fifo_expires
        if self.hash.get(int(end_behind)) is behind:
            del self.hash[int(end_behind)]
        self.rehash(rq, end)
        lists.sort[direction(behind)].remove(behind)
        lists.fifo[direction(behind)].remove(behind)
        lists.nr_merged += 1
        q.drop_merged(behind)

    def rehash(self, rq: Request, old_end: i64) -> None:
        """Move rq in the merge hash after its end has moved."""
        if self.hash.get(int(old_end)) is rq:
            del self.hash[int(old_end)]
        self.hash[int(rq.end_sector())] = rq

    # -- insertion and removal

    def insert_request(self, hctx: HardwareQueue, rq: Request, at_head: bool) -> None:
        """Take rq: to the dispatch list at_head, else into the sorted and fifo lists, after a try to merge it.

        Kernel: dd_insert_request(), block/mq-deadline.c, v6.12.
        """
        q = self.queue()
        lists = self.lists[self.prio_of(rq.ioprio)]
        if rq.elv is None:
            # A requeued request is counted already.
            rq.elv = lists
            lists.nr_inserted += 1
        if q.nomerges < 2 and self.insert_merge(rq, lists):
            return
        if at_head:
            rq.fifo_expires = self.jiffies()
            lists.dispatch.prepend(rq)
            return
        way = direction(rq)
        lists.sort[way].add(rq)
        if (rq.flags & REQ_NOMERGE_FLAGS) == 0 and rq.nr_sectors > 0:
            self.hash[int(rq.end_sector())] = rq
        rq.fifo_expires = self.jiffies() + self.expire_jiffies[way]
        lists.fifo[way].append(rq)

    def insert_merge(self, rq: Request, lists: DeadlineLists) -> bool:
        """Merge a whole new request behind a waiting one.

        Kernel: elv_attempt_insert_merge(), block/elevator.c, v6.12.
        """
        before = self.hash.get(int(rq.sector))
        if before is None or before is rq or rq.nr_sectors == 0:
            return False
        end = before.end_sector()
        q = self.queue()
        if not attempt_merge_requests(q, before, rq):
            return False
        self.rehash(before, end)
        lists.nr_merged += 1
        q.drop_merged(rq)
        self.join(before, lists.sort[direction(before)].neighbour(before, 1))
        return True

    def take(self, lists: DeadlineLists, rq: Request) -> None:
        """Remove rq from the sorted list, the fifo and the merge hash."""
        way = direction(rq)
        lists.sort[way].remove(rq)
        lists.fifo[way].remove(rq)
        end = int(rq.end_sector())
        if self.hash.get(end) is rq:
            del self.hash[end]

    # -- dispatch

    def has_work(self, hctx: HardwareQueue) -> bool:
        """Say whether anything waits."""
        for lists in self.lists:
            if not lists.is_empty():
                return True
        return False

    def dispatch_request(self, hctx: HardwareQueue) -> Request | None:
        """Give up the next request: an aged one of a lower class first, else by class.

        Kernel: dd_dispatch_request(), block/mq-deadline.c, v6.12.
        """
        rules = self.queue().rules
        now = self.jiffies()
        if rules.deadline_prio_aging:
            rq = self.dispatch_aged(now)
            if rq is not None:
                return rq
        for lists in self.lists:
            rq = self.dispatch_class(lists, now)
            if rq is not None or lists.nr_queued() > 0:
                return rq
        return None

    def dispatch_aged(self, now: i64) -> Request | None:
        """Give up a best-effort or idle request that has waited for prio_aging_expire, if classes compete.

        Kernel: dd_dispatch_prio_aged_requests(), block/mq-deadline.c, v6.12.
        """
        nr_classes = 0
        for lists in self.lists:
            if lists.nr_queued() > 0:
                nr_classes += 1
        if nr_classes < 2:
            return None
        for prio in range(DD_BE_PRIO, DD_IDLE_PRIO + 1):
            rq = self.dispatch_class(self.lists[prio], now - self.aging_jiffies)
            if rq is not None:
                return rq
        return None

    def dispatch_class(self, lists: DeadlineLists, latest_start: i64) -> Request | None:
        """Give up one request of a class if it was inserted by latest_start (jiffies).

        Kernel: __dd_dispatch_request(), block/mq-deadline.c, v6.12.
        """
        first = lists.dispatch.head
        if first is not None:
            if self.started_after(first, latest_start):
                return None
            lists.nr_dispatched += 1
            return lists.dispatch.pop()
        rq = self.next_request(lists, self.last_dir)
        if rq is None or self.batching >= self.fifo_batch:
            way = self.choose_direction(lists)
            if way < 0:
                return None
            rq = self.next_request(lists, way)
            if rq is None or self.fifo_expired(lists, way):
                rq = lists.fifo[way].head
            if rq is None:
                return None
            self.last_dir = way
            self.batching = 0
        if self.started_after(rq, latest_start):
            return None
        self.batching += 1
        lists.latest_pos[direction(rq)] = int(rq.sector)
        self.take(lists, rq)
        lists.nr_dispatched += 1
        return rq

    def choose_direction(self, lists: DeadlineLists) -> i64:
        """Begin a batch of reads, unless writes have been passed over writes_starved times; -1 when all is empty."""
        has_writes = lists.fifo[DD_WRITE].count > 0
        if lists.fifo[DD_READ].count > 0:
            if not has_writes:
                return DD_READ
            is_starved = self.starved >= self.writes_starved
            self.starved += 1
            if not is_starved:
                return DD_READ
        if not has_writes:
            return -1
        self.starved = 0
        return DD_WRITE

    def next_request(self, lists: DeadlineLists, way: i64) -> Request | None:
        """Return the first request at or after the place where this direction left off."""
        return lists.sort[way].first_from(lists.latest_pos[way])

    def fifo_expired(self, lists: DeadlineLists, way: i64) -> bool:
        """Say whether the oldest request of a direction has passed its deadline."""
        rq = lists.fifo[way].head
        return rq is not None and self.jiffies() >= rq.fifo_expires

    def started_after(self, rq: Request, latest_start: i64) -> bool:
        """Say whether rq was inserted after latest_start (jiffies)."""
        return rq.fifo_expires - self.expire_jiffies[direction(rq)] > latest_start

    def prepare_request(self, rq: Request) -> None:
        """Forget what the tag's last user left."""
        rq.elv = None

    def finish_request(self, rq: Request) -> None:
        """Count a request out of its class.

        Kernel: dd_finish_request(), block/mq-deadline.c, v6.12.
        """
        lists = rq.elv
        if isinstance(lists, DeadlineLists):
            lists.nr_completed += 1
            rq.elv = None


def direction(rq: Request) -> i64:
    """Return the list index of a request's direction; everything but a read counts as a write."""
    return DD_READ if rq.op == REQ_OP_READ else DD_WRITE
