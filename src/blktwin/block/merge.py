"""Merging a bio into a request: may it, at which end, and where to look for one without an elevator.

Kernel: block/blk-merge.c, v6.12. With an elevator read sched_merge.py next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.bio import REQ_NOMERGE, REQ_NOMERGE_FLAGS, REQ_OP_DISCARD, Bio
from blktwin.block.plug import Plug
from blktwin.block.request import Request
from blktwin.block.rules import (
    PLUG_MERGE_LAST_ONLY,
    PLUG_MERGE_SCAN_ALL,
    PLUG_MERGE_TAIL,
    PLUG_MERGE_TAIL_SCAN,
)
from blktwin.block.stats import stat_group

if TYPE_CHECKING:
    from blktwin.block.hctx import SoftwareQueue
    from blktwin.block.queue import RequestQueue

CTX_MERGE_SCAN: Final = 8

BIO_MERGE_OK: Final = 0
BIO_MERGE_NONE: Final = 1
"""They do not touch, or are not of a kind."""
BIO_MERGE_FAILED: Final = 2
"""They touch, and yet may not be one request."""

NO_MERGE: Final = 0
BACK_MERGE: Final = 1
FRONT_MERGE: Final = 2


def bio_is_mergeable(bio: Bio) -> bool:
    """Say whether the bio may be merged at all.

    Kernel: bio_mergeable(), include/linux/bio.h, v6.12.
    """
    return bio.nr_sectors > 0 and (bio.flags & REQ_NOMERGE_FLAGS) == 0


def rq_merge_ok(rq: Request, bio: Bio) -> bool:
    """Say whether rq and bio are of a kind: same operation, cgroup and priority, both mergeable.

    Kernel: blk_rq_merge_ok(), block/blk-merge.c, v6.12.
    """
    return (
        rq.op == bio.op
        and rq.cgroup is bio.cgroup
        and rq.ioprio == bio.ioprio
        and rq.is_mergeable()
        and bio_is_mergeable(bio)
    )


def try_merge(rq: Request, bio: Bio) -> i64:
    """Say at which end of rq the bio stands: BACK_MERGE, FRONT_MERGE or NO_MERGE.

    Kernel: blk_try_merge(), block/blk-merge.c, v6.12.
    """
    if rq.sector + rq.nr_sectors == bio.sector:
        return BACK_MERGE
    if bio.sector + bio.nr_sectors == rq.sector:
        return FRONT_MERGE
    return NO_MERGE


def set_nomerge(q: RequestQueue, rq: Request) -> None:
    """Mark rq as full.

    Kernel: req_set_nomerge(), block/blk.h, v6.12.
    """
    rq.flags |= REQ_NOMERGE
    if q.last_merge is rq:
        q.last_merge = None


def fits(q: RequestQueue, rq: Request, bio: Bio) -> bool:
    """Say whether rq may grow by bio; if not it takes no more bios.

    Kernel: ll_back_merge_fn() and ll_new_hw_segment(), block/blk-merge.c, v6.12.
    """
    limits = q.limits
    if rq.nr_sectors + bio.nr_sectors > limits.max_sectors_of(rq.op):
        set_nomerge(q, rq)
        return False
    if rq.op == REQ_OP_DISCARD:
        return True
    if rq.nr_segments + bio.nr_segments > limits.max_segments:
        set_nomerge(q, rq)
        return False
    rq.nr_segments += bio.nr_segments
    return True


def attempt_bio_merge(q: RequestQueue, rq: Request, bio: Bio) -> i64:
    """Merge bio behind or in front of rq: BIO_MERGE_OK, BIO_MERGE_NONE or BIO_MERGE_FAILED.

    Kernel: blk_attempt_bio_merge(), block/blk-merge.c, v6.12.
    """
    if not rq_merge_ok(rq, bio):
        return BIO_MERGE_NONE
    how = try_merge(rq, bio)
    if how == NO_MERGE:
        return BIO_MERGE_NONE
    is_merged = back_merge(q, rq, bio) if how == BACK_MERGE else front_merge(q, rq, bio)
    return BIO_MERGE_OK if is_merged else BIO_MERGE_FAILED


def back_merge(q: RequestQueue, rq: Request, bio: Bio) -> bool:
    """Add bio behind rq, if it fits.

    Kernel: bio_attempt_back_merge(), block/blk-merge.c, v6.12.
    """
    if not fits(q, rq, bio):
        return False
    q.trace.bio_backmerge(bio, rq)
    tail = rq.bio_tail
    assert tail is not None
    tail.next = bio
    rq.bio_tail = bio
    bio.next = None
    rq.nr_sectors += bio.nr_sectors
    q.stats.merges[stat_group(rq.op)] += 1
    return True


def front_merge(q: RequestQueue, rq: Request, bio: Bio) -> bool:
    """Add bio in front of rq, if it fits.

    Kernel: bio_attempt_front_merge(), block/blk-merge.c, v6.12.
    """
    if not fits(q, rq, bio):
        return False
    q.trace.bio_frontmerge(bio, rq)
    bio.next = rq.bio
    rq.bio = bio
    rq.sector = bio.sector
    rq.nr_sectors += bio.nr_sectors
    q.stats.merges[stat_group(rq.op)] += 1
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
        return newest.q is q and attempt_bio_merge(q, newest, bio) == BIO_MERGE_OK
    if how == PLUG_MERGE_TAIL or how == PLUG_MERGE_TAIL_SCAN:
        if newest.q is q:
            return attempt_bio_merge(q, newest, bio) == BIO_MERGE_OK
        if not plug.multiple_queues:
            return False
    rq = plug.mq_list.head
    while rq is not None:
        if rq.q is q:
            if attempt_bio_merge(q, rq, bio) == BIO_MERGE_OK:
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
        if attempt_bio_merge(q, rq, bio) == BIO_MERGE_OK:
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
        result = attempt_bio_merge(q, rq, bio)
        if result != BIO_MERGE_NONE:
            return result == BIO_MERGE_OK
    return False
