"""The request: what the driver gets, one or more contiguous bios, identified by its tag.

Requests are preallocated, one per tag, as in the kernel; nothing is allocated per I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.vecs import vec
from mypy_extensions import i64

from blktwin.block.bio import (
    BLK_STS_OK,
    REQ_NOMERGE_FLAGS,
    REQ_OP_DISCARD,
    REQ_OP_READ,
    REQ_OP_WRITE,
    Bio,
    op_is_sync,
)

if TYPE_CHECKING:
    from blktwin.block.cgroup import Cgroup
    from blktwin.block.hctx import HardwareQueue, SoftwareQueue
    from blktwin.block.iocontext import Icq
    from blktwin.block.queue import RequestQueue

MQ_RQ_IDLE: Final = 0
MQ_RQ_IN_FLIGHT: Final = 1
MQ_RQ_COMPLETE: Final = 2

RQF_STARTED: Final = 1 << 0
"""An elevator has given it up once: it merges no more."""
RQF_FLUSH_SEQ: Final = 1 << 1
RQF_USE_SCHED: Final = 1 << 2
RQF_FLUSH_RQ: Final = 1 << 3
"""It is a flush queue's own request."""
RQF_HASHED: Final = 1 << 4
RQF_DONTPREP: Final = 1 << 5
"""The driver has prepared it: requeued, it goes to the dispatch list."""

NO_TAG: Final = -1


class Request:
    """One request; lists are intrusive: `next` for plug, dispatch and software queues, fifo_* for an elevator."""

    def __init__(self, q: RequestQueue, hctx: HardwareQueue, index: int) -> None:
        self.q: RequestQueue = q
        self.hctx: HardwareQueue = hctx
        self.ctx: SoftwareQueue | None = None
        self.index: i64 = index
        """Position in the tag map that it was allocated from."""
        self.tag: i64 = NO_TAG
        """Driver tag, or NO_TAG."""
        self.sched_tag: i64 = NO_TAG
        self.state: i64 = MQ_RQ_IDLE
        self.rq_flags: i64 = 0
        self.op: i64 = REQ_OP_READ
        self.flags: i64 = 0
        self.sector: i64 = 0
        self.nr_sectors: i64 = 0
        self.nr_segments: i64 = 1
        self.ioprio: i64 = 0
        self.cgroup: Cgroup | None = None
        self.bio: Bio | None = None
        self.bio_tail: Bio | None = None
        self.start_ns: i64 = 0
        self.io_start_ns: i64 = 0
        self.submit_cpu: i64 = 0
        self.status: i64 = BLK_STS_OK
        self.next: Request | None = None
        self.is_queued: bool = False
        """True while it stands in the elevator, a software queue or a dispatch list."""
        self.fifo_prev: Request | None = None
        self.fifo_next: Request | None = None
        self.is_in_fifo: bool = False
        self.fifo_expires: i64 = 0
        """When the elevator must serve it, in jiffies."""
        self.hash_end: i64 = 0
        """The end sector under which it stands in the elevator's merge hash."""
        self.hash_next: Request | None = None
        """The next request with the same end sector in the elevator's merge hash."""
        self.elv: object | None = None
        """The elevator's own data of this request."""
        self.icq: Icq | None = None
        """The process that it was allocated for, as the elevator knows it."""
        self.flush_seq: i64 = 0
        self.pdu: object | None = None
        """The driver's own data of this request; it stays with it for life."""
        self.trace_slot: object | None = None
        """The tracer's own bookkeeping; nobody else's."""

    def end_sector(self) -> i64:
        """Return the first sector after the request."""
        return self.sector + self.nr_sectors

    def is_sync(self) -> bool:
        """Say whether a task waits for it: every read, and writes marked so.

        Kernel: op_is_sync(), include/linux/blk_types.h, v6.12.
        """
        return op_is_sync(self.op, self.flags)

    def is_mergeable(self) -> bool:
        """Say whether it may take part in a merge at all.

        Kernel: rq_mergeable(), block/blk.h, v6.12.
        """
        op = self.op
        return (
            (self.flags & REQ_NOMERGE_FLAGS) == 0
            and (self.rq_flags & (RQF_STARTED | RQF_FLUSH_SEQ)) == 0
            and (op == REQ_OP_READ or op == REQ_OP_WRITE or op == REQ_OP_DISCARD)
        )

    def init_from_bio(self, bio: Bio) -> None:
        """Take a bio as the first of this request."""
        self.op = bio.op
        self.flags = bio.flags
        self.sector = bio.sector
        self.nr_sectors = bio.nr_sectors
        self.nr_segments = bio.nr_segments
        self.ioprio = bio.ioprio
        self.cgroup = bio.cgroup
        self.bio = bio
        self.bio_tail = bio
        self.status = BLK_STS_OK


class RequestList:
    """A singly linked FIFO of requests with push at both ends; their next is None outside, and that of the last."""

    def __init__(self) -> None:
        self.head: Request | None = None
        self.tail: Request | None = None
        self.count: i64 = 0

    def append(self, rq: Request) -> None:
        """Put rq last."""
        if self.count == 0:
            self.head = rq
        else:
            tail = self.tail
            assert tail is not None
            tail.next = rq
        self.tail = rq
        self.count += 1

    def prepend(self, rq: Request) -> None:
        """Put rq first."""
        if self.count == 0:
            self.tail = rq
        else:
            rq.next = self.head
        self.head = rq
        self.count += 1

    def pop(self) -> Request | None:
        """Take the first request, or None."""
        rq = self.head
        if rq is None:
            return None
        self.count -= 1
        if self.count == 0:
            self.head = None
            self.tail = None
        else:
            self.head = rq.next
            rq.next = None
        return rq

    def take_all(self, other: RequestList) -> None:
        """Move all of other behind this list's last."""
        first = other.head
        if first is None:
            return
        tail = self.tail
        if tail is None:
            self.head = first
        else:
            tail.next = first
        self.tail = other.tail
        self.count += other.count
        other.head = None
        other.tail = None
        other.count = 0


class FifoList:
    """A doubly linked FIFO through fifo_prev and fifo_next, None outside; a request leaves in constant time."""

    def __init__(self) -> None:
        self.head: Request | None = None
        self.tail: Request | None = None
        self.count: i64 = 0

    def append(self, rq: Request) -> None:
        """Put rq last."""
        rq.is_in_fifo = True
        if self.count == 0:
            self.head = rq
        else:
            tail = self.tail
            assert tail is not None
            tail.fifo_next = rq
            rq.fifo_prev = tail
        self.tail = rq
        self.count += 1

    def remove(self, rq: Request) -> None:
        """Take rq out; it must be in the list."""
        rq.is_in_fifo = False
        self.count -= 1
        if self.count == 0:
            self.head = None
            self.tail = None
            return
        before = rq.fifo_prev
        behind = rq.fifo_next
        if before is None:
            self.head = behind
        else:
            before.fifo_next = behind
            rq.fifo_prev = None
        if behind is None:
            self.tail = before
        else:
            behind.fifo_prev = before
            rq.fifo_next = None

    def move_behind(self, rq: Request, other: Request) -> None:
        """Move rq to the place behind other; both must be in the list."""
        self.remove(rq)
        behind = other.fifo_next
        if behind is None:
            self.append(rq)
            return
        rq.is_in_fifo = True
        rq.fifo_prev = other
        rq.fifo_next = behind
        other.fifo_next = rq
        behind.fifo_prev = rq
        self.count += 1


class SortList:
    """Requests ordered by first sector, equal ones in the order of insertion (the kernel's rb-tree of an elevator)."""

    def __init__(self) -> None:
        self.slots: vec[Request] = vec[Request]()
        """The first `count` are the requests; it never shrinks."""
        self.count: i64 = 0

    @property
    def requests(self) -> list[Request]:
        """The requests in order, for those who do not mind the copy."""
        return list(self.slots)[: self.count]

    def position(self, sector: i64) -> i64:
        """Return the index of the first request at or after sector."""
        slots = self.slots
        low: i64 = 0
        high = self.count
        while low < high:
            middle = (low + high) >> 1
            if slots[middle].sector < sector:
                low = middle + 1
            else:
                high = middle
        return low

    def index_of(self, rq: Request) -> i64:
        """Return the index of rq; its sector must be what it was when it was added."""
        at = self.position(rq.sector)
        slots = self.slots
        while slots[at] is not rq:
            at += 1
        return at

    def add(self, rq: Request) -> None:
        """Insert rq behind all that start at or before its sector.

        Kernel: elv_rb_add(), block/elevator.c, v6.12.
        """
        end = self.count
        if end == len(self.slots):
            self.slots = vec[Request](list(self.slots) + [rq] * (int(end) + 4))
        if end > 0:
            at = self.position(rq.sector + 1)
            slots = self.slots
            while end > at:
                slots[end] = slots[end - 1]
                end -= 1
        self.slots[end] = rq
        self.count += 1

    def remove(self, rq: Request) -> None:
        """Take rq out; its sector must be what it was when it was added."""
        end = self.count - 1
        if end > 0:
            self.remove_at(self.index_of(rq))
            return
        assert self.slots[0] is rq, "the request is not in the list"
        self.count = end

    def remove_at(self, at: i64) -> None:
        """Take out the request at an index."""
        end = self.count - 1
        slots = self.slots
        while at < end:
            slots[at] = slots[at + 1]
            at += 1
        self.count = end

    def move_down(self, rq: Request) -> bool:
        """Sort rq anew, whose sector is less than it was when it was added; False if it stands where it stood."""
        slots = self.slots
        at: i64 = 0
        while slots[at] is not rq:
            at += 1
        if at == 0 or slots[at - 1].sector <= rq.sector:
            return False
        self.remove_at(at)
        self.add(rq)
        return True

    def first_from(self, sector: i64) -> Request | None:
        """Return the first request at or after sector."""
        at = self.position(sector)
        return self.slots[at] if at < self.count else None

    def starting_at(self, sector: i64) -> Request | None:
        """Return the oldest request that starts exactly at sector."""
        rq = self.first_from(sector)
        return rq if rq is not None and rq.sector == sector else None

    def neighbour(self, rq: Request, step: i64) -> Request | None:
        """Return the request before (step -1) or behind (step 1) rq."""
        at = self.index_of(rq) + step
        return self.slots[at] if 0 <= at < self.count else None
