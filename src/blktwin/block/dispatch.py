"""How a hardware queue is run: what goes to the driver, in which order, and who runs the queue again.

Kernel: block/blk-mq-sched.c and blk_mq_dispatch_rq_list() in block/blk-mq.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.bio import BLK_STS_DEV_RESOURCE, BLK_STS_OK, BLK_STS_RESOURCE
from blktwin.block.request import NO_TAG, Request, RequestList

if TYPE_CHECKING:
    from blktwin.block.elevator import Elevator
    from blktwin.block.hctx import HardwareQueue

RESOURCE_DELAY_MS: Final = 3
"""How long a run waits that got nothing from the elevator, or was refused by the driver for want of memory."""

STOP: Final = 0
DISPATCHED: Final = 1
AGAIN: Final = 2
"""The dispatch list has filled meanwhile, and goes first."""


def sched_dispatch_requests(hctx: HardwareQueue) -> None:
    """Run hctx until it has nothing to give or the driver refuses.

    Kernel: blk_mq_sched_dispatch_requests(), block/blk-mq-sched.c, v6.12.
    """
    if hctx.is_stopped:
        return
    hctx.nr_runs += 1
    if run_once(hctx) == AGAIN and run_once(hctx) == AGAIN:
        hctx.q.run_hw_queue(hctx, True)


def run_once(hctx: HardwareQueue) -> i64:
    """Make one pass; AGAIN asks for another.

    Kernel: __blk_mq_sched_dispatch_requests(), block/blk-mq-sched.c, v6.12.
    """
    q = hctx.q
    is_one_by_one = hctx.dispatch_busy > 0
    if hctx.dispatch.count > 0:
        # What is left in the elevator can still be sorted and merged: hand over the dispatch list first.
        hctx.needs_restart = True
        batch = hctx.take_list()
        batch.take_all(hctx.dispatch)
        is_dispatched = dispatch_list(hctx, batch)
        hctx.give_list(batch)
        if not is_dispatched:
            return STOP
        is_one_by_one = True
    if q.elevator is not None:
        return dispatch_sched(hctx)
    if is_one_by_one:
        return dispatch_ctx(hctx)
    if hctx.nr_ctx_queued > 0:
        batch = hctx.take_list()
        for ctx in hctx.ctxs:
            batch.take_all(ctx.rq_list)
        hctx.nr_ctx_queued = 0
        dispatch_list(hctx, batch)
        hctx.give_list(batch)
    return STOP


def dispatch_sched(hctx: HardwareQueue) -> i64:
    """Ask the elevator for batches as long as it gives some.

    Kernel: blk_mq_do_dispatch_sched(), block/blk-mq-sched.c, v6.12.
    """
    elevator = hctx.q.elevator
    assert elevator is not None
    result: i64 = DISPATCHED
    while result == DISPATCHED:
        result = dispatch_sched_batch(hctx, elevator)
    return result


def dispatch_sched_batch(hctx: HardwareQueue, elevator: Elevator) -> i64:
    """Take one batch from the elevator and hand it to the driver.

    Kernel: __blk_mq_do_dispatch_sched(), block/blk-mq-sched.c, v6.12.
    """
    if not elevator.has_work(hctx):
        return STOP
    if hctx.dispatch.count > 0:
        return AGAIN
    q = hctx.q
    rq = elevator.dispatch_request(hctx)
    if rq is None:
        q.delay_run_hw_queues(q.resource_delay)
        return STOP
    # Without a tag the request waits first in line on the dispatch list.
    has_room = q.get_driver_tag(rq) and hctx.dispatch_busy == 0 and q.nr_requests > 1
    if not has_room or not elevator.has_work(hctx):
        return DISPATCHED if dispatch_one(rq.hctx, rq) else STOP
    batch = hctx.take_list()
    batch.append(rq)
    result = dispatch_sched_more(hctx, elevator, batch)
    hctx.give_list(batch)
    return result


def dispatch_sched_more(hctx: HardwareQueue, elevator: Elevator, batch: RequestList) -> i64:
    """Add to a batch of one request what else there is, and hand it to the driver."""
    q = hctx.q
    limit = q.nr_requests
    first = batch.head
    is_mixed = first is not None and first.hctx is not hctx
    is_again = False
    while batch.count < limit and elevator.has_work(hctx):
        if hctx.dispatch.count > 0:
            is_again = True
            break
        rq = elevator.dispatch_request(hctx)
        if rq is None:
            break
        batch.append(rq)
        if rq.hctx is not hctx:
            is_mixed = True
        if not q.get_driver_tag(rq):
            break
    is_dispatched = dispatch_mixed(hctx, batch) if is_mixed else dispatch_list(hctx, batch)
    if is_again:
        return AGAIN
    return DISPATCHED if is_dispatched else STOP


def dispatch_mixed(hctx: HardwareQueue, batch: RequestList) -> bool:
    """Hand over a batch whose requests belong to several hardware queues, one queue after the other.

    Kernel: blk_mq_dispatch_hctx_list(), block/blk-mq-sched.c, v6.12.
    """
    is_dispatched = False
    for other in hctx.q.hctxs:
        mine = RequestList()
        rest = RequestList()
        rq = batch.pop()
        while rq is not None:
            if rq.hctx is other:
                mine.append(rq)
            else:
                rest.append(rq)
            rq = batch.pop()
        batch.take_all(rest)
        if dispatch_list(other, mine):
            is_dispatched = True
    return is_dispatched


def dispatch_ctx(hctx: HardwareQueue) -> i64:
    """Take requests one by one from the software queues, in turn.

    Kernel: blk_mq_do_dispatch_ctx(), block/blk-mq-sched.c, v6.12.
    """
    one = hctx.take_list()
    result: i64 = STOP
    while True:
        if hctx.dispatch.count > 0:
            result = AGAIN
            break
        rq = hctx.dequeue_ctx()
        if rq is None:
            break
        one.append(rq)
        if not dispatch_list(hctx, one):
            break
    hctx.give_list(one)
    return result


def dispatch_list(hctx: HardwareQueue, batch: RequestList) -> bool:
    """Hand a list to the driver and empty it: what is refused goes to the dispatch list. False: stop running.

    Kernel: blk_mq_dispatch_rq_list(), block/blk-mq.c, v6.12.
    """
    q = hctx.q
    rq = batch.head
    if rq is None:
        return False
    nr_queued: i64 = 0
    needs_resource = False
    result: i64 = BLK_STS_OK
    while rq is not None:
        if rq.tag == NO_TAG and not has_tag(hctx, rq):
            break
        batch.pop()
        rq.is_queued = False
        result = q.driver.queue_rq(rq, batch.count == 0)
        if result == BLK_STS_OK:
            nr_queued += 1
        elif result == BLK_STS_RESOURCE or result == BLK_STS_DEV_RESOURCE:
            needs_resource = result == BLK_STS_RESOURCE
            batch.prepend(rq)
            q.undo_start(rq)
            break
        else:
            q.fail_request(rq, result)
        rq = batch.head
    if batch.count > 0 or result != BLK_STS_OK:
        q.commit_rqs(hctx, nr_queued)
    if batch.count > 0:
        give_back(hctx, batch, needs_resource)
        return False
    if hctx.dispatch_busy > 0:
        hctx.update_dispatch_busy(False)
    return True


def dispatch_one(hctx: HardwareQueue, rq: Request) -> bool:
    """Do what dispatch_list() does with a list of one request."""
    q = hctx.q
    result: i64 = BLK_STS_RESOURCE
    has_driver_tag = rq.tag != NO_TAG or has_tag(hctx, rq)
    if has_driver_tag:
        rq.is_queued = False
        result = q.driver.queue_rq(rq, True)
    if result == BLK_STS_RESOURCE or result == BLK_STS_DEV_RESOURCE:
        batch = hctx.take_list()
        batch.append(rq)
        if has_driver_tag:
            q.undo_start(rq)
        give_back(hctx, batch, has_driver_tag and result == BLK_STS_RESOURCE)
        hctx.give_list(batch)
        return False
    if result != BLK_STS_OK:
        q.fail_request(rq, result)
    if hctx.dispatch_busy > 0:
        hctx.update_dispatch_busy(False)
    return True


def has_tag(hctx: HardwareQueue, rq: Request) -> bool:
    """Get a driver tag for rq; when there is none, ask for a restart and look once more.

    Kernel: blk_mq_mark_tag_wait(), block/blk-mq.c, v6.12.
    """
    q = hctx.q
    if q.get_driver_tag(rq):
        return True
    hctx.needs_restart = True
    return q.get_driver_tag(rq)


def give_back(hctx: HardwareQueue, batch: RequestList, needs_resource: bool) -> None:
    """Keep what could not be dispatched on the dispatch list, and see that the queue runs again.

    Kernel: blk_mq_dispatch_rq_list(), block/blk-mq.c, v6.12.
    """
    q = hctx.q
    rq = batch.head
    while rq is not None:
        rq.is_queued = True
        rq = rq.next
    hctx.dispatch.take_all(batch)
    if not hctx.needs_restart:
        # Nobody will: a completion may have taken the mark meanwhile.
        q.run_hw_queue(hctx, True)
    elif needs_resource:
        q.delay_run_hw_queue(hctx, q.resource_delay)
    hctx.update_dispatch_busy(True)
