"""BFQ as blk-mq sees it: the hooks, each a call into the files of this folder.

data.py is the device, queue.py a process's queue, group.py a cgroup's, entity.py what these are to the scheduler. The
way of a request: assign.py -> insert.py -> select.py (wf2q.py, inject.py) -> finish.py; slots end in expire.py.
pending.py and idle.py decide when the device is kept for a queue.
Kernel: block/bfq-iosched.c, v6.12.
Differs: no actuators (6.3); every task has an I/O context, so only requests inserted at the head go past the queues.
"""

from __future__ import annotations

from mypy_extensions import i64

from blktwin.block.bfq import depth, finish
from blktwin.block.bfq.assign import exit_process, init_rq
from blktwin.block.bfq.bic import BfqIoCq
from blktwin.block.bfq.cgroups import update_cgroup
from blktwin.block.bfq.coop import merge_all, pos_tree_update, setup_cooperator
from blktwin.block.bfq.data import BfqData
from blktwin.block.bfq.expire import take_out_of_service
from blktwin.block.bfq.insert import insert
from blktwin.block.bfq.log import BUDGET_TIMEOUT, BfqLog
from blktwin.block.bfq.position import choose_req, remove_request, updated_next_req
from blktwin.block.bfq.queue import BfqQueue
from blktwin.block.bfq.select import dispatch
from blktwin.block.bfq.tunables import make_tunables, show, write_tunable
from blktwin.block.bio import Bio, op_is_sync
from blktwin.block.elevator import Elevator
from blktwin.block.hctx import HardwareQueue
from blktwin.block.iocontext import Icq
from blktwin.block.machine import Task, Timer
from blktwin.block.merge import FRONT_MERGE
from blktwin.block.queue import RequestQueue
from blktwin.block.request import Request
from blktwin.block.sched_merge import bio_merge_ok, rqhash_add, sched_try_merge, try_insert_merge


class IdleTimer(Timer):
    """Fires when a queue has been waited for long enough."""

    def __init__(self, bfq: Bfq) -> None:
        super().__init__()
        self.bfq: Bfq = bfq

    def fire(self) -> None:
        """End the idling."""
        finish.idle_timer_fired(self.bfq.bfqd)


class Bfq(Elevator):
    """The scheduler; log, if any, is set before attach()."""

    bfqd: BfqData
    """Made by attach()."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "bfq"
        self.tunables = make_tunables()
        self.log: BfqLog | None = None
        self.depths: depth.Depths = depth.Depths()
        self.bio_bfqq: BfqQueue | None = None
        """The queue of the bio that is being merged."""
        self.bio_bic: BfqIoCq | None = None
        self.last_task: Task | None = None
        """Who was looked up last, and what was found: each request asks three times."""
        self.last_bic: BfqIoCq | None = None

    def data(self) -> BfqData:
        """Return the device's data, which there is once attach() has run."""
        return self.bfqd

    def attach(self, q: RequestQueue) -> None:
        """Take the queue.

        Kernel: bfq_init_queue(), block/bfq-iosched.c, v6.12.
        """
        super().attach(q)
        root = q.machine.current.cgroup
        while root.parent is not None:
            root = root.parent
        bfqd = BfqData(q, IdleTimer(self), root, self.log)
        self.bfqd = bfqd
        show(bfqd, self.tunables)

    def set_log(self, log: BfqLog) -> None:
        """Have every decision told from now on."""
        self.log = log
        self.bfqd.log = log

    def set_tunable(self, name: str, value: int) -> None:
        """Write an iosched file; it takes effect at once."""
        super().set_tunable(name, value)
        write_tunable(self.bfqd, name, value, self.tunables)

    def depth_updated(self) -> None:
        """Size the depths by the number of scheduler tags.

        Kernel: bfq_depth_updated(), block/bfq-iosched.c, v6.12.
        """
        bfqd = self.bfqd
        q = bfqd.q
        # 7.2 fills its table before async_depth is set to 3/4 of nr_requests, and finds the driver's depth there.
        self.depths.update(bfqd, q.nr_requests, q.queue_depth)
        for hctx in q.hctxs:
            if hctx.sched_tags is not None:
                hctx.sched_tags.set_min_shallow_depth(1)

    def limit_depth(self, op: i64, flags: i64) -> i64:
        """Limit writes, and what would exceed its cgroup's share."""
        bic = self.lookup_bic()
        return depth.limit_depth(self.bfqd, self.depths, bic, op, flags)

    # -- processes

    def lookup_bic(self) -> BfqIoCq | None:
        """Return the running process's context, or None before its first request."""
        task = self.bfqd.machine.current
        if task is self.last_task:
            return self.last_bic
        context = task.io_context
        icq = context.head
        if icq is not None and icq.elevator is not self:
            icq = context.lookup(self)
        if icq is None:
            return None
        assert isinstance(icq, BfqIoCq)
        self.last_task = task
        self.last_bic = icq
        return icq

    def exit_icq(self, icq: Icq) -> None:
        """See a process end: its queue's slot ends, and the queue when its requests are done.

        Kernel: bfq_exit_icq() and bfq_exit_bfqq(), block/bfq-iosched.c, v6.12.
        """
        assert isinstance(icq, BfqIoCq)
        self.last_task = None
        self.last_bic = None
        bfqd = self.bfqd
        in_service = bfqd.in_service_queue
        if in_service is not None and (in_service is icq.sync_bfqq or in_service is icq.async_bfqq):
            log = bfqd.log
            if log is not None:
                log.exited(bfqd, in_service)
            take_out_of_service(bfqd, in_service, BUDGET_TIMEOUT)
            bfqd.schedule_dispatch()
        exit_process(bfqd, icq)

    # -- merging

    def bio_merge(self, bio: Bio) -> bool:
        """Try to merge a bio into a request of its process's queue.

        Kernel: bfq_bio_merge(), block/bfq-iosched.c, v6.12.
        """
        bic = self.lookup_bic()
        bfqd = self.bfqd
        bfqq: BfqQueue | None = None
        if bic is not None:
            cgroup = bio.cgroup
            assert cgroup is not None, "a bio without a cgroup"
            update_cgroup(bfqd, bic, cgroup)
            bfqq = bic.sync_bfqq if op_is_sync(bio.op, bio.flags) else bic.async_bfqq
        self.bio_bic = bic
        self.bio_bfqq = bfqq
        if bfqd.queued == 0 and bfqd.q.last_merge is None:
            return False
        return sched_try_merge(bfqd.q, bio)

    def allow_merge(self, rq: Request, bio: Bio) -> bool:
        """Allow merges inside one queue only; queues that cooperate become one first.

        Kernel: bfq_allow_bio_merge(), block/bfq-iosched.c, v6.12.
        """
        is_sync = op_is_sync(bio.op, bio.flags)
        bfqq = self.bio_bfqq
        bic = self.bio_bic
        if (is_sync and not rq.is_sync()) or bfqq is None or bic is None:
            return False
        bfqd = self.bfqd
        into = setup_cooperator(bfqd, bfqq, bio.sector, bic)
        if into is not None:
            bfqq = merge_all(bfqd, bic, bfqq, into, "close to each other")
            self.bio_bfqq = bfqq
        return rq.elv is bfqq

    def request_merge(self, bio: Bio) -> Request | None:
        """Return the request of the same queue that begins where bio ends.

        Kernel: bfq_request_merge() and bfq_find_rq_fmerge(), block/bfq-iosched.c, v6.12.
        """
        bfqq = self.bio_bfqq
        if bfqq is None or bfqq.nr_queued == 0:
            return None
        rq = bfqq.sort_list.starting_at(bio.sector + bio.nr_sectors)
        return rq if rq is not None and bio_merge_ok(self, rq, bio) else None

    def request_merged(self, rq: Request, how: i64) -> None:
        """Sort a request anew whose first sector has moved.

        Kernel: bfq_request_merged(), block/bfq-iosched.c, v6.12.
        """
        bfqq = rq.elv
        if how != FRONT_MERGE or bfqq is None:
            return
        assert isinstance(bfqq, BfqQueue)
        if not bfqq.sort_list.move_down(rq):
            return
        bfqd = self.bfqd
        before = bfqq.next_rq
        bfqq.next_rq = choose_req(bfqd, before, rq, bfqd.last_position)
        if before is not bfqq.next_rq:
            updated_next_req(bfqd, bfqq)
            if not bfqd.nonrot_with_queueing:
                pos_tree_update(bfqd, bfqq)

    def requests_merged(self, rq: Request, behind: Request) -> None:
        """Forget behind; rq takes its place in the fifo if that is the earlier one.

        Kernel: bfq_requests_merged(), block/bfq-iosched.c, v6.12.
        """
        bfqq = rq.elv
        other = behind.elv
        if bfqq is not None:
            assert isinstance(bfqq, BfqQueue)
            if bfqq is other and rq.is_in_fifo and behind.is_in_fifo and behind.fifo_expires < rq.fifo_expires:
                bfqq.fifo.move_behind(rq, behind)
                rq.fifo_expires = behind.fifo_expires
            if bfqq.next_rq is behind:
                bfqq.next_rq = rq
        if other is not None and behind.is_in_fifo:
            assert isinstance(other, BfqQueue)
            remove_request(self.bfqd, other, behind)

    def former_request(self, rq: Request) -> Request | None:
        """Return the one before in its queue's order."""
        bfqq = rq.elv
        if bfqq is None or not rq.is_in_fifo:
            return None
        assert isinstance(bfqq, BfqQueue)
        return bfqq.sort_list.neighbour(rq, -1)

    def next_request(self, rq: Request) -> Request | None:
        """Return the one behind in its queue's order."""
        bfqq = rq.elv
        if bfqq is None or not rq.is_in_fifo:
            return None
        assert isinstance(bfqq, BfqQueue)
        return bfqq.sort_list.neighbour(rq, 1)

    # -- the way of a request

    def prepare_request(self, rq: Request) -> None:
        """Note the process; its queue is chosen when the request is inserted.

        Kernel: bfq_prepare_request(), block/bfq-iosched.c, v6.12.
        """
        bic = self.lookup_bic()
        if bic is None:
            bic = BfqIoCq(self)
            self.bfqd.machine.current.io_context.add(bic)
        rq.icq = bic
        if rq.elv is not None:
            rq.elv = None

    def insert_request(self, hctx: HardwareQueue, rq: Request, at_head: bool) -> None:
        """Take rq: to its process's queue, or at_head past all queues.

        Kernel: bfq_insert_request(), block/bfq-iosched.c, v6.12.
        """
        bfqd = self.bfqd
        q = bfqd.q
        bic = rq.icq
        assert isinstance(bic, BfqIoCq)
        bfqq = init_rq(bfqd, rq, bic)
        bfqg = bic.bfqg
        assert bfqg is not None
        bfqg.stats.add(rq.op, rq.flags, rq.nr_sectors << 9)
        if (bfqd.queued > 0 or q.last_merge is not None) and try_insert_merge(q, rq):
            return
        q.trace.rq_insert(rq)
        if at_head:
            bfqd.dispatch.prepend(rq)
            return
        insert(bfqd, rq, bfqq, bic)
        if rq.is_mergeable():
            rqhash_add(q, rq)
            if q.last_merge is None:
                q.last_merge = rq

    def has_work(self, hctx: HardwareQueue) -> bool:
        """Say whether anything waits.

        Kernel: bfq_has_work(), block/bfq-iosched.c, v6.12.
        """
        bfqd = self.bfqd
        return bfqd.queued > 0 or bfqd.dispatch.count > 0

    def dispatch_request(self, hctx: HardwareQueue) -> Request | None:
        """Give up the request to serve next, or None to keep the device for a queue."""
        return dispatch(self.bfqd)

    def finish_request(self, rq: Request) -> None:
        """See rq leave."""
        finish.finish(self.bfqd, rq)

    def requeue_request(self, rq: Request) -> None:
        """See rq come back undone: its queue is chosen anew when it is inserted.

        Kernel: bfq_finish_requeue_request(), block/bfq-iosched.c, v6.12.
        """
        finish.finish(self.bfqd, rq)
