"""The request queue: its parts, the allocation of requests and tags, insertion, and who runs which hardware queue when.

The life of a request goes submit.py -> unplug.py, issue.py -> (here) -> dispatch.py -> the driver -> complete.py.
Read docs/life-of-a-request.md.
Kernel: struct request_queue and block/blk-mq.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.vecs import vec
from mypy_extensions import i64

from blktwin.block import complete, dispatch, requeue
from blktwin.block.bio import REQ_FUA, REQ_OP_FLUSH, REQ_PREFLUSH, Bio
from blktwin.block.driver import Driver
from blktwin.block.elevator import Elevator
from blktwin.block.flush import FlushQueue
from blktwin.block.hctx import HardwareQueue, SoftwareQueue
from blktwin.block.jiffies import delay_of_jiffies_ns, msecs_to_jiffies
from blktwin.block.limits import QueueLimits
from blktwin.block.machine import Machine, Task
from blktwin.block.request import (
    MQ_RQ_IDLE,
    MQ_RQ_IN_FLIGHT,
    NO_TAG,
    RQF_FLUSH_RQ,
    RQF_FLUSH_SEQ,
    RQF_USE_SCHED,
    Request,
)
from blktwin.block.stats import DiskStats
from blktwin.block.tags import Tags

if TYPE_CHECKING:
    from blktwin.block.rules import Rules
    from blktwin.block.tracepoint import Tracepoints

BLKDEV_DEFAULT_RQ: Final = 128
ELV_HASH_BUCKETS: Final = 64
ANY_CPU: Final = -1


class RequestQueue:
    """One block device's queue; name is the disk's ("nvme0n1"), capacity in sectors."""

    def __init__(
        self,
        machine: Machine,
        rules: Rules,
        driver: Driver,
        limits: QueueLimits,
        *,
        name: str,
        capacity_sectors: int,
        nr_hw_queues: int = 1,
        queue_depth: int = 128,
        elevator: Elevator | None = None,
        nr_requests: int = 0,
    ) -> None:
        self.machine: Machine = machine
        self.trace: Tracepoints = machine.trace
        self.rules: Rules = rules
        self.caches_time: bool = rules.plug_caches_time
        self.driver: Driver = driver
        self.limits: QueueLimits = limits
        self.name: str = name
        self.dev: tuple[int, int] = (0, 0)
        self.trace_slot: object | None = None
        """The tracer's own bookkeeping; nobody else's."""
        self.capacity_sectors: i64 = capacity_sectors
        self.elevator: Elevator | None = elevator
        self.last_merge: Request | None = None
        """The elevator's request that a bio was merged into last."""
        self.rqhash: list[Request | None] = [None] * ELV_HASH_BUCKETS
        """The elevator's requests by end sector, each bucket newest first (sched_merge.py)."""
        self.hash_newest: Request | None = None
        """The newest of them, until somebody looks or the next one comes."""
        self.lower_first: bool = False
        """Bios that its (stacked) driver submits from queue_rq() go before those that wait to be submitted here."""
        self.nomerges: i64 = 0
        self.rq_affinity: i64 = 1
        self.stats: DiskStats = DiskStats()
        self.nr_submitted: i64 = 0
        self.nr_started: i64 = 0
        self.nr_completed: i64 = 0
        self.nr_freed: i64 = 0
        self.queue_depth: i64 = queue_depth
        default_nr = queue_depth if elevator is None else 2 * min(queue_depth, BLKDEV_DEFAULT_RQ)
        self.nr_requests: i64 = nr_requests if nr_requests > 0 else default_nr
        self.requeue_work: requeue.RequeueWork = requeue.RequeueWork(self)
        self.hctxs: list[HardwareQueue] = [self.make_hctx(index) for index in range(nr_hw_queues)]
        self.ctx_of_cpu: vec[SoftwareQueue] = vec[SoftwareQueue]()
        self.hctx_of_cpu: vec[HardwareQueue] = vec[HardwareQueue]()
        self.softirq_done: list[complete.SoftirqDone] = [complete.SoftirqDone(self) for _ in range(machine.nr_cpus)]
        self.resource_delay: i64 = msecs_to_jiffies(dispatch.RESOURCE_DELAY_MS, machine.hz)
        self.map_cpus(machine.nr_cpus)
        if elevator is not None:
            elevator.attach(self)
            elevator.depth_updated()

    # -- set-up

    def make_hctx(self, index: int) -> HardwareQueue:
        """Build one hardware queue with its tags and preallocated requests.

        Kernel: blk_mq_init_sched(), block/blk-mq-sched.c, v6.12.
        """
        sched_tags: Tags | None = None
        if self.elevator is None:
            tags = Tags(int(min(self.queue_depth, self.nr_requests)), self.machine)
            nr = int(tags.depth)
        else:
            tags = Tags(int(self.queue_depth), self.machine)
            sched_tags = Tags(int(self.nr_requests), self.machine)
            nr = int(self.nr_requests)
        hctx = HardwareQueue(self, index, tags, sched_tags)
        hctx.requests = vec[Request]([Request(self, hctx, at) for at in range(nr)])
        hctx.fq = FlushQueue(self, hctx)
        return hctx

    def map_cpus(self, nr_cpus: int) -> None:
        """Spread the CPUs over the hardware queues in equal runs."""
        nr_hctx = len(self.hctxs)
        ctxs: list[SoftwareQueue] = []
        hctxs: list[HardwareQueue] = []
        for cpu in range(nr_cpus):
            ctx = SoftwareQueue(cpu)
            hctx = self.hctxs[cpu * nr_hctx // nr_cpus if nr_hctx <= nr_cpus else cpu]
            ctx.index = len(hctx.ctxs)
            hctx.ctxs.append(ctx)
            hctx.cpus.append(cpu)
            ctxs.append(ctx)
            hctxs.append(hctx)
        self.ctx_of_cpu = vec[SoftwareQueue](ctxs)
        self.hctx_of_cpu = vec[HardwareQueue](hctxs)

    def time_ns(self) -> i64:
        """Return the time as the block layer sees it: cached while the task holds a plug.

        Kernel: blk_time_get_ns(), block/blk.h, v6.12.
        """
        if self.caches_time and self.machine.current.plug is not None:
            plug = self.machine.current.plug
            if plug.cached_now_ns == 0:
                plug.cached_now_ns = self.machine.now_ns()
            return plug.cached_now_ns
        return self.machine.now_ns()

    # -- allocation

    def try_get_request(self, bio: Bio, task: Task) -> Request | None:
        """Allocate a request for bio on the task's CPU, or return None when no tag is free.

        Kernel: __blk_mq_alloc_requests() and blk_mq_rq_ctx_init(), block/blk-mq.c, v6.12.
        """
        cpu: i64 = task.cpu
        hctx = self.hctx_of_cpu[cpu]
        elevator = self.elevator
        if elevator is None:
            tag = hctx.tags.get(0)
            if tag < 0:
                return None
            rq = hctx.requests[tag]
            rq.tag = tag
            rq.rq_flags = 0
        else:
            sched_tags = hctx.sched_tags
            assert sched_tags is not None
            op = bio.op
            flags = bio.flags
            # Flushes are none of the elevator's business: the operation, and until 6.4 all that carries the flags.
            is_flush = op == REQ_OP_FLUSH or (
                flags & (REQ_PREFLUSH | REQ_FUA) != 0 and self.rules.flush_data_bypasses_elevator
            )
            tag = sched_tags.get(0 if is_flush else elevator.limit_depth(op, flags))
            if tag < 0:
                return None
            rq = hctx.requests[tag]
            rq.sched_tag = tag
            rq.rq_flags = 0
            rq.op = op
            rq.flags = flags
            if not is_flush:
                rq.rq_flags = RQF_USE_SCHED
                elevator.prepare_request(rq)
        rq.ctx = self.ctx_of_cpu[cpu]
        rq.submit_cpu = cpu
        plug = task.plug
        if plug is None or not self.caches_time:
            rq.start_ns = self.machine.now_ns()
        else:
            # time_ns(): the task that submits is the one that runs.
            if plug.cached_now_ns == 0:
                plug.cached_now_ns = self.machine.now_ns()
            rq.start_ns = plug.cached_now_ns
        return rq

    def get_driver_tag(self, rq: Request) -> bool:
        """Give rq a driver tag if it has none; False when none is free."""
        if rq.tag != NO_TAG:
            return True
        tag = rq.hctx.tags.get(0)
        if tag < 0:
            return False
        rq.tag = tag
        return True

    def put_driver_tag(self, rq: Request) -> None:
        """Take the driver tag back from a request that keeps its scheduler tag."""
        if rq.sched_tag != NO_TAG and rq.tag != NO_TAG:
            rq.hctx.tags.put(rq.tag)
            rq.tag = NO_TAG

    # -- insertion and running

    def insert_request(self, rq: Request, at_head: bool) -> None:
        """Insert rq where it waits for a dispatch: elevator, software queue, or (flushes) the dispatch list.

        An elevator traces the insertion itself, unless it merges rq.
        Kernel: blk_mq_insert_request(), block/blk-mq.c, v6.12.
        """
        elevator = self.elevator
        rq_flags = rq.rq_flags
        # An elevator must not meet what it does not know: it would not hear of its end.
        is_foreign = elevator is not None and not rq_flags & RQF_USE_SCHED
        is_data = rq_flags & RQF_FLUSH_SEQ != 0 and self.rules.flush_data_bypasses_elevator
        if is_foreign or is_data or rq_flags & RQF_FLUSH_RQ:
            self.bypass_insert(rq, True)
            return
        rq.is_queued = True
        if elevator is not None:
            elevator.insert_request(rq.hctx, rq, at_head)
        else:
            self.trace.rq_insert(rq)
            rq.hctx.insert_ctx(rq, at_head)

    def bypass_insert(self, rq: Request, at_head: bool) -> None:
        """Put rq on the dispatch list, past the elevator.

        Kernel: blk_mq_request_bypass_insert(), block/blk-mq.c, v6.12.
        """
        rq.is_queued = True
        if at_head:
            rq.hctx.dispatch.prepend(rq)
        else:
            rq.hctx.dispatch.append(rq)

    def has_pending(self, hctx: HardwareQueue) -> bool:
        """Say whether a run of hctx may find something."""
        if hctx.dispatch.count > 0 or hctx.nr_ctx_queued > 0:
            return True
        elevator = self.elevator
        return elevator is not None and elevator.has_work(hctx)

    def run_hw_queue(self, hctx: HardwareQueue, is_async: bool) -> None:
        """Run hctx here, or through kblockd when is_async or when this CPU does not map to it.

        Kernel: blk_mq_run_hw_queue(), block/blk-mq.c, v6.12.
        """
        if hctx.is_stopped or not self.has_pending(hctx):
            return
        if is_async or self.hctx_of_cpu[self.machine.current.cpu] is not hctx:
            self.machine.queue_work(hctx.run_work, 0, self.work_cpu(hctx))
            return
        dispatch.sched_dispatch_requests(hctx)

    def work_cpu(self, hctx: HardwareQueue) -> int:
        """Return where kblockd runs hctx: anywhere with one hardware queue, else on its CPUs in turn.

        Kernel: blk_mq_hctx_next_cpu(), block/blk-mq.c, v6.12.
        """
        if len(self.hctxs) == 1 or not hctx.cpus:
            return ANY_CPU
        return hctx.next_cpu()

    def delay_run_hw_queue(self, hctx: HardwareQueue, delay: i64) -> None:
        """Run hctx through kblockd after a delay in jiffies, unless a run is to come sooner.

        Kernel: blk_mq_delay_run_hw_queue(), block/blk-mq.c, v6.12.
        Differs: the kernel puts a run that is to come sooner off.
        """
        if not hctx.is_stopped:
            self.machine.queue_work(hctx.run_work, delay_of_jiffies_ns(self.machine, delay), self.work_cpu(hctx))

    def run_hw_queues(self, is_async: bool) -> None:
        """Run every hardware queue; of an elevator that serves all of them, one, and those with a dispatch list.

        Kernel: blk_mq_run_hw_queues(), block/blk-mq.c, v6.12.
        """
        only = self.sq_hctx()
        for hctx in self.hctxs:
            if only is None or only is hctx or hctx.dispatch.count > 0:
                self.run_hw_queue(hctx, is_async)

    def delay_run_hw_queues(self, delay: i64) -> None:
        """Run the hardware queues as run_hw_queues() does, after a delay in jiffies; pending runs stay as they are
        (Rules.delay_run_keeps).

        Kernel: blk_mq_delay_run_hw_queues(), block/blk-mq.c, v6.12.
        """
        only = self.sq_hctx()
        keeps = self.rules.delay_run_keeps
        for hctx in self.hctxs:
            if only is not None and only is not hctx and hctx.dispatch.count == 0:
                continue
            if not hctx.run_work.is_pending:
                self.delay_run_hw_queue(hctx, delay)
            elif not keeps and not hctx.is_stopped:
                machine = self.machine
                machine.postpone_work(hctx.run_work, delay_of_jiffies_ns(machine, delay), self.work_cpu(hctx))

    def sq_hctx(self) -> HardwareQueue | None:
        """Return the hardware queue that an elevator for all of them is run from: this CPU's, unless it is stopped.

        Kernel: blk_mq_get_sq_hctx(), block/blk-mq.c, v6.12.
        """
        elevator = self.elevator
        if elevator is None or not elevator.is_queue_wide:
            return None
        hctx = self.hctx_of_cpu[self.machine.current.cpu]
        return None if hctx.is_stopped else hctx

    def commit_rqs(self, hctx: HardwareQueue, nr_queued: i64) -> None:
        """Tell a driver that waits for a last request that none comes.

        Kernel: blk_mq_commit_rqs(), block/blk-mq.c, v6.12.
        """
        driver = self.driver
        if nr_queued > 0 and driver.has_commit_rqs:
            self.trace.unplug(self.machine.current, nr_queued, True)
            driver.commit_rqs(hctx)

    def kick_requeue_list(self) -> None:
        """Let kblockd insert what was requeued."""
        self.machine.queue_work(self.requeue_work, 0, ANY_CPU)

    # -- the driver's side

    def start_request(self, rq: Request) -> None:
        """Mark rq as issued to the device; the driver calls it.

        Kernel: blk_mq_start_request(), block/blk-mq.c, v6.12.
        """
        assert rq.state == MQ_RQ_IDLE, f"{self.name}: tag {rq.tag} is started twice"
        self.trace.rq_issue(rq)
        if self.elevator is not None:
            # Only a scheduler reads it (QUEUE_FLAG_STATS).
            rq.io_start_ns = self.time_ns()
        rq.state = MQ_RQ_IN_FLIGHT
        self.nr_started += 1

    def undo_start(self, rq: Request) -> None:
        """Take back a request that the driver refused."""
        requeue.undo_start(self, rq)

    def requeue_request(self, rq: Request) -> None:
        """Take back a started request and insert it again, from kblockd."""
        requeue.requeue_request(self, rq)

    def complete_request(self, rq: Request, status: i64) -> None:
        """Complete rq on the CPU where it belongs; the driver calls it."""
        complete.complete_request(self, rq, status)

    def complete_here(self, rq: Request, status: i64) -> None:
        """Complete rq on this CPU."""
        complete.complete_here(self, rq, status)

    def fail_request(self, rq: Request, status: i64) -> None:
        """End a request that the driver would not take."""
        complete.fail_request(self, rq, status)
