"""What a process keeps of its own queue while it shares one, and gets back when it is separated.

Kernel: bfq_bfqq_save_state(), bfq_bfqq_resume_state(), block/bfq-iosched.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blktwin.block.bfq.queue import LONG_AGO
from blktwin.block.bfq.raising import WR_COEFF, back_to_interactive, set_coeff, wr_duration

if TYPE_CHECKING:
    from blktwin.block.bfq.bic import BfqIoCq
    from blktwin.block.bfq.data import BfqData
    from blktwin.block.bfq.queue import BfqQueue


def save_state(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """Save the state of a queue with its one process; a shared queue's is nobody's."""
    bic = bfqq.bic
    if bic is None:
        return
    bic.has_saved = True
    bic.saved_last_serv_ns = bfqq.last_serv_ns
    bic.saved_inject_limit = bfqq.inject_limit
    bic.saved_decrease_jif = bfqq.decrease_jif
    bic.saved_weight = bfqq.orig_weight
    bic.saved_ttime_last_end_ns = bfqq.last_end_request_ns
    bic.saved_ttime_samples = bfqq.ttime_samples
    bic.saved_ttime_total_ns = bfqq.ttime_total_ns
    bic.saved_ttime_mean_ns = bfqq.ttime_mean_ns
    bic.saved_has_short_ttime = bfqq.has_short_ttime
    bic.saved_io_bound = bfqq.is_io_bound
    bic.saved_io_start_ns = bfqq.io_start_ns
    bic.saved_tot_idle_ns = bfqq.tot_idle_ns
    bic.saved_in_large_burst = bfqq.in_large_burst
    bic.was_in_burst_list = bfqq.in_burst_list
    if bfqq.just_created and not bfqq.in_large_burst and bfqd.low_latency:
        # Merged before its first request: alone it would have been raised by that.
        bic.saved_wr_coeff = WR_COEFF
        bic.saved_wr_start_at_switch_to_srt_jif = LONG_AGO
        bic.saved_wr_cur_max_jif = wr_duration(bfqd)
        bic.saved_last_wr_start_finish_jif = bfqd.jif()
    else:
        bic.saved_wr_coeff = bfqq.wr_coeff
        bic.saved_wr_start_at_switch_to_srt_jif = bfqq.wr_start_at_switch_to_srt_jif
        bic.saved_service_from_wr = bfqq.service_from_wr
        bic.saved_last_wr_start_finish_jif = bfqq.last_wr_start_finish_jif
        bic.saved_wr_cur_max_jif = bfqq.wr_cur_max_jif


def resume_state(bfqd: BfqData, bfqq: BfqQueue, bic: BfqIoCq, has_existed: bool) -> None:
    """Give a process's own queue the state that was saved; has_existed: it was the shared one."""
    is_busy = has_existed and bfqq.is_busy
    bfqq.has_short_ttime = bic.saved_has_short_ttime
    bfqq.is_io_bound = bic.saved_io_bound
    bfqq.last_serv_ns = bic.saved_last_serv_ns
    bfqq.inject_limit = bic.saved_inject_limit
    bfqq.decrease_jif = bic.saved_decrease_jif
    bfqq.new_weight = bic.saved_weight
    bfqq.last_end_request_ns = bic.saved_ttime_last_end_ns
    bfqq.ttime_samples = bic.saved_ttime_samples
    bfqq.ttime_total_ns = bic.saved_ttime_total_ns
    bfqq.ttime_mean_ns = bic.saved_ttime_mean_ns
    bfqq.io_start_ns = bic.saved_io_start_ns
    bfqq.tot_idle_ns = bic.saved_tot_idle_ns
    old_coeff = bfqq.wr_coeff
    if bfqd.low_latency:
        set_coeff(bfqd, bfqq, bic.saved_wr_coeff)
    bfqq.service_from_wr = bic.saved_service_from_wr
    bfqq.wr_start_at_switch_to_srt_jif = bic.saved_wr_start_at_switch_to_srt_jif
    bfqq.last_wr_start_finish_jif = bic.saved_last_wr_start_finish_jif
    bfqq.wr_cur_max_jif = bic.saved_wr_cur_max_jif
    jif = bfqd.jif()
    if bfqq.wr_coeff > 1 and (bfqq.in_large_burst or bfqq.last_wr_start_finish_jif + bfqq.wr_cur_max_jif < jif):
        if (
            bfqq.wr_cur_max_jif == bfqd.wr_rt_max_jif
            and not bfqq.in_large_burst
            and bfqq.wr_start_at_switch_to_srt_jif + wr_duration(bfqd) >= jif
        ):
            back_to_interactive(bfqd, bfqq)
        else:
            set_coeff(bfqd, bfqq, 1)
    bfqq.prio_changed = True
    if not is_busy:
        return
    if old_coeff == 1 and bfqq.wr_coeff > 1:
        bfqd.wr_busy_queues += 1
    elif old_coeff > 1 and bfqq.wr_coeff == 1:
        bfqd.wr_busy_queues -= 1
