"""The request queue: allocation, insertion, running, completion and freeing of requests.

The life of a request goes submit.py -> (here) -> dispatch.py -> the driver -> (here). Read docs/life-of-a-request.md.
Kernel: struct request_queue and block/blk-mq.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block import dispatch
from blktwin.block.bio import (
    REQ_OP_DISCARD,
    REQ_OP_FLUSH,
    REQ_OP_READ,
    Bio,
)
from blktwin.block.driver import Driver
from blktwin.block.elevator import Elevator
from blktwin.block.flush import FlushQueue
from blktwin.block.hctx import HardwareQueue, SoftwareQueue
from blktwin.block.limits import QueueLimits
from blktwin.block.machine import Machine, Task, Work
from blktwin.block.request import (
    MQ_RQ_COMPLETE,
    MQ_RQ_IDLE,
    MQ_RQ_IN_FLIGHT,
    NO_TAG,
    RQF_FLUSH_RQ,
    RQF_FLUSH_SEQ,
    RQF_STARTED,
    RQF_USE_SCHED,
    Request,
    RequestList,
)
from blktwin.block.stats import STAT_DISCARD, STAT_FLUSH, STAT_READ, STAT_WRITE, DiskStats
from blktwin.block.tags import Tags

if TYPE_CHECKING:
    from blktwin.block.rules import Rules
    from blktwin.block.tracepoint import Tracepoints

SCHED_DEPTH_MAX: Final = 128
ANY_CPU: Final = -1


class RequeueWork(Work):
    """Re-inserts what was requeued, from kblockd."""

    def __init__(self, q: RequestQueue) -> None:
        super().__init__()
        self.q: RequestQueue = q

    def run(self) -> None:
        """Insert all requeued requests at the head, and run the queues."""
        self.q.run_requeue_list()


class SoftirqDone(Work):
    """One CPU's completed requests, ended in its BLOCK softirq (struct llist_head blk_cpu_done)."""

    def __init__(self, q: RequestQueue) -> None:
        super().__init__()
        self.q: RequestQueue = q
        self.rq_list: RequestList = RequestList()

    def run(self) -> None:
        """End all that came together, in order."""
        rq = self.rq_list.pop()
        while rq is not None:
            self.q.complete_here(rq, rq.status)
            rq = self.rq_list.pop()


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
        self.driver: Driver = driver
        self.limits: QueueLimits = limits
        self.name: str = name
        self.dev: tuple[int, int] = (0, 0)
        self.capacity_sectors: i64 = capacity_sectors
        self.elevator: Elevator | None = elevator
        self.nomerges: i64 = 0
        self.rq_affinity: i64 = 1
        self.stats: DiskStats = DiskStats()
        self.nr_submitted: i64 = 0
        self.nr_started: i64 = 0
        self.nr_completed: i64 = 0
        self.nr_freed: i64 = 0
        self.rq_serial: i64 = 0
        self.queue_depth: i64 = queue_depth
        default_nr = queue_depth if elevator is None else 2 * min(queue_depth, SCHED_DEPTH_MAX)
        self.nr_requests: i64 = nr_requests if nr_requests > 0 else default_nr
        self.requeue_list: RequestList = RequestList()
        self.requeue_work: RequeueWork = RequeueWork(self)
        self.hctxs: list[HardwareQueue] = []
        self.ctx_of_cpu: list[SoftwareQueue] = []
        self.hctx_of_cpu: list[HardwareQueue] = []
        self.softirq_done: list[SoftirqDone] = [SoftirqDone(self) for _ in range(machine.nr_cpus)]
        for index in range(nr_hw_queues):
            self.hctxs.append(self.make_hctx(index))
        self.map_cpus(machine.nr_cpus)
        if elevator is not None:
            elevator.attach(self)

    # -- set-up

    def make_hctx(self, index: int) -> HardwareQueue:
        """Build one hardware queue with its tags and preallocated requests."""
        sched_tags: Tags | None = None
        if self.elevator is None:
            tags = Tags(int(min(self.queue_depth, self.nr_requests)), self.machine)
            nr = int(tags.depth)
        else:
            tags = Tags(int(self.queue_depth), self.machine)
            if index > 0:
                sched_tags = self.hctxs[0].sched_tags
            else:
                sched_tags = Tags(int(self.nr_requests), self.machine)
            nr = int(self.nr_requests)
        hctx = HardwareQueue(self, index, tags, sched_tags)
        if self.elevator is not None and index > 0:
            hctx.requests = self.hctxs[0].requests
        else:
            hctx.requests = [Request(self, hctx, at) for at in range(nr)]
        hctx.fq = FlushQueue(self, hctx)
        return hctx

    def map_cpus(self, nr_cpus: int) -> None:
        """Spread the CPUs over the hardware queues in equal runs."""
        nr_hctx = len(self.hctxs)
        for cpu in range(nr_cpus):
            ctx = SoftwareQueue(cpu)
            hctx = self.hctxs[cpu * nr_hctx // nr_cpus if nr_hctx <= nr_cpus else cpu]
            hctx.ctxs.append(ctx)
            hctx.cpus.append(cpu)
            self.ctx_of_cpu.append(ctx)
            self.hctx_of_cpu.append(hctx)

    def time_ns(self) -> i64:
        """Return the time as the block layer sees it: cached while the task holds a plug.

        Kernel: blk_time_get_ns(), block/blk.h, v6.12.
        """
        if self.rules.plug_caches_time:
            plug = self.machine.current.plug
            if plug is not None:
                if plug.cached_now_ns == 0:
                    plug.cached_now_ns = self.machine.now_ns()
                return plug.cached_now_ns
        return self.machine.now_ns()

    # -- allocation

    def try_get_request(self, bio: Bio, task: Task) -> Request | None:
        """Allocate a request for bio on the task's CPU, or return None when no tag is free."""
        hctx = self.hctx_of_cpu[task.cpu]
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
            shallow: i64 = 0
            if bio.op != REQ_OP_FLUSH:
                shallow = elevator.limit_depth(bio.op, bio.flags)
            tag = sched_tags.get(shallow)
            if tag < 0:
                return None
            rq = hctx.requests[tag]
            rq.sched_tag = tag
            rq.rq_flags = RQF_USE_SCHED
            rq.hctx = hctx
        rq.ctx = self.ctx_of_cpu[task.cpu]
        rq.submit_cpu = task.cpu
        rq.start_ns = self.time_ns()
        self.rq_serial += 1
        rq.serial = self.rq_serial
        return rq

    # -- insertion and running

    def insert_request(self, rq: Request, at_head: bool) -> None:
        """Insert rq where it waits for a dispatch: elevator, software queue, or (flushes) the dispatch list.

        Kernel: blk_mq_insert_request(), block/blk-mq.c, v6.12.
        """
        hctx = rq.hctx
        if rq.rq_flags & RQF_FLUSH_RQ:
            self.bypass_insert(rq, at_head)
            return
        if rq.rq_flags & RQF_FLUSH_SEQ and self.rules.flush_data_bypasses_elevator:
            self.bypass_insert(rq, at_head)
            return
        self.trace.rq_insert(rq)
        elevator = self.elevator
        if elevator is not None:
            rq.is_queued = True
            elevator.insert_request(hctx, rq, at_head)
        else:
            hctx.insert_ctx(rq, at_head)

    def bypass_insert(self, rq: Request, at_head: bool) -> None:
        """Put rq on the dispatch list, past the elevator."""
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

    def run_from_work(self, hctx: HardwareQueue) -> None:
        """Run hctx in kblockd."""
        if not hctx.is_stopped:
            dispatch.sched_dispatch_requests(hctx)

    def work_cpu(self, hctx: HardwareQueue) -> int:
        """Return where kblockd runs hctx: anywhere with one hardware queue, else on its first CPU."""
        if len(self.hctxs) == 1:
            return ANY_CPU
        return hctx.cpus[0] if hctx.cpus else ANY_CPU

    def delay_run_hw_queue(self, hctx: HardwareQueue, delay_ns: i64) -> None:
        """Run hctx through kblockd after delay_ns, unless a run is pending already."""
        if not hctx.is_stopped:
            self.machine.queue_work(hctx.run_work, delay_ns, self.work_cpu(hctx))

    def run_hw_queues(self, is_async: bool) -> None:
        """Run every hardware queue; with an elevator that owns all, one is enough."""
        if self.elevator is not None:
            self.run_hw_queue(self.hctx_of_cpu[self.machine.current.cpu], is_async)
            return
        for hctx in self.hctxs:
            self.run_hw_queue(hctx, is_async)

    def requeue_request(self, rq: Request) -> None:
        """Take back a started request and hand it to the requeue work.

        Kernel: blk_mq_requeue_request(), block/blk-mq.c, v6.12.
        """
        self.undo_start(rq)
        elevator = self.elevator
        if elevator is not None and rq.rq_flags & RQF_USE_SCHED:
            elevator.requeue_request(rq)
        self.add_to_requeue_list(rq)

    def add_to_requeue_list(self, rq: Request) -> None:
        """Let kblockd insert rq at the head."""
        rq.is_queued = True
        self.requeue_list.append(rq)
        self.machine.queue_work(self.requeue_work, 0, ANY_CPU)

    def run_requeue_list(self) -> None:
        """Insert all requeued requests at the head, in order, and run the queues."""
        waiting = RequestList()
        waiting.take_all(self.requeue_list)
        reverse = RequestList()
        rq = waiting.pop()
        while rq is not None:
            reverse.prepend(rq)
            rq = waiting.pop()
        rq = reverse.pop()
        while rq is not None:
            self.insert_request(rq, True)
            rq = reverse.pop()
        self.run_hw_queues(False)

    def undo_start(self, rq: Request) -> None:
        """Make a request that the driver refused or gave back as if never started."""
        self.trace.rq_requeue(rq)
        self.put_driver_tag(rq)
        if rq.state != MQ_RQ_IDLE:
            rq.state = MQ_RQ_IDLE
            rq.rq_flags &= ~RQF_STARTED
            self.nr_started -= 1

    # -- tags of the driver

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

    # -- start and end

    def start_request(self, rq: Request) -> None:
        """Mark rq as issued to the device; the driver calls it.

        Kernel: blk_mq_start_request(), block/blk-mq.c, v6.12.
        """
        assert rq.state == MQ_RQ_IDLE, f"{self.name}: tag {rq.tag} is started twice"
        rq.state = MQ_RQ_IN_FLIGHT
        rq.rq_flags |= RQF_STARTED
        self.nr_started += 1
        self.trace.rq_issue(rq)
        rq.io_start_ns = self.time_ns()

    def complete_request(self, rq: Request, status: i64) -> None:
        """Complete rq where it belongs: here, in this CPU's softirq, or in that of the submitter's CPU.

        Kernel: blk_mq_complete_request(), block/blk-mq.c, v6.12.
        """
        cpu = self.machine.current.cpu
        target = self.completion_cpu(rq, cpu)
        if target == cpu and len(self.hctxs) > 1:
            self.complete_here(rq, status)
            return
        rq.status = status
        done = self.softirq_done[target]
        done.rq_list.append(rq)
        self.machine.raise_softirq(done, target)

    def completion_cpu(self, rq: Request, cpu: int) -> int:
        """Return where rq completes: rq_affinity 0 here, 1 in the submitter's cache domain, 2 on its very CPU.

        Kernel: blk_mq_complete_need_ipi(), block/blk-mq.c, v6.12.
        """
        submitter = int(rq.submit_cpu)
        if self.rq_affinity == 0 or submitter == cpu or len(rq.hctx.cpus) == 1:
            return cpu
        if self.rq_affinity < 2 and self.machine.shares_cache(cpu, submitter):
            return cpu
        return submitter

    def complete_here(self, rq: Request, status: i64) -> None:
        """End a started request on this CPU; drivers without an interrupt of their own call it directly.

        Kernel: blk_mq_end_request(), block/blk-mq.c, v6.12.
        """
        assert rq.state == MQ_RQ_IN_FLIGHT, f"{self.name}: tag {rq.tag} completes but is not in flight"
        rq.state = MQ_RQ_COMPLETE
        self.nr_completed += 1
        self.end_request(rq, status)

    def end_request(self, rq: Request, status: i64) -> None:
        """End every bio of rq with status, count it, and free it."""
        self.trace.rq_complete(rq, status, rq.nr_sectors << 9)
        now_ns = self.machine.now_ns()
        elevator = self.elevator
        if rq.rq_flags & (RQF_FLUSH_SEQ | RQF_FLUSH_RQ):
            if elevator is not None and rq.rq_flags & RQF_USE_SCHED:
                elevator.completed_request(rq, now_ns)
            fq = rq.hctx.fq
            assert fq is not None
            fq.end_io(rq, status)
            return
        self.stats.done(stat_kind(rq), rq.nr_sectors, rq.start_ns, now_ns)
        self.end_bios(rq, status)
        if elevator is not None and rq.rq_flags & RQF_USE_SCHED:
            elevator.completed_request(rq, now_ns)
        self.free_request(rq)

    def end_bios(self, rq: Request, status: i64) -> None:
        """End the bios of rq in order."""
        bio = rq.bio
        rq.bio = None
        rq.bio_tail = None
        while bio is not None:
            following = bio.next
            bio.next = None
            bio.endio(status)
            bio = following

    def free_request(self, rq: Request) -> None:
        """Give the tags back and restart the queue if a run had to stop for one.

        Kernel: __blk_mq_free_request(), block/blk-mq.c, v6.12.
        """
        hctx = rq.hctx
        elevator = self.elevator
        if elevator is not None and rq.rq_flags & RQF_USE_SCHED:
            elevator.finish_request(rq)
        rq.state = MQ_RQ_IDLE
        rq.rq_flags = 0
        rq.cgroup = None
        self.nr_freed += 1
        tag = rq.tag
        sched_tag = rq.sched_tag
        rq.tag = NO_TAG
        rq.sched_tag = NO_TAG
        if tag != NO_TAG:
            hctx.tags.put(tag)
        if sched_tag != NO_TAG:
            sched_tags = hctx.sched_tags
            assert sched_tags is not None
            sched_tags.put(sched_tag)
        if hctx.needs_restart:
            hctx.needs_restart = False
            self.run_hw_queue(hctx, True)

    def end_sequenced(self, rq: Request, status: i64) -> None:
        """End a member of a flush sequence after its last step."""
        self.trace.rq_complete(rq, status, 0)
        self.stats.done(stat_kind(rq), rq.nr_sectors, rq.start_ns, self.machine.now_ns())
        self.end_bios(rq, status)
        self.free_request(rq)

    def drop_merged(self, rq: Request) -> None:
        """Free a waiting request whose bios went to its neighbour."""
        rq.is_queued = False
        self.stats.in_flight -= 1
        self.free_request(rq)


def stat_kind(rq: Request) -> i64:
    """Return the row of DiskStats that counts rq."""
    op = rq.op
    if op == REQ_OP_READ:
        return STAT_READ
    if op == REQ_OP_DISCARD:
        return STAT_DISCARD
    if rq.nr_sectors == 0:
        return STAT_FLUSH
    return STAT_WRITE

