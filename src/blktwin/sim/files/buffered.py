"""Buffered reads and writes: a page at a time through the cache.

Kernel: filemap_read() and generic_perform_write(), mm/filemap.c; balance_dirty_pages(), mm/page-writeback.c, v6.12.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from blktwin.block.machine import Task
from blktwin.drivers.backing import EAGAIN, EINVAL, EIO, ENOSPC, EOPNOTSUPP, IOCB_NOWAIT
from blktwin.sim.files.extents import BLOCK, BLOCK_SHIFT, HOLE, UNWRITTEN
from blktwin.sim.files.op import DONE, EBADF, GO, SLEEP, FileOp
from blktwin.sim.files.pagecache import Page

START: Final = 0
LOCK: Final = 1
DRAIN: Final = 2
PAGES: Final = 3
THROTTLE: Final = 4
SYNC: Final = 5


def advance_read(op: FileOp, task: Task) -> i64:
    """Go on with a buffered read."""
    call = op.call
    file = op.file
    if call.step == START:
        if call.pos < 0 or call.nbytes < 0:
            return op.fail(EINVAL)
        op.begin_buffered()
        call.step = LOCK
    if call.step == LOCK:
        if file.fs.buffered_read_locks:
            answer = op.lock(False)
            if answer != GO:
                return answer
        end = call.pos + call.nbytes
        op.end = end if end < file.size else file.size
        call.step = PAGES
    if op.reader.is_active and not op.reader.advance(task):
        return SLEEP
    while op.pos < op.end:
        answer = read_page(op, task)
        if answer == SLEEP:
            return SLEEP
        if answer == DONE:
            break
    op.count_copy(task)
    file.readahead.prev_index = (op.pos - 1) >> BLOCK_SHIFT
    op.unlock()
    if op.pos == call.pos and op.error != 0:
        return op.fail(op.error)
    return op.done(op.pos - call.pos)


def read_page(op: FileOp, task: Task) -> i64:
    """Copy what is wanted of one page; DONE: no more of it can be read."""
    file = op.file
    cache = file.cache
    index = op.pos >> BLOCK_SHIFT
    page = op.awaited
    if page is None:
        kept = op.reader.take(index)
        page = cache.find(index)
        if page is None:
            page = kept
    if page is not None and page.is_failed:
        op.awaited = None
        op.error = EIO
        return DONE
    op.awaited = None
    is_nowait = op.call.flags & IOCB_NOWAIT != 0
    if page is None:
        if file.fs.in_memory:
            return op.copy_out(None)
        if is_nowait:
            op.error = EAGAIN
            return DONE
        cache.nr_misses += 1
        ahead = file.readahead
        ahead.miss(file, index, ((op.end - 1) >> BLOCK_SHIFT) - index + 1)
        marker = ahead.start + ahead.size - ahead.async_size if ahead.async_size > 0 else -1
        op.tell_queued()
        op.reader.start(ahead.start, ahead.start + ahead.size, marker, True)
        return GO if op.reader.advance(task) else SLEEP
    if page.is_marker and not is_nowait:
        page.is_marker = False
        ahead = file.readahead
        ahead.hit_marker(index)
        op.reader.start(ahead.start, ahead.start + ahead.size, ahead.start, True)
        return GO if op.reader.advance(task) else SLEEP
    if not page.is_uptodate:
        if is_nowait:
            op.error = EAGAIN
            return DONE
        return wait_page(op, page, task)
    cache.nr_hits += 1
    return op.copy_out(page)


def wait_page(op: FileOp, page: Page, task: Task) -> i64:
    """Wait for a page that is being read."""
    assert page.is_reading, "a page that is neither read nor up to date"
    op.awaited = page
    page.add_waiter(task)
    return SLEEP


def advance_write(op: FileOp, task: Task) -> i64:
    """Go on with a buffered write."""
    call = op.call
    file = op.file
    if call.step == START:
        answer = begin_write(op)
        if answer != GO:
            return answer
    if call.step == LOCK:
        answer = op.lock(True)
        if answer != GO:
            return answer
        end = call.pos + call.nbytes
        op.end = end if end < file.max_bytes else file.max_bytes
        call.step = DRAIN
    if call.step == DRAIN:
        if op.is_synced and not file.drain(task):
            return SLEEP
        call.step = PAGES
    if call.step == PAGES:
        answer = write_pages(op, task)
        if answer != GO:
            return answer
        if op.pos > call.pos:
            file.extend_to(op.pos)
        if op.pos < call.pos + call.nbytes and op.error == 0:
            op.error = ENOSPC
        if not op.is_synced:
            op.unlock()
        call.step = THROTTLE
    return end_write(op, task)


def end_write(op: FileOp, task: Task) -> i64:
    """Wait while too much is dirty, or for the pages of a write that was to be direct."""
    call = op.call
    file = op.file
    cache = file.cache
    if call.step == THROTTLE and not op.is_synced and not file.fs.in_memory:
        file.flusher.look()
        if cache.nr_unwritten() > cache.dirty_limit and not op.is_nowait():
            if task not in cache.throttled:
                cache.nr_throttles += 1
                cache.throttled.append(task)
            return SLEEP
    if op.is_synced and op.pos > call.pos:
        first = call.pos >> BLOCK_SHIFT
        last = (op.pos - 1) >> BLOCK_SHIFT
        if call.step == THROTTLE:
            call.step = SYNC
            op.tell_queued()
            op.writer.start(first, last, True)
        if not op.writer.advance(task):
            return SLEEP
        cache.drop_clean(first, last)
        errno = op.writer.error if op.writer.error != 0 else file.wb_error
        if errno != 0:
            return op.fail(errno)
    if op.pos == call.pos and op.error != 0:
        return op.fail(op.error)
    return op.done(op.pos - call.pos)


def begin_write(op: FileOp) -> i64:
    """Check a write."""
    call = op.call
    file = op.file
    if call.pos < 0 or call.nbytes < 0:
        return op.fail(EINVAL)
    if file.is_read_only:
        return op.fail(EBADF)
    op.begin_buffered()
    file.is_meta_dirty = True
    call.step = LOCK
    if op.is_nowait():
        if op.is_synced:
            file.nr_eagain_cow += 1
            return op.fail(EAGAIN)
        if not file.fs.buffered_nowait_write:
            return op.fail(EOPNOTSUPP)
        if file.cache.nr_unwritten() > file.cache.dirty_limit:
            return op.fail(EAGAIN)
    return GO


def write_pages(op: FileOp, task: Task) -> i64:
    """Copy into the pages; on when all is copied, or the file system is full."""
    file = op.file
    cache = file.cache
    if op.reader.is_active and not op.reader.advance(task):
        return SLEEP
    while op.pos < op.end:
        index = op.pos >> BLOCK_SHIFT
        within = op.pos & (BLOCK - 1)
        page = op.awaited
        op.awaited = None
        if page is not None and page.is_failed:
            op.error = EIO
            break
        page = cache.find(index)
        is_whole = within == 0 and (op.end - op.pos >= BLOCK or op.end >= file.size)
        if page is None and not is_whole and needs_read(op, index):
            if op.is_nowait():
                op.error = EAGAIN
                break
            op.tell_queued()
            op.reader.start(index, index + 1, -1, False)
            if not op.reader.advance(task):
                return SLEEP
            continue
        if page is not None and not page.is_uptodate:
            if op.is_nowait():
                op.error = EAGAIN
                break
            return wait_page(op, page, task)
        answer = file.reserve(index, page)
        if answer < 0:
            op.error = ENOSPC
            break
        if page is None:
            page = op.reader.new_page(index)
            page.is_uptodate = True
        if answer > 0:
            page.is_reserved = True
        op.copy_in(page)
        if not file.fs.in_memory:
            cache.set_dirty(index, page)
    op.count_copy(task)
    return GO


def needs_read(op: FileOp, index: i64) -> bool:
    """Say whether the rest of a page comes from the device."""
    file = op.file
    if file.fs.in_memory or index << BLOCK_SHIFT >= file.size:
        return False
    state = file.extents.state(index)
    return state != HOLE and state != UNWRITTEN
