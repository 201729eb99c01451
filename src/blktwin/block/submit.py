"""From bio to request: checks, split, merge, tag, plug; and the plug's flush.

A submission may sleep for a tag: submit_bio() then returns False, the task is blocked with the bio at the head of its list,
and resume_submission() goes on when the task runs again. Nobody else may submit for that task meanwhile.
Kernel: block/blk-core.c and blk_mq_submit_bio() in block/blk-mq.c, v6.12.
"""

from __future__ import annotations

from mypy_extensions import i64

from blktwin.block.bio import (
    BLK_STS_AGAIN,
    BLK_STS_DEV_RESOURCE,
    BLK_STS_IOERR,
    BLK_STS_OK,
    BLK_STS_RESOURCE,
    REQ_FUA,
    REQ_NOWAIT,
    REQ_PREFLUSH,
    Bio,
    SplitBio,
)
from blktwin.block.limits import segments_of
from blktwin.block.machine import Machine, Task
from blktwin.block.merge import bio_is_mergeable, ctx_merge, plug_merge
from blktwin.block.plug import Plug
from blktwin.block.queue import RequestQueue
from blktwin.block.request import RQF_USE_SCHED, Request, RequestList


def submit_bio(q: RequestQueue, bio: Bio) -> bool:
    """Submit bio to q for the running task; False means that the task sleeps (see the module's head).

    Kernel: submit_bio_noacct(), block/blk-core.c, v6.12.
    """
    task = q.machine.current
    bio.owner = q
    bio.next = None
    end = bio.sector + bio.nr_sectors
    if end > q.capacity_sectors or bio.sector < 0:
        bio.endio(BLK_STS_IOERR)
        return True
    q.nr_submitted += 1
    q.trace.bio_queue(bio)
    if task.is_submitting:
        append_pending(task, bio)
        return True
    task.is_submitting = True
    if not submit_one(q, bio, task, False):
        return False
    if task.bio_list is None:
        task.is_submitting = False
        return True
    return resume_submission(task)


def append_pending(task: Task, bio: Bio) -> None:
    """Put a bio behind the task's pending ones."""
    at = task.bio_list
    if at is None:
        task.bio_list = bio
        return
    while at.next is not None:
        at = at.next
    at.next = bio


def resume_submission(task: Task) -> bool:
    """Go on with the task's pending bios; False means that it sleeps again."""
    was_blocked = task.is_blocked
    task.is_blocked = False
    bio = task.bio_list
    while bio is not None:
        task.bio_list = bio.next
        bio.next = None
        q = bio.owner
        assert isinstance(q, RequestQueue)
        if not submit_one(q, bio, task, was_blocked):
            return False
        was_blocked = False
        bio = task.bio_list
    task.is_submitting = False
    return True


def submit_one(q: RequestQueue, bio: Bio, task: Task, is_resumed: bool) -> bool:
    """Bring one bio to a request or a merge; with the rules' on-stack plug around it."""
    if task.plug is not None or not q.rules.submit_on_stack_plug:
        return mq_submit_bio(q, bio, task, is_resumed)
    plug = Plug()
    task.plug = plug
    is_done = mq_submit_bio(q, bio, task, is_resumed)
    flush_plug(q.machine, task, not is_done)
    task.plug = None
    return is_done


def mq_submit_bio(q: RequestQueue, bio: Bio, task: Task, is_resumed: bool) -> bool:
    """Split, merge, allocate, then plug, insert or issue; False when the task must sleep for a tag.

    Kernel: blk_mq_submit_bio(), block/blk-mq.c, v6.12.
    """
    block = q.limits.logical_block_bytes >> 9
    if block > 1 and (bio.sector % block != 0 or bio.nr_sectors % block != 0):
        bio.endio(BLK_STS_IOERR)
        return True
    room = q.limits.prefix_sectors(bio.op, bio.nr_sectors)
    if room < bio.nr_sectors:
        if bio.flags & REQ_NOWAIT:
            bio.endio(BLK_STS_AGAIN)
            return True
        bio = split_bio(q, bio, room, task)
    if not is_resumed and q.nomerges < 2 and bio_is_mergeable(bio) and try_merge(q, bio, task):
        return True
    rq = get_request(q, bio, task)
    if rq is None:
        if bio.flags & REQ_NOWAIT:
            bio.endio(BLK_STS_AGAIN)
            return True
        bio.next = task.bio_list
        task.bio_list = bio
        task.is_blocked = True
        return False
    q.trace.getrq(bio)
    rq.init_from_bio(bio)
    q.stats.start(rq.start_ns)
    if rq.rq_flags & RQF_USE_SCHED:
        elevator = q.elevator
        assert elevator is not None
        elevator.prepare_request(rq)
    if bio.flags & (REQ_PREFLUSH | REQ_FUA):
        fq = rq.hctx.fq
        assert fq is not None
        if fq.insert(rq):
            return True
    place_request(q, rq, task)
    return True


def place_request(q: RequestQueue, rq: Request, task: Task) -> None:
    """Plug rq, insert it and let kblockd run, or issue it right here."""
    plug = task.plug
    if plug is not None:
        add_to_plug(q, plug, rq, task)
        return
    hctx = rq.hctx
    if rq.rq_flags & RQF_USE_SCHED or (
        hctx.dispatch_busy > 0 and (len(q.hctxs) == 1 or not rq.is_sync())
    ):
        q.insert_request(rq, False)
        q.run_hw_queue(hctx, True)
    else:
        try_issue_directly(q, rq, True)


def split_bio(q: RequestQueue, bio: Bio, room: i64, task: Task) -> Bio:
    """Cut the first `room` sectors off bio and return them; the rest goes to the head of the pending list.

    Kernel: bio_split() as used by bio_submit_split(), block/blk-merge.c, v6.12.
    """
    front = SplitBio()
    front.op = bio.op
    front.flags = bio.flags
    front.sector = bio.sector
    front.nr_sectors = room
    front.nr_segments = segments_of(room)
    front.ioprio = bio.ioprio
    front.cgroup = bio.cgroup
    front.owner = q
    front.parent = bio
    bio.remaining += 1
    bio.sector += room
    bio.nr_sectors -= room
    bio.nr_segments = segments_of(bio.nr_sectors)
    # The second and later parts never carry the preflush again.
    bio.flags &= ~REQ_PREFLUSH
    q.trace.split(front, bio.sector)
    bio.next = task.bio_list
    task.bio_list = bio
    return front


def try_merge(q: RequestQueue, bio: Bio, task: Task) -> bool:
    """Try the plug, then the elevator or this CPU's software queue.

    Kernel: blk_mq_attempt_bio_merge(), block/blk-mq.c, v6.12.
    """
    plug = task.plug
    if plug is not None and plug.mq_list.count > 0 and plug_merge(q, plug, bio):
        return True
    elevator = q.elevator
    if elevator is not None:
        return elevator.bio_merge(bio)
    return ctx_merge(q, q.ctx_of_cpu[task.cpu], bio)


def get_request(q: RequestQueue, bio: Bio, task: Task) -> Request | None:
    """Allocate a request; without a free tag run the queue once, look again, and go to sleep.

    Kernel: blk_mq_get_tag(), block/blk-mq-tag.c, v6.12.
    """
    rq = q.try_get_request(bio, task)
    if rq is not None or bio.flags & REQ_NOWAIT:
        return rq
    hctx = q.hctx_of_cpu[task.cpu]
    q.run_hw_queue(hctx, False)
    rq = q.try_get_request(bio, task)
    if rq is not None:
        return rq
    q.trace.tag_wait(task)
    # A task that sleeps hands over what it has plugged, or it might wait for itself.
    flush_plug(q.machine, task, True)
    rq = q.try_get_request(bio, task)
    if rq is not None:
        return rq
    tags = hctx.tags if hctx.sched_tags is None else hctx.sched_tags
    tags.wait(task)
    return None


def add_to_plug(q: RequestQueue, plug: Plug, rq: Request, task: Task) -> None:
    """Put rq on the plug, flushing it first when a threshold is reached.

    Kernel: blk_add_rq_to_plug(), block/blk-mq.c, v6.12.
    """
    rules = q.rules
    oldest_first = rules.plug_is_fifo and rules.plug_max_requests > 16
    if plug.mq_list.count == 0:
        q.trace.plug(task)
    elif plug.is_full(rq, rules.plug_max_requests, oldest_first):
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
    plug.cached_now_ns = 0
    # Requests that come while this list is worked on belong to the next flush.
    batch = RequestList()
    batch.take_all(plug.mq_list)
    first = batch.head
    if first is None:
        return
    multiple = plug.multiple_queues
    elevator = plug.has_elevator
    plug.multiple_queues = False
    plug.has_elevator = False
    if not elevator and not from_schedule:
        if not multiple:
            machine.trace.unplug(task, batch.count, True)
            issue_list(first.q, batch)
            return
        if first.q.rules.plug_detaches_per_queue:
            machine.trace.unplug(task, batch.count, True)
            while batch.count > 0:
                head = batch.head
                assert head is not None
                issue_list(head.q, take_queue(batch, head.q))
            return
    while batch.count > 0:
        head = batch.head
        assert head is not None
        dispatch_plugged(machine, task, take_group(batch, head), from_schedule)


def take_queue(batch: RequestList, q: RequestQueue) -> RequestList:
    """Take the requests of one queue out of batch, in order."""
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
    return mine


def take_group(batch: RequestList, first: Request) -> RequestList:
    """Take the requests that share first's hardware and software queue out of batch, in order."""
    mine = RequestList()
    others = RequestList()
    rq = batch.pop()
    while rq is not None:
        if rq.hctx is first.hctx and rq.ctx is first.ctx:
            mine.append(rq)
        else:
            others.append(rq)
        rq = batch.pop()
    batch.take_all(others)
    return mine


def dispatch_plugged(machine: Machine, task: Task, group: RequestList, from_schedule: bool) -> None:
    """Insert one group of plugged requests and run its queue; through kblockd when the task goes to sleep.

    Kernel: blk_mq_dispatch_plug_list(), block/blk-mq.c, v6.12.
    """
    first = group.head
    assert first is not None
    q = first.q
    hctx = first.hctx
    machine.trace.unplug(task, group.count, not from_schedule)
    if q.elevator is None and hctx.dispatch_busy == 0 and not from_schedule:
        issue_list(q, group)
        return
    rq = group.pop()
    while rq is not None:
        q.insert_request(rq, False)
        rq = group.pop()
    q.run_hw_queue(hctx, from_schedule)


def issue_list(q: RequestQueue, batch: RequestList) -> None:
    """Issue a list of one queue straight to the driver.

    Kernel: blk_mq_issue_direct(), block/blk-mq.c, v6.12.
    """
    rq = batch.pop()
    while rq is not None:
        try_issue_directly(q, rq, batch.count == 0)
        rq = batch.pop()


def try_issue_directly(q: RequestQueue, rq: Request, last: bool) -> None:
    """Give rq to the driver now; if that cannot be, insert it and run the queue.

    Kernel: blk_mq_try_issue_directly(), block/blk-mq.c, v6.12.
    """
    hctx = rq.hctx
    if hctx.is_stopped or rq.rq_flags & RQF_USE_SCHED:
        q.insert_request(rq, False)
        q.run_hw_queue(hctx, False)
        return
    result = q.driver.queue_rq(rq, last)
    if result == BLK_STS_OK:
        hctx.update_dispatch_busy(False)
    elif result == BLK_STS_RESOURCE or result == BLK_STS_DEV_RESOURCE:
        hctx.update_dispatch_busy(True)
        q.undo_start(rq)
        q.bypass_insert(rq, False)
        q.run_hw_queue(hctx, False)
    else:
        hctx.update_dispatch_busy(False)
        q.end_request(rq, result)


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
