"""The driver's way in: queue_rq(), the decision between worker and issuer, and the execution in a worker.

Kernel: loop_queue_rq(), loop_queue_work() and loop_handle_cmd(), drivers/block/loop.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.vecs import vec
from mypy_extensions import i64

from blktwin.block.bio import (
    BLK_STS_IOERR,
    BLK_STS_NOTSUPP,
    BLK_STS_OK,
    REQ_NOWAIT,
    REQ_OP_DISCARD,
    REQ_OP_FLUSH,
    REQ_OP_READ,
    REQ_OP_WRITE,
    REQ_OP_WRITE_ZEROES,
)
from blktwin.block.driver import Driver
from blktwin.block.limits import QueueLimits
from blktwin.block.machine import Machine, Task, WorkQueue
from blktwin.block.plug import Plug
from blktwin.block.request import Request
from blktwin.drivers.backing import EIO, EOPNOTSUPP, Backing
from blktwin.drivers.loop import inline, rfc
from blktwin.drivers.loop.command import CMD_BLOCKING, CMD_NEW, CMD_QUEUED, LoopCommand
from blktwin.drivers.loop.config import (
    POLICIES,
    POLICY_NOWAIT_FIRST,
    POLICY_PER_COMMAND,
    POLICY_RFC_EXACT,
    POLICY_RFC_SAFE,
    POLICY_WORKQUEUE,
    KernelCompat,
    LoopConfig,
)
from blktwin.drivers.loop.reasons import NR_REASONS, REASON_NOT_AIO, REASON_POLICY, REASON_ROOT_FALLBACK
from blktwin.drivers.loop.worker import CommandWork, IdleWorkers, LoopWorker
from blktwin.errors import LoopViolation

if TYPE_CHECKING:
    from blktwin.block.cgroup import Cgroup
    from blktwin.block.hctx import HardwareQueue
    from blktwin.block.tracepoint import Tracepoints

STATE_UNBOUND: Final = 0
STATE_BOUND: Final = 1
STATE_RUNDOWN: Final = 2
STATE_DELETING: Final = 3
STATE_NAMES: Final = ("unbound", "bound", "rundown", "deleting")


class LoopDriver(Driver):
    """One loop device's driver; LoopDevice configures it."""

    def __init__(self, machine: Machine, limits: QueueLimits, name: str, is_per_cgroup: bool) -> None:
        self.machine: Machine = machine
        self.trace: Tracepoints = machine.trace
        self.limits: QueueLimits = limits
        self.name: str = name
        self.state: i64 = STATE_UNBOUND
        self.backing: Backing | None = None
        self.policy: i64 = POLICY_WORKQUEUE
        self.compat: KernelCompat = KernelCompat()
        self.is_direct: bool = False
        self.is_read_only: bool = False
        self.offset_bytes: i64 = 0
        self.is_per_cgroup: bool = is_per_cgroup
        """A worker for each cgroup; until 5.13 one for the device."""
        self.has_hint: bool = True
        self.tries_any_file: bool = False
        """V4: attempts without sleeping also where the file does not offer them."""
        self.batches: bool = False
        self.plug: Plug = Plug()
        """For the I/O below that is submitted inline (batch_plug); empty between two batches."""
        self.inline_depth: i64 = 1
        """So many file systems may be nested on one task's stack."""
        self.freezes_at_submit: bool = False
        self.is_frozen_by_file: bool = False
        """Writes hold the file system's freeze protection: it is a file, not a device."""
        self.counts_stale: bool = False
        self.wq: WorkQueue | None = None
        self.root_worker: LoopWorker = LoopWorker(self, None)
        self.idle_workers: IdleWorkers = IdleWorkers(machine)
        self.nr_blocking_writes: i64 = 0
        """Direct writes that wait for a worker or are being submitted by one: the hint."""
        self.nr_freeze_starts: i64 = 0
        self.nr_freeze_ends: i64 = 0
        self.nr_memcg_gets: i64 = 0
        self.nr_memcg_puts: i64 = 0
        self.nr_inline: i64 = 0
        self.nr_queued: vec[i64] = vec[i64]([0] * NR_REASONS)
        """Commands given to workers, by reason."""
        self.nr_failing_preps: i64 = 0
        """So many preparations to come find no memory."""
        self.nr_failing_workers: i64 = 0
        """So many workers to come find no memory."""

    def configure(self, config: LoopConfig, backing: Backing) -> None:
        """Take what does not depend on the file's size or limits."""
        self.backing = backing
        self.compat = config.compat
        self.policy = POLICIES.index(config.policy)
        self.has_hint = config.hint
        self.tries_any_file = config.nowait_variant == "v4"
        self.batches = config.batch_plug and POLICY_PER_COMMAND < self.policy < POLICY_RFC_EXACT
        self.has_commit_rqs = self.batches
        self.freezes_at_submit = config.compat.freeze_taken_twice
        self.is_frozen_by_file = not backing.is_block_device
        self.counts_stale = config.compat.hint_use_after_completion and self.policy == POLICY_NOWAIT_FIRST
        if self.wq is None:
            self.wq = self.machine.alloc_workqueue(self.name, 0)

    # -- the way in

    def queue_rq(self, rq: Request, last: bool) -> i64:
        """Start rq and have it executed; it is never refused for want of anything.

        Kernel: loop_queue_rq(), drivers/block/loop.c, v6.12.
        """
        rq.q.start_request(rq)
        self.trace.loop_dispatch(rq)
        status: i64 = BLK_STS_IOERR
        op = rq.op
        if self.state == STATE_BOUND and (op <= REQ_OP_DISCARD or op == REQ_OP_WRITE_ZEROES):
            cmd = self.command_for(rq)
            if self.policy <= POLICY_PER_COMMAND:
                self.enqueue(cmd, REASON_POLICY if cmd.use_aio else REASON_NOT_AIO)
                return BLK_STS_OK
            status = inline.dispatch(self, cmd) if self.policy < POLICY_RFC_SAFE else rfc.dispatch(self, cmd)
        if last and self.plug.mq_list.count > 0:
            inline.flush_batch(self)
        return status

    def commit_rqs(self, hctx: HardwareQueue) -> None:
        """Send down what was submitted inline before."""
        if self.plug.mq_list.count > 0:
            inline.flush_batch(self)

    def command_for(self, rq: Request) -> LoopCommand:
        """Return the command that rq has for life, as new for this pass."""
        pdu = rq.pdu
        if pdu is None:
            cmd = LoopCommand(self, rq)
            rq.pdu = cmd
        else:
            assert isinstance(pdu, LoopCommand)
            cmd = pdu
        cmd.phase = CMD_NEW
        cmd.is_prepared = False
        cmd.use_aio = self.is_direct and rq.op <= REQ_OP_WRITE
        return cmd

    # -- to a worker

    def enqueue(self, cmd: LoopCommand, reason: i64) -> None:
        """Give cmd to a worker; from any context.

        Kernel: loop_queue_work(), drivers/block/loop.c, v6.12.
        """
        rq = cmd.rq
        cmd.phase = CMD_QUEUED
        cmd.is_counted = cmd.use_aio and rq.op == REQ_OP_WRITE
        if cmd.is_counted:
            self.write_queued()
        cgroup = rq.cgroup
        worker: LoopWorker | None = self.root_worker
        cmd.is_charged = False
        if cgroup is not None:
            parent = cgroup.parent
            if parent is not None and self.is_per_cgroup:
                cmd.is_charged = True
                if self.policy != POLICY_PER_COMMAND:
                    worker = self.worker_of(cgroup)
                    if worker is None:
                        cmd.is_charged = False
                        while parent is not None:
                            cgroup = parent
                            parent = cgroup.parent
                        reason = REASON_ROOT_FALLBACK
                        worker = self.root_worker
        cmd.queued_at_ns = self.machine.now_ns()
        cmd.cgroup = cgroup
        cmd.reason = reason
        if cmd.is_charged:
            self.nr_memcg_gets += 1
        self.nr_queued[reason] += 1
        self.trace.loop_work(rq, reason)
        wq = self.wq
        assert wq is not None
        assert worker is not None
        if self.policy == POLICY_PER_COMMAND:
            work = cmd.work
            if work is None:
                work = CommandWork(cmd)
                cmd.work = work
            self.machine.queue_on(wq, work)
        else:
            worker.add(cmd)
            self.machine.queue_on(wq, worker)

    def worker_of(self, cgroup: Cgroup) -> LoopWorker | None:
        """Return the cgroup's worker, made if need be; None when there is no memory for it."""
        idle_workers = self.idle_workers
        worker = idle_workers.find(cgroup)
        if worker is None:
            if self.nr_failing_workers > 0:
                self.nr_failing_workers -= 1
                return None
            worker = idle_workers.make(self, cgroup)
        elif worker.is_idle:
            idle_workers.remove(worker)
        return worker

    # -- the hint

    def write_queued(self) -> None:
        """Count a direct write that goes to a worker."""
        if self.compat.hint_asserts_wrong_lock and self.policy == POLICY_NOWAIT_FIRST:
            raise LoopViolation(f"{self.name}: the hint's counter changes under another lock than the one asserted")
        self.nr_blocking_writes += 1

    def write_submitted(self) -> None:
        """Count a direct write that a worker has submitted."""
        self.nr_blocking_writes -= 1
        assert self.nr_blocking_writes >= 0, f"{self.name}: more writes submitted by workers than queued for them"

    def count_stale(self, cmd: LoopCommand) -> None:
        """Do what write_submitted() does for a command that may have ended and serve another request."""
        if cmd.use_aio and cmd.rq.op == REQ_OP_WRITE:
            self.nr_blocking_writes -= 1

    # -- in a worker

    def execute(self, cmd: LoopCommand, task: Task) -> bool:
        """Go on with cmd in a worker; True when it has been submitted or has ended, False when the worker sleeps.

        Kernel: loop_handle_cmd(), drivers/block/loop.c, v6.12.
        """
        backing = self.backing
        assert backing is not None
        if cmd.phase != CMD_BLOCKING:
            rq = cmd.rq
            self.trace.loop_begin(rq, task, cmd.reason)
            rq.flags &= ~REQ_NOWAIT
            status = self.check(cmd)
            if status != BLK_STS_OK:
                if cmd.is_charged:
                    self.nr_memcg_puts += 1
                self.trace.loop_end(rq, -EOPNOTSUPP if status == BLK_STS_NOTSUPP else -EIO)
                cmd.end(status)
                return True
            cmd.begin(task, 0, CMD_BLOCKING)
        is_charged = cmd.is_charged
        task.fs_depth += 1
        is_done = backing.advance(cmd)
        task.fs_depth -= 1
        if not is_done:
            return False
        cmd.submitted()
        if is_charged:
            self.nr_memcg_puts += 1
        return True

    def check(self, cmd: LoopCommand) -> i64:
        """Prepare cmd for a worker unless that has been done; say what keeps it from being executed at all.

        Kernel: loop_handle_cmd(), lo_fallocate() and lo_req_flush(), drivers/block/loop.c, v6.12.
        """
        op = cmd.rq.op
        if op != REQ_OP_READ and op != REQ_OP_FLUSH and self.is_read_only:
            return BLK_STS_IOERR
        if op > REQ_OP_FLUSH and self.limits.max_discard_sectors == 0:
            # One limit for both: so it says here too for write-zeroes.
            return BLK_STS_NOTSUPP
        if not cmd.is_prepared and not cmd.prepare():
            return BLK_STS_IOERR
        return BLK_STS_OK
