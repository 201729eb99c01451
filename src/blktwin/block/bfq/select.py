"""A request is asked for: which queue is in service, whether its slot ends, and what is served meanwhile.

Kernel: bfq_select_queue(), bfq_dispatch_rq_from_bfqq(), block/bfq-iosched.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from blktwin.block.bfq.charge import serv_to_charge
from blktwin.block.bfq.expire import expire, may_time_out
from blktwin.block.bfq.idle import better_to_idle, idle_rule, must_idle, stop_idling
from blktwin.block.bfq.inject import select_to_inject
from blktwin.block.bfq.log import BUDGET_EXHAUSTED, BUDGET_TIMEOUT, IDLE_STRICT, NO_MORE_REQUESTS
from blktwin.block.bfq.position import remove_request
from blktwin.block.bfq.queue import BfqQueue
from blktwin.block.bfq.raising import update_wr
from blktwin.block.bfq.rate import update_peak_rate
from blktwin.block.bfq.wf2q import get_next_queue, served
from blktwin.block.request import RQF_STARTED

if TYPE_CHECKING:
    from blktwin.block.bfq.data import BfqData
    from blktwin.block.request import Request


def dispatch(bfqd: BfqData) -> Request | None:
    """Give up one request, or None: nothing there, or the device is kept for a queue.

    Kernel: __bfq_dispatch_request(), block/bfq-iosched.c, v6.12.
    """
    rq = bfqd.dispatch.pop() if bfqd.dispatch.count > 0 else None
    if rq is not None:
        owner = rq.elv
        if owner is not None:
            assert isinstance(owner, BfqQueue)
            owner.dispatched += 1
            bfqd.tot_rq_in_driver += 1
        rq.rq_flags |= RQF_STARTED
        return rq
    if bfqd.tot_busy_queues == 0:
        return None
    if bfqd.strict_guarantees and bfqd.tot_rq_in_driver > 0:
        log = bfqd.log
        if log is not None and bfqd.in_service_queue is not None:
            log.held(bfqd, bfqd.in_service_queue, IDLE_STRICT)
        return None
    bfqq = select_queue(bfqd)
    if bfqq is None:
        return None
    rq = bfqq.next_rq
    assert rq is not None
    dispatch_from(bfqd, bfqq, rq)
    bfqd.tot_rq_in_driver += 1
    rq.rq_flags |= RQF_STARTED
    return rq


def select_queue(bfqd: BfqData) -> BfqQueue | None:
    """Return the queue to serve, ending slots on the way; None keeps the device idle."""
    bfqq = bfqd.in_service_queue
    if bfqq is not None and may_time_out(bfqd, bfqq) and not must_idle(bfqd, bfqq):
        expire(bfqd, bfqq, False, BUDGET_TIMEOUT)
        bfqq = None
    while True:
        if bfqq is None:
            bfqq = set_in_service(bfqd)
            if bfqq is None:
                return None
        rq = bfqq.next_rq
        if rq is not None:
            if serv_to_charge(bfqd, rq, bfqq) <= bfqq.budget_left():
                if bfqq.wait_request:
                    stop_idling(bfqd, bfqq)
                return bfqq
            expire(bfqd, bfqq, False, BUDGET_EXHAUSTED)
        else:
            if bfqq.wait_request or (bfqq.dispatched > 0 and better_to_idle(bfqd, bfqq)):
                return kept_for(bfqd, bfqq)
            log = bfqd.log
            if log is not None:
                log.not_idling(bfqd, bfqq, idle_rule(bfqd, bfqq))
            expire(bfqd, bfqq, False, NO_MORE_REQUESTS)
        bfqq = None


def kept_for(bfqd: BfqData, bfqq: BfqQueue) -> BfqQueue | None:
    """Return a queue to inject from while the device is kept for bfqq."""
    chosen = select_to_inject(bfqd, bfqq)
    log = bfqd.log
    if log is not None and chosen is None:
        log.held(bfqd, bfqq, idle_rule(bfqd, bfqq))
    return chosen


def set_in_service(bfqd: BfqData) -> BfqQueue | None:
    """Begin the slot of the next queue.

    Kernel: bfq_set_in_service_queue(), block/bfq-iosched.c, v6.12.
    """
    bfqq = get_next_queue(bfqd)
    bfqd.in_service_queue = bfqq
    bfqd.in_serv_last_pos = 0
    if bfqq is None:
        return None
    jif = bfqd.jif()
    bfqq.fifo_expire = False
    bfqd.budgets_assigned = (bfqd.budgets_assigned * 7 + 256) >> 3
    is_softrt = bfqq.wr_cur_max_jif == bfqd.wr_rt_max_jif
    if is_softrt and bfqq.wr_coeff > 1 and bfqq.last_wr_start_finish_jif < jif and bfqq.budget_timeout_jif < jif:
        # The time that it waited for its turn is none of its raised time.
        if bfqq.budget_timeout_jif > bfqq.last_wr_start_finish_jif:
            bfqq.last_wr_start_finish_jif += jif - bfqq.budget_timeout_jif
        else:
            bfqq.last_wr_start_finish_jif = jif
    factor: i64 = 1
    if not is_softrt:
        factor = bfqq.weight // bfqq.orig_weight
    bfqd.last_budget_start_ns = bfqd.q.time_ns()
    bfqq.budget_timeout_jif = jif + bfqd.timeout_jif * factor
    log = bfqd.log
    if log is not None:
        log.in_service(bfqd, bfqq)
    return bfqq


def dispatch_from(bfqd: BfqData, bfqq: BfqQueue, rq: Request) -> None:
    """Charge and remove the next request of bfqq.

    Kernel: bfq_dispatch_rq_from_bfqq() and bfq_dispatch_remove(), block/bfq-iosched.c, v6.12.
    """
    charge = serv_to_charge(bfqd, rq, bfqq)
    served(bfqd, bfqq, charge)
    is_in_service = bfqq is bfqd.in_service_queue
    if is_in_service and bfqd.wait_dispatch:
        bfqd.wait_dispatch = False
        bfqd.waited_rq = rq
    # Before the removal, which must not find the queue without anything pending.
    bfqq.dispatched += 1
    update_peak_rate(bfqd, rq, is_in_service)
    remove_request(bfqd, bfqq, rq)
    log = bfqd.log
    if log is not None:
        log.dispatched(bfqd, bfqq, charge)
    if not is_in_service:
        return
    update_wr(bfqd, bfqq)
    if bfqq.is_class_idle() and bfqd.tot_busy_queues > 1:
        expire(bfqd, bfqq, False, BUDGET_EXHAUSTED)
