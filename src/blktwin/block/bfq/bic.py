"""BFQ's process context: which queues a process uses on a device, and what it takes along through merges and splits.

Kernel: struct bfq_io_cq, block/bfq-iosched.h, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from blktwin.block.bfq.queue import LONG_AGO, BfqQueue
from blktwin.block.iocontext import Icq

if TYPE_CHECKING:
    from blktwin.block.bfq.group import BfqGroup
    from blktwin.block.cgroup import Cgroup
    from blktwin.block.elevator import Elevator


class BfqIoCq(Icq):
    """One process (or the threads that share its I/O context) on one device."""

    sync_bfqq: BfqQueue | None = None
    async_bfqq: BfqQueue | None = None
    ioprio: i64 = -1
    cgroup: Cgroup | None = None
    """Whose group it was found in last; not the task's own when that has gone offline."""
    bfqg: BfqGroup | None = None
    requests: i64 = 0
    """Requests of this process that were allocated and not freed."""
    stable_merge_bfqq: BfqQueue | None = None
    """The queue to be merged with later, on devices where that is not done at once."""
    stably_merged: bool = False
    has_saved: bool = False
    saved_weight: i64 = 0
    saved_has_short_ttime: bool = False
    saved_io_bound: bool = False
    saved_io_start_ns: i64 = 0
    saved_tot_idle_ns: i64 = 0
    saved_ttime_last_end_ns: i64 = 0
    saved_ttime_samples: i64 = 0
    saved_ttime_total_ns: i64 = 0
    saved_ttime_mean_ns: i64 = 0
    saved_in_large_burst: bool = False
    was_in_burst_list: bool = False
    saved_wr_coeff: i64 = 1
    saved_last_wr_start_finish_jif: i64 = 0
    saved_service_from_wr: i64 = 0
    saved_wr_start_at_switch_to_srt_jif: i64 = LONG_AGO
    saved_wr_cur_max_jif: i64 = 0
    saved_last_serv_ns: i64 = 0
    saved_inject_limit: i64 = 0
    saved_decrease_jif: i64 = 0

    def __init__(self, elevator: Elevator) -> None:
        super().__init__(elevator)
