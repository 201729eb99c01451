"""Flush and FUA: which steps a request needs, and one flush in flight that serves all who wait.

A request with PREFLUSH or FUA goes through PREFLUSH, DATA, POSTFLUSH, as its policy says. Waiting requests stand in two
pending lists: one is served by the flush in flight, the other collects for the next.
Kernel: block/blk-flush.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block import complete
from blktwin.block.bio import BLK_STS_OK, REQ_FUA, REQ_OP_FLUSH, REQ_PREFLUSH, REQ_SYNC
from blktwin.block.request import MQ_RQ_IDLE, NO_TAG, RQF_FLUSH_RQ, RQF_FLUSH_SEQ, Request, RequestList

if TYPE_CHECKING:
    from blktwin.block.hctx import HardwareQueue
    from blktwin.block.queue import RequestQueue

FSEQ_PREFLUSH: Final = 1
FSEQ_DATA: Final = 2
FSEQ_POSTFLUSH: Final = 4
FSEQ_DONE: Final = 8
FSEQ_ALL: Final = 7

FLUSH_PENDING_NS: Final = 5_000_000_000


def policy_of(q: RequestQueue, rq: Request) -> i64:
    """Return the steps that rq needs on this queue, a mask of FSEQ_PREFLUSH, FSEQ_DATA and FSEQ_POSTFLUSH.

    Kernel: blk_insert_flush(), block/blk-flush.c, v6.12.
    """
    steps: i64 = 0
    if rq.nr_sectors > 0:
        steps |= FSEQ_DATA
    if q.limits.has_write_cache:
        if rq.flags & REQ_PREFLUSH:
            steps |= FSEQ_PREFLUSH
        if rq.flags & REQ_FUA and not q.limits.has_fua:
            steps |= FSEQ_POSTFLUSH
    return steps


class FlushQueue:
    """The flush state of one hardware queue."""

    def __init__(self, q: RequestQueue, hctx: HardwareQueue) -> None:
        self.q: RequestQueue = q
        self.hctx: HardwareQueue = hctx
        self.pending: list[RequestList] = [RequestList(), RequestList()]
        self.pending_index: i64 = 0
        """The list that collects; the other one is served when a flush is in flight."""
        self.running_index: i64 = 0
        self.pending_since_ns: i64 = 0
        self.nr_data_in_flight: i64 = 0
        self.flush_rq: Request = Request(q, hctx, -1)
        self.nr_flushes: i64 = 0

    def insert(self, rq: Request) -> bool:
        """Take a request with PREFLUSH or FUA; False: the caller goes on with it as with any other.

        Kernel: blk_insert_flush(), block/blk-flush.c, v6.12.
        """
        q = self.q
        steps = policy_of(q, rq)
        is_bypass = q.rules.flush_data_bypasses_elevator
        rq.flags &= ~REQ_PREFLUSH
        if not q.limits.has_fua:
            rq.flags &= ~REQ_FUA
        # Either flag implies that somebody waits.
        rq.flags |= REQ_SYNC
        if steps == 0:
            complete.end_request(q, rq, BLK_STS_OK)
            return True
        if steps == FSEQ_DATA:
            if is_bypass:
                q.bypass_insert(rq, False)
                q.run_hw_queue(rq.hctx, False)
            return is_bypass
        rq.rq_flags |= RQF_FLUSH_SEQ
        rq.flush_seq = 0
        if steps == FSEQ_DATA | FSEQ_POSTFLUSH and not is_bypass:
            # The data goes first, by the ordinary path; only its end is ours.
            rq.flush_seq = FSEQ_PREFLUSH
            self.nr_data_in_flight += 1
            return False
        self.advance(rq, FSEQ_ALL & ~steps, BLK_STS_OK)
        return True

    def advance(self, rq: Request, done: i64, status: i64) -> None:
        """Mark steps of rq as done and begin the next; kick the flush if it may go now.

        Kernel: blk_flush_complete_seq(), block/blk-flush.c, v6.12.
        """
        q = self.q
        assert rq.flush_seq & done == 0, f"step {done} of {rq.flush_seq} is done twice"
        rq.flush_seq |= done
        step = next_step(rq.flush_seq) if status == BLK_STS_OK else FSEQ_DONE
        if step == FSEQ_PREFLUSH or step == FSEQ_POSTFLUSH:
            waiting = self.pending[self.pending_index]
            if waiting.count == 0:
                self.pending_since_ns = q.machine.now_ns()
            rq.is_queued = True
            waiting.append(rq)
        elif step == FSEQ_DATA:
            self.nr_data_in_flight += 1
            rq.is_queued = True
            q.requeue_work.requeue_list.prepend(rq)
            q.kick_requeue_list()
        else:
            rq.rq_flags &= ~RQF_FLUSH_SEQ
            complete.end_sequenced(q, rq, status)
        self.kick()

    def kick(self) -> None:
        """Issue the flush if requests wait, none is in flight, and no data part holds it back (5 s at most).

        Kernel: blk_kick_flush(), block/blk-flush.c, v6.12.
        """
        q = self.q
        first = self.pending[self.pending_index].head
        if self.pending_index != self.running_index or first is None:
            return
        if self.nr_data_in_flight > 0 and q.machine.now_ns() < self.pending_since_ns + FLUSH_PENDING_NS:
            return
        self.pending_index ^= 1
        self.nr_flushes += 1
        rq = self.flush_rq
        rq.op = REQ_OP_FLUSH
        rq.flags = REQ_PREFLUSH
        rq.state = MQ_RQ_IDLE
        rq.rq_flags = RQF_FLUSH_RQ
        rq.ctx = first.ctx
        rq.submit_cpu = first.submit_cpu
        rq.start_ns = q.machine.now_ns()
        # It runs on the tag of its first member.
        rq.tag = first.tag if first.sched_tag == NO_TAG else NO_TAG
        rq.sched_tag = first.sched_tag
        rq.is_queued = True
        q.requeue_work.flush_list.append(rq)
        q.kick_requeue_list()

    def end_io(self, rq: Request, status: i64) -> None:
        """See the flush itself, or the data part of a member, come back."""
        if rq is self.flush_rq:
            self.flush_done(status)
        else:
            self.data_done(rq, status)

    def flush_done(self, status: i64) -> None:
        """Take all that waited for this flush a step on, with its status.

        Kernel: flush_end_io(), block/blk-flush.c, v6.12.
        """
        q = self.q
        rq = self.flush_rq
        q.stats.flushed(rq.start_ns, q.time_ns())
        rq.state = MQ_RQ_IDLE
        rq.rq_flags = 0
        q.put_driver_tag(rq)
        rq.tag = NO_TAG
        rq.sched_tag = NO_TAG
        running = RequestList()
        running.take_all(self.pending[self.running_index])
        self.running_index ^= 1
        member = running.pop()
        while member is not None:
            member.is_queued = False
            self.advance(member, next_step(member.flush_seq), status)
            member = running.pop()

    def data_done(self, rq: Request, status: i64) -> None:
        """Go on with a member whose data has been written; it may be sequenced again.

        Kernel: mq_flush_data_end_io(), block/blk-flush.c, v6.12.
        """
        hctx = rq.hctx
        self.q.put_driver_tag(rq)
        rq.state = MQ_RQ_IDLE
        self.nr_data_in_flight -= 1
        self.advance(rq, FSEQ_DATA, status)
        hctx.restart()


def next_step(seq: i64) -> i64:
    """Return the first step that is not in seq, FSEQ_DONE when all are.

    Kernel: blk_flush_cur_seq(), block/blk-flush.c, v6.12.
    """
    if not seq & FSEQ_PREFLUSH:
        return FSEQ_PREFLUSH
    if not seq & FSEQ_DATA:
        return FSEQ_DATA
    if not seq & FSEQ_POSTFLUSH:
        return FSEQ_POSTFLUSH
    return FSEQ_DONE
