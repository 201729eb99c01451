"""Software and hardware queues: the two stages between a submitter and the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.vecs import vec
from mypy_extensions import i64

from blktwin.block import dispatch
from blktwin.block.machine import Work
from blktwin.block.request import Request, RequestList
from blktwin.block.tags import Tags

if TYPE_CHECKING:
    from blktwin.block.flush import FlushQueue
    from blktwin.block.queue import RequestQueue

DISPATCH_BUSY_WEIGHT: Final = 8
DISPATCH_BUSY_UNIT: Final = 16
CPU_WORK_BATCH: Final = 8
"""So many runs kblockd makes on one CPU before it goes on to the next that maps here."""


class SoftwareQueue:
    """One CPU's requests on their way to a hardware queue (struct blk_mq_ctx)."""

    def __init__(self, cpu: int) -> None:
        self.cpu: i64 = cpu
        self.index: i64 = 0
        """Its place among the software queues of its hardware queue."""
        self.rq_list: RequestList = RequestList()


class RunWork(Work):
    """The hardware queue's own work: runs the queue from kblockd."""

    def __init__(self, hctx: HardwareQueue) -> None:
        super().__init__()
        self.hctx: HardwareQueue = hctx

    def run(self) -> None:
        """Run the queue.

        Kernel: blk_mq_run_work_fn(), block/blk-mq.c, v6.12.
        """
        dispatch.sched_dispatch_requests(self.hctx)


class HardwareQueue:
    """One queue of the device: tags, requests that the driver refused, and the state of its runs.

    Kernel: struct blk_mq_hw_ctx, include/linux/blk-mq.h, v6.12.
    """

    def __init__(self, q: RequestQueue, index: int, tags: Tags, sched_tags: Tags | None) -> None:
        self.q: RequestQueue = q
        self.index: i64 = index
        self.tags: Tags = tags
        self.sched_tags: Tags | None = sched_tags
        self.ctxs: list[SoftwareQueue] = []
        self.cpus: list[int] = []
        """CPUs that map here, in order."""
        self.next_cpu_index: i64 = 0
        self.next_cpu_batch: i64 = CPU_WORK_BATCH
        self.nr_ctx_queued: i64 = 0
        """Requests in this queue's software queues."""
        self.dispatch_from: i64 = 0
        """Index of the software queue that comes first in a one-by-one round."""
        self.dispatch: RequestList = RequestList()
        """What goes to the driver first: refused requests, and flushes."""
        self.spare_list: RequestList | None = RequestList()
        """For the batch of a run; None while a run uses it."""
        self.dispatch_busy: i64 = 0
        self.needs_restart: bool = False
        """A run stopped short: the next request that is freed runs the queue again."""
        self.is_stopped: bool = False
        self.run_work: RunWork = RunWork(self)
        self.requests: vec[Request] = vec[Request]()
        """By driver tag (no elevator) or scheduler tag."""
        self.cost_slot: object | None = None
        """For a machine that charges the sharing of this queue; nobody else's."""
        self.fq: FlushQueue | None = None
        self.nr_runs: i64 = 0

    def update_dispatch_busy(self, is_busy: bool) -> None:
        """Move the average of how often the driver refused: weight 7 of 8 on the past.

        Kernel: blk_mq_update_dispatch_busy(), block/blk-mq.c, v6.12.
        """
        ewma = self.dispatch_busy
        if ewma == 0 and not is_busy:
            return
        ewma *= DISPATCH_BUSY_WEIGHT - 1
        if is_busy:
            ewma += DISPATCH_BUSY_UNIT
        self.dispatch_busy = ewma // DISPATCH_BUSY_WEIGHT

    def restart(self) -> None:
        """Run the queue through kblockd if a run has asked for it.

        Kernel: blk_mq_sched_restart(), block/blk-mq-sched.h, v6.12.
        """
        if self.needs_restart:
            self.needs_restart = False
            self.q.run_hw_queue(self, True)

    def next_cpu(self) -> int:
        """Return the CPU of kblockd's next run: the same for 8 runs, then the next one.

        Kernel: blk_mq_hctx_next_cpu(), block/blk-mq.c, v6.12.
        """
        self.next_cpu_batch -= 1
        if self.next_cpu_batch <= 0:
            self.next_cpu_index = (self.next_cpu_index + 1) % len(self.cpus)
            self.next_cpu_batch = CPU_WORK_BATCH
        return self.cpus[int(self.next_cpu_index)]

    def take_list(self) -> RequestList:
        """Return an empty list for a run; give it back with give_list()."""
        spare = self.spare_list
        if spare is None:
            # A run within a run: the driver has submitted.
            return RequestList()
        self.spare_list = None
        return spare

    def give_list(self, spare: RequestList) -> None:
        """Take back an empty list."""
        self.spare_list = spare

    def insert_ctx(self, rq: Request, at_head: bool) -> None:
        """Put rq into its software queue."""
        ctx = rq.ctx
        assert ctx is not None
        rq.is_queued = True
        if at_head:
            ctx.rq_list.prepend(rq)
        else:
            ctx.rq_list.append(rq)
        self.nr_ctx_queued += 1

    def dequeue_ctx(self) -> Request | None:
        """Take one request from the next non-empty software queue, round robin."""
        if self.nr_ctx_queued == 0:
            return None
        nr = len(self.ctxs)
        for step in range(nr):
            at = (self.dispatch_from + step) % nr
            rq = self.ctxs[at].rq_list.pop()
            if rq is not None:
                self.dispatch_from = (at + 1) % nr
                self.nr_ctx_queued -= 1
                return rq
        raise AssertionError("the software queues have lost a request")
