"""mq-deadline: sorted batches with a deadline per request, reads before writes, one set of lists per I/O class.

Kernel: block/mq-deadline.c, v6.12.
Differs: one list of requeued requests for all classes, as until v5.13 and since v6.5.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from blktwin.block.bio import REQ_OP_READ, Bio
from blktwin.block.elevator import Elevator, Tunable
from blktwin.block.hctx import HardwareQueue
from blktwin.block.ioprio import IOPRIO_CLASS_IDLE, IOPRIO_CLASS_RT, IOPRIO_CLASS_SHIFT
from blktwin.block.jiffies import jiffies, msecs_to_jiffies
from blktwin.block.merge import FRONT_MERGE
from blktwin.block.queue import RequestQueue
from blktwin.block.request import RQF_STARTED, FifoList, Request, RequestList, SortList
from blktwin.block.rules import DEADLINE_NEXT_OF_BATCH, DEADLINE_POSITION
from blktwin.block.sched_merge import bio_merge_ok, rqhash_add, rqhash_del, sched_try_merge, try_insert_merge

DD_READ: Final = 0
DD_WRITE: Final = 1
DD_RT_PRIO: Final = 0
DD_BE_PRIO: Final = 1
DD_IDLE_PRIO: Final = 2
INT_MAX: Final = 2147483647


class DeadlineLists:
    """Requests of one I/O class: per direction the sorted and the fifo list, and where the last batch left off."""

    def __init__(self) -> None:
        self.sort: list[SortList] = [SortList(), SortList()]
        self.fifo: list[FifoList] = [FifoList(), FifoList()]
        self.latest_pos: vec[i64] = vec[i64]([0, 0])
        """First sector of the last request that was dispatched (Rules.deadline_next)."""
        self.next_rq: list[Request | None] = [None, None]
        """The request behind it, as it was then (Rules.deadline_next)."""
        self.nr_inserted: i64 = 0
        self.nr_completed: i64 = 0
        self.nr_dispatched: i64 = 0
        self.nr_merged: i64 = 0

    def nr_queued(self) -> i64:
        """Return how many are queued or in flight."""
        return self.nr_inserted - self.nr_completed


class Deadline(Elevator):
    """The scheduler; tunables have the kernel's names, times in ms."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "mq-deadline"
        for name, default, low, high, unit in (
            ("read_expire", 500, 0, INT_MAX, "ms"),
            ("write_expire", 5000, 0, INT_MAX, "ms"),
            ("writes_starved", 2, -INT_MAX - 1, INT_MAX, ""),
            ("front_merges", 1, 0, 1, ""),
            ("fifo_batch", 16, 0, INT_MAX, ""),
            ("prio_aging_expire", 10000, 0, INT_MAX, "ms"),
            ("async_depth", 0, 1, INT_MAX, "requests"),
        ):
            self.tunables[name] = Tunable(name, default, low, high, unit)
        self.lists: list[DeadlineLists] = [DeadlineLists(), DeadlineLists(), DeadlineLists()]
        self.dispatch: RequestList = RequestList()
        """Requests that were inserted at the head: they go first."""
        self.nr_waiting: i64 = 0
        """Requests in the fifo lists."""
        self.last_dir: i64 = DD_WRITE
        self.batching: i64 = 0
        self.starved: i64 = 0
        self.expire_jiffies: vec[i64] = vec[i64]([0, 0])
        self.aging_jiffies: i64 = 0
        self.fifo_batch: i64 = 16
        self.writes_starved: i64 = 2
        self.front_merges: bool = True
        self.async_depth: i64 = 0
        self.has_classes: bool = True
        self.has_aging: bool = True
        self.how_next: i64 = DEADLINE_POSITION

    def attach(self, q: RequestQueue) -> None:
        """Take the queue and its clock."""
        super().attach(q)
        rules = q.rules
        self.has_classes = rules.deadline_prio_classes
        self.has_aging = rules.deadline_prio_aging
        self.how_next = rules.deadline_next
        if not self.has_classes:
            del self.tunables["async_depth"]
        if not self.has_aging:
            del self.tunables["prio_aging_expire"]
        self.load_tunables()

    def depth_updated(self) -> None:
        """Let writes have all tags, unless async_depth was set.

        Kernel: dd_depth_updated(), block/mq-deadline.c, v6.12.
        """
        q = self.queue()
        if not self.has_classes:
            return
        tunable = self.tunables["async_depth"]
        if tunable.value == 0:
            tunable.value = int(q.nr_requests)
        self.async_depth = tunable.value
        for hctx in q.hctxs:
            if hctx.sched_tags is not None:
                hctx.sched_tags.set_min_shallow_depth(1)

    def set_tunable(self, name: str, value: int) -> None:
        """Write a tunable; it takes effect at once."""
        super().set_tunable(name, value)
        if self.q is not None:
            self.load_tunables()

    def load_tunables(self) -> None:
        """Turn the tunables into what the hot path reads."""
        values = self.tunables
        hz = self.queue().machine.hz
        self.expire_jiffies[DD_READ] = msecs_to_jiffies(values["read_expire"].value, hz)
        self.expire_jiffies[DD_WRITE] = msecs_to_jiffies(values["write_expire"].value, hz)
        if self.has_aging:
            self.aging_jiffies = msecs_to_jiffies(values["prio_aging_expire"].value, hz)
        self.fifo_batch = values["fifo_batch"].value
        self.writes_starved = values["writes_starved"].value
        self.front_merges = values["front_merges"].value != 0
        if self.has_classes:
            self.async_depth = values["async_depth"].value

    def queue(self) -> RequestQueue:
        """Return the queue it is attached to."""
        q = self.q
        assert q is not None
        return q

    def lists_of(self, ioprio: i64) -> DeadlineLists:
        """Return the lists of an I/O priority."""
        prio: i64 = DD_BE_PRIO
        if self.has_classes:
            ioprio_class = ioprio >> IOPRIO_CLASS_SHIFT
            if ioprio_class == IOPRIO_CLASS_RT:
                prio = DD_RT_PRIO
            elif ioprio_class == IOPRIO_CLASS_IDLE:
                prio = DD_IDLE_PRIO
        return self.lists[prio]

    def limit_depth(self, op: i64, flags: i64) -> i64:
        """Limit writes (and what else is not a read) to async_depth tags; reads have all.

        Kernel: dd_limit_depth(), block/mq-deadline.c, v6.12.
        """
        if op == REQ_OP_READ or not self.has_classes:
            return 0
        return self.async_depth

    # -- merging

    def bio_merge(self, bio: Bio) -> bool:
        """Try the last merge's request, the one that ends where bio begins, the one that begins where bio ends.

        Kernel: dd_bio_merge(), block/mq-deadline.c, v6.12.
        """
        return sched_try_merge(self.queue(), bio)

    def request_merge(self, bio: Bio) -> Request | None:
        """Find the request for a front merge.

        Kernel: dd_request_merge(), block/mq-deadline.c, v6.12.
        """
        if not self.front_merges:
            return None
        sort = self.lists_of(bio.ioprio).sort[DD_READ if bio.op == REQ_OP_READ else DD_WRITE]
        rq = sort.starting_at(bio.sector + bio.nr_sectors)
        return rq if rq is not None and bio_merge_ok(self, rq, bio) else None

    def request_merged(self, rq: Request, how: i64) -> None:
        """Sort rq anew after a front merge.

        Kernel: dd_request_merged(), block/mq-deadline.c, v6.12.
        """
        if how == FRONT_MERGE:
            sort = self.lists_of(rq.ioprio).sort[direction(rq)]
            sort.remove(rq)
            sort.add(rq)

    def requests_merged(self, rq: Request, behind: Request) -> None:
        """Forget behind; rq takes its place in the fifo if that is the earlier one.

        Kernel: dd_merged_requests(), block/mq-deadline.c, v6.12.
        """
        lists = self.lists_of(behind.ioprio)
        lists.nr_merged += 1
        if rq.is_in_fifo and behind.is_in_fifo and behind.fifo_expires < rq.fifo_expires:
            lists.fifo[direction(rq)].move_behind(rq, behind)
            rq.fifo_expires = behind.fifo_expires
        self.remove(lists, behind)

    def former_request(self, rq: Request) -> Request | None:
        """Return the one before in the sorted list."""
        return self.lists_of(rq.ioprio).sort[direction(rq)].neighbour(rq, -1) if rq.is_in_fifo else None

    def next_request(self, rq: Request) -> Request | None:
        """Return the one behind in the sorted list."""
        return self.lists_of(rq.ioprio).sort[direction(rq)].neighbour(rq, 1) if rq.is_in_fifo else None

    # -- insertion and removal

    def insert_request(self, hctx: HardwareQueue, rq: Request, at_head: bool) -> None:
        """Take rq: to the dispatch list at_head, else into the sorted and fifo lists, after a try to merge it.

        Kernel: dd_insert_request(), block/mq-deadline.c, v6.12.
        """
        q = self.queue()
        lists = self.lists_of(rq.ioprio)
        if rq.elv is None:
            # A requeued request is counted already.
            rq.elv = lists
            lists.nr_inserted += 1
        if try_insert_merge(q, rq):
            return
        q.trace.rq_insert(rq)
        if at_head:
            rq.fifo_expires = jiffies(q.machine)
            self.dispatch.prepend(rq)
            return
        way = direction(rq)
        lists.sort[way].add(rq)
        if rq.is_mergeable():
            rqhash_add(q, rq)
            if q.last_merge is None:
                q.last_merge = rq
        rq.fifo_expires = jiffies(q.machine) + self.expire_jiffies[way]
        lists.fifo[way].append(rq)
        self.nr_waiting += 1

    def remove(self, lists: DeadlineLists, rq: Request) -> None:
        """Remove rq from the sorted list, the fifo and the merge hash, as far as it stands there.

        Kernel: deadline_remove_request(), block/mq-deadline.c, v6.12.
        """
        q = self.queue()
        if rq.is_in_fifo:
            way = direction(rq)
            sort = lists.sort[way]
            if lists.next_rq[way] is rq:
                lists.next_rq[way] = sort.neighbour(rq, 1)
            sort.remove(rq)
            lists.fifo[way].remove(rq)
            self.nr_waiting -= 1
        rqhash_del(q, rq)
        if q.last_merge is rq:
            q.last_merge = None

    # -- dispatch

    def has_work(self, hctx: HardwareQueue) -> bool:
        """Say whether anything waits."""
        return self.nr_waiting > 0 or self.dispatch.count > 0

    def dispatch_request(self, hctx: HardwareQueue) -> Request | None:
        """Give up the next request: a requeued one, then an aged one of a lower class, else by class.

        Kernel: dd_dispatch_request(), block/mq-deadline.c, v6.12.
        """
        rq = self.dispatch.pop()
        if rq is not None:
            self.start(self.lists_of(rq.ioprio), rq)
            return rq
        now = jiffies(self.queue().machine)
        if self.has_aging and self.do_classes_compete():
            rq = self.dispatch_aged(now)
            if rq is not None:
                return rq
        for lists in self.lists:
            rq = self.dispatch_class(lists, now)
            if rq is not None or lists.nr_queued() > 0:
                return rq
        return None

    def do_classes_compete(self) -> bool:
        """Say whether several classes have requests, queued or in flight."""
        nr_classes = 0
        for lists in self.lists:
            if lists.nr_inserted != lists.nr_completed:
                nr_classes += 1
        return nr_classes > 1

    def dispatch_aged(self, now: i64) -> Request | None:
        """Give up a best-effort or idle request that has waited for prio_aging_expire.

        Kernel: dd_dispatch_prio_aged_requests(), block/mq-deadline.c, v6.12.
        """
        for prio in range(DD_BE_PRIO, DD_IDLE_PRIO + 1):
            rq = self.dispatch_class(self.lists[prio], now - self.aging_jiffies)
            if rq is not None:
                return rq
        return None

    def dispatch_class(self, lists: DeadlineLists, latest_start: i64) -> Request | None:
        """Give up one request of a class if it was inserted by latest_start (jiffies).

        Kernel: __dd_dispatch_request(), block/mq-deadline.c, v6.12.
        """
        rq = self.next_in_order(lists, self.last_dir)
        if rq is None or self.batching >= self.fifo_batch:
            way = self.choose_direction(lists)
            if way < 0:
                return None
            rq = self.next_in_order(lists, way)
            oldest = lists.fifo[way].head
            assert oldest is not None
            if rq is None or oldest.fifo_expires <= jiffies(self.queue().machine):
                rq = oldest
            self.last_dir = way
            self.batching = 0
        if self.started_after(rq, latest_start):
            return None
        self.batching += 1
        way = direction(rq)
        if self.how_next != DEADLINE_POSITION:
            lists.next_rq[way] = lists.sort[way].neighbour(rq, 1)
            if self.how_next == DEADLINE_NEXT_OF_BATCH:
                lists.next_rq[way ^ 1] = None
        self.remove(lists, rq)
        self.start(lists, rq)
        return rq

    def start(self, lists: DeadlineLists, rq: Request) -> None:
        """Book that rq leaves.

        Kernel: dd_start_request(), block/mq-deadline.c, v6.12.
        """
        lists.latest_pos[direction(rq)] = rq.sector
        lists.nr_dispatched += 1
        rq.rq_flags |= RQF_STARTED

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

    def next_in_order(self, lists: DeadlineLists, way: i64) -> Request | None:
        """Return the request to go on with where this direction left off.

        Kernel: deadline_next_request(), block/mq-deadline.c, v6.12.
        """
        if self.how_next == DEADLINE_POSITION:
            return lists.sort[way].first_from(lists.latest_pos[way])
        return lists.next_rq[way]

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


def direction(rq: Request) -> i64:
    """Return the list index of a request's direction; everything but a read counts as a write.

    Kernel: rq_data_dir(), include/linux/blk-mq.h, v6.12.
    """
    return DD_READ if rq.op == REQ_OP_READ else DD_WRITE
