"""How many scheduler tags a request may use: writes less than all, more so while queues are raised, and no cgroup
more than its share.

Kernel: bfq_limit_depth(), bfqq_request_over_limit(), bfq_update_depths(), block/bfq-iosched.c, v6.1, v6.12, v7.2.
Differs: depths are in tags of the whole map; one tag a word is as many tags as there are words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.vecs import vec
from mypy_extensions import i64

from blktwin.block.bfq.bic import BfqIoCq
from blktwin.block.bfq.entity import CLASS_BE, CLASS_IDLE, Entity
from blktwin.block.bfq.queue import BfqQueue
from blktwin.block.bio import REQ_OP_READ, op_is_sync
from blktwin.block.rules import BFQ_DEPTH_OF_ASYNC, BFQ_DEPTH_OF_WORD
from blktwin.block.tags import word_tags

if TYPE_CHECKING:
    from blktwin.block.bfq.data import BfqData

LEVELS: Final = 8


class Depths:
    """The depths of sync writes and of async requests, without and with raised queues busy."""

    def __init__(self) -> None:
        self.table: vec[i64] = vec[i64]([0, 0, 0, 0])
        """Async, sync; the same with raised queues busy."""
        self.nr_requests: i64 = 0
        self.least: i64 = 1
        """The depth for a cgroup beyond its share."""

    def update(self, bfqd: BfqData, nr_requests: i64, async_depth: i64) -> None:
        """Fill the table for so many scheduler tags; async_depth: queue/async_depth, since 7.0."""
        rule = bfqd.q.rules.bfq_depth
        self.nr_requests = nr_requests
        table = self.table
        if rule == BFQ_DEPTH_OF_ASYNC:
            table[0] = async_depth * 2 // 3
            table[1] = async_depth
            table[2] = async_depth // 4
            table[3] = async_depth // 2
        else:
            unit = nr_requests
            words: i64 = 1
            if rule == BFQ_DEPTH_OF_WORD:
                unit = word_tags(int(nr_requests))
                words = (nr_requests + unit - 1) // unit
            self.least = words
            table[0] = at_least_one(unit >> 1) * words
            table[1] = at_least_one(unit * 3 >> 2) * words
            table[2] = at_least_one(unit * 3 >> 4) * words
            table[3] = at_least_one(unit * 6 >> 4) * words
        for at in range(4):
            table[at] = at_least_one(table[at])


def at_least_one(value: i64) -> i64:
    """Return value, or 1 if it is less."""
    return value if value > 1 else 1


def limit_depth(bfqd: BfqData, depths: Depths, bic: BfqIoCq | None, op: i64, flags: i64) -> i64:
    """Return how many tags a request may use, 0 for all."""
    is_sync = op_is_sync(op, flags)
    depth: i64 = 0
    limit = depths.nr_requests
    if op != REQ_OP_READ:
        at: i64 = 2 if bfqd.wr_busy_queues > 0 else 0
        if is_sync:
            at += 1
        depth = depths.table[at]
        limit = depth
    if bic is None or not bfqd.q.rules.bfq_group_depth:
        return depth
    bfqq = bic.sync_bfqq if is_sync else bic.async_bfqq
    if bfqq is not None and is_over_limit(bfqq, limit):
        return depths.least
    return depth


def is_over_limit(bfqq: BfqQueue, limit: i64) -> bool:
    """Say whether the queue, or a group above it, holds its share of the tags already."""
    parent = bfqq.parent
    if not bfqq.on_st_or_in_serv:
        return False
    if parent is not None:
        limit = share_of(parent, limit)
        if limit <= 0:
            return limit < 0
    wsum = weight_of_classes(bfqq)
    if wsum == 0:
        return False
    return bfqq.allocated >= (limit * bfqq.weight + wsum // 2) // wsum


def share_of(entity: Entity, limit: i64) -> i64:
    """Return a group's share of the tags; -1 if it or one above it has as many, 0 if one of them is inactive."""
    if not entity.on_st_or_in_serv:
        return 0
    parent = entity.parent
    if parent is not None:
        limit = share_of(parent, limit)
        if limit <= 0:
            return limit
    wsum = entity.service_tree().wsum
    if wsum == 0:
        return limit
    limit = (limit * entity.weight + wsum // 2) // wsum
    return -1 if entity.allocated >= limit else limit


def weight_of_classes(bfqq: BfqQueue) -> i64:
    """Return the weights of all classes down to the queue's own, each class eight times the next."""
    sd = bfqq.sched_data
    total = sd.rt.wsum
    if bfqq.io_class >= CLASS_BE:
        total = total * LEVELS + sd.be.wsum
    if bfqq.io_class == CLASS_IDLE:
        total = total * LEVELS + sd.idle.wsum
    return total
