"""Queues that become busy and cease to be: the counts of busy queues follow the schedule.

Kernel: bfq_add_bfqq_busy(), bfq_del_bfqq_busy(), block/bfq-wf2q.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blktwin.block.bfq.pending import no_longer_pending, pending_add, queue_activated, weights_add
from blktwin.block.bfq.waker import woken_became_busy
from blktwin.block.bfq.wf2q import activate_requeue, deactivate

if TYPE_CHECKING:
    from blktwin.block.bfq.data import BfqData
    from blktwin.block.bfq.queue import BfqQueue


def activate_queue(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """Activate a queue; one that comes back in time finds its old place in virtual time.

    Kernel: bfq_activate_bfqq(), block/bfq-wf2q.c, v6.12.
    """
    queue_activated(bfqd, bfqq)
    activate_requeue(bfqd, bfqq, bfqq.non_blocking_wait_rq, False, False)
    bfqq.non_blocking_wait_rq = False


def requeue_queue(bfqd: BfqData, bfqq: BfqQueue, is_expiration: bool) -> None:
    """Put a queue back or reposition it; with the queue in service all its ancestors are requeued.

    Kernel: bfq_requeue_bfqq(), block/bfq-wf2q.c, v6.12.
    """
    activate_requeue(bfqd, bfqq, False, bfqq is bfqd.in_service_queue, is_expiration)


def add_busy(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """Make a queue busy."""
    activate_queue(bfqd, bfqq)
    bfqq.is_busy = True
    bfqd.busy_queues[bfqq.io_class] += 1
    bfqd.tot_busy_queues += 1
    if bfqq.dispatched == 0:
        pending_add(bfqd, bfqq)
        if bfqq.wr_coeff == 1:
            weights_add(bfqd, bfqq)
    if bfqq.wr_coeff > 1:
        bfqd.wr_busy_queues += 1
    if bfqq.waker is not None:
        woken_became_busy(bfqq)


def del_busy(bfqd: BfqData, bfqq: BfqQueue, is_expiration: bool) -> None:
    """Make a queue that has no request left idle."""
    bfqq.is_busy = False
    bfqd.busy_queues[bfqq.io_class] -= 1
    bfqd.tot_busy_queues -= 1
    if bfqq.wr_coeff > 1:
        bfqd.wr_busy_queues -= 1
    deactivate(bfqd, bfqq, True, is_expiration)
    if bfqq.dispatched == 0:
        no_longer_pending(bfqd, bfqq)
