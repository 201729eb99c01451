"""The end of a request: on which CPU it completes, how its bios end, and how it is freed.

Kernel: block/blk-mq.c, v6.12.
Differs: each queue has completion lists of its own, where the kernel's are per CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from blktwin.block.bio import BLK_STS_OK
from blktwin.block.machine import Work
from blktwin.block.request import (
    MQ_RQ_COMPLETE,
    MQ_RQ_IDLE,
    MQ_RQ_IN_FLIGHT,
    NO_TAG,
    RQF_FLUSH_RQ,
    RQF_FLUSH_SEQ,
    RQF_USE_SCHED,
    Request,
    RequestList,
)
from blktwin.block.stats import stat_group

if TYPE_CHECKING:
    from blktwin.block.queue import RequestQueue


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
            complete_here(self.q, rq, rq.status)
            rq = self.rq_list.pop()


def complete_request(q: RequestQueue, rq: Request, status: i64) -> None:
    """Complete rq where it belongs: here, in this CPU's softirq, or in that of the submitter's CPU.

    Kernel: blk_mq_complete_request_remote(), block/blk-mq.c, v6.12.
    """
    cpu = q.machine.current.cpu
    target = cpu
    if len(rq.hctx.cpus) != 1 or rq.submit_cpu != cpu or not q.rules.complete_one_ctx_here:
        if needs_ipi(q, rq, cpu):
            target = int(rq.submit_cpu)
        elif len(q.hctxs) > 1:
            complete_here(q, rq, status)
            return
        rq.status = status
        done = q.softirq_done[target]
        done.rq_list.append(rq)
        q.machine.raise_softirq(done, target)
        return
    complete_here(q, rq, status)


def needs_ipi(q: RequestQueue, rq: Request, cpu: int) -> bool:
    """Say whether rq completes on its submitter's CPU: rq_affinity 0 never, 1 from another cache domain, 2 always.

    Kernel: blk_mq_complete_need_ipi(), block/blk-mq.c, v6.12.
    """
    submitter = int(rq.submit_cpu)
    if q.rq_affinity == 0 or submitter == cpu:
        return False
    if q.rq_affinity > 1:
        return True
    machine = q.machine
    if not machine.shares_cache(cpu, submitter):
        return True
    capacity = machine.cpu_capacity
    return q.rules.complete_checks_capacity and capacity[cpu] != capacity[submitter]


def complete_here(q: RequestQueue, rq: Request, status: i64) -> None:
    """End a started request on this CPU; drivers without an interrupt of their own call it directly.

    Kernel: blk_mq_end_request(), block/blk-mq.c, v6.12.
    """
    assert rq.state == MQ_RQ_IN_FLIGHT, f"{q.name}: tag {rq.tag} completes but is not in flight"
    rq.state = MQ_RQ_COMPLETE
    q.nr_completed += 1
    end_request(q, rq, status)


def fail_request(q: RequestQueue, rq: Request, status: i64) -> None:
    """End a request that the driver would not take, whether it had started it or not."""
    if rq.state == MQ_RQ_IN_FLIGHT:
        complete_here(q, rq, status)
    else:
        end_request(q, rq, status)


def end_request(q: RequestQueue, rq: Request, status: i64) -> None:
    """End every bio of rq with status, count it, and free it; a part of a flush sequence goes on there.

    Kernel: blk_update_request() and __blk_mq_end_request(), block/blk-mq.c, v6.12.
    """
    q.trace.rq_complete(rq, status, rq.nr_sectors << 9)
    if rq.rq_flags & (RQF_FLUSH_SEQ | RQF_FLUSH_RQ):
        if rq.rq_flags & RQF_USE_SCHED:
            finish_request(q, rq, q.time_ns())
        fq = rq.hctx.fq
        assert fq is not None
        fq.end_io(rq, status)
        return
    end_bios(rq, status)
    now_ns = q.time_ns()
    if rq.rq_flags & RQF_USE_SCHED:
        finish_request(q, rq, now_ns)
    q.stats.done(stat_group(rq.op), rq.nr_sectors, rq.start_ns, now_ns)
    free_request(q, rq)


def end_part(q: RequestQueue, rq: Request, nr_sectors: i64) -> None:
    """End the first nr_sectors of a started request, less than it has; the rest is to be requeued.

    Kernel: blk_update_request(), block/blk-mq.c, v6.12.
    """
    assert 0 < nr_sectors < rq.nr_sectors, f"{q.name}: a part of {nr_sectors} sectors of {rq.nr_sectors}"
    q.trace.rq_complete(rq, BLK_STS_OK, nr_sectors << 9)
    rq.sector += nr_sectors
    rq.nr_sectors -= nr_sectors
    bio = rq.bio
    while bio is not None and bio.nr_sectors <= nr_sectors:
        nr_sectors -= bio.nr_sectors
        following = bio.next
        bio.next = None
        rq.bio = following
        bio.endio(BLK_STS_OK)
        bio = following
    assert bio is not None
    bio.sector += nr_sectors
    bio.nr_sectors -= nr_sectors
    bio.data_at += nr_sectors << 9


def end_sequenced(q: RequestQueue, rq: Request, status: i64) -> None:
    """End a member of a flush sequence after its last step; what it wrote has been traced before.

    Kernel: blk_flush_restore_request() and blk_mq_end_request(), block/blk-flush.c and blk-mq.c, v6.12.
    """
    q.trace.rq_complete(rq, status, 0)
    end_bios(rq, status)
    now_ns = q.time_ns()
    if rq.rq_flags & RQF_USE_SCHED:
        finish_request(q, rq, now_ns)
    q.stats.done(stat_group(rq.op), rq.nr_sectors, rq.start_ns, now_ns)
    free_request(q, rq)


def end_bios(rq: Request, status: i64) -> None:
    """End the bios of rq in order."""
    bio = rq.bio
    rq.bio = None
    rq.bio_tail = None
    while bio is not None:
        following = bio.next
        bio.next = None
        bio.endio(status)
        bio = following


def finish_request(q: RequestQueue, rq: Request, now_ns: i64) -> None:
    """Tell the elevator that rq has completed and leaves it, once.

    Kernel: blk_mq_sched_completed_request() and blk_mq_finish_request(), block/blk-mq.c, v6.12.
    """
    elevator = q.elevator
    assert elevator is not None
    elevator.completed_request(rq, now_ns)
    elevator.finish_request(rq)
    rq.rq_flags &= ~RQF_USE_SCHED


def free_request(q: RequestQueue, rq: Request) -> None:
    """Give the tags back and restart the queue if a run had to stop for one.

    Kernel: __blk_mq_free_request(), block/blk-mq.c, v6.12.
    """
    hctx = rq.hctx
    rq.state = MQ_RQ_IDLE
    rq.rq_flags = 0
    rq.cgroup = None
    q.nr_freed += 1
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
    hctx.restart()


def free_merged(q: RequestQueue, rq: Request) -> None:
    """Free a waiting request whose bios went to its neighbour.

    Kernel: blk_mq_free_request(), block/blk-mq.c, v6.12.
    """
    rq.is_queued = False
    if rq.rq_flags & RQF_USE_SCHED:
        elevator = q.elevator
        assert elevator is not None
        elevator.finish_request(rq)
    free_request(q, rq)
