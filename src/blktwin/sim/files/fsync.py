"""fsync: write back what is dirty, wait for it, commit the metadata, flush the device's cache.

Kernel: ext4_sync_file(), fs/ext4/fsync.c; jbd2_journal_commit_transaction(), fs/jbd2/commit.c, v6.12.
Differs: the journal is the file's own, one commit goes on at a time, and nothing commits but fsync.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from blktwin.block.bio import (
    BLK_STS_NOTSUPP,
    REQ_FUA,
    REQ_META,
    REQ_OP_WRITE,
    REQ_PREFLUSH,
    REQ_SYNC,
    STATUS_ERRNO,
)
from blktwin.block.machine import Task
from blktwin.drivers.backing import EAGAIN
from blktwin.sim.files.extents import BLOCK
from blktwin.sim.files.op import GO, SLEEP, FileOp

START: Final = 0
PAGES: Final = 1
COMMIT: Final = 2
JOURNAL: Final = 3
JOURNAL_WAIT: Final = 4
RECORD_WAIT: Final = 5
FLUSH_WAIT: Final = 6
ENOTSUPP: Final = STATUS_ERRNO[BLK_STS_NOTSUPP]


def advance_fsync(op: FileOp, task: Task) -> i64:
    """Go on with an fsync."""
    call = op.call
    file = op.file
    if call.step == START:
        if op.is_nowait():
            return op.fail(EAGAIN)
        if file.fs.in_memory:
            return op.done(0)
        call.step = PAGES
    if call.step == PAGES:
        answer = file.write_pages(op, task)
        if answer != GO:
            return answer
        errno = file.tell_error()
        if errno != 0:
            return op.fail(errno)
        call.step = COMMIT
    if call.step == COMMIT:
        answer = begin_commit(op, task)
        if answer != GO:
            return answer
    if call.step == JOURNAL_WAIT:
        if not op.wait():
            return SLEEP
        if op.error != 0:
            return end_commit(op)
        op.start_bios(RECORD_WAIT, True)
        flags = REQ_SYNC | REQ_META | REQ_PREFLUSH | REQ_FUA
        op.submit(REQ_OP_WRITE, flags, file.journal_sector(BLOCK), BLOCK >> 9, None, 0)
        if task.is_blocked:
            return SLEEP
    if not op.wait():
        return SLEEP
    if call.step == RECORD_WAIT:
        return end_commit(op)
    if op.error == ENOTSUPP:
        op.error = 0
    return op.done(op.result())


def begin_commit(op: FileOp, task: Task) -> i64:
    """Begin to commit the metadata, or only flush the device if there is nothing to commit."""
    file = op.file
    if file.is_committing:
        # The next commit has what this call is for.
        if task not in file.commit_waiters:
            file.commit_waiters.append(task)
        return SLEEP
    if not file.is_meta_dirty or file.params.journal_bytes == 0:
        if file.is_meta_dirty:
            file.begin_commit()
            op.start_bios(RECORD_WAIT, True)
        else:
            op.start_bios(FLUSH_WAIT, True)
        op.submit(REQ_OP_WRITE, REQ_SYNC | REQ_PREFLUSH, 0, 0, None, 0)
        return SLEEP if task.is_blocked else GO
    file.begin_commit()
    file.machine.charge(file.params.commit_ns)
    op.start_bios(JOURNAL_WAIT, False)
    journal = (file.params.journal_bytes + BLOCK - 1) & ~(BLOCK - 1)
    op.submit(REQ_OP_WRITE, REQ_SYNC | REQ_META, file.journal_sector(journal), journal >> 9, None, 0)
    return SLEEP if task.is_blocked else GO


def end_commit(op: FileOp) -> i64:
    """End the commit, and let the next one begin."""
    file = op.file
    if op.error == ENOTSUPP:
        op.error = 0
    file.end_commit(op.error == 0)
    for task in file.commit_waiters:
        file.machine.wake_task(task)
    file.commit_waiters.clear()
    return op.done(op.result())
