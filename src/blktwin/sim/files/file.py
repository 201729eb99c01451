"""A file on a simulated file system, as the loop driver's backing. Its operations: direct.py, buffered.py, fsync.py,
falloc.py; what its file system does: filesystem.py; the state of one operation: op.py.
"""

from __future__ import annotations

from mypy_extensions import i64

from blktwin.block.bdev import BlockDevice
from blktwin.block.machine import Task, WorkQueue
from blktwin.block.queue import RequestQueue
from blktwin.block.submit import about_to_sleep, resume_submission
from blktwin.drivers.backing import (
    EINVAL,
    FILE_FSYNC,
    IOCB_DIRECT,
    NO_LOWER,
    Backing,
    FileCall,
)
from blktwin.errors import ConfigError
from blktwin.sim.files.direct import advance_direct
from blktwin.sim.files.extents import BLOCK, BLOCK_SHIFT, HOLE, MAPPED, SHARED, UNWRITTEN, ExtentMap
from blktwin.sim.files.filesystem import KINDS, FileSystem
from blktwin.sim.files.fsync import advance_fsync
from blktwin.sim.files.inode import InodeLock
from blktwin.sim.files.op import GO, SLEEP, FileOp
from blktwin.sim.files.pagecache import PageCache
from blktwin.sim.files.params import FileParams, check_params, round_up
from blktwin.sim.image import ByteStore
from blktwin.sim.machine import SimMachine


class SimFile(Backing):
    """A file of params on bdev, from base_bytes on; it takes params.region_bytes() there. bdev None: in memory.

    ConfigError when it does not fit.
    """

    def __init__(self, machine: SimMachine, bdev: BlockDevice | None, base_bytes: int, params: FileParams) -> None:
        super().__init__()
        if params.kind != "bdev":
            check_params(params)
        self.machine: SimMachine = machine
        self.bdev: BlockDevice | None = bdev
        self.params: FileParams = params
        fs = KINDS[params.kind]
        self.fs: FileSystem = fs
        self.kind = fs.kind
        self.can_nowait = fs.can_nowait
        self.is_block_device = fs.is_device
        self.is_read_only = params.is_read_only
        self.cow_all: bool = fs.cow_all and not params.is_nodatacow
        self.keeps_bytes: bool = params.keeps_bytes
        self.image: ByteStore | None = None
        """The bytes of the device, for truncate() and content(); set by who builds the stack, if bytes are kept."""
        self.size: i64 = params.size_bytes
        self.max_bytes: i64 = round_up(params.size_bytes + params.grow_bytes)
        self.base_sector: i64 = base_bytes >> 9
        self.dio_align_bytes = 512
        if bdev is not None:
            limits = bdev.q.limits
            self.dio_align_bytes = params.dio_align_bytes or limits.logical_block_bytes
            self.is_rotational = limits.is_rotational
            self.max_zeroes_sectors = limits.max_write_zeroes_sectors
            if base_bytes % BLOCK and not fs.is_device:
                raise ConfigError(f"a file begins at a multiple of {BLOCK} bytes, not at {base_bytes}")
            if base_bytes + params.region_bytes() > bdev.size_bytes:
                room = max(0, int(bdev.size_bytes) - base_bytes)
                raise ConfigError(f"{bdev.q.name} has {room} bytes for a file that needs {params.region_bytes()}")
        elif not fs.in_memory:
            raise ConfigError(f"a file on {fs.kind} needs a device")
        self.extents: ExtentMap = make_extents(params)
        self.free_bytes: i64 = params.free_bytes
        self.inode_lock: InodeLock = InodeLock(machine)
        self.map_lock: InodeLock = InodeLock(machine)
        self.cache: PageCache = PageCache()
        self.dio_in_flight: i64 = 0
        self.drain_waiters: list[Task] = []
        self.dio_done_wq: WorkQueue = machine.alloc_workqueue("dio/" + self.lower_queue_name(), 0)
        self.journal_at: i64 = 0
        self.is_meta_dirty: bool = False
        """The inode has changed since the last commit began: its times, its size or its extents."""
        self.is_committing: bool = False
        self.commit_waiters: list[Task] = []
        self.committed_size: i64 = self.size
        self.committing_size: i64 = self.size
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

    def size_bytes(self) -> i64:
        """Return the size now."""
        return self.size

    def lower_queue_name(self) -> str:
        """Return the name of the device below."""
        return NO_LOWER if self.bdev is None else self.bdev.q.name

    def lower(self) -> RequestQueue:
        """Return the queue of the device below."""
        bdev = self.bdev
        assert bdev is not None
        return bdev.q

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
        return op

    def advance_other(self, op: FileOp, task: Task) -> i64:
        """Go on with what is not direct I/O."""
        if op.call.op == FILE_FSYNC:
            answer = advance_fsync(op, task)
        else:
            return op.fail(EINVAL)
        if answer != SLEEP:
            op.tell_ended()
        return answer

    # -- direct I/O in flight

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

    # -- extents and size

    def allocate(self, first: i64, last: i64) -> bool:
        """Give every block from first to last a place for a write; False: no room, and nothing has changed."""
        extents = self.extents
        needs: i64 = 0
        block = first
        while block <= last:
            state = extents.state(block)
            if state == HOLE or self.moves(block, state):
                needs += BLOCK
            block += 1
        if self.free_bytes >= 0 and needs > self.free_bytes:
            return False
        block = first
        while block <= last:
            state = extents.state(block)
            if state == HOLE:
                extents.set(block, UNWRITTEN)
            elif self.moves(block, state) and not extents.start_cow(block):
                while block >= first:
                    extents.drop_cow(block)
                    block -= 1
                return False
            block += 1
        if self.free_bytes >= 0:
            self.free_bytes -= needs
        self.is_meta_dirty = True
        return True

    def moves(self, block: i64, state: i64) -> bool:
        """Say whether a write of a block needs a new place that it has not got yet."""
        if state == SHARED or (self.cow_all and state == MAPPED):
            return int(block) not in self.extents.cow
        return False

    def written(self, first: i64, last: i64, is_ok: bool) -> None:
        """See a write of blocks end: they are mapped from now on."""
        extents = self.extents
        block = first
        while block <= last:
            if extents.cow and int(block) in extents.cow:
                if is_ok:
                    if self.free_bytes >= 0 and extents.state(block) != SHARED:
                        self.free_bytes += BLOCK
                    extents.end_cow(block)
                else:
                    extents.drop_cow(block)
            elif is_ok and extents.state(block) == UNWRITTEN:
                extents.set(block, MAPPED)
            block += 1
        self.is_meta_dirty = True

    def extend_to(self, end: i64) -> None:
        """Let the file be as long as a write needs it."""
        if end > self.size:
            self.size = end
            self.is_meta_dirty = True

    # -- metadata

    def begin_commit(self) -> None:
        """Begin to commit what has changed so far."""
        self.is_committing = True
        self.is_meta_dirty = False
        self.committing_size = self.size
        self.extents.begin_commit()

    def end_commit(self, is_done: bool) -> None:
        """End a commit."""
        self.is_committing = False
        self.extents.end_commit(is_done)
        if is_done:
            self.committed_size = self.committing_size
        else:
            self.is_meta_dirty = True

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

    def clear_cache(self, op: FileOp, task: Task) -> i64:
        """Write back what direct I/O must find on the device, and drop what it makes stale."""
        return GO

    def write_pages(self, op: FileOp, task: Task) -> i64:
        """Write back all dirty pages, and wait for them."""
        return GO


def make_extents(params: FileParams) -> ExtentMap:
    """Return the extent map of a new file."""
    own = round_up(params.size_bytes + params.grow_bytes) >> BLOCK_SHIFT
    extents = ExtentMap(round_up(params.size_bytes) >> BLOCK_SHIFT, own, params.spare_room() >> BLOCK_SHIFT)
    p_hole = 1.0 if params.is_sparse else params.p_hole
    extents.draw(params.seed, params.extent_bytes >> BLOCK_SHIFT, p_hole, params.p_unwritten, params.p_shared)
    extents.keeps_undo = params.keeps_bytes
    return extents
