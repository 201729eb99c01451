"""The end of a queue: when nobody uses it any more, what remembers it must forget it.

Kernel: bfq_put_queue(), block/bfq-iosched.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blktwin.block.bfq.data import BfqData
    from blktwin.block.bfq.queue import BfqQueue


def put_queue(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """End bfqq if no process, request, tree or list needs it; called when one of them lets it go."""
    if (
        bfqq.process_refs > 0
        or bfqq.nr_requests > 0
        or bfqq.on_st_or_in_serv
        or bfqq.stable_refs > 0
        or bfqq.weight_counter is not None
        or bfqd.in_service_queue is bfqq
        or bfqq.is_freed
    ):
        return
    bfqq.is_freed = True
    assert not bfqq.is_busy, "a busy queue ends"
    assert bfqq.nr_queued == 0, "a queue ends with requests"
    bfqd.queues.remove(bfqq)
    if bfqq.in_burst_list:
        bfqq.in_burst_list = False
        bfqd.burst_list.remove(bfqq)
        # Its process has ended in the burst: that one does not count.
        if bfqq.bic is not None and bfqd.burst_size > 0:
            bfqd.burst_size -= 1
    waker = bfqq.waker
    if waker is not None and bfqq in waker.woken_list:
        waker.woken_list.remove(bfqq)
    bfqq.waker = None
    for woken in bfqq.woken_list:
        woken.waker = None
        woken.has_waker = False
    bfqq.woken_list.clear()
    if bfqd.last_completed_rq_bfqq is bfqq:
        bfqd.last_completed_rq_bfqq = None
    for other in bfqd.queues:
        if other.tentative_waker is bfqq:
            other.tentative_waker = None
