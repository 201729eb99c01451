"""fallocate: punch a hole, or make a range read zeros; both keep the size, and wait for direct I/O in flight.

Kernel: ext4_punch_hole(), fs/ext4/inode.c, and ext4_zero_range(), fs/ext4/extents.c; xfs_file_fallocate(),
fs/xfs/xfs_file.c; blkdev_fallocate(), block/fops.c; shmem_fallocate(), mm/shmem.c, v6.12.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from blktwin.block.bio import BLK_STS_NOTSUPP, REQ_OP_WRITE, REQ_OP_WRITE_ZEROES, REQ_SYNC, STATUS_ERRNO
from blktwin.block.machine import Task
from blktwin.drivers.backing import EAGAIN, EINVAL, EIO, ENOSPC, EOPNOTSUPP, FILE_PUNCH, FILE_ZERO
from blktwin.sim.files.extents import BLOCK, BLOCK_SHIFT
from blktwin.sim.files.op import BIO_MAX_BYTES, EBADF, GO, SLEEP, FileOp

START: Final = 0
LOCK: Final = 1
DRAIN: Final = 2
PAGES: Final = 3
EDGES: Final = 4
CHANGE: Final = 5
CHANGED: Final = 6
BIOS: Final = 7
WAIT: Final = 8
ENOTSUPP: Final = STATUS_ERRNO[BLK_STS_NOTSUPP]


def advance_falloc(op: FileOp, task: Task) -> i64:
    """Go on with a punch or zero range."""
    call = op.call
    file = op.file
    if call.step == START:
        answer = begin(op)
        if answer != GO:
            return answer
    if call.step == LOCK:
        answer = op.lock(True)
        if answer != GO:
            return answer
        call.step = DRAIN
    if call.step == DRAIN:
        if file.fs.falloc_drains and not file.drain(task):
            return SLEEP
        call.step = PAGES
        if file.fs.in_memory or not file.cache.needs_writeback(op.first_block, op.last_block):
            call.step = EDGES
        else:
            op.tell_queued()
            op.writer.start(op.first_block, op.last_block, True)
    if call.step == PAGES:
        if not op.writer.advance(task):
            return SLEEP
        call.step = EDGES
    if call.step == EDGES:
        page = file.cache.reading(op.first_block, op.last_block)
        if page is not None:
            page.add_waiter(task)
            return SLEEP
        if file.fs.is_device:
            call.step = BIOS
        else:
            answer = zero_edges(op, task)
            if answer != GO:
                return answer
            call.step = CHANGE
    return zero_device(op, task) if file.fs.is_device else change(op, task)


def begin(op: FileOp) -> i64:
    """Check the range."""
    call = op.call
    file = op.file
    if op.is_nowait():
        return op.fail(EAGAIN)
    if call.pos < 0 or call.nbytes <= 0:
        return op.fail(EINVAL)
    if file.is_read_only:
        return op.fail(EBADF)
    if file.fs.in_memory and call.op == FILE_ZERO:
        return op.fail(EOPNOTSUPP)
    end = call.pos + call.nbytes
    if file.fs.is_device:
        if (call.pos | call.nbytes) & (file.dio_align_bytes - 1) or call.pos >= file.size:
            return op.fail(EINVAL)
        if end > file.size:
            end = file.size
        if call.op == FILE_PUNCH and file.lower().limits.max_write_zeroes_sectors == 0:
            return op.fail(EOPNOTSUPP)
    elif end > file.max_bytes:
        if call.op == FILE_ZERO:
            return op.fail(ENOSPC)
        end = file.max_bytes
        if call.pos >= end:
            return op.done(0)
    op.begin_buffered()
    op.end = end
    op.first_block = op.pos >> BLOCK_SHIFT
    op.last_block = (end - 1) >> BLOCK_SHIFT
    op.page = op.first_block
    file.is_meta_dirty = True
    call.step = LOCK
    return GO


def zero_edges(op: FileOp, task: Task) -> i64:
    """Zero the parts of blocks at both ends of the range, in the page cache."""
    if op.reader.is_active and not op.reader.advance(task):
        return SLEEP
    while op.page <= op.last_block:
        index = op.page
        begin = index << BLOCK_SHIFT
        low = op.pos - begin if op.pos > begin else 0
        high = op.end - begin if op.end < begin + BLOCK else BLOCK
        if low > 0 or high < BLOCK:
            answer = zero_part(op, index, low, high, task)
            if answer != GO:
                return answer
        # Whole blocks lie between the first and the last.
        op.page = op.last_block if index < op.last_block else index + 1
    return GO


def zero_part(op: FileOp, index: i64, low: i64, high: i64, task: Task) -> i64:
    """Zero bytes low to high - 1 of a page; what its block does not hold need not be zeroed."""
    file = op.file
    cache = file.cache
    awaited = op.awaited
    op.awaited = None
    if awaited is not None and awaited.is_failed:
        return op.fail(EIO)
    page = cache.find(index)
    if page is None:
        if not file.holds_bytes(index):
            return GO
        op.tell_queued()
        op.reader.start(index, index + 1, -1, False)
        if not op.reader.advance(task):
            return SLEEP
        page = cache.find(index)
        if page is None:
            # Behind the end of the file: nobody can read it.
            return GO
    if not page.is_uptodate:
        op.awaited = page
        page.add_waiter(task)
        return SLEEP
    data = page.data
    if data is not None:
        data[int(low) : int(high)] = bytes(int(high - low))
    if not file.fs.in_memory:
        answer = file.reserve(index, page)
        if answer < 0:
            return op.fail(ENOSPC)
        page.is_reserved = page.is_reserved or answer > 0
        cache.set_dirty(index, page)
    return GO


def change(op: FileOp, task: Task) -> i64:
    """Change the extents of the whole blocks; a zero range allocates those at its ends too."""
    call = op.call
    file = op.file
    if call.step == CHANGE:
        if not file.map_lock.acquire(op.waiter, task, True):
            return SLEEP
        file.machine.charge(file.params.falloc_ns)
        call.step = CHANGED
        if file.machine.cond_resched(task):
            return SLEEP
    first = (op.pos + BLOCK - 1) >> BLOCK_SHIFT
    last = (op.end >> BLOCK_SHIFT) - 1
    is_done = True
    if first <= last:
        file.drop_pages(first, last)
        if call.op == FILE_PUNCH:
            file.free_blocks(first, last)
        else:
            is_done = file.zero_blocks(first, last)
    file.map_lock.release(True)
    file.flusher.look()
    return op.done(0) if is_done else op.fail(ENOSPC)


def zero_device(op: FileOp, task: Task) -> i64:
    """Send write-zeroes, or for a zero range on a device without them zeros; wait for the end."""
    call = op.call
    file = op.file
    if call.step == BIOS:
        if op.refs == 0:
            file.drop_pages(op.first_block, op.last_block)
            op.start_bios(BIOS, True)
        while op.pos < op.end:
            nbytes = op.end - op.pos
            sector = file.base_sector + (op.pos >> 9)
            if file.lower().limits.max_write_zeroes_sectors > 0:
                op.pos = op.end
                is_awake = op.submit(REQ_OP_WRITE_ZEROES, 0, sector, nbytes >> 9, None, 0)
            else:
                if nbytes > BIO_MAX_BYTES:
                    nbytes = BIO_MAX_BYTES
                op.pos += nbytes
                zeros = bytearray(int(nbytes)) if file.keeps_bytes else None
                is_awake = op.submit(REQ_OP_WRITE, REQ_SYNC, sector, nbytes >> 9, zeros, 0)
            if not is_awake:
                return SLEEP
        call.step = WAIT
    if not op.wait():
        return SLEEP
    # Readers may have brought back meanwhile what was there before (the kernel makes them wait).
    file.drop_pages(op.first_block, op.last_block)
    if op.error == ENOTSUPP:
        op.error = EOPNOTSUPP
    return op.done(op.result())
