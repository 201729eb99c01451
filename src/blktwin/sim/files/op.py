"""One operation on a file while it goes on: its place, its bios, the locks that it has. Reused with its FileCall.

The bios below hold references, and so does who submits them: the last one to let go ends the operation.
Kernel: struct iomap_dio, fs/iomap/direct-io.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.bio import (
    BLK_STS_OK,
    REQ_IDLE,
    REQ_NOWAIT,
    REQ_OP_READ,
    REQ_OP_WRITE,
    REQ_SYNC,
    STATUS_ERRNO,
    Bio,
)
from blktwin.block.limits import segments_of
from blktwin.block.machine import BlockingWork, Task, Timer
from blktwin.block.plug import Plug
from blktwin.block.submit import finish_plug, start_plug, submit_bio
from blktwin.drivers.backing import EAGAIN, EIO, IOCB_NOWAIT, FileCall
from blktwin.sim.files.extents import BLOCK, BLOCK_SHIFT
from blktwin.sim.files.inode import Waiter
from blktwin.sim.files.pagecache import Page
from blktwin.sim.files.readahead import PageReader
from blktwin.sim.files.writeback import PageWriter

if TYPE_CHECKING:
    from blktwin.sim.files.file import SimFile

SLEEP: Final = 0
GO: Final = 1
DONE: Final = 2
"""What a step answers: the task sleeps; on to the next step; call.result is set."""

BIO_MAX_BYTES: Final = 1 << 20
EBADF: Final = 9


class OpBio(Bio):
    """One bio of an operation."""

    def __init__(self, user: FileOp) -> None:
        super().__init__()
        self.user: FileOp = user

    def end_io(self) -> None:
        """Let go of the operation."""
        op = self.user
        if self.status != BLK_STS_OK and op.error == 0:
            op.error = STATUS_ERRNO.get(int(self.status), EIO)
        op.refs -= 1
        if op.refs == 0:
            op.lower_ended()


class OpWork(BlockingWork):
    """What is left to do after the I/O, in a kernel worker (the super block's s_dio_done_wq)."""

    def __init__(self, op: FileOp) -> None:
        super().__init__()
        self.op: FileOp = op

    def advance(self, worker: Task) -> bool:
        """Update the extents and the size, then end the operation."""
        op = self.op
        if not op.convert(worker):
            return False
        op.finish()
        return True


class OpTimer(Timer):
    """Wakes the task of an operation."""

    def __init__(self, op: FileOp) -> None:
        super().__init__()
        self.op: FileOp = op

    def fire(self) -> None:
        """Let it go on."""
        self.op.wake()


class FileOp:
    """The state of one call; an object per FileCall, made when that is first used on the file."""

    def __init__(self, file: SimFile, call: FileCall) -> None:
        self.file: SimFile = file
        self.call: FileCall = call
        self.is_direct: bool = False
        self.bio: OpBio = OpBio(self)
        self.more: list[OpBio] = []
        """For operations of several bios."""
        self.nr_bios: i64 = 0
        """Used by this operation."""
        self.refs: i64 = 0
        self.error: i64 = 0
        """The first one, as a positive number."""
        self.pos: i64 = 0
        """Where the next bio begins."""
        self.end: i64 = 0
        self.size: i64 = 0
        """What it returns when nothing fails."""
        self.data: bytearray | None = None
        self.data_pos: i64 = 0
        """The place in the file of data[0]."""
        self.waiter: Waiter = Waiter()
        self.is_exclusive: bool = False
        self.has_lock: bool = False
        self.is_counted: bool = False
        """Among the file's direct I/O in flight."""
        self.plug: Plug = Plug()
        self.has_plug: bool = False
        self.is_lower_queued: bool = False
        """The call has heard of its first bio, and not yet of the end of its last."""
        self.is_last_step: bool = True
        """No bios come after those that are under way."""
        self.is_waiting: bool = False
        """Its task waits for the bios (a synchronous operation)."""
        self.converts: bool = False
        """The extents, or the size, change after the I/O."""
        self.convert_step: i64 = 0
        self.first_block: i64 = 0
        self.last_block: i64 = 0
        """What converts changes."""
        self.work: OpWork = OpWork(self)
        self.timer: OpTimer = OpTimer(self)
        self.wake_at_ns: i64 = 0
        self.is_synced: bool = False
        """A buffered write that was to be direct: its pages are written before it returns."""
        self.writer: PageWriter = PageWriter(file)
        self.reader: PageReader = PageReader(file)
        self.awaited: Page | None = None
        """The page that its task waits for."""
        self.page: i64 = 0
        self.nr_copied: i64 = 0
        self.sub_step: i64 = 0

    def reset(self) -> None:
        """Begin another operation."""
        self.nr_bios = 0
        self.refs = 0
        self.error = 0
        self.size = 0
        self.is_exclusive = False
        self.is_waiting = False
        self.is_last_step = True
        self.converts = False
        self.convert_step = 0
        self.awaited = None
        self.sub_step = 0

    def begin_buffered(self) -> None:
        """Begin at the start of its range."""
        call = self.call
        self.data = call.data
        self.data_pos = call.pos
        self.pos = call.pos
        self.end = call.pos + call.nbytes
        self.nr_copied = 0
        self.reader.kept = None

    def is_nowait(self) -> bool:
        """Say whether it must not sleep."""
        return self.call.flags & IOCB_NOWAIT != 0

    def fail(self, errno: i64) -> i64:
        """End it before any I/O."""
        if errno == EAGAIN:
            self.file.nr_eagain += 1
        self.unlock()
        self.call.result = -errno
        return DONE

    def wake(self) -> None:
        """Wake its task."""
        task = self.call.task
        assert task is not None
        self.file.machine.wake_task(task)

    def sleep_until(self, time_ns: i64) -> None:
        """Let the task, which goes to sleep, wake at a time."""
        self.wake_at_ns = time_ns
        self.file.machine.arm_timer(self.timer, time_ns)

    def fill_zeros(self, nbytes: i64) -> None:
        """Let the caller read zeros for nbytes from self.pos on."""
        data = self.data
        if data is not None:
            at = int(self.pos - self.data_pos)
            data[at : at + int(nbytes)] = bytes(int(nbytes))

    def done(self, result: i64) -> i64:
        """End it with a result, now."""
        self.unlock()
        self.call.result = result
        return DONE

    # -- locks

    def lock(self, is_exclusive: bool) -> i64:
        """Take the inode lock; DONE: it is taken, and NOWAIT."""
        lock = self.file.inode_lock
        if self.call.flags & IOCB_NOWAIT:
            if not (lock.try_exclusive() if is_exclusive else lock.try_shared()):
                self.file.nr_eagain_lock += 1
                return self.fail(EAGAIN)
        else:
            task = self.call.task
            assert task is not None
            if not lock.acquire(self.waiter, task, is_exclusive):
                return SLEEP
        self.is_exclusive = is_exclusive
        self.has_lock = True
        return GO

    def unlock(self) -> None:
        """Give the inode lock back."""
        if self.has_lock:
            self.has_lock = False
            self.file.inode_lock.release(self.is_exclusive)

    # -- bios

    def next_bio(self) -> OpBio:
        """Return a bio that is free."""
        at = self.nr_bios
        self.nr_bios += 1
        if at == 0:
            return self.bio
        if len(self.more) < at:
            self.more.append(OpBio(self))
        return self.more[int(at - 1)]

    def submit(self, op: i64, flags: i64, sector: i64, nr_sectors: i64, data: bytearray | None, data_at: i64) -> bool:
        """Send a bio down; False: the task sleeps in the submission, and the bio is on its way all the same."""
        call = self.call
        bio = self.next_bio()
        bio.op = op
        bio.flags = flags
        bio.sector = sector
        bio.nr_sectors = nr_sectors
        bio.nr_segments = segments_of(nr_sectors)
        bio.status = BLK_STS_OK
        bio.ioprio = call.ioprio
        bio.cgroup = call.cgroup
        bio.data = data
        bio.data_at = data_at
        bio.parent = None
        bio.remaining = 1
        self.refs += 1
        if not self.is_lower_queued:
            self.tell_queued()
        return submit_bio(self.file.lower(), bio)

    def submit_data(self, sector: i64, nbytes: i64) -> bool:
        """Send a bio of direct I/O down for self.pos, nbytes on the device from sector on."""
        call = self.call
        flags: i64 = 0
        op: i64 = REQ_OP_READ
        if call.op & 1:
            op = REQ_OP_WRITE
            flags = REQ_SYNC | REQ_IDLE
        if call.flags & IOCB_NOWAIT:
            flags |= REQ_NOWAIT
        return self.submit(op, flags, sector, (nbytes + 511) >> 9, self.data, self.pos - self.data_pos)

    def start_plug(self, task: Task) -> None:
        """Collect the bios that come, unless they only line up behind the submission that the task is in."""
        if not self.has_plug and not task.is_submitting:
            self.has_plug = start_plug(task, self.plug)

    def finish_plug(self, task: Task) -> None:
        """Hand over what was collected."""
        if self.has_plug:
            self.has_plug = False
            finish_plug(self.file.machine, task)

    # -- pages

    def copy_out(self, page: Page | None) -> i64:
        """Copy what is wanted of the page at self.pos to the caller; None: zeros."""
        within = self.pos & (BLOCK - 1)
        nbytes = BLOCK - within
        if nbytes > self.end - self.pos:
            nbytes = self.end - self.pos
        data = self.data
        if data is not None:
            at = int(self.pos - self.data_pos)
            source = None if page is None else page.data
            if source is None:
                data[at : at + int(nbytes)] = bytes(int(nbytes))
            else:
                data[at : at + int(nbytes)] = source[int(within) : int(within + nbytes)]
        self.pos += nbytes
        self.nr_copied += 1
        return GO

    def copy_in(self, page: Page) -> None:
        """Copy what the caller has for the page at self.pos."""
        within = self.pos & (BLOCK - 1)
        nbytes = BLOCK - within
        if nbytes > self.end - self.pos:
            nbytes = self.end - self.pos
        data = self.data
        target = page.data
        if data is not None and target is not None:
            at = int(self.pos - self.data_pos)
            target[int(within) : int(within + nbytes)] = data[at : at + int(nbytes)]
        self.pos += nbytes
        self.nr_copied += 1

    def count_copy(self, task: Task) -> None:
        """Let the task have spent the time of its copies."""
        if self.nr_copied > 0:
            self.file.machine.trace.file_copy(task, self.nr_copied)
            self.nr_copied = 0

    # -- the end

    def wait(self) -> bool:
        """Let go of the operation as its submitter; False: the task sleeps until the bios have ended."""
        if not self.is_waiting:
            self.is_waiting = True
            self.refs -= 1
            if self.refs > 0:
                return False
            if self.is_last_step:
                self.tell_ended()
        elif self.refs > 0:
            return False
        self.is_waiting = False
        return True

    def start_bios(self, step: i64, is_last: bool) -> None:
        """Begin to submit the bios of a step; its task will wait for them."""
        self.call.step = step
        self.nr_bios = 0
        self.refs = 1
        self.is_last_step = is_last

    def tell_queued(self) -> None:
        """Tell the call, once, that something of it goes to the device."""
        if not self.is_lower_queued:
            self.is_lower_queued = True
            self.call.lower_queued()

    def tell_ended(self) -> None:
        """Tell the call, once, that nothing of it is below any more."""
        if self.is_lower_queued:
            self.is_lower_queued = False
            self.call.lower_ended()

    def lower_ended(self) -> None:
        """See the last bio end, when the submitter has let go before."""
        if self.is_last_step:
            self.tell_ended()
        if self.is_waiting:
            self.wake()
        elif self.converts:
            file = self.file
            file.machine.queue_on(file.dio_done_wq, self.work)
        else:
            self.finish()

    def convert(self, task: Task) -> bool:
        """Change the extents and the size after the I/O; False: the task sleeps."""
        file = self.file
        if self.convert_step == 0:
            if not file.map_lock.acquire(self.waiter, task, True):
                return False
            file.machine.charge(file.params.convert_ns)
            self.convert_step = 1
            if file.machine.cond_resched(task):
                return False
        file.written(self.first_block, self.last_block, self.error == 0)
        if self.error == 0:
            file.extend_to(self.call.pos + self.size)
        file.map_lock.release(True)
        return True

    def finish(self) -> None:
        """End an operation that was queued; nothing of it is touched after ki_complete()."""
        file = self.file
        call = self.call
        file.machine.trace.file_done(file.machine.current, call.op)
        self.uncount()
        call.ki_complete(self.result())

    def result(self) -> i64:
        """Return what the operation returns."""
        if self.error != 0:
            if self.error == EAGAIN:
                self.file.nr_eagain += 1
                self.file.nr_eagain_lower += 1
            return -self.error
        return self.size

    def uncount(self) -> None:
        """Leave the direct I/O in flight."""
        if self.is_counted:
            self.is_counted = False
            file = self.file
            file.dio_ended()
            if file.cache.nr_pages > 0 and self.call.op & 1 == 1:
                # What was read ahead meanwhile is stale.
                file.cache.drop_clean(self.call.pos >> BLOCK_SHIFT, (self.call.pos + self.size - 1) >> BLOCK_SHIFT)
