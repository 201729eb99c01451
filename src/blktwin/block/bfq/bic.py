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

    def __init__(self, elevator: Elevator) -> None:
        super().__init__(elevator)
        self.sync_bfqq: BfqQueue | None = None
        self.async_bfqq: BfqQueue | None = None
        self.ioprio: i64 = -1
        self.cgroup: Cgroup | None = None
        """Whose group it was found in last; not the task's own when that has gone offline."""
        self.bfqg: BfqGroup | None = None
        self.requests: i64 = 0
        """Requests of this process that were allocated and not freed."""
        self.stable_merge_bfqq: BfqQueue | None = None
        """The queue to be merged with later, on devices where that is not done at once."""
        self.stably_merged: bool = False
        self.has_saved: bool = False
        self.saved_weight: i64 = 0
        self.saved_has_short_ttime: bool = False
        self.saved_io_bound: bool = False
        self.saved_io_start_ns: i64 = 0
        self.saved_tot_idle_ns: i64 = 0
        self.saved_ttime_last_end_ns: i64 = 0
        self.saved_ttime_samples: i64 = 0
        self.saved_ttime_total_ns: i64 = 0
        self.saved_ttime_mean_ns: i64 = 0
        self.saved_in_large_burst: bool = False
        self.was_in_burst_list: bool = False
        self.saved_wr_coeff: i64 = 1
        self.saved_last_wr_start_finish_jif: i64 = 0
        self.saved_service_from_wr: i64 = 0
        self.saved_wr_start_at_switch_to_srt_jif: i64 = LONG_AGO
        self.saved_wr_cur_max_jif: i64 = 0
        self.saved_last_serv_ns: i64 = 0
        self.saved_inject_limit: i64 = 0
        self.saved_decrease_jif: i64 = 0
