"""Direct issue: requests that go to the driver without a stay in any queue.

Kernel: blk_mq_try_issue_directly() and blk_mq_plug_issue_direct(), block/blk-mq.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from blktwin.block.bio import BLK_STS_DEV_RESOURCE, BLK_STS_OK, BLK_STS_RESOURCE, REQ_NOWAIT
from blktwin.block.request import RQF_USE_SCHED, Request, RequestList

if TYPE_CHECKING:
    from blktwin.block.hctx import HardwareQueue
    from blktwin.block.queue import RequestQueue


def try_issue_directly(q: RequestQueue, rq: Request) -> None:
    """Give rq to the driver now; if that cannot be, insert it and run the queue.

    Kernel: blk_mq_try_issue_directly(), block/blk-mq.c, v6.12.
    """
    hctx = rq.hctx
    if hctx.is_stopped or rq.rq_flags & RQF_USE_SCHED or not q.get_driver_tag(rq):
        q.insert_request(rq, False)
        q.run_hw_queue(hctx, (rq.flags & REQ_NOWAIT) != 0 and not hctx.is_stopped)
        return
    result = issue(hctx, rq, True)
    if result == BLK_STS_RESOURCE or result == BLK_STS_DEV_RESOURCE:
        q.bypass_insert(rq, False)
        q.run_hw_queue(hctx, False)
    elif result != BLK_STS_OK:
        q.fail_request(rq, result)


def issue_direct(q: RequestQueue, batch: RequestList) -> None:
    """Issue the requests of one queue in order until the driver is busy; what is left stays in batch.

    Kernel: blk_mq_plug_issue_direct(), block/blk-mq.c, v6.12.
    """
    hctx: HardwareQueue | None = None
    nr_queued: i64 = 0
    result: i64 = BLK_STS_OK
    rq = batch.pop()
    while rq is not None:
        if hctx is not rq.hctx:
            if hctx is not None:
                q.commit_rqs(hctx, nr_queued)
                nr_queued = 0
            hctx = rq.hctx
        result = issue_or_insert(hctx, rq, batch.count == 0)
        if result == BLK_STS_OK:
            nr_queued += 1
        elif result == BLK_STS_RESOURCE or result == BLK_STS_DEV_RESOURCE:
            q.bypass_insert(rq, False)
            q.run_hw_queue(hctx, False)
            break
        else:
            q.fail_request(rq, result)
        rq = batch.pop()
    if result != BLK_STS_OK:
        assert hctx is not None
        q.commit_rqs(hctx, nr_queued)


def try_issue_list_directly(hctx: HardwareQueue, batch: RequestList) -> None:
    """Issue the requests of one hardware queue until the driver is busy; what is left stays in batch.

    Kernel: blk_mq_try_issue_list_directly(), block/blk-mq.c, v6.12.
    """
    q = hctx.q
    nr_queued: i64 = 0
    result: i64 = BLK_STS_OK
    rq = batch.pop()
    while rq is not None:
        result = issue_or_insert(hctx, rq, batch.count == 0)
        if result == BLK_STS_OK:
            nr_queued += 1
        elif result == BLK_STS_RESOURCE or result == BLK_STS_DEV_RESOURCE:
            q.bypass_insert(rq, False)
            if batch.count == 0:
                q.run_hw_queue(hctx, False)
            break
        else:
            q.fail_request(rq, result)
        rq = batch.pop()
    if result != BLK_STS_OK:
        q.commit_rqs(hctx, nr_queued)


def issue_one(hctx: HardwareQueue, rq: Request) -> None:
    """Issue a list of one request."""
    q = hctx.q
    result = issue_or_insert(hctx, rq, True)
    if result == BLK_STS_OK:
        return
    if result == BLK_STS_RESOURCE or result == BLK_STS_DEV_RESOURCE:
        q.bypass_insert(rq, False)
        q.run_hw_queue(hctx, False)
    else:
        q.fail_request(rq, result)


def issue_or_insert(hctx: HardwareQueue, rq: Request, last: bool) -> i64:
    """Issue rq, or insert it when the queue is stopped; return BLK_STS_OK, or what is wrong with it.

    Kernel: blk_mq_request_issue_directly(), block/blk-mq.c, v6.12.
    """
    q = hctx.q
    if hctx.is_stopped:
        q.insert_request(rq, False)
        q.run_hw_queue(hctx, False)
        return BLK_STS_OK
    if not q.get_driver_tag(rq):
        return BLK_STS_RESOURCE
    return issue(hctx, rq, last)


def issue(hctx: HardwareQueue, rq: Request, last: bool) -> i64:
    """Hand rq to the driver and book how busy that is.

    Kernel: __blk_mq_issue_directly(), block/blk-mq.c, v6.12.
    """
    q = hctx.q
    result = q.driver.queue_rq(rq, last)
    if result == BLK_STS_RESOURCE or result == BLK_STS_DEV_RESOURCE:
        hctx.update_dispatch_busy(True)
        q.undo_start(rq)
    elif hctx.dispatch_busy > 0:
        hctx.update_dispatch_busy(False)
    return result
