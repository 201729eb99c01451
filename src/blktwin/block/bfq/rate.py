"""The device's peak rate, and the largest budget that follows from it.

Kernel: bfq_update_peak_rate(), bfq_update_rate_reset(), block/bfq-iosched.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.bfq.data import (
    MIN_TT_NS,
    NSEC_PER_MSEC,
    NSEC_PER_USEC,
    RATE_SHIFT,
    SECT_THR_NONROT,
    SEEK_THR_SECTORS,
)

if TYPE_CHECKING:
    from blktwin.block.bfq.data import BfqData
    from blktwin.block.request import Request

RATE_MIN_SAMPLES: Final = 32
RATE_MIN_INTERVAL_NS: Final = 300 * NSEC_PER_MSEC
RATE_REF_INTERVAL_NS: Final = 1000 * NSEC_PER_MSEC
RATE_MAX: Final = 20 << RATE_SHIFT
USEC_PER_MSEC: Final = 1000


def is_seek(bfqd: BfqData, last_pos: i64, rq: Request) -> bool:
    """Say whether rq is far from where the last one ended; without heads, only if it is small too.

    Kernel: BFQ_RQ_SEEKY(), block/bfq-iosched.c, v6.12.
    """
    if last_pos == 0:
        return False
    distance = rq.sector - last_pos
    if distance < 0:
        distance = -distance
    return distance > SEEK_THR_SECTORS and (not bfqd.is_nonrot or rq.nr_sectors < SECT_THR_NONROT)


def calc_max_budget(bfqd: BfqData) -> i64:
    """Return the sectors that the device serves at its peak rate in one slot.

    Kernel: bfq_calc_max_budget(), block/bfq-iosched.c, v6.12.
    """
    return bfqd.peak_rate * USEC_PER_MSEC * bfqd.timeout_ms >> RATE_SHIFT


def update_peak_rate(bfqd: BfqData, rq: Request, is_in_service: bool) -> None:
    """Count a dispatch in the window, and close that when it is full or broken."""
    now_ns = bfqd.q.time_ns()
    if bfqd.peak_rate_samples == 0:
        open_window(bfqd, rq, now_ns)
    elif now_ns - bfqd.last_dispatch_ns > 100 * NSEC_PER_MSEC and bfqd.tot_rq_in_driver == 0:
        close_window(bfqd)
        open_window(bfqd, rq, now_ns)
    else:
        sectors = rq.nr_sectors
        bfqd.peak_rate_samples += 1
        if (bfqd.tot_rq_in_driver > 0 or now_ns - bfqd.last_completion_ns < MIN_TT_NS) and not is_seek(
            bfqd, bfqd.last_position, rq
        ):
            bfqd.sequential_samples += 1
        bfqd.tot_sectors_dispatched += sectors
        if bfqd.peak_rate_samples % 32 == 0 or sectors > bfqd.last_rq_max_sectors:
            bfqd.last_rq_max_sectors = sectors
        bfqd.delta_from_first_ns = now_ns - bfqd.first_dispatch_ns
        if bfqd.delta_from_first_ns >= RATE_REF_INTERVAL_NS:
            close_window(bfqd)
            open_window(bfqd, rq, now_ns)
    bfqd.last_position = rq.sector + rq.nr_sectors
    if is_in_service:
        bfqd.in_serv_last_pos = bfqd.last_position
    bfqd.last_dispatch_ns = now_ns


def open_window(bfqd: BfqData, rq: Request, now_ns: i64) -> None:
    """Begin a window with rq.

    Kernel: bfq_reset_rate_computation(), block/bfq-iosched.c, v6.12.
    """
    bfqd.first_dispatch_ns = now_ns
    bfqd.last_dispatch_ns = now_ns
    bfqd.peak_rate_samples = 1
    bfqd.sequential_samples = 0
    bfqd.tot_sectors_dispatched = rq.nr_sectors
    bfqd.last_rq_max_sectors = rq.nr_sectors


def close_window(bfqd: BfqData) -> None:
    """Take the window's rate into the estimate, if it has enough samples and says something.

    Kernel: bfq_update_rate_reset(), block/bfq-iosched.c, v6.12.
    """
    samples = bfqd.peak_rate_samples
    if samples < RATE_MIN_SAMPLES or bfqd.delta_from_first_ns < RATE_MIN_INTERVAL_NS:
        return
    until_completion_ns = bfqd.last_completion_ns - bfqd.first_dispatch_ns
    if until_completion_ns > bfqd.delta_from_first_ns:
        bfqd.delta_from_first_ns = until_completion_ns
    rate = (bfqd.tot_sectors_dispatched << RATE_SHIFT) // (bfqd.delta_from_first_ns // NSEC_PER_USEC)
    sequential = bfqd.sequential_samples
    if (sequential < 3 * samples >> 2 and rate <= bfqd.peak_rate) or rate > RATE_MAX:
        return
    weight = 9 * sequential // samples
    weight = weight * bfqd.delta_from_first_ns // RATE_REF_INTERVAL_NS
    if weight > 8:
        weight = 8
    divisor = 10 - weight
    rate = bfqd.peak_rate * (divisor - 1) // divisor + rate // divisor
    bfqd.peak_rate = rate if rate > 0 else 1
    if bfqd.user_max_budget == 0:
        bfqd.max_budget = calc_max_budget(bfqd)


def pause_window(bfqd: BfqData, now_ns: i64) -> None:
    """Close the window at a completion that came late: the device has not been kept busy.

    Kernel: bfq_completed_request(), block/bfq-iosched.c, v6.12.
    """
    delta_ns = now_ns - bfqd.last_completion_ns
    if delta_ns < MIN_TT_NS:
        return
    delta_us = delta_ns // NSEC_PER_USEC
    if delta_us > MIN_TT_NS // NSEC_PER_USEC and (bfqd.last_rq_max_sectors << RATE_SHIFT) // delta_us < 1 << (
        RATE_SHIFT - 10
    ):
        close_window(bfqd)
        bfqd.peak_rate_samples = 0
