"""What BFQ knows of one device. Modules of this folder are functions over it, as in the kernel's files.

Kernel: struct bfq_data, block/bfq-iosched.h; bfq_init_queue(), block/bfq-iosched.c, v6.12.
Differs: no actuators; no out-of-memory queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.vecs import vec
from mypy_extensions import i64

from blktwin.block.bfq.group import BfqGroup
from blktwin.block.bfq.log import BfqLog
from blktwin.block.bfq.queue import BfqQueue
from blktwin.block.jiffies import NSEC_PER_SEC, msecs_to_jiffies
from blktwin.block.machine import Machine, Timer
from blktwin.block.request import Request, RequestList

if TYPE_CHECKING:
    from blktwin.block.bfq.pending import WeightCounter
    from blktwin.block.cgroup import Cgroup
    from blktwin.block.queue import RequestQueue

NSEC_PER_MSEC: Final = 1_000_000
NSEC_PER_USEC: Final = 1_000
MIN_TT_NS: Final = 2 * NSEC_PER_MSEC
"""The shortest useful idling, and the longest pause inside a sequence."""
SLICE_IDLE_NS: Final = 8_000_000
FIFO_EXPIRE_SYNC_NS: Final = 125_000_000
FIFO_EXPIRE_ASYNC_NS: Final = 250_000_000
BACK_MAX_SECTORS: Final = 32768
SECT_THR_NONROT: Final = 64
"""From this size on a request is no seek on a device without heads."""
SEEK_THR_SECTORS: Final = 800
RATE_SHIFT: Final = 16
DEFAULT_MAX_BUDGET: Final = 16384
STATS_MIN_BUDGETS: Final = 194
REF_RATE_ROT: Final = 14000
REF_RATE_NONROT: Final = 33000
REF_WR_MS_ROT: Final = 7000
REF_WR_MS_NONROT: Final = 2500


class BfqData:
    """One device's BFQ; *_jif are jiffies, *_ns are ns."""

    nr_created: int = 0
    last_jif: i64 = 0
    """The last reading of jif(), and the time in which it holds."""
    jif_from_ns: i64 = 0
    jif_until_ns: i64 = 0
    num_groups_with_pending_reqs: i64 = 0
    tot_busy_queues: i64 = 0
    wr_busy_queues: i64 = 0
    queued: i64 = 0
    tot_rq_in_driver: i64 = 0
    max_rq_in_driver: i64 = 0
    hw_tag: i64 = -1
    """Whether the device queues commands: -1 not known yet, 0, 1."""
    hw_tag_samples: i64 = 0
    # the slot
    in_service_queue: BfqQueue | None = None
    budgets_assigned: i64 = 0
    last_budget_start_ns: i64 = 0
    last_idling_start_ns: i64 = 0
    last_idling_start_jif: i64 = 0
    # positions, and what injection watches
    last_position: i64 = 0
    in_serv_last_pos: i64 = 0
    last_completion_ns: i64 = 0
    last_completed_rq_bfqq: BfqQueue | None = None
    wait_dispatch: bool = False
    """The next request of the queue in service is to be timed."""
    waited_rq: Request | None = None
    """The request that is being timed."""
    rqs_injected: bool = False
    last_empty_occupied_ns: i64 = 0
    active_head: BfqQueue | None = None
    """Queues in active trees, the last to enter first."""
    # rate.py
    peak_rate_samples: i64 = 0
    sequential_samples: i64 = 0
    tot_sectors_dispatched: i64 = 0
    last_rq_max_sectors: i64 = 0
    first_dispatch_ns: i64 = 0
    last_dispatch_ns: i64 = 0
    delta_from_first_ns: i64 = 0
    burst_size: i64 = 0
    large_burst: bool = False
    last_ins_in_burst_jif: i64 = 0
    burst_parent: BfqGroup | None = None
    # tunables (tunables.py)
    fifo_expire_sync_ns: i64 = FIFO_EXPIRE_SYNC_NS
    fifo_expire_async_ns: i64 = FIFO_EXPIRE_ASYNC_NS
    back_max_sectors: i64 = BACK_MAX_SECTORS
    back_penalty: i64 = 2
    slice_idle_ns: i64 = SLICE_IDLE_NS
    user_max_budget: i64 = 0
    max_budget: i64 = DEFAULT_MAX_BUDGET
    strict_guarantees: bool = False
    low_latency: bool = True

    def __init__(self, q: RequestQueue, idle_timer: Timer, root: Cgroup, log: BfqLog | None) -> None:
        self.q: RequestQueue = q
        self.machine: Machine = q.machine
        self.hz: i64 = q.machine.hz
        self.log: BfqLog | None = log
        rules = q.rules
        self.groups_rule: i64 = rules.bfq_groups
        self.group_threshold: i64 = rules.bfq_group_threshold
        self.one_queue_idles: bool = rules.bfq_one_queue_idles
        self.preempts_unneeded: bool = rules.bfq_preempts_unneeded
        self.stable_merge: bool = rules.bfq_stable_merge
        self.new_wakers: bool = rules.bfq_new_wakers
        self.io_bound_by_time: bool = rules.bfq_io_bound_by_time
        self.raises_default_weight: bool = rules.bfq_raises_default_weight
        self.root_group: BfqGroup = BfqGroup(root, None, q.machine.now_ns() * self.hz // NSEC_PER_SEC)
        self.queues: list[BfqQueue] = []
        """All live queues, the oldest first."""
        # pending.py
        self.weights: list[WeightCounter] = []
        self.last_counter: WeightCounter | None = None
        """The one that was counted up last."""
        self.busy_queues: vec[i64] = vec[i64]([0, 0, 0])
        # requests
        self.dispatch: RequestList = RequestList()
        """Requests that go past the queues."""
        self.is_nonrot: bool = not q.limits.is_rotational
        self.nonrot_with_queueing: bool = self.is_nonrot
        self.idle_timer: Timer = idle_timer
        ref_rate: i64 = REF_RATE_ROT
        ref_wr_ms = REF_WR_MS_ROT
        if self.is_nonrot:
            ref_rate = REF_RATE_NONROT
            ref_wr_ms = REF_WR_MS_NONROT
        self.peak_rate: i64 = ref_rate * 2 // 3
        """Sectors per us, shifted left by RATE_SHIFT."""
        self.rate_dur_prod: i64 = ref_rate * msecs_to_jiffies(ref_wr_ms, q.machine.hz)
        # bursts (burst.py)
        self.burst_list: list[BfqQueue] = []
        # times in jiffies
        hz = q.machine.hz
        self.wr_rt_max_jif: i64 = msecs_to_jiffies(300, hz)
        self.wr_min_idle_jif: i64 = msecs_to_jiffies(2000, hz)
        self.wr_min_inter_arr_async_jif: i64 = msecs_to_jiffies(500, hz)
        self.burst_interval_jif: i64 = msecs_to_jiffies(180, hz)
        self.late_stable_merging_jif: i64 = msecs_to_jiffies(600, hz)
        self.merge_time_limit_jif: i64 = hz // 10
        self.idle_class_timeout_jif: i64 = hz // 5
        self.default_timeout_jif: i64 = hz // 8
        self.default_timeout_ms: i64 = hz // 8 * 1000 // hz
        self.wr_duration_min_jif: i64 = msecs_to_jiffies(3000, hz)
        self.wr_duration_max_jif: i64 = msecs_to_jiffies(25000, hz)
        self.jif_1s: i64 = msecs_to_jiffies(1000, hz)
        self.jif_10s: i64 = msecs_to_jiffies(10000, hz)
        self.jif_100ms: i64 = msecs_to_jiffies(100, hz)
        self.jif_10ms: i64 = msecs_to_jiffies(10, hz)
        self.timeout_jif: i64 = self.default_timeout_jif
        self.timeout_ms: i64 = self.default_timeout_ms

    def now_ns(self) -> i64:
        """Return the time that BFQ sees."""
        return self.q.time_ns()

    def jif(self) -> i64:
        """Return the time in jiffies."""
        now_ns = self.machine.now_ns()
        if now_ns >= self.jif_until_ns or now_ns < self.jif_from_ns:
            hz = self.hz
            jif = now_ns * hz // NSEC_PER_SEC
            self.last_jif = jif
            self.jif_from_ns = (jif * NSEC_PER_SEC + hz - 1) // hz
            self.jif_until_ns = ((jif + 1) * NSEC_PER_SEC + hz - 1) // hz
        return self.last_jif

    def schedule_dispatch(self) -> None:
        """Have the hardware queues run, if there is something to give.

        Kernel: bfq_schedule_dispatch(), block/bfq-iosched.c, v6.12.
        """
        if self.queued != 0:
            self.q.run_hw_queues(True)

    def assigned_max_budget(self) -> i64:
        """Return the largest budget: the default until the device is known.

        Kernel: bfq_max_budget(), block/bfq-iosched.c, v6.12.
        """
        if self.budgets_assigned < STATS_MIN_BUDGETS:
            return DEFAULT_MAX_BUDGET
        return self.max_budget

    def assigned_min_budget(self) -> i64:
        """Return the smallest budget.

        Kernel: bfq_min_budget(), block/bfq-iosched.c, v6.12.
        """
        return self.assigned_max_budget() // 32
