"""Filling and flushing plugs: who hands the collected requests over, how, and in which order.

Kernel: blk_mq_flush_plug_list(), block/blk-mq.c; block/blk-core.c, v6.12.
Differs: a flush detaches the list first; the kernel consumes it in place, so that a driver which submits I/O from its
queue_rq() can mix new requests into the list under way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from blktwin.block.bio import REQ_NOWAIT
from blktwin.block.issue import issue_direct, issue_one, try_issue_list_directly
from blktwin.block.plug import Plug
from blktwin.block.request import Request, RequestList

if TYPE_CHECKING:
    from blktwin.block.machine import Machine, Task
    from blktwin.block.queue import RequestQueue


def add_to_plug(q: RequestQueue, plug: Plug, rq: Request, task: Task) -> None:
    """Put rq on the plug, flushing it first when a threshold is reached.

    Kernel: blk_add_rq_to_plug(), block/blk-mq.c, v6.12.
    """
    rules = q.rules
    if plug.mq_list.count == 0:
        q.trace.plug(task)
    elif plug.is_full(rq, rules):
        flush_plug(q.machine, task, False)
        q.trace.plug(task)
    plug.add(rq, rules.plug_is_fifo)


def flush_plug(machine: Machine, task: Task, from_schedule: bool) -> None:
    """Hand over everything on the task's plug; from_schedule: because the task goes to sleep.

    Kernel: blk_mq_flush_plug_list(), block/blk-mq.c, v6.12.
    """
    plug = task.plug
    if plug is None:
        return
    count = plug.mq_list.count
    if count < 2:
        if count == 1:
            flush_one(machine, task, plug, from_schedule)
        plug.cached_now_ns = 0
        return
    batch = plug.detach()
    first = batch.head
    assert first is not None
    q = first.q
    rules = q.rules
    if not rules.plug_issues_directly:
        if plug.multiple_queues and batch.count > 2:
            sort_batch(batch)
    elif not plug.has_elevator and not from_schedule:
        if not plug.multiple_queues:
            if rules.unplug_traces_direct:
                machine.trace.unplug(task, batch.count, True)
            issue_direct(q, batch)
        elif rules.plug_detaches_per_queue:
            flush_each_queue(machine, task, batch)
    while batch.count > 0:
        dispatch_plug_list(machine, task, batch, from_schedule)
    plug.end_flush(batch)


def flush_one(machine: Machine, task: Task, plug: Plug, from_schedule: bool) -> None:
    """Hand over the only request of a plug, as flush_plug() would, without lists."""
    rq = plug.mq_list.pop()
    assert rq is not None
    q = rq.q
    hctx = rq.hctx
    rules = q.rules
    is_plain = q.elevator is None and not from_schedule
    is_listed = plug.has_elevator or (plug.multiple_queues and not rules.plug_detaches_per_queue)
    if is_plain and not is_listed and rules.plug_issues_directly:
        if rules.unplug_traces_direct or plug.multiple_queues:
            machine.trace.unplug(task, 1, True)
        issue_one(hctx, rq)
        return
    machine.trace.unplug(task, 1, not from_schedule)
    is_async = from_schedule
    if is_plain and hctx.dispatch_busy == 0:
        issue_one(hctx, rq)
    else:
        if q.elevator is None and rq.flags & REQ_NOWAIT:
            is_async = True
        q.insert_request(rq, False)
    q.run_hw_queue(hctx, is_async)


def flush_each_queue(machine: Machine, task: Task, batch: RequestList) -> None:
    """Issue the requests of each queue directly, the queues in the order in which they come first.

    Kernel: blk_mq_dispatch_multiple_queue_requests(), block/blk-mq.c, v6.18.
    """
    while batch.count > 0:
        first = batch.head
        assert first is not None
        q = first.q
        mine = RequestList()
        others = RequestList()
        rq = batch.pop()
        while rq is not None:
            if rq.q is q:
                mine.append(rq)
            else:
                others.append(rq)
            rq = batch.pop()
        batch.take_all(others)
        machine.trace.unplug(task, mine.count, True)
        issue_direct(q, mine)
        while mine.count > 0:
            dispatch_plug_list(machine, task, mine, False)


def dispatch_plug_list(machine: Machine, task: Task, batch: RequestList, from_schedule: bool) -> None:
    """Take out the requests that share the first one's software and hardware queue, insert them, and run that queue.

    Kernel: blk_mq_dispatch_plug_list(), block/blk-mq.c, v6.12.
    """
    first = batch.pop()
    assert first is not None
    q = first.q
    hctx = first.hctx
    is_fifo = q.rules.plug_is_fifo
    mine = RequestList()
    others = RequestList()
    rq: Request | None = first
    while rq is not None:
        if rq.hctx is not hctx or rq.ctx is not first.ctx:
            others.append(rq)
        elif is_fifo:
            mine.append(rq)
        else:
            # The newest stood first: this restores the order of submission.
            mine.prepend(rq)
        rq = batch.pop()
    batch.take_all(others)
    machine.trace.unplug(task, mine.count, not from_schedule)
    is_async = from_schedule
    if q.elevator is None and hctx.dispatch_busy == 0 and not from_schedule:
        try_issue_list_directly(hctx, mine)
    rq = mine.pop()
    while rq is not None:
        if rq.flags & REQ_NOWAIT and q.elevator is None:
            is_async = True
        q.insert_request(rq, False)
        rq = mine.pop()
    q.run_hw_queue(hctx, is_async)


def sort_batch(batch: RequestList) -> None:
    """Sort plugged requests by queue, software queue, hardware queue and sector, as kernels before 5.16 did.

    Kernel: plug_rq_cmp(), block/blk-mq.c, v5.10.
    Differs: queues are in the order in which they come first; the kernel compares addresses.
    """
    queues: list[RequestQueue] = []
    keyed: list[tuple[int, int, int, int, int]] = []
    requests: list[Request] = []
    rq = batch.pop()
    while rq is not None:
        if rq.q not in queues:
            queues.append(rq.q)
        ctx = rq.ctx
        cpu: i64 = -1 if ctx is None else ctx.cpu
        keyed.append((queues.index(rq.q), int(cpu), int(rq.hctx.index), int(rq.sector), len(requests)))
        requests.append(rq)
        rq = batch.pop()
    keyed.sort()
    for key in keyed:
        batch.append(requests[key[4]])


def start_plug(task: Task, plug: Plug) -> bool:
    """Give the task a plug unless it has one; True if this one counts.

    Kernel: blk_start_plug(), block/blk-core.c, v6.12.
    """
    if task.plug is not None:
        return False
    plug.reset()
    task.plug = plug
    return True


def finish_plug(machine: Machine, task: Task) -> None:
    """Flush and drop the task's plug.

    Kernel: blk_finish_plug(), block/blk-core.c, v6.12.
    """
    flush_plug(machine, task, False)
    task.plug = None


def about_to_sleep(machine: Machine, task: Task) -> None:
    """Flush what a task has plugged because it goes to sleep.

    Kernel: sched_submit_work(), kernel/sched/core.c, v6.12.
    """
    if task.plug is not None:
        flush_plug(machine, task, True)
