"""The way back: requests that a driver gives up again, and steps of a flush, inserted anew from kblockd.

Kernel: blk_mq_requeue_work(), block/blk-mq.c, v6.12.
Differs: requests that come back together are inserted in reverse order, as since v6.5; before, the order was kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blktwin.block.machine import Work
from blktwin.block.request import MQ_RQ_IDLE, RQF_DONTPREP, RQF_USE_SCHED, Request, RequestList

if TYPE_CHECKING:
    from blktwin.block.queue import RequestQueue


class RequeueWork(Work):
    """Re-inserts what was requeued, from kblockd."""

    def __init__(self, q: RequestQueue) -> None:
        super().__init__()
        self.q: RequestQueue = q
        self.requeue_list: RequestList = RequestList()
        self.flush_list: RequestList = RequestList()

    def run(self) -> None:
        """Insert all requeued requests at the head, then the flushes, and run the queues."""
        q = self.q
        requeued = RequestList()
        requeued.take_all(self.requeue_list)
        flushes = RequestList()
        flushes.take_all(self.flush_list)
        rq = requeued.pop()
        while rq is not None:
            if rq.rq_flags & RQF_DONTPREP:
                q.bypass_insert(rq, False)
            else:
                q.insert_request(rq, True)
            rq = requeued.pop()
        rq = flushes.pop()
        while rq is not None:
            q.insert_request(rq, False)
            rq = flushes.pop()
        q.run_hw_queues(False)


def undo_start(q: RequestQueue, rq: Request) -> None:
    """Make a request that the driver refused or gave back as if never started.

    Kernel: __blk_mq_requeue_request(), block/blk-mq.c, v6.12.
    """
    q.put_driver_tag(rq)
    q.trace.rq_requeue(rq)
    if rq.state != MQ_RQ_IDLE:
        rq.state = MQ_RQ_IDLE
        q.nr_started -= 1


def requeue_request(q: RequestQueue, rq: Request) -> None:
    """Take back a started request and hand it to the requeue work.

    Kernel: blk_mq_requeue_request(), block/blk-mq.c, v6.12.
    """
    undo_start(q, rq)
    elevator = q.elevator
    if elevator is not None and rq.rq_flags & RQF_USE_SCHED:
        elevator.requeue_request(rq)
    rq.is_queued = True
    q.requeue_work.requeue_list.append(rq)
    q.kick_requeue_list()
