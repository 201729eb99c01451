"""Which queue a request goes to: its process's own, or the async one of its group, class and level.

Kernel: bfq_init_rq() and what it calls, block/bfq-iosched.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.bfq.bic import BfqIoCq
from blktwin.block.bfq.burst import handle_burst
from blktwin.block.bfq.cgroups import update_cgroup
from blktwin.block.bfq.coop import put_cooperator, release_process_ref, stable_merge
from blktwin.block.bfq.entity import CLASS_BE, CLASS_IDLE, CLASS_RT
from blktwin.block.bfq.group import BfqGroup
from blktwin.block.bfq.lifetime import put_queue
from blktwin.block.bfq.queue import BfqQueue, weight_of_ioprio
from blktwin.block.bfq.saved import resume_state
from blktwin.block.bfq.waker import set_waker
from blktwin.block.ioprio import (
    IOPRIO_BE_NORM,
    IOPRIO_CLASS_IDLE,
    IOPRIO_CLASS_NONE,
    IOPRIO_CLASS_RT,
    IOPRIO_CLASS_SHIFT,
)

if TYPE_CHECKING:
    from blktwin.block.bfq.data import BfqData
    from blktwin.block.machine import Task
    from blktwin.block.request import Request

ASYNC_BE: Final = 8
ASYNC_IDLE: Final = 16
LOWEST_LEVEL: Final = 7


def init_rq(bfqd: BfqData, rq: Request, bic: BfqIoCq) -> BfqQueue:
    """Give rq its queue, and count it there and in the process; one that has a queue keeps it."""
    known = rq.elv
    if known is not None:
        assert isinstance(known, BfqQueue)
        return known
    task = bfqd.q.machine.current
    check_ioprio_change(bfqd, bic, task)
    cgroup = rq.cgroup
    assert cgroup is not None, "a request without a cgroup"
    bfqg = update_cgroup(bfqd, bic, cgroup)
    is_sync = rq.is_sync()
    bfqq = bic.sync_bfqq if is_sync else bic.async_bfqq
    is_split = False
    has_existed = False
    if bfqq is None:
        bfqq = get_queue(bfqd, bic, bfqg, is_sync, task.pid, False)
        set_queue(bic, bfqq, is_sync)
    elif bfqq.is_coop and bfqq.split_coop and not bic.stably_merged:
        is_split = True
        shared = bfqq
        bfqq = split_queue(bfqd, bic, bfqq, bfqg, task.pid)
        has_existed = bfqq is shared
    count_allocated(bfqq, 1)
    bic.requests += 1
    rq.elv = bfqq
    if bfqq.process_refs == 1 and bfqq.new_bfqq is None:
        bfqq.bic = bic
        if is_split and bic.has_saved:
            resume_state(bfqd, bfqq, bic, has_existed)
    if bfqq.just_created and (bfqd.burst_size > 0 or bfqd.tot_busy_queues == 0):
        handle_burst(bfqd, bfqq)
    return bfqq


def set_queue(bic: BfqIoCq, bfqq: BfqQueue | None, is_sync: bool) -> None:
    """Make bfqq the process's sync or async queue."""
    if is_sync:
        bic.sync_bfqq = bfqq
    else:
        bic.async_bfqq = bfqq


def count_allocated(bfqq: BfqQueue, by: i64) -> None:
    """Count requests of a queue, at every level above it too.

    Kernel: bfqq_request_allocated(), block/bfq-iosched.c, v6.12.
    """
    bfqq.nr_requests += by
    bfqq.allocated += by
    above = bfqq.parent
    while above is not None:
        above.allocated += by
        above = above.parent


def check_ioprio_change(bfqd: BfqData, bic: BfqIoCq, task: Task) -> None:
    """Take over the I/O priority of a process that has changed it.

    Kernel: bfq_check_ioprio_change(), block/bfq-iosched.c, v6.12.
    """
    ioprio: i64 = task.ioprio
    # kblockd, which inserts what was requeued, is not the process.
    if bic.ioprio == ioprio or task.io_context.lookup(bic.elevator) is not bic:
        return
    bic.ioprio = ioprio
    old = bic.async_bfqq
    if old is not None:
        bfqg = bic.bfqg
        assert bfqg is not None
        bic.async_bfqq = get_queue(bfqd, bic, bfqg, False, task.pid, True)
        release_process_ref(bfqd, old)
    sync = bic.sync_bfqq
    if sync is not None:
        set_next_ioprio(sync, ioprio)


def set_next_ioprio(bfqq: BfqQueue, ioprio: i64) -> None:
    """Set the class and weight that a queue takes over at its next activation.

    Kernel: bfq_set_next_ioprio_data(), block/bfq-iosched.c, v6.12.
    """
    bfqq.new_ioprio = ioprio & 7
    kind = ioprio >> IOPRIO_CLASS_SHIFT
    bfqq.new_io_class = CLASS_BE
    if kind == IOPRIO_CLASS_RT:
        bfqq.new_io_class = CLASS_RT
    elif kind == IOPRIO_CLASS_IDLE:
        bfqq.new_io_class = CLASS_IDLE
        bfqq.new_ioprio = LOWEST_LEVEL
    elif kind == IOPRIO_CLASS_NONE:
        # It has set none, and is taken for one with nice 0.
        bfqq.new_ioprio = IOPRIO_BE_NORM
    bfqq.new_weight = weight_of_ioprio(bfqq.new_ioprio)
    bfqq.prio_changed = True


def async_slot(ioprio: i64) -> i64:
    """Return the place of a priority among a group's async queues.

    Kernel: bfq_async_queue_prio(), block/bfq-iosched.c, v6.12.
    """
    kind = ioprio >> IOPRIO_CLASS_SHIFT
    if kind == IOPRIO_CLASS_RT:
        return ioprio & 7
    if kind == IOPRIO_CLASS_IDLE:
        return ASYNC_IDLE
    if kind == IOPRIO_CLASS_NONE:
        return ASYNC_BE + IOPRIO_BE_NORM
    return ASYNC_BE + (ioprio & 7)


def get_queue(bfqd: BfqData, bic: BfqIoCq, bfqg: BfqGroup, is_sync: bool, pid: int, is_respawn: bool) -> BfqQueue:
    """Return the queue for a process's sync or async requests in a group, with the process counted in it.

    Kernel: bfq_get_queue(), block/bfq-iosched.c, v6.12.
    """
    slot = async_slot(bic.ioprio)
    bfqq = None if is_sync else bfqg.async_queues[slot]
    if bfqq is None:
        bfqq = make_queue(bfqd, bfqg, is_sync, pid, bic.ioprio)
        if not is_sync:
            # The group keeps it as long as it lives.
            bfqg.async_queues[slot] = bfqq
            bfqq.process_refs += 1
    bfqq.process_refs += 1
    if is_sync and not is_respawn and bfqd.stable_merge:
        return stable_merge(bfqd, bfqq, bic)
    return bfqq


def make_queue(bfqd: BfqData, bfqg: BfqGroup, is_sync: bool, pid: int, ioprio: i64) -> BfqQueue:
    """Build a queue.

    Kernel: bfq_init_bfqq(), block/bfq-iosched.c; bfq_init_entity(), block/bfq-cgroup.c, v6.12.
    """
    bfqd.nr_created += 1
    bfqq = BfqQueue(bfqd.nr_created, pid, is_sync, bfqg.children, bfqg.entity_or_none(), bfqd.now_ns(), bfqd.jif())
    bfqq.group_path = bfqg.cgroup.path
    set_next_ioprio(bfqq, ioprio)
    bfqq.ioprio = bfqq.new_ioprio
    bfqq.io_class = bfqq.new_io_class
    bfqq.weight = bfqq.new_weight
    bfqq.orig_weight = bfqq.new_weight
    if bfqq.is_class_idle():
        bfqq.has_short_ttime = False
    bfqq.max_budget = 2 * bfqd.assigned_max_budget() // 3
    bfqd.queues.append(bfqq)
    return bfqq


def split_queue(bfqd: BfqData, bic: BfqIoCq, shared: BfqQueue, bfqg: BfqGroup, pid: int) -> BfqQueue:
    """Separate a process from the queue it shares; the last one keeps that queue.

    Kernel: bfq_split_bfqq() and bfq_get_bfqq_handle_split(), block/bfq-iosched.c, v6.12.
    """
    log = bfqd.log
    if log is not None:
        log.split(bfqd, shared)
    if shared.in_large_burst:
        bic.saved_in_large_burst = True
    if shared.process_refs == 1 and shared.new_bfqq is None:
        shared.pid = pid
        shared.is_coop = False
        shared.split_coop = False
        return shared
    waker = living_waker(shared)
    bic.sync_bfqq = None
    put_cooperator(bfqd, shared)
    release_process_ref(bfqd, shared)
    bfqq = get_queue(bfqd, bic, bfqg, True, pid, True)
    bic.sync_bfqq = bfqq
    if (bic.was_in_burst_list and bfqd.large_burst) or bic.saved_in_large_burst:
        bfqq.in_large_burst = True
    elif bic.was_in_burst_list:
        bfqq.in_burst_list = True
        bfqd.burst_list.insert(0, bfqq)
    bfqq.split_jif = bfqd.jif()
    if bfqd.new_wakers and waker is not None and not waker.is_freed:
        set_waker(bfqd, bfqq, waker)
    return bfqq


def living_waker(bfqq: BfqQueue) -> BfqQueue | None:
    """Return the waker of a queue if a process will still use it after the split.

    Kernel: bfq_waker_bfqq(), block/bfq-iosched.c, v6.12.
    """
    waker = bfqq.waker
    if waker is None:
        return None
    chained = bfqq.new_bfqq
    while chained is not None:
        if chained is waker:
            return None if waker.process_refs == 1 else waker
        chained = chained.new_bfqq
    return None if waker.process_refs == 0 else waker


def exit_process(bfqd: BfqData, bic: BfqIoCq) -> None:
    """See a process end: its queues lose it.

    Kernel: bfq_exit_icq(), block/bfq-iosched.c, v6.12. The slot of a queue in service has been ended by the caller.
    """
    later = bic.stable_merge_bfqq
    if later is not None:
        bic.stable_merge_bfqq = None
        later.stable_refs -= 1
        put_queue(bfqd, later)
    for bfqq in (bic.sync_bfqq, bic.async_bfqq):
        if bfqq is not None:
            put_cooperator(bfqd, bfqq)
            release_process_ref(bfqd, bfqq)
    bic.sync_bfqq = None
    bic.async_bfqq = None
