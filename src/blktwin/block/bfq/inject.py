"""Injection: requests of other queues that are served in the slot of a queue the device is kept for.

How many may be in the driver with it (inject_limit) follows from how long its own requests take with and without them.
Kernel: bfq_update_inject_limit(), bfq_choose_bfqq_for_injection(), bfq_select_queue(), block/bfq-iosched.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.bfq.charge import serv_to_charge
from blktwin.block.bfq.data import SECT_THR_NONROT
from blktwin.block.bfq.idle import idling_boosts_thr_without_issues

if TYPE_CHECKING:
    from blktwin.block.bfq.data import BfqData
    from blktwin.block.bfq.queue import BfqQueue

WHY_ASYNC: Final = 0
WHY_WAKER: Final = 1
WHY_WOKEN: Final = 2
WHY_LIMIT: Final = 3
WHY_NAMES: Final = ("its own async requests", "its waker", "a queue that it wakes", "inject_limit")


def reset_inject_limit(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """Begin to learn anew how much can be injected.

    Kernel: bfq_reset_inject_limit(), block/bfq-iosched.c, v6.12.
    """
    before = bfqq.inject_limit
    bfqq.last_serv_ns = 0
    bfqd.waited_rq = None
    bfqq.inject_limit = 0 if bfqq.has_short_ttime else 1
    bfqq.decrease_jif = bfqd.jif()
    log = bfqd.log
    if log is not None and before != bfqq.inject_limit:
        log.inject_limit(bfqd, bfqq, before)


def watch_service_time(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """Arrange to time the next request of the queue in service, if what it finds in the driver makes a sample.

    Kernel: bfq_add_request(), block/bfq-iosched.c, v6.12.
    """
    in_driver = bfqd.tot_rq_in_driver
    if in_driver > 0 and not (bfqq.last_serv_ns > 0 and bfqd.rqs_injected):
        return
    if bfqq.decrease_jif + bfqd.jif_10ms > bfqd.jif():
        return
    bfqd.last_empty_occupied_ns = bfqd.now_ns()
    bfqd.wait_dispatch = True
    if in_driver == 0:
        bfqd.rqs_injected = False


def update_inject_limit(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """Learn from the timed request that completes now.

    Kernel: bfq_update_inject_limit(), block/bfq-iosched.c, v6.12.
    """
    total_ns = bfqd.now_ns() - bfqd.last_empty_occupied_ns
    before = bfqq.inject_limit
    base_ns = bfqq.last_serv_ns
    is_alone = bfqd.tot_rq_in_driver == 1
    if base_ns > 0 and bfqd.rqs_injected:
        threshold_ns = base_ns * 3 >> 1
        if total_ns >= threshold_ns:
            if before > 0:
                bfqq.inject_limit = before - 1
                bfqq.decrease_jif = bfqd.jif()
        elif before <= bfqd.max_rq_in_driver:
            bfqq.inject_limit = before + 1
    if base_ns == 0 and is_alone:
        bfqq.inject_limit = before if before > 1 else 1
        bfqq.last_serv_ns = total_ns
    elif total_ns < base_ns or (not bfqd.rqs_injected and is_alone):
        bfqq.last_serv_ns = total_ns
    bfqd.waited_rq = None
    bfqd.rqs_injected = False
    log = bfqd.log
    if log is not None and before != bfqq.inject_limit:
        log.inject_limit(bfqd, bfqq, before)


def can_serve(bfqd: BfqData, bfqq: BfqQueue) -> bool:
    """Say whether bfqq is busy with a request that its budget covers."""
    rq = bfqq.next_rq
    return bfqq.is_busy and rq is not None and serv_to_charge(bfqd, rq, bfqq) <= bfqq.budget_left()


def choose_for_injection(bfqd: BfqData, in_service: BfqQueue) -> BfqQueue | None:
    """Return a queue to inject from within the limit: of those that can serve, the last that became active.

    Kernel: bfq_choose_bfqq_for_injection(), block/bfq-iosched.c, v6.12.
    """
    limit = in_service.inject_limit
    if (
        limit == 0
        and in_service.last_serv_ns == 0
        and in_service.wait_request
        # The kernel adds ns to jiffies, so with the usual slice_idle this never comes true.
        and bfqd.last_idling_start_jif + bfqd.slice_idle_ns <= bfqd.jif()
    ):
        limit = 1
    in_driver = bfqd.tot_rq_in_driver
    if in_driver >= limit:
        return None
    is_open = in_service.wr_coeff == 1 or not in_service.has_short_ttime
    bfqq = bfqd.active_head
    while bfqq is not None:
        rq = bfqq.next_rq
        if (
            rq is not None
            and (is_open or bfqq.wr_coeff > 1)
            and serv_to_charge(bfqd, rq, bfqq) <= bfqq.budget_left()
            and not (in_driver >= 1 and bfqd.is_nonrot and rq.nr_sectors >= SECT_THR_NONROT)
        ):
            bfqd.rqs_injected = True
            return bfqq
        bfqq = bfqq.active_next
    return None


def select_to_inject(bfqd: BfqData, in_service: BfqQueue) -> BfqQueue | None:
    """Return the queue to serve while the device is kept for the one in service, or None to keep it idle.

    Kernel: bfq_select_queue(), block/bfq-iosched.c, v6.12.
    """
    chosen: BfqQueue | None = None
    why: i64 = WHY_LIMIT
    bic = in_service.bic
    own = None if bic is None else bic.async_bfqq
    waker = in_service.waker
    woken = in_service.woken_list
    if own is not None and own.next_rq is not None and own.next_rq.icq is bic and can_serve(bfqd, own):
        chosen = own
        why = WHY_ASYNC
    elif waker is not None and (bfqd.new_wakers or in_service.has_waker) and can_serve(bfqd, waker):
        chosen = waker
        why = WHY_WAKER
    elif bfqd.new_wakers and woken and can_serve(bfqd, woken[0]):
        chosen = woken[0]
        why = WHY_WOKEN
    elif not idling_boosts_thr_without_issues(bfqd, in_service) and (
        in_service.wr_coeff == 1 or bfqd.wr_busy_queues > 1 or not in_service.has_short_ttime
    ):
        chosen = choose_for_injection(bfqd, in_service)
    log = bfqd.log
    if log is not None and chosen is not None:
        log.injected(bfqd, in_service, chosen, why)
    return chosen
