"""What must hold of every queue of a stacked world between two events: tags, lists, states, and runs to come.

I1: what is started and not complete holds a tag and stands in no list. I15: no request is in two lists. L1: what waits
has a run pending, or a completion to come that makes one. L2 is seen at the end: nobody waits for a tag.
"""

from __future__ import annotations

from block_audit import chain, check_range, fifo_of

from blktwin.block.deadline import Deadline
from blktwin.block.hctx import HardwareQueue
from blktwin.block.machine import Task
from blktwin.block.queue import RequestQueue
from blktwin.block.request import MQ_RQ_IDLE, MQ_RQ_IN_FLIGHT, NO_TAG, Request

Place = tuple[Request, str]


def audit_queue(q: RequestQueue, plugged: list[Place]) -> None:
    """Check one queue; plugged: what stands in the plugs of all tasks."""
    places: dict[int, str] = {}
    for rq, place in [*listed(q), *(one for one in plugged if one[0].q is q)]:
        key = id(rq)
        assert key not in places, f"I15: {q.name}: the request at {rq.sector} is in {places[key]} and in {place}"
        places[key] = place
    out = 0
    for hctx in q.hctxs:
        out += audit_requests(hctx, places)
        audit_runs(q, hctx)
    started = int(q.nr_started - q.nr_completed)
    assert out == started, f"I1: {q.name}: {started} are started and not complete, {out} are in flight"
    audit_elevator(q)
    if q.requeue_work.requeue_list.count or q.requeue_work.flush_list.count:
        assert q.requeue_work.is_pending, f"L1: {q.name}: requeued requests, and no work"
    for cpu, done in enumerate(q.softirq_done):
        assert done.rq_list.count == 0 or done.is_pending, f"L1: {q.name}: completions wait for a softirq on {cpu}"


def listed(q: RequestQueue) -> list[Place]:
    """List all that waits in a queue's lists, an elevator's own apart."""
    out = chain(q.requeue_work.requeue_list.head, "requeue list") + chain(q.requeue_work.flush_list.head, "flush list")
    for done in q.softirq_done:
        out += chain(done.rq_list.head, "softirq list")
    for hctx in q.hctxs:
        out += chain(hctx.dispatch.head, "dispatch list")
        for ctx in hctx.ctxs:
            out += chain(ctx.rq_list.head, f"software queue {ctx.cpu}")
        assert hctx.nr_ctx_queued == sum(int(ctx.rq_list.count) for ctx in hctx.ctxs)
        assert hctx.fq is not None
        for pending in hctx.fq.pending:
            out += chain(pending.head, "pending flushes")
    if isinstance(q.elevator, Deadline):
        out += chain(q.elevator.dispatch.head, "elevator's dispatch list")
        for lists in q.elevator.lists:
            out += [(rq, "fifo") for way in (0, 1) for rq in fifo_of(lists.fifo[way].head)]
    return out


def plugged(tasks: list[Task]) -> list[Place]:
    """List what stands in the plugs of tasks; none is left in a plug that no task holds."""
    out: list[Place] = []
    for task in tasks:
        if task.plug is not None:
            out += chain(task.plug.mq_list.head, f"plug of {task.comm}")
        if task.stack_plug is not task.plug:
            assert task.stack_plug.mq_list.count == 0, f"I15: {task.comm} has left requests in its stack plug"
    return out


def audit_requests(hctx: HardwareQueue, places: dict[int, str]) -> int:
    """Check all requests of a hardware queue; return how many are in flight."""
    q = hctx.q
    assert hctx.fq is not None
    taken: list[int] = []
    driver_tags: list[int] = []
    out = 0
    for rq in hctx.requests:
        tag = rq.tag if hctx.sched_tags is None else rq.sched_tag
        if tag == NO_TAG:
            assert id(rq) not in places, f"I2: {q.name}: a free request is in {places[id(rq)]}"
            assert rq.state == MQ_RQ_IDLE, f"I2: {q.name}: a free request is in flight"
            continue
        taken.append(int(tag))
        if hctx.sched_tags is not None and rq.tag != NO_TAG:
            driver_tags.append(int(rq.tag))
        place = places.get(id(rq), "elevator" if rq.is_queued and q.elevator is not None else "")
        if rq.state == MQ_RQ_IN_FLIGHT:
            out += 1
            assert place in ("", "softirq list"), f"I15: {q.name}: the request at {rq.sector} is started, in {place}"
        else:
            assert place, f"L1: {q.name}: the request at {rq.sector} is nowhere"
            assert place != "softirq list", f"I1: {q.name}: the request at {rq.sector} completes and never started"
        check_range(rq)
    tags = hctx.tags if hctx.sched_tags is None else hctx.sched_tags
    assert len(set(taken)) == len(taken), f"I1: {q.name}: two requests have one tag"
    assert tags.in_use() == len(taken) <= tags.depth, f"I1: {q.name}: {tags.in_use()} tags for {len(taken)} requests"
    flush_rq = hctx.fq.flush_rq
    if flush_rq.state == MQ_RQ_IN_FLIGHT:
        out += 1
    if hctx.sched_tags is not None:
        if flush_rq.tag != NO_TAG:
            driver_tags.append(int(flush_rq.tag))
        assert len(set(driver_tags)) == len(driver_tags), f"I1: {q.name}: two requests have one driver tag"
        assert hctx.tags.in_use() == len(driver_tags) <= hctx.tags.depth, f"I1: {q.name}: driver tags"
    return out


def audit_runs(q: RequestQueue, hctx: HardwareQueue) -> None:
    """L1: what waits has a run to come."""
    if hctx.dispatch.count or hctx.nr_ctx_queued:
        assert is_coming(q, hctx), f"L1: {q.name}: requests wait and nothing will run hardware queue {hctx.index}"


def is_coming(q: RequestQueue, hctx: HardwareQueue) -> bool:
    """Say whether a run of hctx is pending, or the completion of something in flight will make one."""
    if hctx.run_work.is_pending or q.requeue_work.is_pending:
        return True
    assert hctx.fq is not None
    in_flight = any(rq.state == MQ_RQ_IN_FLIGHT for rq in [*hctx.requests, hctx.fq.flush_rq])
    return bool(hctx.needs_restart) and in_flight


def audit_elevator(q: RequestQueue) -> None:
    """An elevator that has work has somebody to ask it (mq-deadline: BFQ may idle on purpose)."""
    elevator = q.elevator
    if not isinstance(elevator, Deadline):
        return
    for lists in elevator.lists:
        for way in (0, 1):
            sectors = [int(rq.sector) for rq in lists.sort[way].requests]
            assert sectors == sorted(sectors)
            assert len(sectors) == lists.fifo[way].count
    if elevator.has_work(q.hctxs[0]):
        assert any(is_coming(q, hctx) for hctx in q.hctxs), f"L1: {q.name}: the elevator has work and nobody asks"


def audit_quiet(q: RequestQueue) -> None:
    """L2, L4: at the end all is complete, all tags are back, and nobody waits."""
    assert q.nr_started == q.nr_completed, f"L4: {q.name}: {q.nr_started} started, {q.nr_completed} complete"
    assert q.stats.in_flight == 0, f"L4: {q.name}: {q.stats.in_flight} in flight"
    assert q.rqhash == [None] * len(q.rqhash)
    for hctx in q.hctxs:
        assert hctx.tags.in_use() == 0, f"L4: {q.name}: {hctx.tags.in_use()} tags are out"
        assert hctx.sched_tags is None or hctx.sched_tags.in_use() == 0, f"L4: {q.name}: scheduler tags are out"
        tags = hctx.tags if hctx.sched_tags is None else hctx.sched_tags
        assert tags.nr_waiting == 0, f"L2: {q.name}: somebody waits for a tag"
