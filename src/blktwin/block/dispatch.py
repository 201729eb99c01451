"""How a hardware queue is run: what goes to the driver, in which order, and who runs the queue again.

Kernel: block/blk-mq-sched.c and blk_mq_dispatch_rq_list() in block/blk-mq.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.bio import BLK_STS_DEV_RESOURCE, BLK_STS_OK, BLK_STS_RESOURCE
from blktwin.block.request import Request, RequestList

if TYPE_CHECKING:
    from blktwin.block.hctx import HardwareQueue

RESOURCE_DELAY_NS: Final = 3_000_000
NOTHING: Final = 0
DISPATCHED: Final = 1
AGAIN: Final = 2


def sched_dispatch_requests(hctx: HardwareQueue) -> None:
    """Run hctx until it has nothing to give or the driver refuses.

    Kernel: blk_mq_sched_dispatch_requests(), block/blk-mq-sched.c, v6.12.
    """
    hctx.nr_runs += 1
    if run_once(hctx) and run_once(hctx):
        hctx.q.run_hw_queue(hctx, True)


def run_once(hctx: HardwareQueue) -> bool:
    """Make one pass; return True if the dispatch list filled meanwhile and the pass should be made again."""
    q = hctx.q
    left_over = RequestList()
    if hctx.dispatch.count > 0:
        left_over.take_all(hctx.dispatch)
        hctx.needs_restart = True
        if not dispatch_list(hctx, left_over):
            return False
        return dispatch_sched(hctx) if q.elevator is not None else dispatch_ctx(hctx)
    if q.elevator is not None:
        return dispatch_sched(hctx)
    if hctx.dispatch_busy > 0:
        return dispatch_ctx(hctx)
    if hctx.nr_ctx_queued > 0:
        for ctx in hctx.ctxs:
            left_over.take_all(ctx.rq_list)
        hctx.nr_ctx_queued = 0
        dispatch_list(hctx, left_over)
    return False


def dispatch_sched(hctx: HardwareQueue) -> bool:
    """Ask the elevator for batches as long as it gives some; True means: make the pass again.

    Kernel: blk_mq_do_dispatch_sched(), block/blk-mq-sched.c, v6.12.
    """
    while True:
        result = dispatch_sched_batch(hctx)
        if result != DISPATCHED:
            return result == AGAIN


def dispatch_sched_batch(hctx: HardwareQueue) -> i64:
    """Take one batch from the elevator and hand it to the driver."""
    q = hctx.q
    elevator = q.elevator
    assert elevator is not None
    limit = 1 if hctx.dispatch_busy > 0 else q.nr_requests
    batch = RequestList()
    is_again = False
    is_held = False
    is_mixed = False
    while batch.count < limit:
        if not elevator.has_work(hctx):
            break
        if hctx.dispatch.count > 0:
            is_again = True
            break
        rq = elevator.dispatch_request(hctx)
        if rq is None:
            is_held = True
            break
        rq.is_queued = False
        batch.append(rq)
        if rq.hctx is not hctx:
            is_mixed = True
        # Without a tag the request waits first in line on the dispatch list.
        if not q.get_driver_tag(rq):
            break
    if batch.count == 0:
        if is_held:
            q.delay_run_hw_queue(hctx, RESOURCE_DELAY_NS)
        return AGAIN if is_again else NOTHING
    is_dispatched = dispatch_mixed(batch) if is_mixed else dispatch_list(hctx, batch)
    if is_again:
        return AGAIN
    return DISPATCHED if is_dispatched else NOTHING


def dispatch_mixed(batch: RequestList) -> bool:
    """Hand over a batch whose requests belong to several hardware queues, one queue after the other."""
    is_dispatched = False
    while batch.count > 0:
        first = batch.head
        assert first is not None
        hctx = first.hctx
        mine = RequestList()
        others = RequestList()
        rq = batch.pop()
        while rq is not None:
            if rq.hctx is hctx:
                mine.append(rq)
            else:
                others.append(rq)
            rq = batch.pop()
        if dispatch_list(hctx, mine):
            is_dispatched = True
        batch.take_all(others)
    return is_dispatched


def dispatch_ctx(hctx: HardwareQueue) -> bool:
    """Take requests one by one from the software queues, in turn; True means: make the pass again.

    Kernel: blk_mq_do_dispatch_ctx(), block/blk-mq-sched.c, v6.12.
    """
    while True:
        if hctx.dispatch.count > 0:
            return True
        rq = hctx.dequeue_ctx()
        if rq is None:
            return False
        one = RequestList()
        one.append(rq)
        if not dispatch_list(hctx, one):
            return False


def dispatch_list(hctx: HardwareQueue, batch: RequestList) -> bool:
    """Hand a list to the driver; what it refuses goes to the dispatch list. False: stop running.

    Kernel: blk_mq_dispatch_rq_list(), block/blk-mq.c, v6.12.
    """
    q = hctx.q
    if batch.count == 0:
        return False
    nr_done: i64 = 0
    is_refused = False
    while batch.count > 0:
        rq = batch.head
        assert rq is not None
        if not has_tag(hctx, rq):
            break
        batch.pop()
        rq.is_queued = False
        result = q.driver.queue_rq(rq, batch.count == 0)
        if result == BLK_STS_OK:
            nr_done += 1
        elif result == BLK_STS_RESOURCE or result == BLK_STS_DEV_RESOURCE:
            is_refused = True
            q.undo_start(rq)
            batch.prepend(rq)
            break
        else:
            nr_done += 1
            q.end_request(rq, result)
    if batch.count == 0:
        hctx.update_dispatch_busy(False)
        return nr_done > 0
    give_back(hctx, batch, is_refused)
    return False


def has_tag(hctx: HardwareQueue, rq: Request) -> bool:
    """Get a driver tag for rq; when there is none, ask for a restart and look once more.

    Kernel: blk_mq_mark_tag_wait(), block/blk-mq.c, v6.12.
    """
    q = hctx.q
    if q.get_driver_tag(rq):
        return True
    hctx.needs_restart = True
    return q.get_driver_tag(rq)


def give_back(hctx: HardwareQueue, batch: RequestList, is_refused: bool) -> None:
    """Keep what could not be dispatched on the dispatch list, and see that the queue runs again."""
    q = hctx.q
    q.driver.commit_rqs()
    rq = batch.head
    while rq is not None:
        rq.is_queued = True
        rq = rq.next
    hctx.dispatch.take_all(batch)
    if not hctx.needs_restart:
        q.run_hw_queue(hctx, True)
    elif is_refused:
        q.delay_run_hw_queue(hctx, RESOURCE_DELAY_NS)
    hctx.update_dispatch_busy(True)
