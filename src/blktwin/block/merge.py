"""Merging: may this bio grow that request, at which end, and where to look for one.

Kernel: block/blk-merge.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.bio import REQ_NOMERGE, REQ_NOMERGE_FLAGS, REQ_OP_DISCARD, REQ_OP_READ, REQ_OP_WRITE, Bio
from blktwin.block.plug import Plug
from blktwin.block.request import Request
from blktwin.block.rules import (
    PLUG_MERGE_LAST_ONLY,
    PLUG_MERGE_SCAN_ALL,
    PLUG_MERGE_TAIL,
    PLUG_MERGE_TAIL_SCAN,
)
from blktwin.block.stats import STAT_DISCARD, STAT_READ, STAT_WRITE

if TYPE_CHECKING:
    from blktwin.block.hctx import SoftwareQueue
    from blktwin.block.queue import RequestQueue

CTX_MERGE_SCAN: Final = 8


def bio_is_mergeable(bio: Bio) -> bool:
    """Say whether the bio may be merged at all."""
    op = bio.op
    if bio.nr_sectors == 0 or (bio.flags & REQ_NOMERGE_FLAGS) != 0:
        return False
    return op == REQ_OP_READ or op == REQ_OP_WRITE or op == REQ_OP_DISCARD


def can_merge(rq: Request, bio: Bio) -> bool:
    """Say whether rq and bio are of a kind: same operation, cgroup and priority, both mergeable."""
    return (
        rq.op == bio.op
        and (rq.flags & REQ_NOMERGE_FLAGS) == 0
        and rq.nr_sectors > 0
        and rq.cgroup is bio.cgroup
        and rq.ioprio == bio.ioprio
    )


def fits(q: RequestQueue, rq: Request, sectors: i64, segments: i64) -> bool:
    """Say whether rq may grow by that much; a request that is full takes no more bios."""
    limits = q.limits
    if rq.nr_sectors + sectors > limits.max_sectors_of(rq.op) or (
        rq.op != REQ_OP_DISCARD and rq.nr_segments + segments > limits.max_segments
    ):
        rq.flags |= REQ_NOMERGE
        return False
    return True


def attempt_bio_merge(q: RequestQueue, rq: Request, bio: Bio) -> bool:
    """Merge bio behind or in front of rq if it touches it and fits.

    Kernel: blk_attempt_bio_merge(), block/blk-merge.c, v6.12.
    """
    if not can_merge(rq, bio):
        return False
    if rq.sector + rq.nr_sectors == bio.sector:
        return back_merge(q, rq, bio)
    if bio.sector + bio.nr_sectors == rq.sector and rq.op != REQ_OP_DISCARD:
        return front_merge(q, rq, bio)
    return False


def back_merge(q: RequestQueue, rq: Request, bio: Bio) -> bool:
    """Add bio behind rq, if it fits."""
    if not fits(q, rq, bio.nr_sectors, bio.nr_segments):
        return False
    q.trace.bio_backmerge(bio, rq)
    tail = rq.bio_tail
    assert tail is not None
    tail.next = bio
    rq.bio_tail = bio
    bio.next = None
    grow(q, rq, bio)
    return True


def front_merge(q: RequestQueue, rq: Request, bio: Bio) -> bool:
    """Add bio in front of rq, if it fits."""
    if not fits(q, rq, bio.nr_sectors, bio.nr_segments):
        return False
    q.trace.bio_frontmerge(bio, rq)
    bio.next = rq.bio
    rq.bio = bio
    rq.sector = bio.sector
    grow(q, rq, bio)
    return True


def grow(q: RequestQueue, rq: Request, bio: Bio) -> None:
    """Count the merged bio in."""
    rq.nr_sectors += bio.nr_sectors
    rq.nr_segments += bio.nr_segments
    q.stats.merges[merge_kind(bio.op)] += 1


def merge_kind(op: i64) -> i64:
    """Return the row of DiskStats that counts merges of op."""
    if op == REQ_OP_READ:
        return STAT_READ
    if op == REQ_OP_DISCARD:
        return STAT_DISCARD
    return STAT_WRITE


def attempt_merge_requests(q: RequestQueue, rq: Request, behind: Request) -> bool:
    """Join two waiting requests, `behind` to the end of rq; the caller frees it then.

    Kernel: attempt_merge(), block/blk-merge.c, v6.12.
    """
    if (
        rq.op != behind.op
        or (rq.flags & REQ_NOMERGE_FLAGS) != 0
        or (behind.flags & REQ_NOMERGE_FLAGS) != 0
        or rq.cgroup is not behind.cgroup
        or rq.ioprio != behind.ioprio
        or rq.sector + rq.nr_sectors != behind.sector
        or rq.op == REQ_OP_DISCARD
        or not fits(q, rq, behind.nr_sectors, behind.nr_segments)
    ):
        return False
    q.trace.rq_merge(behind)
    tail = rq.bio_tail
    assert tail is not None
    tail.next = behind.bio
    rq.bio_tail = behind.bio_tail
    behind.bio = None
    behind.bio_tail = None
    rq.nr_sectors += behind.nr_sectors
    rq.nr_segments += behind.nr_segments
    if behind.start_ns < rq.start_ns:
        rq.start_ns = behind.start_ns
    q.stats.merges[merge_kind(rq.op)] += 1
    return True


def plug_merge(q: RequestQueue, plug: Plug, bio: Bio) -> bool:
    """Try the requests of the task's plug, as far as the rules say.

    Kernel: blk_attempt_plug_merge(), block/blk-merge.c, v6.12.
    """
    newest = plug.newest(q.rules.plug_is_fifo)
    if newest is None:
        return False
    how = q.rules.plug_merge
    if how == PLUG_MERGE_SCAN_ALL:
        return scan_newest_first(q, plug, bio)
    if how == PLUG_MERGE_LAST_ONLY:
        return newest.q is q and attempt_bio_merge(q, newest, bio)
    if how == PLUG_MERGE_TAIL or how == PLUG_MERGE_TAIL_SCAN:
        if newest.q is q:
            return attempt_bio_merge(q, newest, bio)
        if not plug.multiple_queues:
            return False
    rq = plug.mq_list.head
    while rq is not None:
        if rq.q is q:
            if attempt_bio_merge(q, rq, bio):
                return True
            if how != PLUG_MERGE_TAIL_SCAN:
                return False
        elif not plug.multiple_queues:
            return False
        rq = rq.next
    return False


def scan_newest_first(q: RequestQueue, plug: Plug, bio: Bio) -> bool:
    """Try every plugged request of this queue; one list holds at most a few dozen."""
    mine: list[Request] = []
    rq = plug.mq_list.head
    while rq is not None:
        if rq.q is q:
            mine.append(rq)
        rq = rq.next
    if q.rules.plug_is_fifo:
        mine.reverse()
    for rq in mine:
        if attempt_bio_merge(q, rq, bio):
            return True
    return False


def ctx_merge(q: RequestQueue, ctx: SoftwareQueue, bio: Bio) -> bool:
    """Try the last few requests of this CPU's software queue, newest first.

    Kernel: blk_bio_list_merge(), block/blk-merge.c, v6.12.
    """
    count = ctx.rq_list.count
    if count == 0:
        return False
    skip = count - CTX_MERGE_SCAN
    newest: list[Request] = []
    rq = ctx.rq_list.head
    while rq is not None:
        if skip > 0:
            skip -= 1
        else:
            newest.append(rq)
        rq = rq.next
    newest.reverse()
    for rq in newest:
        if attempt_bio_merge(q, rq, bio):
            return True
    return False
