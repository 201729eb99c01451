"""A BFQ queue: the requests of one process (or of several that were merged), and all that is known of its habits.

Kernel: struct bfq_queue, bfq_ttime, block/bfq-iosched.h, v6.12.
Differs: no actuators; the count of processes is kept where the kernel derives it from the reference count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.bfq.entity import CLASS_IDLE, Entity, SchedData
from blktwin.block.request import FifoList, Request, SortList

if TYPE_CHECKING:
    from blktwin.block.bfq.bic import BfqIoCq
    from blktwin.block.bfq.pending import WeightCounter

LONG_AGO: Final = -(1 << 50)
"""A time in jiffies before all others (bfq_smallest_from_now)."""
HISTORY_BITS: Final = 32
SEEKY_ABOVE: Final = 19


class BfqQueue(Entity):
    """One queue; *_jif are jiffies, *_ns are ns, budgets and services are sectors."""

    bic: BfqIoCq | None = None
    """The one process context that owns it; None when shared."""
    group_path: str = "/"
    ioprio: i64 = 4
    new_ioprio: i64 = 4
    process_refs: i64 = 0
    """Process contexts that point at it, and those that will when a pending merge is done."""
    nr_requests: i64 = 0
    """Requests that were allocated for it and not freed."""
    next_rq: Request | None = None
    nr_queued: i64 = 0
    nr_queued_sync: i64 = 0
    meta_pending: i64 = 0
    dispatched: i64 = 0
    """Given to the driver and not completed."""
    max_budget: i64 = 0
    budget_timeout_jif: i64 = LONG_AGO
    """In service: when its slot ends. Else: since when it has been without requests."""
    # flags
    is_busy: bool = False
    """It has requests, or is in service."""
    wait_request: bool = False
    """The device idles for it, the timer runs."""
    non_blocking_wait_rq: bool = False
    """It expired without requests; a new one in time finds the rest of its budget."""
    fifo_expire: bool = False
    """The fifo has been looked at in this slot."""
    is_io_bound: bool = True
    in_large_burst: bool = False
    softrt_update: bool = False
    is_coop: bool = False
    """It is shared, or was."""
    split_coop: bool = False
    ttime_samples: i64 = 0
    ttime_total_ns: i64 = 0
    ttime_mean_ns: i64 = 0
    seek_history: i64 = 1
    nr_seeks: i64 = 1
    """Bits set in seek_history."""
    last_request_pos: i64 = 0
    tot_idle_ns: i64 = 0
    requests_within_timer: i64 = 0
    """Until 5.11: requests that came while the timer ran."""
    first_io_jif: i64 = 0
    split_jif: i64 = LONG_AGO
    # injection (inject.py)
    inject_limit: i64 = 0
    last_serv_ns: i64 = 0
    # wakers (waker.py)
    waker: BfqQueue | None = None
    tentative_waker: BfqQueue | None = None
    has_waker: bool = False
    """Until 5.11: the waker was seen twice."""
    nr_waker_detections: i64 = 0
    waker_detection_started_ns: i64 = 0
    # weight raising (raising.py)
    wr_coeff: i64 = 1
    wr_cur_max_jif: i64 = 0
    service_from_wr: i64 = 0
    wr_start_at_switch_to_srt_jif: i64 = LONG_AGO
    last_idle_bklogged_jif: i64 = 0
    service_from_backlogged: i64 = 0
    # places where it stands
    new_bfqq: BfqQueue | None = None
    """The queue that this one is to be merged into."""
    weight_counter: WeightCounter | None = None
    in_burst_list: bool = False
    active_prev: BfqQueue | None = None
    active_next: BfqQueue | None = None
    stable_refs: i64 = 0
    """Process contexts that remember it for a delayed stable merge."""
    is_freed: bool = False

    def __init__(
        self, serial: int, pid: int, is_sync: bool, sched_data: SchedData, parent: Entity | None, now_ns: i64, jif: i64
    ) -> None:
        super().__init__(sched_data, parent, True)
        self.serial: int = serial
        """Order of creation on its device."""
        self.pid: int = pid
        """The process, -1 when several share it."""
        self.is_sync: bool = is_sync
        self.new_io_class: i64 = self.io_class
        self.sort_list: SortList = SortList()
        self.fifo: FifoList = FifoList()
        self.just_created: bool = is_sync
        self.has_short_ttime: bool = is_sync
        # habits
        self.last_end_request_ns: i64 = now_ns + 1
        self.io_start_ns: i64 = now_ns
        self.creation_jif: i64 = jif
        self.decrease_jif: i64 = jif
        self.woken_list: list[BfqQueue] = []
        """Queues whose waker this is, the last to become busy first."""
        self.last_wr_start_finish_jif: i64 = jif
        self.soft_rt_next_start_jif: i64 = jif

    def path(self) -> str:
        """Return a name for logs: the process's number, "shared" or "async", and where."""
        who = "async" if not self.is_sync else "shared" if self.pid < 0 else str(self.pid)
        return f"{who}@{self.group_path}"

    def is_empty(self) -> bool:
        """Say whether no request waits in it."""
        return self.nr_queued == 0

    def is_seeky(self) -> bool:
        """Say whether most of its last requests were far from the one before.

        Kernel: BFQQ_SEEKY(), block/bfq-iosched.c, v6.12.
        """
        return self.nr_seeks > SEEKY_ABOVE

    def is_totally_seeky(self) -> bool:
        """Say whether all of them were.

        Kernel: BFQQ_TOTALLY_SEEKY(), block/bfq-iosched.c, v6.12.
        """
        return self.nr_seeks == HISTORY_BITS

    def push_seek(self, is_seek: bool) -> None:
        """Remember whether the newest request was far from the one before."""
        history = self.seek_history
        if history & (1 << (HISTORY_BITS - 1)):
            self.nr_seeks -= 1
        history = (history << 1) & 0xFFFFFFFF
        if is_seek:
            history |= 1
            self.nr_seeks += 1
        self.seek_history = history

    def is_class_idle(self) -> bool:
        """Say whether it is of the idle class."""
        return self.io_class == CLASS_IDLE

    def budget_left(self) -> i64:
        """Return the sectors left in this slot."""
        return self.budget - self.service


def weight_of_ioprio(level: i64) -> i64:
    """Return the weight of an I/O priority level, 80 for 0 down to 10 for 7.

    Kernel: bfq_ioprio_to_weight(), block/bfq-wf2q.c, v6.12.
    """
    return (8 - level) * 10


def ioprio_of_weight(weight: i64, is_scaled: bool) -> i64:
    """Return the I/O priority level of a weight (is_scaled: since 5.12).

    Kernel: bfq_weight_to_ioprio(), block/bfq-wf2q.c, v6.12.
    """
    level = 8 - weight // 10 if is_scaled else 80 - weight
    return level if level > 0 else 0
