"""Writeback of dirty pages: allocation, bios, and what changes when they have ended; and the flusher.

Kernel: iomap_writepages(), fs/iomap/buffered-io.c; ext4_do_writepages(), fs/ext4/inode.c; wb_workfn(),
fs/fs-writeback.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from blktwin.block.bio import BLK_STS_OK, REQ_OP_WRITE, REQ_SYNC, STATUS_ERRNO, Bio
from blktwin.block.limits import segments_of
from blktwin.block.machine import BlockingWork, Task, Timer
from blktwin.block.plug import Plug
from blktwin.block.submit import about_to_sleep, finish_plug, resume_submission, start_plug, submit_bio
from blktwin.drivers.backing import EIO, ENOSPC
from blktwin.sim.files.extents import BLOCK, BLOCK_SHIFT, MAPPED
from blktwin.sim.files.inode import Waiter
from blktwin.sim.files.pagecache import Page, RangeWaiter
from blktwin.units import NSEC_PER_SEC

if TYPE_CHECKING:
    from blktwin.sim.files.file import SimFile

BIO_MAX_PAGES: Final = 256
WRITEBACK_INTERVAL_NS: Final = 5 * NSEC_PER_SEC
"""vm.dirty_writeback_centisecs."""

NEXT: Final = 0
LOCKED: Final = 1
HELD: Final = 2
BIOS: Final = 3
FINISH: Final = 4
WAIT: Final = 5
IDLE: Final = 6


class WritebackBio(Bio):
    """Contiguous pages on their way down."""

    def __init__(self, file: SimFile, writer: PageWriter, first: i64, last: i64) -> None:
        super().__init__()
        self.file: SimFile = file
        self.writer: PageWriter = writer
        self.first: i64 = first
        self.last: i64 = last
        self.serial: i64 = 0
        self.converts: bool = False
        self.pages: list[Page] = []
        self.following: WritebackBio | None = None

    def end_io(self) -> None:
        """End its pages' writeback, now or when the extents have been updated."""
        file = self.file
        if self.status != BLK_STS_OK:
            file.wb_error = STATUS_ERRNO.get(int(self.status), EIO)
            self.writer.error = file.wb_error
        if self.converts:
            file.wb_convert.add(self)
        else:
            self.end_pages()

    def end_pages(self) -> None:
        """Tell the cache."""
        cache = self.file.cache
        for page in self.pages:
            page.is_writeback = False
        cache.nr_writeback -= len(self.pages)
        cache.bio_ended(self)


class ConvertWork(BlockingWork):
    """Updates the extents after writeback, in a kernel worker, a bio at a time."""

    def __init__(self, file: SimFile) -> None:
        super().__init__()
        self.file: SimFile = file
        self.head: WritebackBio | None = None
        self.tail: WritebackBio | None = None
        self.waiter: Waiter = Waiter()
        self.is_charged: bool = False

    def add(self, bio: WritebackBio) -> None:
        """Take a bio that has ended."""
        if self.tail is None:
            self.head = bio
        else:
            self.tail.following = bio
        self.tail = bio
        self.file.machine.queue_on(self.file.wb_wq, self)

    def advance(self, worker: Task) -> bool:
        """Convert what has come."""
        file = self.file
        while True:
            bio = self.head
            if bio is None:
                return True
            if not self.is_charged:
                if not file.map_lock.acquire(self.waiter, worker, True):
                    return False
                file.machine.charge(file.params.convert_ns)
                self.is_charged = True
                if file.machine.cond_resched(worker):
                    return False
            self.is_charged = False
            self.head = bio.following
            if self.head is None:
                self.tail = None
            file.written(bio.first, bio.last, bio.status == BLK_STS_OK)
            file.map_lock.release(True)
            bio.end_pages()


class PageWriter:
    """Writes the pages of a range that are dirty when it starts; one user's, reused."""

    def __init__(self, file: SimFile) -> None:
        self.file: SimFile = file
        self.phase: i64 = IDLE
        self.todo: list[int] = []
        self.next: i64 = 0
        self.first: i64 = 0
        self.last: i64 = 0
        """The range."""
        self.run_first: i64 = 0
        self.run_last: i64 = -1
        """Pages that are locked for writing now."""
        self.is_sync: bool = False
        """Wait for the pages that are under writeback, before and after."""
        self.background_only: bool = False
        """Stop when no more than the background limit is dirty."""
        self.nr_bios: i64 = 0
        self.error: i64 = 0
        """The last one, as a positive number."""
        self.plug: Plug = Plug()
        self.has_plug: bool = False
        self.waiter: Waiter = Waiter()
        self.range_waiter: RangeWaiter | None = None
        self.wake_at_ns: i64 = 0
        self.timer: WakeTimer = WakeTimer(file)

    def start(self, first: i64, last: i64, is_sync: bool) -> None:
        """Begin with what is dirty now."""
        assert self.phase == IDLE, "a page writer is used twice"
        cache = self.file.cache
        self.first = first
        self.last = last
        self.is_sync = is_sync
        self.background_only = False
        self.todo = sorted(index for index in cache.dirty if first <= index <= last)
        self.next = 0
        self.nr_bios = 0
        self.error = 0
        self.run_first = 0
        self.run_last = -1
        self.phase = NEXT if self.todo else FINISH

    def advance(self, task: Task) -> bool:
        """Go on; False: the task sleeps."""
        if task.is_blocked and not resume_submission(task):
            return False
        while self.phase < FINISH:
            if self.phase == NEXT:
                if not self.next_run(task):
                    return self.sleep(task)
                if self.phase == FINISH:
                    break
            if self.phase < BIOS and not self.allocate(task):
                return self.sleep(task)
            if self.phase == BIOS and not self.submit(task):
                return False
        if self.phase == FINISH:
            if self.has_plug:
                self.has_plug = False
                finish_plug(self.file.machine, task)
            self.phase = WAIT
            self.range_waiter = self.file.cache.wait_range(self.first, self.last, task) if self.is_sync else None
        waiter = self.range_waiter
        if waiter is not None and waiter.nr_bios > 0:
            return False
        self.range_waiter = None
        self.phase = IDLE
        return True

    def sleep(self, task: Task) -> bool:
        """Hand over what is plugged before the task sleeps."""
        if not task.is_queued:
            about_to_sleep(self.file.machine, task)
        return False

    def next_run(self, task: Task) -> bool:
        """Find the next dirty pages behind one another; False: the task waits for one that is under writeback."""
        cache = self.file.cache
        waiter = self.range_waiter
        if waiter is not None:
            if waiter.nr_bios > 0:
                return False
            self.range_waiter = None
        total = len(self.todo)
        self.run_last = -1
        while self.next < total:
            index: i64 = self.todo[int(self.next)]
            page = cache.find(index)
            if page is None or not page.is_dirty:
                if self.run_last >= 0:
                    break
                self.next += 1
                continue
            if page.is_writeback:
                if self.run_last >= 0:
                    break
                if self.is_sync:
                    self.range_waiter = cache.wait_range(index, index, task)
                    return False
                self.next += 1
                continue
            if self.run_last >= 0 and (index != self.run_last + 1 or index - self.run_first >= BIO_MAX_PAGES):
                break
            if self.run_last < 0:
                if self.background_only and len(cache.dirty) <= cache.background:
                    self.next = total
                    break
                self.run_first = index
            self.run_last = index
            self.next += 1
        self.phase = NEXT if self.run_last >= 0 else FINISH
        if self.run_last >= 0:
            self.phase = LOCKED
        return True

    def allocate(self, task: Task) -> bool:
        """Give the run's pages their places on the device; False: the task sleeps."""
        file = self.file
        machine = file.machine
        if self.phase == LOCKED:
            # Who waits for the lock may have been given it: only by taking it can it be released.
            is_waiting = self.waiter.has_lock or self.waiter.is_queued
            if not is_waiting and not file.needs_allocation(self.run_first, self.run_last):
                self.phase = BIOS
                return True
            if not file.map_lock.acquire(self.waiter, task, True):
                return False
            machine.charge(file.params.alloc_ns)
            file.nr_allocs += 1
            self.phase = HELD
            self.wake_at_ns = 0
            if file.params.alloc_hold_ns > 0:
                self.wake_at_ns = machine.now_ns() + file.params.alloc_hold_ns
                self.timer.task = task
                machine.arm_timer(self.timer, self.wake_at_ns)
                return False
            if machine.cond_resched(task):
                return False
        if machine.now_ns() < self.wake_at_ns:
            return False
        is_done = file.allocate(self.run_first, self.run_last, file.take_reserved(self.run_first, self.run_last))
        file.map_lock.release(True)
        self.phase = BIOS
        if not is_done:
            # What the pages hold is lost, and fsync says so.
            file.wb_error = ENOSPC
            self.error = ENOSPC
            file.drop_pages(self.run_first, self.run_last)
            self.phase = NEXT
        return True

    def submit(self, task: Task) -> bool:
        """Submit the run, a bio for each contiguous extent; False: the task sleeps in a submission."""
        file = self.file
        while self.run_first <= self.run_last:
            first = self.run_first
            nr_pages = self.count_ready(first, file.extents.run(first, self.run_last - first + 1, True))
            if nr_pages == 0:
                self.run_first += 1
                continue
            self.run_first = first + nr_pages
            bio = self.make_bio(first, nr_pages)
            if not self.has_plug and not task.is_submitting:
                self.has_plug = start_plug(task, self.plug)
            if not submit_bio(file.lower(), bio):
                return False
        self.phase = NEXT
        return True

    def count_ready(self, first: i64, nr_pages: i64) -> i64:
        """Return how many pages from first on are still to be written: another writer may have come meanwhile."""
        cache = self.file.cache
        count: i64 = 0
        while count < nr_pages:
            page = cache.find(first + count)
            if page is None or not page.is_dirty or page.is_writeback:
                break
            count += 1
        return count

    def make_bio(self, first: i64, nr_pages: i64) -> WritebackBio:
        """Return a bio of pages that are clean, and under writeback, from now on."""
        file = self.file
        cache = file.cache
        bio = WritebackBio(file, self, first, first + nr_pages - 1)
        cache.serial += 1
        bio.serial = cache.serial
        bio.op = REQ_OP_WRITE
        bio.flags = REQ_SYNC if self.is_sync else 0
        bio.sector = file.base_sector + (file.extents.write_place(first) << (BLOCK_SHIFT - 9))
        bio.nr_sectors = nr_pages << (BLOCK_SHIFT - 9)
        bio.nr_segments = segments_of(bio.nr_sectors)
        bio.converts = file.extents.state(first) != MAPPED or int(first) in file.extents.cow
        data = bytearray() if file.keeps_bytes else None
        index = first
        while index < first + nr_pages:
            page = cache.pages[int(index)]
            del cache.dirty[int(index)]
            page.is_dirty = False
            page.is_writeback = True
            bio.pages.append(page)
            if data is not None:
                data += page.data or bytes(BLOCK)
            index += 1
        bio.data = data
        cache.nr_writeback += nr_pages
        cache.writeback.append(bio)
        self.nr_bios += 1
        return bio


class WakeTimer(Timer):
    """Wakes a task that holds the lock of the extents in its sleep."""

    def __init__(self, file: SimFile) -> None:
        super().__init__()
        self.file: SimFile = file
        self.task: Task | None = None

    def fire(self) -> None:
        """Let it go on."""
        task = self.task
        assert task is not None
        self.file.machine.wake_task(task)


class Flusher(BlockingWork):
    """Background writeback of one file: above the background limit, and of what is dirty for long.

    Kernel: wb_check_background_flush() and wb_check_old_data_flush(), fs/fs-writeback.c, v6.12.
    """

    def __init__(self, file: SimFile) -> None:
        super().__init__()
        self.file: SimFile = file
        self.writer: PageWriter = PageWriter(file)
        self.timer: FlushTimer = FlushTimer(self)
        self.is_armed: bool = False

    def advance(self, worker: Task) -> bool:
        """Write until there is no reason left."""
        file = self.file
        cache = file.cache
        writer = self.writer
        while True:
            if writer.phase == IDLE:
                oldest = next(iter(cache.dirty.values())) if cache.dirty else None
                if oldest is None:
                    return True
                is_old = oldest.dirtied_at_ns + file.params.dirty_expire_ns <= file.machine.now_ns()
                if not is_old and len(cache.dirty) <= cache.background:
                    return True
                writer.start(0, file.max_bytes >> BLOCK_SHIFT, False)
                writer.background_only = not is_old
            if not writer.advance(worker):
                return False
            if writer.nr_bios == 0:
                # All of it is under writeback already.
                return True

    def look(self) -> None:
        """See that dirty pages are written some time, and now if there are too many."""
        file = self.file
        if not self.is_armed and file.cache.dirty:
            self.is_armed = True
            file.machine.arm_timer(self.timer, file.machine.now_ns() + WRITEBACK_INTERVAL_NS)
        if file.cache.nr_unwritten() > file.cache.background:
            file.machine.queue_on(file.wb_wq, self)


class FlushTimer(Timer):
    """The flusher's periodic look."""

    def __init__(self, flusher: Flusher) -> None:
        super().__init__()
        self.flusher: Flusher = flusher

    def fire(self) -> None:
        """Queue the flusher, and come again while anything is dirty."""
        flusher = self.flusher
        file = flusher.file
        flusher.is_armed = False
        if file.cache.dirty:
            file.machine.queue_on(file.wb_wq, flusher)
            flusher.look()
