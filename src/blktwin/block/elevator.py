"""The seat of an I/O scheduler: the hooks that blk-mq calls, with the kernel's names; absent ones do nothing.

A scheduler in plain Python may subclass the compiled class. Without an elevator ("none") no hook is called.
Who runs the queue: an insertion does; a freed request does when the driver ran out of tags or refused; when has_work()
is true and dispatch_request() gives None, blk-mq asks again 3 ms later. At any other moment call q.run_hw_queues(True).
Kernel: struct elevator_mq_ops, block/elevator.h, v6.12.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr

from blktwin.block.bio import Bio
from blktwin.block.iocontext import Icq
from blktwin.block.request import Request

if TYPE_CHECKING:
    from blktwin.block.hctx import HardwareQueue
    from blktwin.block.queue import RequestQueue


class Tunable:
    """One file of queue/iosched: its range, unit and value."""

    def __init__(self, name: str, default: int, low: int, high: int, unit: str) -> None:
        self.name: str = name
        self.value: int = default
        self.low: int = low
        self.high: int = high
        self.unit: str = unit


@mypyc_attr(allow_interpreted_subclasses=True)
class Elevator:
    """Base of every scheduler; q is its queue."""

    name: str = "elevator"
    is_queue_wide: bool = True
    """It serves all hardware queues from any of them (QUEUE_FLAG_SQ_SCHED); False: each has its own state."""

    def __init__(self) -> None:
        self.q: RequestQueue | None = None
        self.tunables: dict[str, Tunable] = {}

    def attach(self, q: RequestQueue) -> None:
        """Take the queue; called once, before any request."""
        self.q = q

    def depth_updated(self) -> None:
        """See that q.nr_requests was set, after attach(); a scheduler that limits depths says so to the tags here."""

    def set_tunable(self, name: str, value: int) -> None:
        """Write a value to an iosched file; the caller has checked name and range."""
        self.tunables[name].value = value

    def limit_depth(self, op: i64, flags: i64) -> i64:
        """Return how many scheduler tags this kind of request may use, 0 for all."""
        return 0

    # -- merging (sched_merge.py)

    def allow_merge(self, rq: Request, bio: Bio) -> bool:
        """Say whether rq may take bio, which fits it otherwise."""
        return True

    def bio_merge(self, bio: Bio) -> bool:
        """Try to merge a new bio into a waiting request; return True if it was taken."""
        return False

    def request_merge(self, bio: Bio) -> Request | None:
        """Return a waiting request that begins where bio ends and may take it, or None."""
        return None

    def request_merged(self, rq: Request, how: i64) -> None:
        """See that a bio was merged into rq at one end (BACK_MERGE, FRONT_MERGE); its sector may have moved down."""

    def requests_merged(self, rq: Request, behind: Request) -> None:
        """Forget behind, which was merged into rq; it may never have been inserted."""

    def former_request(self, rq: Request) -> Request | None:
        """Return the waiting request before rq in order of sectors, or None."""
        return None

    def next_request(self, rq: Request) -> Request | None:
        """Return the waiting request behind rq in order of sectors, or None."""
        return None

    def exit_icq(self, icq: Icq) -> None:
        """See the process end of which icq was kept (iocontext.py)."""

    # -- the way of a request

    def prepare_request(self, rq: Request) -> None:
        """See a request that was just allocated; only its operation, flags and hardware queue are set."""

    @abstractmethod
    def insert_request(self, hctx: HardwareQueue, rq: Request, at_head: bool) -> None:
        """Take a request and trace it (q.trace.rq_insert), or merge it (try_insert_merge) and do not."""

    @abstractmethod
    def dispatch_request(self, hctx: HardwareQueue) -> Request | None:
        """Give up the request to serve next, or None to hold the device."""

    @abstractmethod
    def has_work(self, hctx: HardwareQueue) -> bool:
        """Say whether dispatch_request() may give something."""

    def completed_request(self, rq: Request, now_ns: i64) -> None:
        """See a request that the device completed."""

    def finish_request(self, rq: Request) -> None:
        """See a request that is about to be freed, once; it may never have been inserted."""

    def requeue_request(self, rq: Request) -> None:
        """See a request that comes back undone."""
