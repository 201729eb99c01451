"""A block device opened as a file: direct I/O of any length, buffered writes, and fsync.

Kernel: block/fops.c and block/bdev.c, mm/page-writeback.c, v6.12.
Differs: buffered reads, dirty throttling and background writeback are not modelled: dirty pages leave by fsync only.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from blktwin.block.bio import (
    BLK_STS_INVAL,
    BLK_STS_IOERR,
    BLK_STS_NOTSUPP,
    BLK_STS_OK,
    REQ_FUA,
    REQ_IDLE,
    REQ_OP_DISCARD,
    REQ_OP_WRITE,
    REQ_PREFLUSH,
    REQ_SYNC,
    Bio,
    SplitBio,
)
from blktwin.block.limits import segments_of
from blktwin.block.machine import Task
from blktwin.block.plug import Plug
from blktwin.block.queue import RequestQueue
from blktwin.block.submit import finish_plug, resume_submission, start_plug, submit_bio

BIO_MAX_SECTORS: Final = 2048
"""256 pages. Written out: a constant made of another module's is an object that each use unpacks."""
PAGE_BYTES: Final = 4096


class BlockDevice:
    """An open block device; size in bytes."""

    def __init__(self, q: RequestQueue) -> None:
        self.q: RequestQueue = q
        self.size_bytes: i64 = q.capacity_sectors << 9
        self.block_bytes: i64 = soft_block_bytes(int(q.limits.logical_block_bytes), int(self.size_bytes))
        self.page_bytes: i64 = max(PAGE_BYTES, self.block_bytes)
        """What is dirty as one: a page, or a folio as long as a larger logical block."""
        self.dirty: dict[int, bool] = {}
        """Index of every dirty page (or folio), in the order of dirtying."""
        self.writeback_serial: i64 = 0
        self.fsyncs: list[FsyncCall] = []
        """Calls that wait for pages under writeback."""
        self.in_writeback: i64 = 0
        self.errors: i64 = 0
        """Writeback errors that an fsync() had or has to tell of; further ones before it does are the same."""
        self.errors_told: i64 = 0

    def direct_io(self, bio: Bio, op: i64, offset: i64, nbytes: i64, task: Task, is_sync_write: bool) -> bool:
        """Submit bio (and what more it takes) for nbytes at offset; False: the task sleeps in the submission.

        Kernel: __blkdev_direct_IO_simple() and __blkdev_direct_IO(), block/fops.c, v6.12.
        """
        flags: i64 = 0
        if op == REQ_OP_WRITE:
            flags = REQ_SYNC | REQ_IDLE
            if is_sync_write:
                flags |= REQ_FUA
        bio.op = op
        bio.flags = flags
        bio.ioprio = task.ioprio
        bio.cgroup = task.cgroup
        bio.status = BLK_STS_OK
        bio.remaining = 1
        bio.parent = None
        if (offset | nbytes) & (self.q.limits.logical_block_bytes - 1):
            # Direct I/O in parts of a logical block: no bio leaves (blkdev_dio_invalid()).
            bio.endio(BLK_STS_INVAL)
            return True
        sector = offset >> 9
        left = nbytes >> 9
        q = self.q
        if op != REQ_OP_DISCARD:
            # While the task sleeps these only queue up behind one another.
            while left > BIO_MAX_SECTORS:
                submit_bio(q, front_of(bio, sector, BIO_MAX_SECTORS))
                sector += BIO_MAX_SECTORS
                left -= BIO_MAX_SECTORS
        set_range(bio, sector, left)
        if task.is_blocked:
            submit_bio(q, bio)
            return False
        return submit_bio(q, bio)

    def write_buffered(self, offset: i64, nbytes: i64) -> i64:
        """Dirty the pages of a buffered write; return how many pages were copied."""
        end = offset + nbytes - 1
        page = offset // self.page_bytes
        last = end // self.page_bytes
        while page <= last:
            self.dirty[int(page)] = True
            page += 1
        return end // PAGE_BYTES - offset // PAGE_BYTES + 1

    def writeback_done(self, serial: i64, status: i64) -> None:
        """See one writeback bio end.

        Kernel: mark_buffer_write_io_error(), fs/buffer.c, and errseq_set(), lib/errseq.c, v6.12.
        """
        if status != BLK_STS_OK and self.errors == self.errors_told:
            self.errors += 1
        self.in_writeback -= 1
        for call in self.fsyncs:
            if serial <= call.until_serial:
                call.nr_waiting -= 1
                if call.nr_waiting == 0:
                    self.q.machine.wake_task(call.task)


class OpenFile:
    """A block device opened by one user, who is told once of each writeback error since then."""

    def __init__(self, bdev: BlockDevice) -> None:
        self.bdev: BlockDevice = bdev
        self.errors_told: i64 = 0

    def open(self) -> None:
        """Begin: what others have been told of is past.

        Kernel: errseq_sample(), lib/errseq.c, v6.12.
        """
        self.errors_told = self.bdev.errors_told

    def tell_error(self) -> i64:
        """Return BLK_STS_IOERR if there is an error that this user does not know, else BLK_STS_OK.

        Kernel: file_check_and_advance_wb_err(), mm/filemap.c, v6.12.
        """
        bdev = self.bdev
        if bdev.errors == self.errors_told:
            return BLK_STS_OK
        self.errors_told = bdev.errors
        bdev.errors_told = bdev.errors
        return BLK_STS_IOERR


def set_range(bio: Bio, sector: i64, nr_sectors: i64) -> None:
    """Give bio its place."""
    bio.sector = sector
    bio.nr_sectors = nr_sectors
    bio.nr_segments = segments_of(nr_sectors)


def front_of(bio: Bio, sector: i64, nr_sectors: i64) -> Bio:
    """Return a bio of its own for a front part of a long transfer; bio ends when all parts have."""
    part = SplitBio()
    part.op = bio.op
    part.flags = bio.flags
    part.ioprio = bio.ioprio
    part.cgroup = bio.cgroup
    part.parent = bio
    part.data = bio.data
    part.data_at = bio.data_at
    bio.data_at += nr_sectors << 9
    bio.remaining += 1
    set_range(part, sector, nr_sectors)
    return part


def soft_block_bytes(logical_block_bytes: int, size_bytes: int) -> int:
    """Return the buffer size of a device: the largest power of two up to a page that divides its size.

    Kernel: set_init_blocksize(), block/bdev.c, v6.12.
    """
    block = logical_block_bytes
    while block < PAGE_BYTES and size_bytes & block == 0:
        block <<= 1
    return block


class WritebackBio(Bio):
    """One buffer of a dirty page on its way down."""

    def __init__(self, bdev: BlockDevice, serial: i64) -> None:
        super().__init__()
        self.bdev: BlockDevice = bdev
        self.serial: i64 = serial

    def end_io(self) -> None:
        """Count it out."""
        self.bdev.writeback_done(self.serial, self.status)


class FlushBio(Bio):
    """An empty bio with PREFLUSH; wakes its task."""

    def __init__(self, call: FsyncCall) -> None:
        super().__init__()
        self.call: FsyncCall = call

    def end_io(self) -> None:
        """Let the caller go on."""
        if self.status != BLK_STS_NOTSUPP:
            self.call.status = self.status
        self.call.is_flushed = True
        self.call.bdev.q.machine.wake_task(self.call.task)


STEP_START: Final = 0
STEP_SUBMIT: Final = 1
STEP_WAIT: Final = 2
STEP_FLUSH: Final = 3
STEP_FLUSH_WAIT: Final = 4


class FsyncCall:
    """One thread's fsync(): write what is dirty, wait for all that is under writeback, flush the device's cache.

    Kernel: blkdev_fsync(), block/fops.c, v6.12.
    """

    def __init__(self, file: OpenFile, task: Task) -> None:
        self.file: OpenFile = file
        self.bdev: BlockDevice = file.bdev
        self.task: Task = task
        self.step: i64 = STEP_START
        self.pages: list[int] = []
        self.next_buffer: i64 = 0
        self.plug: Plug = Plug()
        self.nr_waiting: i64 = 0
        self.until_serial: i64 = 0
        self.is_flushed: bool = False
        self.status: i64 = BLK_STS_OK
        """What the call that has ended returns."""

    def advance(self) -> bool:
        """Go on; True when the call has ended, False when the task sleeps.

        A failed writeback ends it without a flush, and a device that has no flush is no error.
        """
        task = self.task
        if task.is_blocked and not resume_submission(task):
            return False
        if self.step == STEP_START:
            self.begin()
        if self.step == STEP_SUBMIT and not self.submit_pages():
            return False
        if self.step == STEP_WAIT:
            if self.nr_waiting > 0:
                return False
            self.bdev.fsyncs.remove(self)
            self.step = STEP_FLUSH
            self.status = self.file.tell_error()
            if self.status != BLK_STS_OK:
                self.step = STEP_START
                return True
        if self.step == STEP_FLUSH:
            if not self.bdev.q.limits.has_write_cache:
                self.step = STEP_START
                return True
            self.step = STEP_FLUSH_WAIT
            self.is_flushed = False
            self.submit_flush()
        if not self.is_flushed:
            return False
        self.step = STEP_START
        return True

    def begin(self) -> None:
        """Take all dirty pages, in order of place."""
        bdev = self.bdev
        self.pages = sorted(bdev.dirty)
        bdev.dirty.clear()
        self.next_buffer = 0
        self.step = STEP_SUBMIT
        if self.pages:
            start_plug(self.task, self.plug)

    def submit_pages(self) -> bool:
        """Submit a bio per buffer under one plug; False when a tag is awaited."""
        bdev = self.bdev
        block = bdev.block_bytes
        per_page = bdev.page_bytes // block
        total = len(self.pages) * per_page
        while self.next_buffer < total:
            at = self.next_buffer
            self.next_buffer = at + 1
            offset = self.pages[at // per_page] * bdev.page_bytes + (at % per_page) * block
            bdev.writeback_serial += 1
            bdev.in_writeback += 1
            bio = WritebackBio(bdev, bdev.writeback_serial)
            bio.op = REQ_OP_WRITE
            bio.flags = REQ_SYNC
            bio.ioprio = self.task.ioprio
            bio.cgroup = self.task.cgroup
            set_range(bio, offset >> 9, block >> 9)
            if not submit_bio(bdev.q, bio):
                return False
        if self.pages:
            finish_plug(bdev.q.machine, self.task)
        self.until_serial = bdev.writeback_serial
        self.nr_waiting = bdev.in_writeback
        bdev.fsyncs.append(self)
        self.step = STEP_WAIT
        return True

    def submit_flush(self) -> None:
        """Ask the device to flush its cache.

        Kernel: blkdev_issue_flush(), block/blk-flush.c, v6.12.
        """
        bio = FlushBio(self)
        bio.op = REQ_OP_WRITE
        bio.flags = REQ_SYNC | REQ_PREFLUSH
        bio.nr_segments = 0
        bio.cgroup = self.task.cgroup
        bio.ioprio = self.task.ioprio
        submit_bio(self.bdev.q, bio)
