"""The end of a slot: what it is charged, what the next budget is, and where the queue goes.

Kernel: bfq_bfqq_expire() and what it calls, block/bfq-iosched.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.bfq.busy import del_busy, requeue_queue
from blktwin.block.bfq.charge import serv_to_charge
from blktwin.block.bfq.coop import pos_tree_update
from blktwin.block.bfq.data import MIN_TT_NS, NSEC_PER_MSEC, NSEC_PER_USEC, SLICE_IDLE_NS, STATS_MIN_BUDGETS
from blktwin.block.bfq.idle import idling_needed_for_service_guarantees, stop_idling
from blktwin.block.bfq.lifetime import put_queue
from blktwin.block.bfq.log import BUDGET_EXHAUSTED, BUDGET_TIMEOUT, NO_MORE_REQUESTS, PREEMPTED, TOO_IDLE
from blktwin.block.bfq.raising import softrt_next_start
from blktwin.block.bfq.wf2q import served

if TYPE_CHECKING:
    from blktwin.block.bfq.data import BfqData
    from blktwin.block.bfq.queue import BfqQueue

USEC_PER_MSEC: Final = 1000
NONROT_SLOT_MS: Final = MIN_TT_NS // NSEC_PER_MSEC
ROT_SLOT_MS: Final = SLICE_IDLE_NS // NSEC_PER_MSEC
"""What a slot of less than a millisecond counts as."""
SLOW_AFTER_US: Final = 20000
"""From this length on a slot says how fast its queue is; below, only how seeky."""


def expire(bfqd: BfqData, bfqq: BfqQueue, is_compensated: bool, reason: i64) -> None:
    """End the slot of bfqq, which is in service; is_compensated: the time spent idling at its end does not count."""
    charged = charge_slot_time(bfqd, bfqq, is_compensated, reason)
    if bfqd.low_latency:
        if bfqq.wr_coeff == 1:
            bfqq.last_wr_start_finish_jif = bfqd.jif()
        if bfqq.nr_queued == 0:
            if bfqq.dispatched == 0:
                bfqq.soft_rt_next_start_jif = softrt_next_start(bfqd, bfqq)
            else:
                # Its last completion will tell.
                bfqq.softrt_update = True
    log = bfqd.log
    if log is not None:
        log.expired(bfqd, bfqq, reason, charged >= 0, charged if charged > 0 else 0)
    bfqd.rqs_injected = False
    bfqd.wait_dispatch = False
    if bfqd.waited_rq is not None:
        bfqd.waited_rq = None
    recalc_budget(bfqd, bfqq, reason)
    take_out_of_service(bfqd, bfqq, reason)
    if not bfqq.is_busy and reason != BUDGET_TIMEOUT and reason != BUDGET_EXHAUSTED:
        # Its service stays: what is left of the budget is there for a request that comes in time.
        bfqq.non_blocking_wait_rq = True
    else:
        bfqq.service = 0
    above = bfqq.parent
    while above is not None:
        above.service = 0
        above = above.parent


def charge_slot_time(bfqd: BfqData, bfqq: BfqQueue, is_compensated: bool, reason: i64) -> i64:
    """Charge a slow queue for the time of its slot; return the sectors added, or -1 if it is charged for service only.

    Kernel: bfq_bfqq_is_slow(), block/bfq-iosched.c; bfq_bfqq_charge_time(), block/bfq-wf2q.c, v6.12.
    """
    is_slow = bfqq.is_sync and bfqq.is_seeky()
    slot_ms: i64 = 0
    if bfqq.is_sync:
        until_ns = bfqd.last_idling_start_ns
        if not is_compensated:
            until_ns = bfqd.q.time_ns()
        slot_ns = until_ns - bfqd.last_budget_start_ns
        if slot_ns < NSEC_PER_MSEC:
            slot_ms = NONROT_SLOT_MS
            if not bfqd.is_nonrot:
                slot_ms = ROT_SLOT_MS
        else:
            slot_us = slot_ns // NSEC_PER_USEC
            slot_ms = slot_us // USEC_PER_MSEC
            if slot_us > SLOW_AFTER_US:
                is_slow = bfqq.service < bfqd.max_budget // 2
    if bfqq.wr_coeff != 1:
        return -1
    if not is_slow and not (reason == BUDGET_TIMEOUT and bfqq.budget_left() >= bfqq.budget // 3):
        return -1
    timeout_ms = bfqd.default_timeout_ms
    if slot_ms > timeout_ms:
        slot_ms = timeout_ms
    total = bfqd.max_budget * slot_ms // timeout_ms
    if total < bfqq.service:
        total = bfqq.service
    if total > bfqq.budget:
        bfqq.budget = total
    added = total - bfqq.service
    served(bfqd, bfqq, added)
    return added


def recalc_budget(bfqd: BfqData, bfqq: BfqQueue, reason: i64) -> None:
    """Set the budget of the next slot: more for those who used theirs up, less for those who let the device wait.

    Kernel: __bfq_bfqq_recalc_budget(), block/bfq-iosched.c, v6.12.
    """
    least = bfqd.assigned_min_budget()
    most = bfqd.max_budget
    budget = bfqq.max_budget
    if not bfqq.is_sync:
        budget = most
    elif bfqq.wr_coeff > 1:
        budget = 2 * least
    elif reason == TOO_IDLE and bfqq.dispatched == 0:
        # It will think as long again, so it gets what it can use meanwhile.
        budget = budget - 4 * least if budget > 5 * least else least
    elif reason == TOO_IDLE or reason == BUDGET_TIMEOUT:
        budget *= 2
        if budget > most:
            budget = most
    elif reason == BUDGET_EXHAUSTED:
        budget *= 4
        if budget > most:
            budget = most
    elif reason == NO_MORE_REQUESTS:
        budget = bfqq.service
        if budget < least:
            budget = least
    else:
        return
    if bfqd.budgets_assigned >= STATS_MIN_BUDGETS and bfqd.user_max_budget == 0 and budget > most:
        budget = most
    bfqq.max_budget = budget
    rq = bfqq.next_rq
    if rq is not None:
        charge = serv_to_charge(bfqd, rq, bfqq)
        bfqq.budget = charge if charge > budget else budget


def take_out_of_service(bfqd: BfqData, bfqq: BfqQueue, reason: i64) -> None:
    """Deactivate or requeue the queue in service, and leave nothing in service.

    Kernel: __bfq_bfqq_expire(), block/bfq-iosched.c, v6.12.
    """
    if bfqq.is_coop and bfqq.is_seeky():
        bfqq.split_coop = True
    if bfqq.nr_queued == 0 and not (reason == PREEMPTED and idling_needed_for_service_guarantees(bfqd, bfqq)):
        if bfqq.dispatched == 0:
            bfqq.budget_timeout_jif = bfqd.jif()
        del_busy(bfqd, bfqq, True)
    else:
        requeue_queue(bfqd, bfqq, True)
        if not bfqd.nonrot_with_queueing and bfqq.nr_queued > 0:
            pos_tree_update(bfqd, bfqq)
    reset_in_service(bfqd, bfqq)


def reset_in_service(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """Leave nothing in service, at any level.

    Kernel: __bfq_bfqd_reset_in_service(), block/bfq-wf2q.c, v6.12.
    """
    if bfqq.wait_request:
        stop_idling(bfqd, bfqq)
    bfqd.in_service_queue = None
    bfqq.sched_data.in_service_entity = None
    above = bfqq.parent
    while above is not None:
        above.sched_data.in_service_entity = None
        above = above.parent
    if not bfqq.on_st_or_in_serv:
        put_queue(bfqd, bfqq)


def budget_timed_out(bfqd: BfqData, bfqq: BfqQueue) -> bool:
    """Say whether the slot's time is over.

    Kernel: bfq_bfqq_budget_timeout(), block/bfq-iosched.c, v6.12.
    """
    return bfqq.budget_timeout_jif <= bfqd.jif()


def may_time_out(bfqd: BfqData, bfqq: BfqQueue) -> bool:
    """Say whether the slot may be ended for its time: while idling, only if much of the budget is left.

    Kernel: bfq_may_expire_for_budg_timeout(), block/bfq-iosched.c, v6.12.
    """
    if not budget_timed_out(bfqd, bfqq):
        return False
    return not bfqq.wait_request or bfqq.budget_left() >= bfqq.budget // 3
