"""Whether the device is kept for a queue that has nothing to give just now.

Kernel: bfq_better_to_idle() and what it calls, block/bfq-iosched.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.bfq.data import MIN_TT_NS
from blktwin.block.bfq.log import (
    IDLE_BOOSTS,
    IDLE_CLASSES,
    IDLE_GROUPS,
    IDLE_NOT,
    IDLE_ONLY,
    IDLE_RAISED,
    IDLE_STRICT,
    IDLE_WEIGHTS,
    NOT_ASYNC,
    NOT_GONE,
    NOT_OFF,
)
from blktwin.block.bfq.pending import asymmetric_scenario, classes_vary, weights_vary

if TYPE_CHECKING:
    from blktwin.block.bfq.data import BfqData
    from blktwin.block.bfq.queue import BfqQueue

RAISED_IDLE_NS: Final = 20_000_000


def idling_boosts_thr_without_issues(bfqd: BfqData, bfqq: BfqQueue) -> bool:
    """Say whether idling makes the device faster, and keeps no raised queue waiting."""
    if bfqd.wr_busy_queues != 0 or bfqq.process_refs == 0:
        return False
    if bfqd.is_nonrot and bfqd.hw_tag != 0:
        return False
    if not bfqd.is_nonrot and bfqd.hw_tag == 0:
        return True
    return not bfqq.is_seeky() and bfqq.is_io_bound and bfqq.has_short_ttime


def idling_needed_for_service_guarantees(bfqd: BfqData, bfqq: BfqQueue) -> bool:
    """Say whether bfqq would lose its share if the device did not idle."""
    if bfqq.process_refs == 0:
        return False
    if bfqq.wr_coeff > 1 and (
        bfqd.wr_busy_queues < bfqd.tot_busy_queues or bfqd.tot_rq_in_driver >= bfqq.dispatched + 4
    ):
        return True
    if bfqd.one_queue_idles and bfqd.tot_busy_queues == 1:
        return True
    return asymmetric_scenario(bfqd, bfqq)


def better_to_idle(bfqd: BfqData, bfqq: BfqQueue) -> bool:
    """Say whether to keep the device for bfqq while it has nothing to give."""
    if bfqq.process_refs == 0:
        return False
    if bfqd.strict_guarantees:
        return True
    if bfqd.slice_idle_ns == 0 or not bfqq.is_sync or bfqq.is_class_idle():
        return False
    return idling_needed_for_service_guarantees(bfqd, bfqq) or idling_boosts_thr_without_issues(bfqd, bfqq)


def must_idle(bfqd: BfqData, bfqq: BfqQueue) -> bool:
    """Say whether bfqq is empty and worth waiting for.

    Kernel: bfq_bfqq_must_idle(), block/bfq-iosched.c, v6.12.
    """
    return bfqq.nr_queued == 0 and better_to_idle(bfqd, bfqq)


def idle_rule(bfqd: BfqData, bfqq: BfqQueue) -> i64:
    """Return which rule decides for or against idling, for logs: the first, where there are several."""
    if bfqq.process_refs == 0:
        return NOT_GONE
    if bfqd.strict_guarantees:
        return IDLE_STRICT
    if bfqd.slice_idle_ns == 0:
        return NOT_OFF
    if not bfqq.is_sync or bfqq.is_class_idle():
        return NOT_ASYNC
    if idling_boosts_thr_without_issues(bfqd, bfqq):
        return IDLE_BOOSTS
    if bfqd.num_groups_with_pending_reqs > bfqd.group_threshold:
        return IDLE_GROUPS
    if classes_vary(bfqd):
        return IDLE_CLASSES
    if weights_vary(bfqd, bfqq):
        return IDLE_WEIGHTS
    if not idling_needed_for_service_guarantees(bfqd, bfqq):
        return IDLE_NOT
    if bfqd.one_queue_idles and bfqd.tot_busy_queues == 1:
        return IDLE_ONLY
    return IDLE_RAISED


def arm_idle_timer(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """Idle for the queue in service: until its next request, or until the timer fires.

    Kernel: bfq_arm_slice_timer(), block/bfq-iosched.c, v6.12.
    """
    bfqq.wait_request = True
    ns = bfqd.slice_idle_ns
    if bfqq.wr_coeff > 1:
        if ns < RAISED_IDLE_NS:
            ns = RAISED_IDLE_NS
    elif ns > MIN_TT_NS and bfqq.is_seeky() and not asymmetric_scenario(bfqd, bfqq):
        ns = MIN_TT_NS
    now_ns = bfqd.now_ns()
    bfqd.last_idling_start_ns = now_ns
    bfqd.last_idling_start_jif = bfqd.jif()
    machine = bfqd.q.machine
    machine.arm_timer(bfqd.idle_timer, machine.now_ns() + ns)
    log = bfqd.log
    if log is not None:
        log.idling(bfqd, bfqq, idle_rule(bfqd, bfqq), ns)


def stop_idling(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """Stop the timer that runs for bfqq."""
    bfqq.wait_request = False
    bfqd.q.machine.cancel_timer(bfqd.idle_timer)
