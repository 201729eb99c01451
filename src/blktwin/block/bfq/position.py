"""Which of a queue's requests is next, and the removal of a request from its queue.

Kernel: bfq_choose_req(), bfq_find_next_rq(), bfq_remove_request(), block/bfq-iosched.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from blktwin.block.bfq.busy import del_busy, requeue_queue
from blktwin.block.bfq.charge import serv_to_charge
from blktwin.block.bfq.coop import pos_tree_remove, pos_tree_update
from blktwin.block.bio import REQ_META
from blktwin.block.sched_merge import rqhash_del

if TYPE_CHECKING:
    from blktwin.block.bfq.data import BfqData
    from blktwin.block.bfq.queue import BfqQueue
    from blktwin.block.request import Request


def choose_req(bfqd: BfqData, one: Request | None, other: Request | None, last: i64) -> Request | None:
    """Return the better of two requests after position last: sync, then metadata, then the nearer, rather forward."""
    if one is None or one is other:
        return other
    if other is None:
        return one
    is_sync = one.is_sync()
    if is_sync != other.is_sync():
        return one if is_sync else other
    is_meta = one.flags & REQ_META != 0
    if is_meta != (other.flags & REQ_META != 0):
        return one if is_meta else other
    cost = distance_cost(bfqd, one.sector, last)
    other_cost = distance_cost(bfqd, other.sector, last)
    if cost < 0 and other_cost < 0:
        # Both are far behind: begin again from the first.
        return one if one.sector <= other.sector else other
    if cost < 0:
        return other
    if other_cost < 0 or cost < other_cost:
        return one
    if other_cost < cost:
        return other
    return one if one.sector >= other.sector else other


def distance_cost(bfqd: BfqData, sector: i64, last: i64) -> i64:
    """Return the cost of going from last to sector: the distance, more if backward; -1 if it is too far back."""
    if sector >= last:
        return sector - last
    if sector + bfqd.back_max_sectors >= last:
        return (last - sector) * bfqd.back_penalty
    return -1


def find_next_rq(bfqd: BfqData, bfqq: BfqQueue, rq: Request) -> Request | None:
    """Return what comes after rq, which is about to leave: an expired request once per slot, else the nearest.

    Kernel: bfq_find_next_rq() and bfq_check_fifo(), block/bfq-iosched.c, v6.12.
    """
    if not bfqq.fifo_expire:
        bfqq.fifo_expire = True
        oldest = bfqq.fifo.head
        if oldest is not None and oldest is not rq and oldest.fifo_expires <= bfqd.now_ns():
            return oldest
    sort_list = bfqq.sort_list
    if sort_list.count < 2:
        return None
    slots = sort_list.slots
    at = sort_list.index_of(rq)
    before = slots[at - 1] if at > 0 else None
    behind = slots[at + 1] if at + 1 < sort_list.count else slots[0]
    return choose_req(bfqd, behind, before, rq.sector)


def updated_next_req(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """Fit the budget of a waiting queue to its new next request, and reposition it.

    Kernel: bfq_updated_next_req(), block/bfq-iosched.c, v6.12.
    """
    rq = bfqq.next_rq
    if rq is None or bfqq is bfqd.in_service_queue:
        return
    budget = bfqq.max_budget
    charge = serv_to_charge(bfqd, rq, bfqq)
    if charge > budget:
        budget = charge
    if bfqq.service > budget:
        budget = bfqq.service
    if bfqq.budget != budget:
        bfqq.budget = budget
        requeue_queue(bfqd, bfqq, False)


def remove_request(bfqd: BfqData, bfqq: BfqQueue, rq: Request) -> None:
    """Take rq out of its queue; one that has nothing left and is not in service is no longer busy.

    Kernel: bfq_remove_request(), block/bfq-iosched.c, v6.12.
    """
    q = bfqd.q
    if bfqq.next_rq is rq:
        bfqq.next_rq = find_next_rq(bfqd, bfqq, rq)
        updated_next_req(bfqd, bfqq)
    if rq.is_in_fifo:
        bfqq.fifo.remove(rq)
    left = bfqq.nr_queued - 1
    bfqq.nr_queued = left
    if rq.is_sync():
        bfqq.nr_queued_sync -= 1
    bfqd.queued -= 1
    bfqq.sort_list.remove(rq)
    rqhash_del(q, rq)
    if q.last_merge is rq:
        q.last_merge = None
    if left == 0:
        bfqq.next_rq = None
        if bfqq.is_busy and bfqq is not bfqd.in_service_queue:
            del_busy(bfqd, bfqq, False)
            bfqq.budget = 0
            bfqq.service = 0
        if not bfqd.nonrot_with_queueing:
            pos_tree_remove(bfqd, bfqq)
    elif not bfqd.nonrot_with_queueing:
        pos_tree_update(bfqd, bfqq)
    if rq.flags & REQ_META:
        bfqq.meta_pending -= 1
