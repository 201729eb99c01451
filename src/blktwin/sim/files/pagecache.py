"""The page cache of one file: pages by index, what is dirty, the limits, and who waits.

Kernel: mm/filemap.c and mm/page-writeback.c, v6.12.
Differs: folios are single pages; the limits count this file's pages only; a writer over the limit sleeps until enough
has been written, where the kernel gives it pauses of a computed length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from blktwin.block.machine import Machine, Task

if TYPE_CHECKING:
    from blktwin.sim.files.writeback import WritebackBio


class Page:
    """One page of a file's cache; data is None when nobody keeps bytes."""

    def __init__(self, data: bytearray | None) -> None:
        self.data: bytearray | None = data
        self.is_uptodate: bool = False
        self.is_reading: bool = False
        self.is_dirty: bool = False
        self.is_writeback: bool = False
        self.is_marker: bool = False
        """Whoever reads it starts the next readahead (PG_readahead)."""
        self.is_reserved: bool = False
        """Its block is still to be allocated, from room that is set aside."""
        self.is_failed: bool = False
        """It could not be read, and is out of the cache."""
        self.dirtied_at_ns: i64 = 0
        self.waiters: list[Task] = []
        """Tasks that wait for it to be read."""

    def add_waiter(self, task: Task) -> None:
        """Let task, which goes to sleep, hear of its end; it may be told to twice."""
        if task not in self.waiters:
            self.waiters.append(task)


class RangeWaiter:
    """A task that waits for the writeback bios of a range of pages that have been submitted before a serial."""

    def __init__(self, task: Task, nr_bios: i64, serial: i64, first: i64, last: i64) -> None:
        self.task: Task = task
        self.nr_bios: i64 = nr_bios
        self.serial: i64 = serial
        self.first: i64 = first
        self.last: i64 = last


class PageCache:
    """The pages; limits in pages."""

    def __init__(self, machine: Machine, limit: i64, background: i64, dirty_limit: i64) -> None:
        self.machine: Machine = machine
        self.limit: i64 = limit
        self.background: i64 = background
        self.dirty_limit: i64 = dirty_limit
        self.pages: dict[int, Page] = {}
        """In the order of their coming, those that were found in use behind the others."""
        self.nr_pages: i64 = 0
        self.dirty: dict[int, Page] = {}
        """In the order of dirtying."""
        self.nr_writeback: i64 = 0
        self.writeback: list[WritebackBio] = []
        """Bios under way."""
        self.serial: i64 = 0
        """Writeback bios so far."""
        self.waiters: list[RangeWaiter] = []
        self.throttled: list[Task] = []
        self.nr_throttles: i64 = 0
        self.nr_hits: i64 = 0
        self.nr_misses: i64 = 0

    def find(self, index: i64) -> Page | None:
        """Return the page at index, if it is there."""
        return self.pages.get(int(index))

    def add(self, index: i64, page: Page) -> None:
        """Add a page; old clean ones make room."""
        self.pages[int(index)] = page
        self.nr_pages += 1
        if self.nr_pages > self.limit:
            self.shrink()

    def shrink(self) -> None:
        """Drop a few of the oldest pages; those that are in use go to the end of the line.

        Kernel: shrink_folio_list(), mm/vmscan.c, v6.12, in its simplest form.
        """
        tries: i64 = 32
        while tries > 0 and self.nr_pages > self.limit:
            tries -= 1
            index = next(iter(self.pages))
            page = self.pages.pop(index)
            if page.is_dirty or page.is_writeback or page.is_reading:
                self.pages[index] = page
            else:
                self.nr_pages -= 1

    def drop(self, index: i64) -> Page | None:
        """Take a page out, dirty or not; I/O that goes on ends without it."""
        page = self.pages.pop(int(index), None)
        if page is not None:
            self.nr_pages -= 1
            if page.is_dirty:
                page.is_dirty = False
                del self.dirty[int(index)]
        return page

    def drop_clean(self, first: i64, last: i64) -> None:
        """Drop the clean pages of a range that are under no I/O."""
        for index in self.indices(first, last):
            page = self.pages[index]
            if not page.is_dirty and not page.is_writeback and not page.is_reading:
                self.drop(index)

    def indices(self, first: i64, last: i64) -> list[int]:
        """Return the indices of the pages in a range, in order."""
        if last - first < self.nr_pages:
            return [index for index in range(int(first), int(last) + 1) if index in self.pages]
        return sorted(index for index in self.pages if first <= index <= last)

    def has_page(self, first: i64, last: i64) -> bool:
        """Say whether any page of a range is there."""
        if last - first < self.nr_pages:
            while first <= last:
                if int(first) in self.pages:
                    return True
                first += 1
            return False
        return len(self.indices(first, last)) > 0

    def needs_writeback(self, first: i64, last: i64) -> bool:
        """Say whether any page of a range is dirty, or under writeback."""
        if not self.dirty and self.nr_writeback == 0:
            return False
        for index in self.indices(first, last):
            page = self.pages[index]
            if page.is_dirty or page.is_writeback:
                return True
        return False

    def reading(self, first: i64, last: i64) -> Page | None:
        """Return the first page of a range that is being read."""
        for index in self.indices(first, last):
            page = self.pages[index]
            if page.is_reading:
                return page
        return None

    def set_dirty(self, index: i64, page: Page) -> None:
        """Dirty a page."""
        if not page.is_dirty:
            page.is_dirty = True
            page.dirtied_at_ns = self.machine.now_ns()
            self.dirty[int(index)] = page

    def nr_unwritten(self) -> i64:
        """Return how many pages are dirty or under writeback."""
        return len(self.dirty) + self.nr_writeback

    # -- waiting

    def wait_range(self, first: i64, last: i64, task: Task) -> RangeWaiter | None:
        """Wait for what is under writeback in a range now; None: there is nothing."""
        count: i64 = 0
        for bio in self.writeback:
            if bio.first <= last and bio.last >= first:
                count += 1
        if count == 0:
            return None
        waiter = RangeWaiter(task, count, self.serial, first, last)
        self.waiters.append(waiter)
        return waiter

    def bio_ended(self, bio: WritebackBio) -> None:
        """See a writeback bio end."""
        self.writeback.remove(bio)
        ended = False
        for waiter in self.waiters:
            if bio.serial <= waiter.serial and bio.first <= waiter.last and bio.last >= waiter.first:
                waiter.nr_bios -= 1
                if waiter.nr_bios == 0:
                    ended = True
                    self.machine.wake_task(waiter.task)
        if ended:
            self.waiters = [waiter for waiter in self.waiters if waiter.nr_bios > 0]
        self.wake_throttled()

    def wake_throttled(self) -> None:
        """Let the writers go on that waited for fewer dirty pages."""
        if self.throttled and self.nr_unwritten() <= self.dirty_limit:
            tasks = self.throttled
            self.throttled = []
            for task in tasks:
                self.machine.wake_task(task)
