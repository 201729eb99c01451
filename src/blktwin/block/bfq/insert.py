"""A request arrives: what it tells of its process, and how its queue becomes busy.

Kernel: __bfq_insert_request(), bfq_add_request() and what they call, block/bfq-iosched.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.bfq.assign import count_allocated
from blktwin.block.bfq.bic import BfqIoCq
from blktwin.block.bfq.burst import leave_burst
from blktwin.block.bfq.busy import add_busy
from blktwin.block.bfq.charge import serv_to_charge
from blktwin.block.bfq.coop import merge_all, pos_tree_update, setup_cooperator
from blktwin.block.bfq.data import NSEC_PER_MSEC
from blktwin.block.bfq.expire import budget_timed_out, expire
from blktwin.block.bfq.idle import better_to_idle, idling_boosts_thr_without_issues, stop_idling
from blktwin.block.bfq.inject import reset_inject_limit, watch_service_time
from blktwin.block.bfq.lifetime import put_queue
from blktwin.block.bfq.log import BUDGET_TIMEOUT, PREEMPTED
from blktwin.block.bfq.position import choose_req, updated_next_req
from blktwin.block.bfq.queue import BfqQueue
from blktwin.block.bfq.raising import (
    end_or_go_back,
    has_default_weight,
    idle_for_long_time,
    is_soft_rt,
    raise_async,
    update_on_arrival,
)
from blktwin.block.bfq.rate import is_seek
from blktwin.block.bfq.waker import check_waker
from blktwin.block.bfq.wf2q import may_preempt
from blktwin.block.bio import REQ_META

if TYPE_CHECKING:
    from blktwin.block.bfq.data import BfqData
    from blktwin.block.request import Request

TTIME_SAMPLES_VALID: Final = 80
SMALL_SECTORS: Final = 32
INTENSITY_WINDOW_NS: Final = 200 * NSEC_PER_MSEC
EARLY_ARRIVALS: Final = 120


def insert(bfqd: BfqData, rq: Request, bfqq: BfqQueue, bic: BfqIoCq) -> BfqQueue:
    """Put rq into its queue, or into the one that it is merged into now; return that."""
    into = setup_cooperator(bfqd, bfqq, rq.sector, bic)
    if into is not None:
        count_allocated(into, 1)
        count_allocated(bfqq, -1)
        rq.elv = into
        bfqq.just_created = False
        if bic.sync_bfqq is bfqq:
            merge_all(bfqd, bic, bfqq, into, "close to each other")
        put_queue(bfqd, bfqq)
        bfqq = into
    update_thinktime(bfqd, bfqq)
    update_short_ttime(bfqd, bfqq)
    update_seek(bfqd, bfqq, rq)
    # Time stands still from here on.
    now_ns = bfqd.q.time_ns()
    if rq.is_sync():
        rq.fifo_expires = now_ns + bfqd.fifo_expire_sync_ns
    else:
        rq.fifo_expires = now_ns + bfqd.fifo_expire_async_ns
    add_request(bfqd, bfqq, rq, bic, now_ns)
    bfqq.fifo.append(rq)
    log = bfqd.log
    if log is not None:
        log.inserted(bfqd, bfqq)
    enqueued(bfqd, bfqq, rq)
    return bfqq


def update_thinktime(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """Take a sample of the time since the last completion, if nothing was going on.

    Kernel: bfq_update_io_thinktime(), block/bfq-iosched.c, v6.12.
    """
    if bfqq.dispatched > 0 or bfqq.is_busy:
        return
    elapsed_ns = bfqd.now_ns() - bfqq.last_end_request_ns
    if elapsed_ns < 0 or elapsed_ns > 2 * bfqd.slice_idle_ns:
        # Before the first completion last_end lies 1 ns ahead, and the kernel's difference is unsigned.
        elapsed_ns = 2 * bfqd.slice_idle_ns
    bfqq.ttime_samples = (7 * bfqq.ttime_samples + 256) >> 3
    bfqq.ttime_total_ns = (7 * bfqq.ttime_total_ns + 256 * elapsed_ns) >> 3
    bfqq.ttime_mean_ns = (bfqq.ttime_total_ns + 128) // bfqq.ttime_samples


def update_short_ttime(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """Judge whether the process answers soon enough to be worth waiting for.

    Kernel: bfq_update_has_short_ttime(), block/bfq-iosched.c, v6.12.
    """
    if not bfqq.is_sync or bfqq.is_class_idle() or bfqd.slice_idle_ns == 0:
        return
    jif = bfqd.jif()
    if bfqq.split_jif + bfqd.wr_min_idle_jif >= jif:
        return
    is_short = bfqq.ttime_samples <= TTIME_SAMPLES_VALID or bfqq.ttime_mean_ns <= bfqd.slice_idle_ns >> 1
    if is_short == bfqq.has_short_ttime:
        return
    bfqq.has_short_ttime = is_short
    if bfqq.last_serv_ns == 0 and (not is_short or bfqq.decrease_jif + bfqd.jif_100ms <= jif):
        reset_inject_limit(bfqd, bfqq)


def update_seek(bfqd: BfqData, bfqq: BfqQueue, rq: Request) -> None:
    """Remember whether rq is far from the queue's last request; a soft real-time queue that only seeks is none.

    Kernel: bfq_update_io_seektime(), block/bfq-iosched.c, v6.12.
    """
    bfqq.push_seek(is_seek(bfqd, bfqq.last_request_pos, rq))
    if bfqq.wr_coeff > 1 and bfqq.wr_cur_max_jif == bfqd.wr_rt_max_jif and bfqq.is_totally_seeky():
        end_or_go_back(bfqd, bfqq, bfqd.jif())


def update_io_intensity(bfqd: BfqData, bfqq: BfqQueue, now_ns: i64) -> None:
    """Judge whether the process is bound by I/O: without requests for at most a fifth of the time.

    Kernel: bfq_update_io_intensity(), block/bfq-iosched.c, v6.12; until 5.11 early arrivals are counted.
    """
    if not bfqd.io_bound_by_time:
        if bfqq.wait_request and not bfqq.is_io_bound:
            bfqq.requests_within_timer += 1
            if bfqq.requests_within_timer >= EARLY_ARRIVALS:
                bfqq.is_io_bound = True
        return
    total_ns = now_ns - bfqq.io_start_ns
    if bfqq.nr_queued == 0 and bfqq.dispatched == 0:
        bfqq.tot_idle_ns += now_ns - bfqq.last_end_request_ns
    if bfqq.just_created:
        return
    bfqq.is_io_bound = bfqq.tot_idle_ns * 5 <= total_ns
    if total_ns > INTENSITY_WINDOW_NS:
        bfqq.io_start_ns = now_ns - (total_ns >> 1)
        bfqq.tot_idle_ns >>= 1


def add_request(bfqd: BfqData, bfqq: BfqQueue, rq: Request, bic: BfqIoCq, now_ns: i64) -> None:
    """Put rq into the queue's order, and make the queue busy.

    Kernel: bfq_add_request(), block/bfq-iosched.c, v6.12.
    """
    jif = bfqd.jif()
    old_coeff = bfqq.wr_coeff
    is_interactive = False
    is_sync_rq = rq.is_sync()
    is_first = bfqq.nr_queued == 0
    if bfqq.is_sync:
        if bic.requests <= 1 if bfqd.new_wakers else is_first:
            check_waker(bfqd, bfqq, now_ns)
            if bfqq.decrease_jif + bfqd.jif_1s <= jif:
                reset_inject_limit(bfqd, bfqq)
            if bfqq is bfqd.in_service_queue:
                watch_service_time(bfqd, bfqq)
        update_io_intensity(bfqd, bfqq, now_ns)
    bfqq.nr_queued += 1
    if is_sync_rq:
        bfqq.nr_queued_sync += 1
    bfqd.queued += 1
    bfqq.sort_list.add(rq)
    before = bfqq.next_rq
    best = rq if before is None else choose_req(bfqd, before, rq, bfqd.last_position)
    bfqq.next_rq = best
    if before is not best and not bfqd.nonrot_with_queueing:
        pos_tree_update(bfqd, bfqq)
    if not bfqq.is_busy:
        is_interactive = idle_to_busy(bfqd, bfqq, old_coeff, bic, now_ns, jif)
    else:
        if (
            bfqd.low_latency
            and old_coeff == 1
            and not is_sync_rq
            and bfqq.last_wr_start_finish_jif + bfqd.wr_min_inter_arr_async_jif < jif
        ):
            raise_async(bfqd, bfqq)
        if before is not best:
            updated_next_req(bfqd, bfqq)
    if bfqd.low_latency and (old_coeff == 1 or bfqq.wr_coeff == 1 or is_interactive):
        bfqq.last_wr_start_finish_jif = jif


def idle_to_busy(bfqd: BfqData, bfqq: BfqQueue, old_coeff: i64, bic: BfqIoCq, now_ns: i64, jif: i64) -> bool:
    """Make a queue busy with its first request, and let it take the place of the one in service if that is right.

    Returns whether it is taken for an interactive program's.
    Kernel: bfq_bfqq_handle_idle_busy_switch(), block/bfq-iosched.c, v6.12.
    """
    is_long_idle = idle_for_long_time(bfqd, bfqq, jif)
    in_burst = bfqq.in_large_burst
    is_in_time = now_ns <= bfqq.last_end_request_ns + 3 * bfqd.slice_idle_ns
    is_interactive = is_long_idle and not in_burst and has_default_weight(bfqd, bfqq)
    is_softrt = is_soft_rt(bfqd, bfqq, jif)
    is_own = bfqq.bic is not None or bic.stably_merged
    deserves = bfqd.low_latency and (bfqq.wr_coeff > 1 or (bfqq.is_sync and is_own and (is_interactive or is_softrt)))
    wants_preempt = budget_for_activation(bfqd, bfqq, is_in_time)
    if not bfqq.just_created and is_long_idle and bfqq.budget_timeout_jif + bfqd.jif_10s < jif:
        leave_burst(bfqd, bfqq)
    bfqq.just_created = False
    if bfqd.low_latency and bfqq.split_jif + bfqd.wr_min_idle_jif < jif:
        update_on_arrival(bfqd, bfqq, old_coeff, is_interactive, is_softrt, deserves, in_burst)
        if old_coeff != bfqq.wr_coeff:
            bfqq.prio_changed = True
    bfqq.last_idle_bklogged_jif = jif
    bfqq.service_from_backlogged = 0
    bfqq.softrt_update = False
    add_busy(bfqd, bfqq)
    in_service = bfqd.in_service_queue
    if (
        in_service is not None
        and (
            (wants_preempt and bfqq.wr_coeff >= in_service.wr_coeff)
            or has_higher_class_or_weight(bfqq, in_service)
            or (bfqd.preempts_unneeded and not better_to_idle(bfqd, in_service))
        )
        and may_preempt(bfqd)
    ):
        expire(bfqd, in_service, False, PREEMPTED)
    return is_interactive


def budget_for_activation(bfqd: BfqData, bfqq: BfqQueue, is_in_time: bool) -> bool:
    """Set the budget of a queue that becomes busy; True: it goes on with the rest of the last one, and wants its turn.

    Kernel: bfq_bfqq_update_budg_for_activation(), block/bfq-iosched.c, v6.12.
    """
    if bfqq.non_blocking_wait_rq and is_in_time and bfqq.budget_left() > 0:
        left = bfqq.budget_left()
        bfqq.budget = left if left < bfqq.max_budget else bfqq.max_budget
        bfqq.service = 0
        return True
    bfqq.service = 0
    rq = bfqq.next_rq
    assert rq is not None
    charge = serv_to_charge(bfqd, rq, bfqq)
    bfqq.budget = charge if charge > bfqq.max_budget else bfqq.max_budget
    bfqq.non_blocking_wait_rq = False
    return False


def has_higher_class_or_weight(bfqq: BfqQueue, other: BfqQueue) -> bool:
    """Say whether bfqq comes before other: by class, or by weight where they (or their groups) compete.

    Kernel: bfq_bfqq_higher_class_or_weight(), block/bfq-iosched.c, v6.12.
    """
    if bfqq.io_class < other.io_class:
        return True
    parent = bfqq.parent
    other_parent = other.parent
    if parent is other_parent:
        return bfqq.weight > other.weight
    weight = bfqq.weight if parent is None else parent.weight
    other_weight = other.weight if other_parent is None else other_parent.weight
    return weight > other_weight


def enqueued(bfqd: BfqData, bfqq: BfqQueue, rq: Request) -> None:
    """Stop idling for rq, unless it is small and more is expected.

    Kernel: bfq_rq_enqueued(), block/bfq-iosched.c, v6.12.
    """
    if rq.flags & REQ_META:
        bfqq.meta_pending += 1
    bfqq.last_request_pos = rq.sector + rq.nr_sectors
    if bfqq is not bfqd.in_service_queue or not bfqq.wait_request:
        return
    nr_alike = bfqq.nr_queued_sync if rq.is_sync() else bfqq.nr_queued - bfqq.nr_queued_sync
    is_small = nr_alike == 1 and rq.nr_sectors < SMALL_SECTORS
    is_over = budget_timed_out(bfqd, bfqq)
    if is_small and not is_over and idling_boosts_thr_without_issues(bfqd, bfqq):
        return
    stop_idling(bfqd, bfqq)
    if is_over:
        expire(bfqd, bfqq, False, BUDGET_TIMEOUT)
