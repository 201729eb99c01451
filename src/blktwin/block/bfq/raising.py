"""Weight raising (low_latency): interactive and soft real-time queues get a multiple of their weight for a while.

Kernel: block/bfq-iosched.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.bfq.queue import LONG_AGO
from blktwin.block.bfq.wf2q import update_weight_prio
from blktwin.block.jiffies import NSEC_PER_SEC

if TYPE_CHECKING:
    from blktwin.block.bfq.data import BfqData
    from blktwin.block.bfq.queue import BfqQueue

WR_COEFF: Final = 30
SOFTRT_WEIGHT_FACTOR: Final = 100
WR_MAX_SOFTRT_RATE: Final = 7000
"""Sectors per second up to which a queue may be soft real-time."""
MAX_SERVICE_FROM_WR: Final = 120000
"""Sectors after which an interactive queue is no longer taken for one."""
DEFAULT_WEIGHT: Final = 40


def wr_duration(bfqd: BfqData) -> i64:
    """Return for how long an interactive queue is raised, in jiffies: shorter on a faster device.

    Kernel: bfq_wr_duration(), block/bfq-iosched.c, v6.12.
    """
    duration = bfqd.rate_dur_prod // bfqd.peak_rate
    if duration < bfqd.wr_duration_min_jif:
        return bfqd.wr_duration_min_jif
    if duration > bfqd.wr_duration_max_jif:
        return bfqd.wr_duration_max_jif
    return duration


def set_coeff(bfqd: BfqData, bfqq: BfqQueue, coeff: i64) -> None:
    """Set the coefficient, and say so."""
    before = bfqq.wr_coeff
    bfqq.wr_coeff = coeff
    log = bfqd.log
    if log is not None and before != coeff:
        log.raised(bfqd, bfqq, before)


def idle_for_long_time(bfqd: BfqData, bfqq: BfqQueue, jif: i64) -> bool:
    """Say whether it has had no request for long, as a program that waits for its user.

    Kernel: bfq_bfqq_idle_for_long_time(), block/bfq-iosched.c, v6.12.
    """
    return bfqq.dispatched == 0 and bfqq.budget_timeout_jif + bfqd.wr_min_idle_jif < jif


def has_default_weight(bfqd: BfqData, bfqq: BfqQueue) -> bool:
    """Say whether nobody gave it a weight; since 5.12 others are not raised."""
    return bfqq.new_weight == DEFAULT_WEIGHT or not bfqd.raises_default_weight


def is_soft_rt(bfqd: BfqData, bfqq: BfqQueue, jif: i64) -> bool:
    """Say whether it asks for little, at intervals."""
    return (
        bfqq.soft_rt_next_start_jif < jif
        and bfqq.dispatched == 0
        and not bfqq.in_large_burst
        and not bfqq.is_totally_seeky()
        and has_default_weight(bfqd, bfqq)
    )


def update_on_arrival(
    bfqd: BfqData, bfqq: BfqQueue, old_coeff: i64, is_interactive: bool, soft_rt: bool, deserves: bool, in_burst: bool
) -> None:
    """Begin, change or end the raising of a queue that becomes busy; in_burst: it came in a large one.

    Kernel: bfq_update_bfqq_wr_on_rq_arrival(), block/bfq-iosched.c, v6.12.
    """
    if old_coeff == 1:
        if not deserves:
            return
        if is_interactive:
            bfqq.service_from_wr = 0
            bfqq.wr_cur_max_jif = wr_duration(bfqd)
            set_coeff(bfqd, bfqq, WR_COEFF)
        else:
            bfqq.wr_start_at_switch_to_srt_jif = LONG_AGO
            bfqq.wr_cur_max_jif = bfqd.wr_rt_max_jif
            set_coeff(bfqd, bfqq, WR_COEFF * SOFTRT_WEIGHT_FACTOR)
        # Small budgets keep the latency of the other raised queues low.
        small = 2 * bfqd.assigned_min_budget()
        if bfqq.budget > small:
            bfqq.budget = small
    elif is_interactive:
        bfqq.wr_cur_max_jif = wr_duration(bfqd)
        set_coeff(bfqd, bfqq, WR_COEFF)
    elif in_burst:
        set_coeff(bfqd, bfqq, 1)
    elif soft_rt:
        if bfqq.wr_cur_max_jif != bfqd.wr_rt_max_jif:
            bfqq.wr_start_at_switch_to_srt_jif = bfqq.last_wr_start_finish_jif
            bfqq.wr_cur_max_jif = bfqd.wr_rt_max_jif
            set_coeff(bfqd, bfqq, WR_COEFF * SOFTRT_WEIGHT_FACTOR)
        bfqq.last_wr_start_finish_jif = bfqd.jif()


def raise_async(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """Raise an async queue whose requests come rarely.

    Kernel: bfq_add_request(), block/bfq-iosched.c, v6.12.
    """
    bfqq.wr_cur_max_jif = wr_duration(bfqd)
    set_coeff(bfqd, bfqq, WR_COEFF)
    bfqd.wr_busy_queues += 1
    bfqq.prio_changed = True


def end_wr(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """End the raising of a queue.

    Kernel: bfq_bfqq_end_wr(), block/bfq-iosched.c, v6.12.
    """
    jif = bfqd.jif()
    if bfqq.wr_cur_max_jif != bfqd.wr_rt_max_jif:
        bfqq.soft_rt_next_start_jif = jif
    if bfqq.is_busy:
        bfqd.wr_busy_queues -= 1
    set_coeff(bfqd, bfqq, 1)
    bfqq.wr_cur_max_jif = 0
    bfqq.last_wr_start_finish_jif = jif
    bfqq.prio_changed = True


def end_all_wr(bfqd: BfqData) -> None:
    """End all raising, when low_latency is switched off.

    Kernel: bfq_end_wr(), block/bfq-iosched.c, v6.12.
    Differs: the kernel also "ends" the raising of busy queues that are not raised, and miscounts.
    """
    for bfqq in bfqd.queues:
        if bfqq.wr_coeff > 1:
            end_wr(bfqd, bfqq)


def back_to_interactive(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """Go on with the interactive period that soft real-time raising had interrupted.

    Kernel: switch_back_to_interactive_wr(), block/bfq-iosched.c, v6.12.
    """
    bfqq.wr_cur_max_jif = wr_duration(bfqd)
    bfqq.last_wr_start_finish_jif = bfqq.wr_start_at_switch_to_srt_jif
    set_coeff(bfqd, bfqq, WR_COEFF)


def end_or_go_back(bfqd: BfqData, bfqq: BfqQueue, jif: i64) -> None:
    """End soft real-time raising, or go back to an interactive period that is not over."""
    if bfqq.wr_start_at_switch_to_srt_jif + wr_duration(bfqd) < jif:
        end_wr(bfqd, bfqq)
    else:
        back_to_interactive(bfqd, bfqq)
        bfqq.prio_changed = True


def update_wr(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """See after a dispatch whether the raising of the queue in service is over.

    Kernel: bfq_update_wr_data(), block/bfq-iosched.c, v6.12.
    """
    if bfqq.wr_coeff > 1:
        jif = bfqd.jif()
        if bfqq.in_large_burst:
            end_wr(bfqd, bfqq)
        elif bfqq.last_wr_start_finish_jif + bfqq.wr_cur_max_jif < jif:
            if bfqq.wr_cur_max_jif != bfqd.wr_rt_max_jif:
                end_wr(bfqd, bfqq)
            else:
                end_or_go_back(bfqd, bfqq, jif)
        if (
            bfqq.wr_coeff > 1
            and bfqq.wr_cur_max_jif != bfqd.wr_rt_max_jif
            and bfqq.service_from_wr > MAX_SERVICE_FROM_WR
        ):
            end_wr(bfqd, bfqq)
    if (bfqq.weight > bfqq.orig_weight) != (bfqq.wr_coeff > 1):
        update_weight_prio(bfqd, bfqq.service_tree(), bfqq, False)


def softrt_next_start(bfqd: BfqData, bfqq: BfqQueue) -> i64:
    """Return from when on (jiffies) the queue's next request makes it soft real-time.

    Kernel: bfq_bfqq_softrt_next_start(), block/bfq-iosched.c, v6.12.
    """
    at = bfqq.soft_rt_next_start_jif
    by_rate = bfqq.last_idle_bklogged_jif + bfqd.hz * bfqq.service_from_backlogged // WR_MAX_SOFTRT_RATE
    if by_rate > at:
        at = by_rate
    by_time = bfqd.jif() + bfqd.slice_idle_ns * bfqd.hz // NSEC_PER_SEC + 4
    return by_time if by_time > at else at
