"""From bio to request: checks, split, merge, tag, and on to the plug, an insertion or the driver.

A submission may sleep for a tag: submit_bio() then returns False, the task is blocked with the bio at the head of its
list, and resume_submission() goes on when the task runs again. Nobody else may submit for that task meanwhile.
Kernel: block/blk-core.c and blk_mq_submit_bio() in block/blk-mq.c, v6.12.
"""

from __future__ import annotations

from mypy_extensions import i64

from blktwin.block.bio import (
    BLK_STS_AGAIN,
    BLK_STS_IOERR,
    BLK_STS_NOTSUPP,
    BLK_STS_OK,
    REQ_FUA,
    REQ_NOMERGE,
    REQ_NOWAIT,
    REQ_OP_DISCARD,
    REQ_OP_READ,
    REQ_OP_WRITE,
    REQ_OP_WRITE_ZEROES,
    REQ_PREFLUSH,
    Bio,
    SplitBio,
)
from blktwin.block.ioprio import IOPRIO_CLASS_SHIFT
from blktwin.block.issue import issue_one, try_issue_directly
from blktwin.block.limits import segments_of_op
from blktwin.block.machine import Task
from blktwin.block.merge import bio_is_mergeable, ctx_merge, plug_merge
from blktwin.block.queue import RequestQueue
from blktwin.block.request import RQF_USE_SCHED, Request
from blktwin.block.unplug import about_to_sleep, add_to_plug, finish_plug, flush_plug, start_plug

__all__ = ["about_to_sleep", "finish_plug", "resume_submission", "start_plug", "submit_bio"]


def submit_bio(q: RequestQueue, bio: Bio) -> bool:
    """Submit bio to q for the running task; False means that the task sleeps (see the module's head).

    A bio without an I/O priority or a cgroup gets those of the task.
    Kernel: submit_bio(), submit_bio_noacct() and bio_set_ioprio(), block/blk-core.c, v6.12.
    """
    task = q.machine.current
    bio.owner = q
    bio.next = None
    if bio.ioprio >> IOPRIO_CLASS_SHIFT == 0:
        bio.ioprio = task.ioprio
    if bio.cgroup is None:
        bio.cgroup = task.cgroup
    nr_sectors = bio.nr_sectors
    if nr_sectors > 0 and (bio.sector < 0 or bio.sector > q.capacity_sectors - nr_sectors):
        bio.endio(BLK_STS_IOERR)
        return True
    if (bio.op > REQ_OP_WRITE or bio.flags & (REQ_PREFLUSH | REQ_FUA)) and is_ended_early(q, bio):
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


def is_ended_early(q: RequestQueue, bio: Bio) -> bool:
    """End a bio that this device cannot do, or need not; a device without a volatile cache sees no flush flags.

    Kernel: submit_bio_noacct(), block/blk-core.c, v6.12.
    """
    op = bio.op
    status: i64 = BLK_STS_NOTSUPP
    if bio.flags & (REQ_PREFLUSH | REQ_FUA):
        if op != REQ_OP_WRITE:
            bio.endio(BLK_STS_IOERR)
            return True
        if q.limits.has_write_cache:
            return False
        bio.flags &= ~(REQ_PREFLUSH | REQ_FUA)
        if bio.nr_sectors > 0:
            return False
        status = BLK_STS_OK
    elif op == REQ_OP_READ or op == REQ_OP_WRITE:
        return False
    elif op == REQ_OP_DISCARD:
        if q.limits.max_discard_sectors > 0:
            return False
    elif op == REQ_OP_WRITE_ZEROES and q.limits.max_write_zeroes_sectors > 0:
        return False
    bio.endio(status)
    return True


def append_pending(task: Task, bio: Bio) -> None:
    """Put a bio behind the task's pending ones."""
    if task.bio_list is None:
        task.bio_list = bio
    else:
        tail = task.bio_tail
        assert tail is not None
        tail.next = bio
    task.bio_tail = bio


def take_pending(task: Task) -> Bio | None:
    """Take all of the task's pending bios, as a list."""
    bio = task.bio_list
    task.bio_list = None
    return bio


def push_pending(task: Task, bio: Bio) -> None:
    """Put a bio before the task's pending ones."""
    if task.bio_list is None:
        task.bio_tail = bio
    bio.next = task.bio_list
    task.bio_list = bio


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


def submit_lower_first(q: RequestQueue, bio: Bio, task: Task, is_resumed: bool) -> bool:
    """Submit bio; the bios that q's driver submits meanwhile go before all that are pending for q.

    A bio that waits for a tag goes behind them too: they may be what gives that tag back.
    Kernel: __submit_bio_noacct(), block/blk-core.c, v6.12, does so for drivers without requests only.
    """
    rest_tail = task.bio_tail
    rest = take_pending(task)
    is_done = submit_under_plug(q, bio, task, is_resumed)
    new = take_pending(task)
    same: Bio | None = None
    same_tail: Bio | None = None
    while new is not None:
        following = new.next
        new.next = None
        if new.owner is not q:
            append_pending(task, new)
        elif same_tail is None:
            same = new
            same_tail = new
        else:
            same_tail.next = new
            same_tail = new
        new = following
    has_lower = task.bio_list is not None
    if same is not None:
        append_pending(task, same)
        task.bio_tail = same_tail
    if rest is not None:
        append_pending(task, rest)
        task.bio_tail = rest_tail
    if is_done or not has_lower:
        return is_done
    waiter = task.tag_waiter
    assert waiter is not None
    tags = waiter.tags
    assert tags is not None
    tags.finish_wait(waiter)
    task.is_blocked = False
    return True


def submit_one(q: RequestQueue, bio: Bio, task: Task, is_resumed: bool) -> bool:
    """Bring one bio to a request or a merge, in the order that its queue wants; False when the task must sleep."""
    if q.lower_first:
        return submit_lower_first(q, bio, task, is_resumed)
    return submit_under_plug(q, bio, task, is_resumed)


def submit_under_plug(q: RequestQueue, bio: Bio, task: Task, is_resumed: bool) -> bool:
    """Bring one bio to a request or a merge; with the rules' on-stack plug around it.

    Kernel: __submit_bio(), block/blk-core.c, v6.12.
    """
    if task.plug is not None or not q.rules.submit_on_stack_plug:
        return mq_submit_bio(q, bio, task, is_resumed)
    plug = task.stack_plug
    plug.reset()
    task.plug = plug
    is_done = mq_submit_bio(q, bio, task, is_resumed)
    if plug.mq_list.count > 0:
        flush_plug(q.machine, task, False)
    task.plug = None
    return is_done


def mq_submit_bio(q: RequestQueue, bio: Bio, task: Task, is_resumed: bool) -> bool:
    """Split, merge, allocate, then plug, insert or issue; False when the task must sleep for a tag.

    Kernel: blk_mq_submit_bio(), block/blk-mq.c, v6.12.
    """
    if not is_resumed:
        limits = q.limits
        if (bio.sector | bio.nr_sectors) & ((limits.logical_block_bytes >> 9) - 1):
            bio.endio(BLK_STS_IOERR)
            return True
        room = limits.prefix_sectors(bio.op, bio.sector, bio.nr_sectors)
        if room < bio.nr_sectors:
            if bio.flags & REQ_NOWAIT and (bio.op == REQ_OP_READ or bio.op == REQ_OP_WRITE):
                bio.endio(BLK_STS_AGAIN)
                return True
            bio = split_bio(q, bio, room, task)
        if q.nomerges < 2 and bio_is_mergeable(bio) and try_bio_merge(q, bio, task):
            return True
    free = None if is_resumed else q.try_get_request(bio, task)
    if free is None and (is_resumed or not bio.flags & REQ_NOWAIT):
        free = wait_for_request(q, bio, task, is_resumed)
    if free is None:
        if bio.flags & REQ_NOWAIT:
            bio.endio(BLK_STS_AGAIN)
            return True
        push_pending(task, bio)
        task.is_blocked = True
        return False
    rq: Request = free
    q.trace.getrq(bio)
    rq.init_from_bio(bio)
    q.stats.start(rq.start_ns)
    if bio.flags & (REQ_PREFLUSH | REQ_FUA):
        fq = rq.hctx.fq
        assert fq is not None
        if fq.insert(rq):
            return True
    plug = task.plug
    if plug is None:
        place_request(q, rq)
    elif plug is task.stack_plug and rq.rq_flags & RQF_USE_SCHED:
        insert_alone(q, rq, task)
    elif plug is task.stack_plug and q.elevator is None and q.rules.plug_issues_directly:
        issue_alone(q, rq, task)
    else:
        add_to_plug(q, plug, rq, task)
    return True


def issue_alone(q: RequestQueue, rq: Request, task: Task) -> None:
    """Issue the one request that an on-stack plug holds, as add_to_plug() and flush_one() would, without a list."""
    trace = q.trace
    trace.plug(task)
    if q.rules.unplug_traces_direct:
        trace.unplug(task, 1, True)
    issue_one(rq.hctx, rq)


def insert_alone(q: RequestQueue, rq: Request, task: Task) -> None:
    """Insert the one request that an on-stack plug holds, as add_to_plug() and flush_one() would, without a list."""
    trace = q.trace
    trace.plug(task)
    trace.unplug(task, 1, True)
    q.insert_request(rq, False)
    q.run_hw_queue(rq.hctx, False)


def place_request(q: RequestQueue, rq: Request) -> None:
    """Insert a request that has no plug to go to and let kblockd run, or issue it right here."""
    hctx = rq.hctx
    if rq.rq_flags & RQF_USE_SCHED or (hctx.dispatch_busy > 0 and (len(q.hctxs) == 1 or not rq.is_sync())):
        q.insert_request(rq, False)
        q.run_hw_queue(hctx, True)
    else:
        try_issue_directly(q, rq)


def split_bio(q: RequestQueue, bio: Bio, room: i64, task: Task) -> Bio:
    """Cut the first `room` sectors off bio and return them, never to be merged; the rest is the task's next bio.

    Kernel: bio_submit_split(), block/blk-merge.c, v6.12.
    """
    front = SplitBio()
    front.op = bio.op
    front.flags = bio.flags | REQ_NOMERGE
    front.sector = bio.sector
    front.nr_sectors = room
    front.nr_segments = segments_of_op(bio.op, room)
    front.ioprio = bio.ioprio
    front.cgroup = bio.cgroup
    front.owner = q
    front.parent = bio
    front.data = bio.data
    front.data_at = bio.data_at
    bio.data_at += room << 9
    bio.remaining += 1
    bio.sector += room
    bio.nr_sectors -= room
    bio.nr_segments = segments_of_op(bio.op, bio.nr_sectors)
    q.trace.split(front, bio.sector)
    push_pending(task, bio)
    return front


def try_bio_merge(q: RequestQueue, bio: Bio, task: Task) -> bool:
    """Try the plug, then the elevator or this CPU's software queue.

    Kernel: blk_mq_attempt_bio_merge() and blk_mq_sched_bio_merge(), block/blk-mq.c and blk-mq-sched.c, v6.12.
    """
    plug = task.plug
    if plug is not None and plug.mq_list.count > 0 and plug_merge(q, plug, bio):
        return True
    elevator = q.elevator
    if elevator is not None:
        return elevator.bio_merge(bio)
    ctx = q.ctx_of_cpu[task.cpu]
    return ctx.rq_list.count > 0 and ctx_merge(q, ctx, bio)


def wait_for_request(q: RequestQueue, bio: Bio, task: Task, is_resumed: bool) -> Request | None:
    """Allocate a request where no tag was free: run the queue once, look again, and go to sleep (None).

    Kernel: blk_mq_get_tag(), block/blk-mq-tag.c, v6.12.
    """
    hctx = q.hctx_of_cpu[task.cpu]
    tags = hctx.tags if hctx.sched_tags is None else hctx.sched_tags
    if is_resumed:
        waiter = task.tag_waiter
        assert waiter is not None, "a task goes on that never waited for a tag"
        before = waiter.tags
        assert before is not None
        before.finish_wait(waiter)
        if before is not tags:
            # It has moved to a CPU of another queue: the wake-up belongs to those who still wait there.
            before.count_freed()
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
    tags.wait(task)
    return None
