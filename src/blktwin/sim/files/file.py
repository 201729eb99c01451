"""A file on a simulated file system, as the loop driver's backing.

Its operations: direct.py, buffered.py, fsync.py, falloc.py, over the state of one call (op.py); what a file is made
of: blocks.py; what its file system does: filesystem.py.
"""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from blktwin.block.bdev import BlockDevice
from blktwin.block.machine import Task, WorkQueue
from blktwin.block.queue import RequestQueue
from blktwin.block.submit import about_to_sleep, resume_submission
from blktwin.drivers.backing import (
    EAGAIN,
    EINVAL,
    FILE_FSYNC,
    FILE_PUNCH,
    FILE_READ,
    FILE_WRITE,
    FILE_ZERO,
    IOCB_DIRECT,
    NO_LOWER,
    FileCall,
)
from blktwin.errors import ConfigError
from blktwin.sim.files.blocks import BlockFile
from blktwin.sim.files.buffered import advance_read, advance_write
from blktwin.sim.files.direct import advance_direct
from blktwin.sim.files.extents import BLOCK, BLOCK_SHIFT, MAPPED, SHARED
from blktwin.sim.files.falloc import advance_falloc
from blktwin.sim.files.fsync import advance_fsync
from blktwin.sim.files.inode import InodeLock
from blktwin.sim.files.op import GO, SLEEP, FileOp
from blktwin.sim.files.params import FileParams, check_params
from blktwin.sim.files.readahead import Readahead
from blktwin.sim.files.writeback import ConvertWork, Flusher
from blktwin.sim.machine import SimMachine


@mypyc_attr(allow_interpreted_subclasses=True)
class SimFile(BlockFile):
    """A file of params on bdev, from base_bytes on; it takes params.region_bytes() there. bdev None: in memory.

    ConfigError when it does not fit.
    """

    def __init__(self, machine: SimMachine, bdev: BlockDevice | None, base_bytes: int, params: FileParams) -> None:
        if params.kind != "bdev":
            check_params(params)
        super().__init__(machine, base_bytes, params)
        fs = self.fs
        self.bdev: BlockDevice | None = bdev
        self.kind = fs.kind
        self.can_nowait = fs.can_nowait
        self.is_block_device = fs.is_device
        self.is_read_only = params.is_read_only
        if bdev is not None:
            self.check_place(bdev, base_bytes)
            limits = bdev.q.limits
            self.dio_align_bytes = params.dio_align_bytes or limits.logical_block_bytes
            self.is_rotational = limits.is_rotational
            self.max_zeroes_sectors = limits.max_write_zeroes_sectors
        elif not fs.in_memory:
            raise ConfigError(f"a file on {fs.kind} needs a device")
        self.inode_lock: InodeLock = InodeLock(machine)
        self.map_lock: InodeLock = InodeLock(machine)
        self.map_lock.is_spun_on = params.alloc_hold_ns == 0
        self.may_be_simple: bool = not (
            self.cow_all or self.is_read_only or fs.write_is_exclusive or fs.nowait_read_max > 0
        )
        """Direct I/O may be a bio and nothing else (direct.py is_simple())."""
        self.dio_in_flight: i64 = 0
        self.drain_waiters: list[Task] = []
        self.dio_done_wq: WorkQueue = machine.alloc_workqueue("dio/" + self.lower_queue_name(), 0)
        self.wb_wq: WorkQueue = machine.alloc_workqueue("writeback", 0)
        self.wb_convert: ConvertWork = ConvertWork(self)
        self.flusher: Flusher = Flusher(self)
        self.readahead: Readahead = Readahead(params.read_ahead_bytes // BLOCK)
        self.journal_at: i64 = 0
        self.commit_waiters: list[Task] = []
        self.wb_error: i64 = 0
        """An error of writeback that no fsync has told of."""
        self.nr_ops: i64 = 0
        self.nr_queued: i64 = 0
        """Direct I/Os that returned before they ended."""
        self.nr_eagain: i64 = 0
        """NOWAIT operations that were refused, by any of the reasons below or another."""
        self.nr_eagain_lock: i64 = 0
        self.nr_eagain_hole: i64 = 0
        self.nr_eagain_cow: i64 = 0
        self.nr_eagain_cache: i64 = 0
        self.nr_eagain_lower: i64 = 0
        """Refused by the device below, after they were queued."""
        self.nr_allocs: i64 = 0
        self.nr_lock_waits: i64 = 0
        """Allocations that had to wait for somebody's look-up."""

    def check_place(self, bdev: BlockDevice, base_bytes: int) -> None:
        """Raise ConfigError when the file cannot be there."""
        if base_bytes % BLOCK:
            raise ConfigError(f"a file begins at a multiple of {BLOCK} bytes, not at {base_bytes}")
        needs = self.params.region_bytes()
        if base_bytes + needs > bdev.size_bytes:
            room = max(0, int(bdev.size_bytes) - base_bytes)
            raise ConfigError(f"{bdev.q.name} has {room} bytes for a file that needs {needs}")

    def lower_queue_name(self) -> str:
        """Return the name of the device below."""
        return NO_LOWER if self.bdev is None else self.bdev.q.name

    def lower(self) -> RequestQueue:
        """Return the queue of the device below."""
        bdev = self.bdev
        assert bdev is not None
        return bdev.q

    # -- operations

    def advance(self, call: FileCall) -> bool:
        """Go on with call for call.task, who runs now; see Backing."""
        task = call.task
        assert task is not None
        if call.step == 0:
            op = self.begin(call, task)
        else:
            state = call.state
            assert isinstance(state, FileOp)
            op = state
            if task.is_blocked and not resume_submission(task):
                return False
        answer = advance_direct(op, task) if op.is_direct else self.advance_other(op, task)
        if answer == SLEEP:
            if task.plug is not None and not task.is_blocked and not task.is_queued:
                about_to_sleep(self.machine, task)
            return False
        call.step = 0
        return True

    def begin(self, call: FileCall, task: Task) -> FileOp:
        """Begin an operation."""
        self.nr_ops += 1
        self.machine.trace.file_op(task, call.op, call.nbytes)
        state = call.state
        if isinstance(state, FileOp) and state.file is self:
            op = state
        else:
            op = FileOp(self, call)
            call.state = op
        op.reset()
        op.is_direct = call.op < FILE_FSYNC and call.flags & IOCB_DIRECT != 0 and not self.fs.in_memory
        op.is_synced = False
        if op.is_direct and call.op == FILE_WRITE and self.must_copy(call.pos, call.pos + call.nbytes):
            op.is_direct = False
            op.is_synced = True
        return op

    def must_copy(self, pos: i64, end: i64) -> bool:
        """Say whether a direct write goes through the page cache: it would move parts of blocks."""
        if (pos | end) & (BLOCK - 1) == 0 or (pos | end) & (self.dio_align_bytes - 1):
            return False
        if self.extents.is_plain and not self.cow_all:
            return False
        return self.is_moved(pos >> BLOCK_SHIFT) or self.is_moved((end - 1) >> BLOCK_SHIFT)

    def is_moved(self, block: i64) -> bool:
        """Say whether a write moves the block."""
        state = self.extents.state(block)
        return state == SHARED or (self.cow_all and state == MAPPED)

    def advance_other(self, op: FileOp, task: Task) -> i64:
        """Go on with what is not direct I/O."""
        kind = op.call.op
        if kind == FILE_READ:
            answer = advance_read(op, task)
        elif kind == FILE_WRITE:
            answer = advance_write(op, task)
        elif kind == FILE_FSYNC:
            answer = advance_fsync(op, task)
        elif kind == FILE_PUNCH or kind == FILE_ZERO:
            answer = advance_falloc(op, task)
        else:
            answer = op.fail(EINVAL)
        if answer != SLEEP:
            op.tell_ended()
        return answer

    # -- direct I/O

    def dio_ended(self) -> None:
        """Count one out."""
        self.dio_in_flight -= 1
        if self.dio_in_flight == 0 and self.drain_waiters:
            waiters = self.drain_waiters
            self.drain_waiters = []
            for task in waiters:
                self.machine.wake_task(task)

    def drain(self, task: Task) -> bool:
        """Say whether no direct I/O is in flight; False: task is woken when there is none."""
        if self.dio_in_flight == 0:
            return True
        if task not in self.drain_waiters:
            self.drain_waiters.append(task)
        return False

    def clear_cache(self, op: FileOp, task: Task) -> i64:
        """Write back what a direct I/O must find on the device, and drop what it makes stale.

        Kernel: kiocb_write_and_wait() and kiocb_invalidate_pages(), mm/filemap.c, v6.12.
        """
        call = op.call
        cache = self.cache
        first = call.pos >> BLOCK_SHIFT
        last = (call.pos + call.nbytes - 1) >> BLOCK_SHIFT
        is_write = call.op == FILE_WRITE
        if op.is_nowait():
            if cache.has_page(first, last) if is_write else cache.needs_writeback(first, last):
                self.nr_eagain_cache += 1
                return op.fail(EAGAIN)
            return GO
        if op.sub_step == 0:
            op.sub_step = 2
            if cache.needs_writeback(first, last):
                op.sub_step = 1
                op.writer.start(first, last, True)
        if op.sub_step == 1:
            if not op.writer.advance(task):
                return SLEEP
            if op.writer.error != 0:
                return op.fail(op.writer.error)
            op.sub_step = 2
        if is_write:
            page = cache.reading(first, last)
            if page is not None:
                page.add_waiter(task)
                return SLEEP
            cache.drop_clean(first, last)
        return GO

    # -- fsync

    def journal_sector(self, nbytes: i64) -> i64:
        """Return where the next nbytes of the journal go; it is used from its begin again and again."""
        room: i64 = self.params.journal_room()
        if self.journal_at + nbytes > room:
            self.journal_at = 0
        begin: i64 = self.params.region_bytes() - room
        at = self.base_sector + ((begin + self.journal_at) >> 9)
        self.journal_at += nbytes
        return at

    def tell_error(self) -> i64:
        """Return an error of writeback, once; 0 for none."""
        errno = self.wb_error
        self.wb_error = 0
        return errno

    def write_pages(self, op: FileOp, task: Task) -> i64:
        """Write back all dirty pages, and wait for them."""
        if op.sub_step == 0:
            if not self.cache.dirty and self.cache.nr_writeback == 0:
                return GO
            op.sub_step = 1
            op.tell_queued()
            op.writer.start(0, self.max_bytes >> BLOCK_SHIFT, True)
        return GO if op.writer.advance(task) else SLEEP
