"""Merging with an elevator: the one-hit cache, the hash of end sectors, and joining of requests that touch.

An elevator calls sched_try_merge() from its bio_merge() and try_insert_merge() from its insert_request(), keeps its
requests in the hash (rqhash_add, rqhash_del), and hears of merges through its hooks.
Kernel: block/elevator.c and blk_mq_sched_try_merge() in block/blk-merge.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from blktwin.block.bio import REQ_OP_DISCARD, Bio
from blktwin.block.complete import free_merged
from blktwin.block.merge import (
    BACK_MERGE,
    FRONT_MERGE,
    NO_MERGE,
    back_merge,
    bio_is_mergeable,
    front_merge,
    rq_merge_ok,
    try_merge,
)
from blktwin.block.request import RQF_HASHED, Request
from blktwin.block.stats import stat_group

if TYPE_CHECKING:
    from blktwin.block.elevator import Elevator
    from blktwin.block.queue import RequestQueue


def bucket_of(sector: i64) -> i64:
    """Return the place of an end sector in the hash; pages, not sectors, tell requests apart."""
    return (sector >> 3) & 63


def rqhash_add(q: RequestQueue, rq: Request) -> None:
    """Enter rq in the hash, before others with the same end.

    Kernel: elv_rqhash_add(), block/elevator.c, v6.12.
    """
    assert not rq.rq_flags & RQF_HASHED, f"the request at {rq.sector} is hashed twice"
    rq.rq_flags |= RQF_HASHED
    rq.hash_end = rq.sector + rq.nr_sectors
    if q.hash_newest is not None:
        rqhash_settle(q)
    q.hash_newest = rq


def rqhash_settle(q: RequestQueue) -> None:
    """Put the newest entry into its bucket; many leave before anybody has looked for them."""
    rq = q.hash_newest
    if rq is not None:
        q.hash_newest = None
        bucket = bucket_of(rq.hash_end)
        rq.hash_next = q.rqhash[bucket]
        q.rqhash[bucket] = rq


def rqhash_del(q: RequestQueue, rq: Request) -> None:
    """Take rq out of the hash if it is there.

    Kernel: elv_rqhash_del(), block/elevator.c, v6.12.
    """
    if not rq.rq_flags & RQF_HASHED:
        return
    rq.rq_flags &= ~RQF_HASHED
    if q.hash_newest is rq:
        q.hash_newest = None
        return
    bucket = bucket_of(rq.hash_end)
    following = rq.hash_next
    rq.hash_next = None
    before = q.rqhash[bucket]
    assert before is not None, f"the request at {rq.sector} is not in the hash"
    if before is rq:
        q.rqhash[bucket] = following
        return
    while before.hash_next is not rq:
        before = before.hash_next
        assert before is not None, f"the request at {rq.sector} is not in the hash"
    before.hash_next = following


def rqhash_reposition(q: RequestQueue, rq: Request) -> None:
    """Enter rq anew after its end has moved.

    Kernel: elv_rqhash_reposition(), block/elevator.c, v6.12.
    """
    rqhash_del(q, rq)
    rqhash_add(q, rq)


def rqhash_find(q: RequestQueue, sector: i64) -> Request | None:
    """Return the newest request that ends at sector, forgetting those on the way that are full.

    Kernel: elv_rqhash_find(), block/elevator.c, v6.12.
    """
    if q.hash_newest is not None:
        rqhash_settle(q)
    rq = q.rqhash[bucket_of(sector)]
    while rq is not None:
        following = rq.hash_next
        if not rq.is_mergeable():
            rqhash_del(q, rq)
        elif rq.hash_end == sector:
            return rq
        rq = following
    return None


def bio_merge_ok(elevator: Elevator, rq: Request, bio: Bio) -> bool:
    """Say whether rq may take bio, in general and in the elevator's eyes.

    Kernel: elv_bio_merge_ok(), block/elevator.c, v6.12.
    """
    return rq_merge_ok(rq, bio) and elevator.allow_merge(rq, bio)


def sched_try_merge(q: RequestQueue, bio: Bio) -> bool:
    """Merge bio into a waiting request, and that with its neighbour when they touch now; True if the bio was taken.

    Kernel: blk_mq_sched_try_merge() and elv_merge(), block/blk-merge.c and elevator.c, v6.12.
    """
    elevator = q.elevator
    assert elevator is not None
    if q.nomerges > 1 or not bio_is_mergeable(bio):
        return False
    rq = q.last_merge
    how: i64 = NO_MERGE
    if rq is not None and bio_merge_ok(elevator, rq, bio):
        how = try_merge(rq, bio)
    if how == NO_MERGE:
        if q.nomerges > 0:
            return False
        rq = rqhash_find(q, bio.sector)
        how = BACK_MERGE
        if rq is None or not bio_merge_ok(elevator, rq, bio):
            rq = elevator.request_merge(bio)
            how = FRONT_MERGE
    if rq is None or not elevator.allow_merge(rq, bio):
        return False
    if how == BACK_MERGE:
        if not back_merge(q, rq, bio):
            return False
        behind = elevator.next_request(rq)
        if behind is not None and attempt_merge(q, rq, behind):
            free_merged(q, behind)
        else:
            elevator.request_merged(rq, BACK_MERGE)
            rqhash_reposition(q, rq)
            q.last_merge = rq
        return True
    if not front_merge(q, rq, bio):
        return False
    before = elevator.former_request(rq)
    if before is not None and attempt_merge(q, before, rq):
        free_merged(q, rq)
    else:
        elevator.request_merged(rq, FRONT_MERGE)
        q.last_merge = rq
    return True


def attempt_merge(q: RequestQueue, rq: Request, behind: Request) -> bool:
    """Join two waiting requests, `behind` to the end of rq; the caller frees it then.

    Kernel: attempt_merge() and ll_merge_requests_fn(), block/blk-merge.c, v6.12.
    """
    limits = q.limits
    if (
        not rq.is_mergeable()
        or not behind.is_mergeable()
        or rq.op != behind.op
        or rq.ioprio != behind.ioprio
        or rq.sector + rq.nr_sectors != behind.sector
        or rq.nr_sectors + behind.nr_sectors > limits.max_sectors_of(rq.op)
        or rq.op == REQ_OP_DISCARD
        or rq.nr_segments + behind.nr_segments > limits.max_segments
        or rq.cgroup is not behind.cgroup
    ):
        return False
    rq.nr_segments += behind.nr_segments
    if behind.start_ns < rq.start_ns:
        rq.start_ns = behind.start_ns
    tail = rq.bio_tail
    assert tail is not None
    tail.next = behind.bio
    rq.bio_tail = behind.bio_tail
    rq.nr_sectors += behind.nr_sectors
    elevator = q.elevator
    assert elevator is not None
    elevator.requests_merged(rq, behind)
    rqhash_reposition(q, rq)
    q.last_merge = rq
    q.stats.merges[stat_group(rq.op)] += 1
    q.stats.merged()
    q.trace.rq_merge(behind)
    behind.bio = None
    behind.bio_tail = None
    return True


def try_insert_merge(q: RequestQueue, rq: Request) -> bool:
    """Merge a request that is being inserted behind a waiting one, that behind another one, and so on.

    True: rq was merged and freed.
    Kernel: blk_mq_sched_try_insert_merge() and elv_attempt_insert_merge(), block/elevator.c, v6.12.
    """
    if q.nomerges > 1 or not rq.is_mergeable():
        return False
    last = q.last_merge
    if last is not None and last is not rq and attempt_merge(q, last, rq):
        free_merged(q, rq)
        return True
    if q.nomerges > 0:
        return False
    is_merged = False
    while True:
        before = rqhash_find(q, rq.sector)
        if before is None or not attempt_merge(q, before, rq):
            return is_merged
        free_merged(q, rq)
        is_merged = True
        rq = before
