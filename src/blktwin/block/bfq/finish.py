"""A request comes back: what its completion says of queue and device, and whether to idle now.

Kernel: bfq_finish_requeue_request(), bfq_completed_request(), bfq_idle_slice_timer_body(), block/bfq-iosched.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from blktwin.block.bfq.assign import count_allocated
from blktwin.block.bfq.bic import BfqIoCq
from blktwin.block.bfq.expire import budget_timed_out, expire, may_time_out
from blktwin.block.bfq.idle import arm_idle_timer, better_to_idle, idle_rule, must_idle
from blktwin.block.bfq.inject import update_inject_limit
from blktwin.block.bfq.lifetime import put_queue
from blktwin.block.bfq.log import BUDGET_TIMEOUT, NO_MORE_REQUESTS, TOO_IDLE
from blktwin.block.bfq.pending import no_longer_pending
from blktwin.block.bfq.queue import BfqQueue
from blktwin.block.bfq.raising import WR_COEFF, softrt_next_start
from blktwin.block.bfq.rate import pause_window
from blktwin.block.request import RQF_STARTED

if TYPE_CHECKING:
    from blktwin.block.bfq.data import BfqData
    from blktwin.block.request import Request

HW_QUEUE_THRESHOLD: Final = 3
HW_QUEUE_SAMPLES: Final = 32


def finish(bfqd: BfqData, rq: Request) -> None:
    """See rq leave: completed, merged away, or requeued."""
    bfqq = rq.elv
    bic = rq.icq
    if bfqq is None or bic is None:
        return
    assert isinstance(bfqq, BfqQueue)
    assert isinstance(bic, BfqIoCq)
    if rq.rq_flags & RQF_STARTED:
        if rq is bfqd.waited_rq:
            update_inject_limit(bfqd, bfqq)
        completed(bfqd, bfqq)
    count_allocated(bfqq, -1)
    bic.requests -= 1
    rq.elv = None
    put_queue(bfqd, bfqq)


def completed(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """See a request of bfqq complete."""
    update_hw_tag(bfqd)
    bfqd.tot_rq_in_driver -= 1
    bfqq.dispatched -= 1
    if bfqq.dispatched == 0 and not bfqq.is_busy:
        bfqq.budget_timeout_jif = bfqd.jif()
        no_longer_pending(bfqd, bfqq)
    now_ns = bfqd.q.time_ns()
    bfqq.last_end_request_ns = now_ns
    pause_window(bfqd, now_ns)
    bfqd.last_completion_ns = now_ns
    bfqd.last_completed_rq_bfqq = None if bfqq.is_coop else bfqq
    if bfqq.softrt_update and bfqq.dispatched == 0 and bfqq.nr_queued == 0 and bfqq.wr_coeff != WR_COEFF:
        bfqq.soft_rt_next_start_jif = softrt_next_start(bfqd, bfqq)
    log = bfqd.log
    if log is not None:
        log.completed(bfqd, bfqq)
    if bfqq is bfqd.in_service_queue:
        if must_idle(bfqd, bfqq):
            if bfqq.dispatched == 0:
                arm_idle_timer(bfqd, bfqq)
            return
        if may_time_out(bfqd, bfqq):
            expire(bfqd, bfqq, False, BUDGET_TIMEOUT)
        elif bfqq.nr_queued == 0 and (bfqq.dispatched == 0 or not better_to_idle(bfqd, bfqq)):
            if log is not None:
                log.not_idling(bfqd, bfqq, idle_rule(bfqd, bfqq))
            expire(bfqd, bfqq, False, NO_MORE_REQUESTS)
    if bfqd.tot_rq_in_driver == 0:
        bfqd.schedule_dispatch()


def update_hw_tag(bfqd: BfqData) -> None:
    """Find out whether the device queues commands, by how many it has had at once.

    Kernel: bfq_update_hw_tag(), block/bfq-iosched.c, v6.12.
    """
    in_driver = bfqd.tot_rq_in_driver
    if in_driver > bfqd.max_rq_in_driver:
        bfqd.max_rq_in_driver = in_driver
    if bfqd.hw_tag == 1 or in_driver + bfqd.queued <= HW_QUEUE_THRESHOLD:
        return
    bfqq = bfqd.in_service_queue
    if (
        bfqq is not None
        and bfqq.has_short_ttime
        and bfqq.dispatched + bfqq.nr_queued < HW_QUEUE_THRESHOLD
        and in_driver < HW_QUEUE_THRESHOLD
    ):
        # Idling keeps the device from showing what it can.
        return
    bfqd.hw_tag_samples += 1
    if bfqd.hw_tag_samples <= HW_QUEUE_SAMPLES:
        return
    bfqd.hw_tag = 1 if bfqd.max_rq_in_driver > HW_QUEUE_THRESHOLD else 0
    bfqd.max_rq_in_driver = 0
    bfqd.hw_tag_samples = 0
    bfqd.nonrot_with_queueing = bfqd.is_nonrot and bfqd.hw_tag == 1


def idle_timer_fired(bfqd: BfqData) -> None:
    """See the idle timer fire: the slot ends, unless a request has come.

    Kernel: bfq_idle_slice_timer_body(), block/bfq-iosched.c, v6.12.
    """
    bfqq = bfqd.in_service_queue
    if bfqq is None:
        return
    bfqq.wait_request = False
    if budget_timed_out(bfqd, bfqq):
        expire(bfqd, bfqq, True, BUDGET_TIMEOUT)
    elif bfqq.nr_queued == 0:
        expire(bfqd, bfqq, True, TOO_IDLE)
    bfqd.schedule_dispatch()
