"""A process's I/O context: what schedulers keep per process and device.

Kernel: struct io_context, struct io_cq, include/linux/iocontext.h, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from blktwin.block.elevator import Elevator


@mypyc_attr(allow_interpreted_subclasses=True)
class Icq:
    """One process and one device's elevator; elevators subclass it."""

    def __init__(self, elevator: Elevator) -> None:
        self.elevator: Elevator = elevator
        self.next: Icq | None = None


class IoContext:
    """All Icqs of one process, or of the threads that share it (io_uring's workers share their owner's)."""

    def __init__(self) -> None:
        self.head: Icq | None = None
        self.nr_tasks: int = 1
        """Tasks that use it; the last to exit ends it."""

    def lookup(self, elevator: Elevator) -> Icq | None:
        """Return what elevator keeps here, or None.

        Kernel: ioc_lookup_icq(), block/blk-ioc.c, v6.12.
        """
        icq = self.head
        while icq is not None and icq.elevator is not elevator:
            icq = icq.next
        return icq

    def add(self, icq: Icq) -> None:
        """Keep icq."""
        icq.next = self.head
        self.head = icq

    def exit_task(self) -> None:
        """See a task end; with the last one the elevators hear of the end of the process.

        Kernel: exit_io_context(), block/blk-ioc.c, v6.12.
        """
        self.nr_tasks -= 1
        if self.nr_tasks > 0:
            return
        icq = self.head
        self.head = None
        while icq is not None:
            icq.elevator.exit_icq(icq)
            icq = icq.next
