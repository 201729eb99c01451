"""The seat of an I/O scheduler: the hooks that blk-mq calls, with the kernel's names; absent ones do nothing.

A scheduler in plain Python may subclass the compiled class. Without an elevator ("none") no hook is called.
Kernel: struct elevator_mq_ops, block/elevator.h, v6.12.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr

from blktwin.block.bio import Bio
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

    def __init__(self) -> None:
        self.q: RequestQueue | None = None
        self.tunables: dict[str, Tunable] = {}

    def attach(self, q: RequestQueue) -> None:
        """Take the queue; called once, before any request."""
        self.q = q

    def set_tunable(self, name: str, value: int) -> None:
        """Write a value to an iosched file; the caller has checked name and range."""
        self.tunables[name].value = value

    def limit_depth(self, op: i64, flags: i64) -> i64:
        """Return how many scheduler tags this kind of request may use, 0 for all."""
        return 0

    def bio_merge(self, bio: Bio) -> bool:
        """Try to merge a new bio into a waiting request; return True if it was taken."""
        return False

    @abstractmethod
    def insert_request(self, hctx: HardwareQueue, rq: Request, at_head: bool) -> None:
        """Take a request."""

    @abstractmethod
    def dispatch_request(self, hctx: HardwareQueue) -> Request | None:
        """Give up the request to serve next, or None to hold the device."""

    @abstractmethod
    def has_work(self, hctx: HardwareQueue) -> bool:
        """Say whether dispatch_request() may give something."""

    def prepare_request(self, rq: Request) -> None:
        """See a request that was just allocated."""

    def completed_request(self, rq: Request, now_ns: i64) -> None:
        """See a request that the device completed."""

    def finish_request(self, rq: Request) -> None:
        """See a request that is about to be freed."""

    def requeue_request(self, rq: Request) -> None:
        """See a request that comes back undone."""
