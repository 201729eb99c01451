"""Direct I/O on a file: locks, what is cached, extents, allocation, then a bio for each contiguous extent.

Kernel: iomap_dio_rw(), fs/iomap/direct-io.c; ext4_file_read_iter() and ext4_dio_write_iter(), fs/ext4/file.c;
xfs_file_dio_read() and xfs_file_dio_write(), fs/xfs/xfs_file.c, v6.12.
Differs: a NOWAIT I/O that could not do all of its range does none of it.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from blktwin.block.bio import REQ_IDLE, REQ_NOWAIT, REQ_OP_READ, REQ_OP_WRITE, REQ_SYNC
from blktwin.block.machine import Task
from blktwin.drivers.backing import EAGAIN, EINVAL, EIOCBQUEUED, ENOSPC, IOCB_NOWAIT
from blktwin.sim.files.extents import BLOCK, BLOCK_SHIFT, HOLE, MAPPED, SHARED, UNWRITTEN
from blktwin.sim.files.op import BIO_MAX_BYTES, DONE, EBADF, GO, SLEEP, FileOp

START: Final = 0
LOCK: Final = 1
DRAIN: Final = 2
CACHE: Final = 3
MAP: Final = 4
ALLOC: Final = 5
ALLOC_READERS: Final = 6
ALLOC_SLEEP: Final = 7
ALLOC_END: Final = 8
SUBMIT: Final = 9
LET_GO: Final = 10
WAIT: Final = 11
CONVERT: Final = 12


def advance_direct(op: FileOp, task: Task) -> i64:
    """Go on with a direct read or write."""
    call = op.call
    if call.step == START and is_simple(op):
        return submit_simple(op, task)
    if call.step <= LOCK:
        answer = begin(op) if call.step == START else GO
        if answer == GO:
            answer = take_lock(op)
        if answer != GO:
            return answer
        call.step = DRAIN
    if call.step < SUBMIT:
        answer = prepare(op, task)
        if answer != GO:
            return answer
        op.file.dio_in_flight += 1
        op.is_counted = True
        op.refs = 1
        call.step = SUBMIT
    if call.step == SUBMIT:
        if not submit_extents(op, task):
            return SLEEP
        op.finish_plug(task)
        call.step = LET_GO
    if call.step == LET_GO:
        if not waits_locked(op):
            op.unlock()
            return let_go(op, task)
        call.step = WAIT
    return wait_sync(op, task)


def is_simple(op: FileOp) -> bool:
    """Say whether an operation is one bio and nothing else: whole mapped blocks, no page cached, no lock contended."""
    file = op.file
    call = op.call
    pos = call.pos
    nbytes = call.nbytes
    if not file.may_be_simple or not file.extents.is_plain or file.cache.nr_pages > 0:
        return False
    if (pos | nbytes) & (BLOCK - 1) or nbytes > BIO_MAX_BYTES or nbytes <= 0 or pos < 0 or pos + nbytes > file.size:
        return False
    lock = file.inode_lock
    if lock.is_written or lock.head is not None:
        return False
    lock = file.map_lock
    return not lock.is_written and lock.head is None


def submit_simple(op: FileOp, task: Task) -> i64:
    """Do what all the steps below come to for a simple operation."""
    file = op.file
    call = op.call
    pos = call.pos
    flags: i64 = 0
    bio_op: i64 = REQ_OP_READ
    if call.op & 1:
        bio_op = REQ_OP_WRITE
        flags = REQ_SYNC | REQ_IDLE
        file.is_meta_dirty = True
    if call.flags & IOCB_NOWAIT:
        flags |= REQ_NOWAIT
    op.size = call.nbytes
    op.pos = op.end = pos + call.nbytes
    file.dio_in_flight += 1
    op.is_counted = True
    op.refs = 1
    file.inode_lock.nr_readers += 1
    if not op.submit(bio_op, flags, file.base_sector + (pos >> 9), call.nbytes >> 9, call.data, 0):
        op.has_lock = True
        call.step = SUBMIT
        return SLEEP
    file.inode_lock.release(False)
    return let_go(op, task)


def begin(op: FileOp) -> i64:
    """Check the range."""
    call = op.call
    file = op.file
    pos = call.pos
    nbytes = call.nbytes
    if (pos | nbytes) & (file.dio_align_bytes - 1) or pos < 0 or nbytes < 0:
        return op.fail(EINVAL)
    if nbytes == 0:
        return op.done(0)
    if call.op & 1 == 1:
        if file.is_read_only:
            return op.fail(EBADF)
        file.is_meta_dirty = True
    op.data = call.data
    op.data_pos = pos
    op.pos = pos
    call.step = LOCK
    if call.op & 1 == 0:
        if call.flags & IOCB_NOWAIT and file.fs.nowait_read_max > 0 and nbytes > file.fs.nowait_read_max:
            return op.fail(EAGAIN)
    elif call.flags & IOCB_NOWAIT and pos + nbytes > file.size:
        return op.fail(EAGAIN)
    max_bios = file.fs.nowait_max_bios
    if max_bios > 0 and call.flags & IOCB_NOWAIT and nbytes > BIO_MAX_BYTES * max_bios:
        return op.fail(EAGAIN)
    return GO


def take_lock(op: FileOp) -> i64:
    """Take the inode lock as the operation needs it, and set its end."""
    call = op.call
    file = op.file
    while call.op & 1 == 1 or file.fs.read_locks:
        is_exclusive = call.op & 1 == 1 and needs_exclusive(op)
        answer = op.lock(op.waiter.is_exclusive if op.waiter.has_lock else is_exclusive)
        if answer != GO:
            return answer
        # It may have slept: look again.
        if call.op & 1 == 0 or op.is_exclusive or not needs_exclusive(op):
            break
        op.unlock()
    end = call.pos + call.nbytes
    if end > file.size and (call.op & 1 == 0 or file.fs.is_device):
        # Short: there is nothing behind the end.
        end = file.size
        if call.pos >= end:
            if call.op & 1 == 1:
                return op.fail(ENOSPC)
            op.unlock()
            call.result = 0
            return DONE
    elif end > file.max_bytes:
        return op.fail(ENOSPC)
    op.end = end
    op.size = end - call.pos
    return GO


def needs_exclusive(op: FileOp) -> bool:
    """Say whether a write needs the inode lock for itself: it extends the file, or zeroes parts of blocks."""
    call = op.call
    file = op.file
    end = call.pos + call.nbytes
    if end > file.size:
        return not file.fs.is_device
    if file.fs.write_is_exclusive:
        return True
    if (call.pos | end) & (BLOCK - 1) == 0:
        return False
    extents = file.extents
    return extents.state(call.pos >> BLOCK_SHIFT) != MAPPED or extents.state((end - 1) >> BLOCK_SHIFT) != MAPPED


def prepare(op: FileOp, task: Task) -> i64:
    """Do what comes between the lock and the first bio."""
    call = op.call
    file = op.file
    if call.step == DRAIN:
        if op.is_exclusive and (call.pos | call.nbytes) & (BLOCK - 1) and not file.drain(task):
            # Zeroes parts of blocks: nobody else may be writing there.
            if call.flags & IOCB_NOWAIT:
                return op.fail(EAGAIN)
            return SLEEP
        call.step = CACHE
    if call.step == CACHE:
        if file.cache.nr_pages > 0:
            answer = file.clear_cache(op, task)
            if answer != GO:
                return answer
        call.step = MAP
    if call.step == MAP:
        if call.op & 1 == 1 and file.must_copy(call.pos, op.end):
            # It was not so before others have allocated here.
            op.unlock()
            op.is_direct = False
            op.is_synced = True
            call.step = START
            return file.advance_other(op, task)
        answer = look_up(op, task)
        if answer != GO or call.step == SUBMIT:
            return answer
    return allocate(op, task)


def look_up(op: FileOp, task: Task) -> i64:
    """Look at the extents: on with call.step SUBMIT when nothing must be allocated, else ALLOC."""
    call = op.call
    file = op.file
    fs = file.fs
    is_nowait = call.flags & IOCB_NOWAIT != 0
    if fs.read_needs_map and (file.map_lock.is_written or op.waiter.has_lock or op.waiter.is_queued):
        if is_nowait:
            file.nr_eagain_lock += 1
            return op.fail(EAGAIN)
        if not file.map_lock.acquire(op.waiter, task, False):
            return SLEEP
        file.map_lock.release(False)
    if fs.read_needs_map and file.params.map_ns > 0:
        begin_ns = file.machine.now_ns()
        file.machine.charge(file.params.map_ns * file.extents.nr_levels())
        file.map_lock.pass_by(begin_ns, file.machine.now_ns())
    extents = file.extents
    if extents.is_plain and (call.op & 1 == 0 or (op.end <= file.size and not file.cow_all)):
        call.step = SUBMIT
        return GO
    if call.op & 1 == 0:
        call.step = SUBMIT
        if is_nowait and fs.read_one_extent and not is_one_extent(op, False):
            return op.fail(EAGAIN)
        return GO
    errno = write_errno(op) if is_nowait else 0
    if errno != 0:
        return op.fail(errno)
    return plan_write(op)


def plan_write(op: FileOp) -> i64:
    """See what a write changes, beyond the bytes."""
    call = op.call
    file = op.file
    extents = file.extents
    first = op.pos >> BLOCK_SHIFT
    last = (op.end - 1) >> BLOCK_SHIFT
    op.first_block = first
    op.last_block = last
    call.step = SUBMIT
    if op.end > file.size:
        op.converts = True
    block = first
    while block <= last:
        state = extents.state(block)
        if state == UNWRITTEN:
            op.converts = True
        elif state == HOLE or ((state == SHARED or file.cow_all) and int(block) not in extents.cow):
            op.converts = True
            call.step = ALLOC
            return GO
        elif state == SHARED or file.cow_all:
            op.converts = True
        block += extents.run(block, last - block + 1, True) if not file.cow_all and state != SHARED else 1
    return GO


def write_errno(op: FileOp) -> i64:
    """Return the error with which a NOWAIT write is refused because of the extents; 0: it is not."""
    file = op.file
    block = op.pos >> BLOCK_SHIFT
    last = (op.end - 1) >> BLOCK_SHIFT
    is_aligned = (op.pos | op.end) & (BLOCK - 1) == 0
    while block <= last:
        state = file.extents.state(block)
        if state == HOLE:
            file.nr_eagain_hole += 1
            return file.fs.hole_errno
        if state == SHARED or (file.cow_all and state != UNWRITTEN):
            file.nr_eagain_cow += 1
            return EAGAIN
        if state == UNWRITTEN and not is_aligned:
            file.nr_eagain_hole += 1
            return EAGAIN
        block += file.extents.run(block, last - block + 1, True)
    if file.fs.write_one_extent and not is_one_extent(op, True):
        return EAGAIN
    return 0


def is_one_extent(op: FileOp, for_write: bool) -> bool:
    """Say whether the whole range lies in one extent."""
    first = op.pos >> BLOCK_SHIFT
    nr_blocks = ((op.end - 1) >> BLOCK_SHIFT) - first + 1
    return op.file.extents.run(first, nr_blocks, for_write) == nr_blocks


def allocate(op: FileOp, task: Task) -> i64:
    """Allocate what a write needs, under the lock of the extent map."""
    call = op.call
    file = op.file
    machine = file.machine
    if call.step == ALLOC:
        if not file.map_lock.acquire(op.waiter, task, True):
            return SLEEP
        call.step = ALLOC_READERS
        until_ns = file.map_lock.passed_at_ns(machine.now_ns())
        if until_ns > 0:
            # Somebody is looking something up: it sleeps until that one wakes it.
            file.nr_lock_waits += 1
            op.sleep_until(until_ns + machine.costs.remote_wake_ns)
            return SLEEP
        op.wake_at_ns = 0
    if call.step == ALLOC_READERS:
        if machine.now_ns() < op.wake_at_ns:
            return SLEEP
        machine.charge(file.params.alloc_ns)
        file.nr_allocs += 1
        call.step = ALLOC_END
        if file.params.alloc_hold_ns > 0:
            call.step = ALLOC_SLEEP
            op.sleep_until(machine.now_ns() + file.params.alloc_hold_ns)
            return SLEEP
        if machine.cond_resched(task):
            return SLEEP
    if call.step == ALLOC_SLEEP:
        if machine.now_ns() < op.wake_at_ns:
            return SLEEP
        call.step = ALLOC_END
    is_done = file.allocate(op.first_block, op.last_block, 0)
    file.map_lock.release(True)
    if not is_done:
        return op.fail(ENOSPC)
    call.step = SUBMIT
    return GO


def pad(op: FileOp) -> None:
    """Widen a write to whole blocks where the block it begins or ends in holds no bytes yet: the rest becomes zeros."""
    extents = op.file.extents
    begin = op.pos
    end = op.end
    if begin & (BLOCK - 1) and extents.state(begin >> BLOCK_SHIFT) == UNWRITTEN:
        begin &= ~(BLOCK - 1)
    if end & (BLOCK - 1) and extents.state((end - 1) >> BLOCK_SHIFT) == UNWRITTEN:
        end = (end + BLOCK - 1) & ~(BLOCK - 1)
    if begin == op.pos and end == op.end:
        return
    data = op.data
    if data is not None:
        op.data = bytearray(int(op.pos - begin)) + data[: int(op.end - op.pos)] + bytearray(int(end - op.end))
    op.data_pos = begin
    op.pos = begin
    op.end = end


def submit_extents(op: FileOp, task: Task) -> bool:
    """Submit the bios that are left; False: the task sleeps in a submission."""
    file = op.file
    extents = file.extents
    is_write = op.call.op & 1 == 1
    if is_write and op.converts and op.nr_bios == 0:
        if op.data is None and file.keeps_bytes:
            # Bytes that nobody keeps (a journal's) take the place of what the disk held there before.
            op.data = bytearray(int(op.end - op.pos))
        if (op.pos | op.end) & (BLOCK - 1):
            pad(op)
    while op.pos < op.end:
        block = op.pos >> BLOCK_SHIFT
        within = op.pos & (BLOCK - 1)
        nbytes = op.end - op.pos
        nr_blocks = (within + nbytes + BLOCK - 1) >> BLOCK_SHIFT
        run = extents.run(block, nr_blocks, is_write)
        if run < nr_blocks:
            nbytes = (run << BLOCK_SHIFT) - within
        state = extents.state(block)
        if not is_write and (state == HOLE or state == UNWRITTEN):
            op.fill_zeros(nbytes)
            op.pos += nbytes
            continue
        if nbytes > BIO_MAX_BYTES:
            nbytes = BIO_MAX_BYTES
        if op.pos + nbytes < op.end:
            op.start_plug(task)
        place = extents.write_place(block) if is_write else extents.place(block)
        sector = file.base_sector + (place << (BLOCK_SHIFT - 9)) + (within >> 9)
        is_awake = op.submit_data(sector, nbytes)
        op.pos += nbytes
        if not is_awake:
            return False
    return True


def waits_locked(op: FileOp) -> bool:
    """Say whether a write keeps its lock to its end: it extends the file, or zeroes the rest of a block.

    Kernel: ext4_dio_write_iter(), fs/ext4/file.c; xfs_file_dio_write_unaligned(), fs/xfs/xfs_file.c, v6.12.
    """
    call = op.call
    if not op.is_exclusive:
        return False
    return op.file.fs.extend_waits or (op.converts and (call.pos | call.nbytes) & (BLOCK - 1) != 0)


def let_go(op: FileOp, task: Task) -> i64:
    """Let go of an operation that needs no waiting; what has ended already is done here."""
    call = op.call
    op.refs -= 1
    if op.refs > 0:
        file = op.file
        file.nr_queued += 1
        call.result = -EIOCBQUEUED
        return DONE
    op.tell_ended()
    if op.converts:
        # All bios ended while the task slept in the submission of one.
        op.file.machine.queue_on(op.file.dio_done_wq, op.work)
        call.result = -EIOCBQUEUED
        return DONE
    op.uncount()
    call.result = op.result()
    return DONE


def wait_sync(op: FileOp, task: Task) -> i64:
    """Wait for the bios of a synchronous write, and change what changes after them."""
    call = op.call
    if call.step == WAIT:
        if not op.wait():
            return SLEEP
        call.step = CONVERT
    if op.converts and not op.convert(task):
        return SLEEP
    op.uncount()
    op.unlock()
    call.result = op.result()
    return DONE
