"""Wakers: a queue whose completions are followed by another queue's requests, again and again.

Kernel: bfq_check_waker(), block/bfq-iosched.c, v6.12 and v5.10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.bfq.data import NSEC_PER_MSEC, NSEC_PER_USEC

if TYPE_CHECKING:
    from blktwin.block.bfq.data import BfqData
    from blktwin.block.bfq.queue import BfqQueue

WAKER_WINDOW_NS: Final = 4 * NSEC_PER_MSEC
WAKER_WINDOW_OLD_NS: Final = 200 * NSEC_PER_USEC
WAKER_DETECTIONS: Final = 3
WAKER_DETECTIONS_WINDOW: Final = 128
"""In slices of idling."""


def check_waker(bfqd: BfqData, bfqq: BfqQueue, now_ns: i64) -> None:
    """See a request of bfqq arrive right after a completion of another queue's."""
    last = bfqd.last_completed_rq_bfqq
    if last is None or bfqq.has_short_ttime:
        return
    since_ns = now_ns - bfqd.last_completion_ns
    if not bfqd.new_wakers:
        check_waker_old(bfqd, bfqq, last, since_ns)
        return
    if last is bfqq or since_ns >= WAKER_WINDOW_NS:
        return
    if last is not bfqq.tentative_waker or now_ns > bfqq.waker_detection_started_ns + (
        WAKER_DETECTIONS_WINDOW * bfqd.slice_idle_ns
    ):
        bfqq.tentative_waker = last
        bfqq.nr_waker_detections = 1
        bfqq.waker_detection_started_ns = now_ns
    else:
        bfqq.nr_waker_detections += 1
    if bfqq.nr_waker_detections == WAKER_DETECTIONS:
        bfqq.tentative_waker = None
        set_waker(bfqd, bfqq, last)


def check_waker_old(bfqd: BfqData, bfqq: BfqQueue, last: BfqQueue, since_ns: i64) -> None:
    """Take the first one seen for the waker, and believe it when it is seen again."""
    if since_ns >= WAKER_WINDOW_OLD_NS:
        return
    if last is bfqq.waker:
        bfqq.has_waker = True
    elif last is not bfqq:
        bfqq.has_waker = False
        set_waker(bfqd, bfqq, last)


def set_waker(bfqd: BfqData, bfqq: BfqQueue, waker: BfqQueue | None) -> None:
    """Make waker the one that bfqq waits for, None for nobody."""
    before = bfqq.waker
    if before is not None and bfqq in before.woken_list:
        before.woken_list.remove(bfqq)
    bfqq.waker = waker
    if waker is None:
        return
    waker.woken_list.insert(0, bfqq)
    log = bfqd.log
    if log is not None:
        log.woken_by(bfqd, bfqq, waker)


def woken_became_busy(bfqq: BfqQueue) -> None:
    """Let bfqq, which becomes busy, be the first that its waker's slot is shared with.

    Kernel: bfq_add_bfqq_busy(), block/bfq-wf2q.c, v6.12.
    """
    waker = bfqq.waker
    if waker is None or not waker.woken_list or waker.woken_list[0] is bfqq:
        return
    waker.woken_list.remove(bfqq)
    waker.woken_list.insert(0, bfqq)
