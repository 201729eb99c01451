"""Queues that are merged because their processes work together, or begin together; and their separation.

Close cooperators are found by position, on devices where that matters (not on flash that queues commands). Queues born
together are merged at once on such flash, and later elsewhere; those merges stay.
Kernel: bfq_setup_cooperator(), bfq_merge_bfqqs(), bfq_split_bfqq() and what they call, block/bfq-iosched.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.bfq.bic import BfqIoCq
from blktwin.block.bfq.busy import del_busy
from blktwin.block.bfq.idle import idling_boosts_thr_without_issues
from blktwin.block.bfq.lifetime import put_queue
from blktwin.block.bfq.pending import group_of
from blktwin.block.bfq.raising import set_coeff
from blktwin.block.bfq.saved import save_state
from blktwin.block.bfq.waker import set_waker

if TYPE_CHECKING:
    from blktwin.block.bfq.data import BfqData
    from blktwin.block.bfq.queue import BfqQueue

CLOSE_THR_SECTORS: Final = 8192


# -- positions


def pos_tree_remove(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """Take bfqq out of its group's queues by position, if it is there."""
    queues = group_of(bfqd, bfqq).pos_queues
    if bfqq in queues:
        queues.remove(bfqq)


def pos_tree_update(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """Put bfqq where its next request belongs among its group's queues; the second at one sector is left out.

    Kernel: bfq_pos_tree_add_move(), block/bfq-iosched.c, v6.12.
    """
    pos_tree_remove(bfqd, bfqq)
    rq = bfqq.next_rq
    if rq is None or bfqq.is_class_idle() or too_late_to_merge(bfqd, bfqq):
        return
    queues = group_of(bfqd, bfqq).pos_queues
    at = position_of(queues, rq.sector)
    if at < len(queues) and next_sector(queues[at]) == rq.sector:
        return
    queues.insert(at, bfqq)


def next_sector(bfqq: BfqQueue) -> i64:
    """Return the first sector of the next request of a queue that has one."""
    rq = bfqq.next_rq
    assert rq is not None
    return rq.sector


def position_of(queues: list[BfqQueue], sector: i64) -> int:
    """Return the index of the first queue whose next request is at or behind sector."""
    low = 0
    high = len(queues)
    while low < high:
        middle = (low + high) >> 1
        if next_sector(queues[middle]) < sector:
            low = middle + 1
        else:
            high = middle
    return low


def is_close(sector: i64, other: i64) -> bool:
    """Say whether two sectors are near each other."""
    distance = sector - other
    return -CLOSE_THR_SECTORS <= distance <= CLOSE_THR_SECTORS


def find_close(bfqd: BfqData, bfqq: BfqQueue, sector: i64) -> BfqQueue | None:
    """Return a queue of the same group whose next request is at sector or near it.

    Kernel: bfqq_find_close(), block/bfq-iosched.c, v6.12.
    Differs: of two near ones the one behind is taken; the kernel takes the one that its tree's descent ends at.
    """
    queues = group_of(bfqd, bfqq).pos_queues
    at = position_of(queues, sector)
    if at < len(queues) and is_close(next_sector(queues[at]), sector):
        return queues[at]
    if at > 0 and is_close(next_sector(queues[at - 1]), sector):
        return queues[at - 1]
    return None


def too_late_to_merge(bfqd: BfqData, bfqq: BfqQueue) -> bool:
    """Say whether the queue has been at work for too long to be merged.

    Kernel: bfq_too_late_for_merging(), block/bfq-iosched.c, v6.12.
    """
    return bfqq.service_from_backlogged > 0 and bfqq.first_io_jif + bfqd.merge_time_limit_jif < bfqd.jif()


def may_cooperate(bfqd: BfqData, bfqq: BfqQueue, other: BfqQueue) -> bool:
    """Say whether two queues that are near each other may be one sequence.

    Kernel: bfq_may_be_close_cooperator(), block/bfq-iosched.c, v6.12.
    """
    return (
        bfqq.io_class == other.io_class
        and not bfqq.is_class_idle()
        and not bfqq.is_seeky()
        and not other.is_seeky()
        and bfqq.is_sync
        and other.is_sync
        and not too_late_to_merge(bfqd, other)
    )


# -- merging


def setup_cooperator(bfqd: BfqData, bfqq: BfqQueue, sector: i64, bic: BfqIoCq) -> BfqQueue | None:
    """Return the queue that bfqq is to be merged into now, or None; sector: of the bio or request that asks."""
    new_bfqq = bfqq.new_bfqq
    if new_bfqq is not None:
        while new_bfqq.new_bfqq is not None:
            new_bfqq = new_bfqq.new_bfqq
        return new_bfqq
    if bfqd.nonrot_with_queueing:
        return None
    if bfqq.is_sync and bic.stable_merge_bfqq is not None and is_time_for_late_merge(bfqd, bfqq):
        return late_stable_merge(bfqd, bfqq, bic)
    if bfqd.tot_busy_queues == 1 or too_late_to_merge(bfqd, bfqq):
        return None
    in_service = bfqd.in_service_queue
    if (
        in_service is not None
        and in_service is not bfqq
        and is_close(sector, bfqd.in_serv_last_pos)
        and bfqq.parent is in_service.parent
        and may_cooperate(bfqd, bfqq, in_service)
    ):
        found = setup_merge(bfqq, in_service)
        if found is not None:
            return found
    near = find_close(bfqd, bfqq, sector)
    if near is not None and near is not bfqq and may_cooperate(bfqd, bfqq, near):
        return setup_merge(bfqq, near)
    return None


def setup_merge(bfqq: BfqQueue, into: BfqQueue) -> BfqQueue | None:
    """Arrange that every process of bfqq goes over to the queue that `into` ends in; None if that cannot be.

    Kernel: bfq_setup_merge(), block/bfq-iosched.c, v6.12.
    """
    if into.process_refs == 0:
        return None
    while into.new_bfqq is not None:
        if into.new_bfqq is bfqq:
            return None
        into = into.new_bfqq
    if bfqq.process_refs == 0 or into.process_refs == 0 or into.parent is not bfqq.parent or into is bfqq:
        return None
    bfqq.new_bfqq = into
    into.process_refs += bfqq.process_refs
    return into


def merge_all(bfqd: BfqData, bic: BfqIoCq, bfqq: BfqQueue, into: BfqQueue, why: str) -> BfqQueue:
    """Bring one process from bfqq along the chain to `into`."""
    while bfqq is not into:
        bfqq = merge_queues(bfqd, bic, bfqq, why)
    return bfqq


def merge_queues(bfqd: BfqData, bic: BfqIoCq, bfqq: BfqQueue, why: str) -> BfqQueue:
    """Let one process go over from bfqq to the queue it is to be merged into, which is shared from now on.

    Kernel: bfq_merge_bfqqs(), block/bfq-iosched.c, v6.12.
    """
    into = bfqq.new_bfqq
    assert into is not None
    log = bfqd.log
    if log is not None:
        log.merged(bfqd, bfqq, into, why)
    save_state(bfqd, bfqq)
    save_state(bfqd, into)
    if bfqq.is_io_bound:
        into.is_io_bound = True
    bfqq.is_io_bound = False
    waker = bfqq.waker
    if bfqd.new_wakers and waker is not None and into.waker is None and waker is not into:
        into.tentative_waker = None
        set_waker(bfqd, into, waker)
    if bfqq.wr_coeff > 1:
        if into.wr_coeff == 1:
            into.wr_cur_max_jif = bfqq.wr_cur_max_jif
            into.last_wr_start_finish_jif = bfqq.last_wr_start_finish_jif
            into.wr_start_at_switch_to_srt_jif = bfqq.wr_start_at_switch_to_srt_jif
            if into.is_busy:
                bfqd.wr_busy_queues += 1
            into.prio_changed = True
            set_coeff(bfqd, into, bfqq.wr_coeff)
        if bfqq.is_busy:
            bfqd.wr_busy_queues -= 1
        bfqq.prio_changed = True
        set_coeff(bfqd, bfqq, 1)
    # `into` has counted this process since the merge was arranged.
    bic.sync_bfqq = into
    into.is_coop = True
    into.bic = None
    into.pid = -1
    bfqq.bic = None
    reassign_last(bfqd, bfqq, into)
    release_process_ref(bfqd, bfqq)
    return into


def reassign_last(bfqd: BfqData, bfqq: BfqQueue, into: BfqQueue | None) -> None:
    """Put another queue in the place of bfqq as the last one created in its group.

    Kernel: bfq_reassign_last_bfqq(), block/bfq-iosched.c, v6.12.
    """
    bfqg = group_of(bfqd, bfqq)
    if bfqg.last_bfqq_created is bfqq:
        bfqg.last_bfqq_created = into


def release_process_ref(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """See one process leave bfqq.

    Kernel: bfq_release_process_ref(), block/bfq-iosched.c, v6.12.
    """
    if bfqq.is_busy and bfqq.nr_queued == 0 and bfqq is not bfqd.in_service_queue:
        del_busy(bfqd, bfqq, False)
    reassign_last(bfqd, bfqq, None)
    bfqq.process_refs -= 1
    assert bfqq.process_refs >= 0
    put_queue(bfqd, bfqq)


def put_cooperator(bfqd: BfqData, bfqq: BfqQueue) -> None:
    """See a process leave bfqq that was to be merged: it will not come to the queues of the chain.

    Kernel: bfq_put_cooperator(), block/bfq-iosched.c, v6.12.
    """
    chained = bfqq.new_bfqq
    while chained is not None and chained is not bfqq:
        following = chained.new_bfqq
        chained.process_refs -= 1
        put_queue(bfqd, chained)
        chained = following


# -- stable merges


def stable_merge(bfqd: BfqData, bfqq: BfqQueue, bic: BfqIoCq) -> BfqQueue:
    """See a queue created: if another was just before it in the group, merge them, at once or later.

    Kernel: bfq_do_or_sched_stable_merge(), block/bfq-iosched.c, v6.12.
    """
    bfqg = group_of(bfqd, bfqq)
    last = bfqg.last_bfqq_created
    if (
        last is None
        or last.creation_jif + bfqd.late_stable_merging_jif < bfqq.creation_jif
        or last.parent is not bfqq.parent
        or last.ioprio != bfqq.ioprio
        or last.io_class != bfqq.io_class
    ):
        bfqg.last_bfqq_created = bfqq
        return bfqq
    if last.creation_jif + bfqd.burst_interval_jif < bfqq.creation_jif:
        return bfqq
    if not bfqd.nonrot_with_queueing:
        last.stable_refs += 1
        forgotten = bic.stable_merge_bfqq
        bic.stable_merge_bfqq = last
        if forgotten is not None:
            # The process has left a shared queue before its delayed merge; the kernel leaks that queue.
            forgotten.stable_refs -= 1
            put_queue(bfqd, forgotten)
        return bfqq
    into = setup_merge(bfqq, last)
    if into is None:
        return bfqq
    mark_stably_merged(into, bic)
    bfqq.bic = bic
    return merge_queues(bfqd, bic, bfqq, "created together")


def mark_stably_merged(into: BfqQueue, bic: BfqIoCq) -> None:
    """Note with both processes that they are never to be separated."""
    bic.stably_merged = True
    if into.bic is not None:
        into.bic.stably_merged = True


def is_time_for_late_merge(bfqd: BfqData, bfqq: BfqQueue) -> bool:
    """Say whether the queue is old enough for its delayed stable merge."""
    before_jif = bfqd.jif() - bfqd.late_stable_merging_jif
    return not bfqq.just_created and bfqq.split_jif < before_jif and bfqq.creation_jif < before_jif


def late_stable_merge(bfqd: BfqData, bfqq: BfqQueue, bic: BfqIoCq) -> BfqQueue | None:
    """Do the stable merge that was put off, unless idling serves the queue better."""
    other = bic.stable_merge_bfqq
    assert other is not None
    bic.stable_merge_bfqq = None
    other.stable_refs -= 1
    into: BfqQueue | None = None
    if (
        not idling_boosts_thr_without_issues(bfqd, bfqq)
        and other.process_refs > 0
        and bfqq.process_refs > 0
        and other is not bfqq
    ):
        into = setup_merge(bfqq, other)
        if into is not None:
            mark_stably_merged(into, bic)
    put_queue(bfqd, other)
    return into
