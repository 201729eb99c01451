"""Reading pages into the cache, ahead of who asks for them.

Kernel: page_cache_sync_ra(), mm/readahead.c; iomap_readahead(), fs/iomap/buffered-io.c, v6.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from blktwin.block.bio import BLK_STS_OK, REQ_OP_READ, REQ_RAHEAD, Bio
from blktwin.block.limits import segments_of
from blktwin.block.machine import Task
from blktwin.block.plug import Plug
from blktwin.block.submit import finish_plug, start_plug, submit_bio
from blktwin.sim.files.extents import BLOCK, BLOCK_SHIFT, HOLE, UNWRITTEN
from blktwin.sim.files.pagecache import Page

if TYPE_CHECKING:
    from blktwin.sim.files.file import SimFile


class ReadBio(Bio):
    """Pages on their way into the cache."""

    def __init__(self, file: SimFile, first: i64) -> None:
        super().__init__()
        self.file: SimFile = file
        self.first: i64 = first
        self.pages: list[Page] = []

    def end_io(self) -> None:
        """Fill the pages, or take them out again, and wake who waits for one."""
        file = self.file
        at = 0
        data = self.data
        index = self.first
        for page in self.pages:
            page.is_reading = False
            if self.status == BLK_STS_OK:
                page.is_uptodate = True
                if data is not None:
                    page.data = data[at : at + BLOCK]
                    at += BLOCK
            else:
                page.is_failed = True
                if file.cache.find(index) is page:
                    file.cache.drop(index)
            index += 1
            for task in page.waiters:
                file.machine.wake_task(task)
            page.waiters.clear()


class Readahead:
    """The window of one open file (struct file_ra_state), in pages."""

    def __init__(self, max_pages: i64) -> None:
        self.max_pages: i64 = max_pages
        self.start: i64 = 0
        self.size: i64 = 0
        self.async_size: i64 = 0
        self.prev_index: i64 = -2
        """The last page of the read before; -2: there was none."""

    def miss(self, file: SimFile, index: i64, nr_wanted: i64) -> None:
        """Choose the window for a page that is missing, nr_wanted pages being asked for from it on.

        Kernel: page_cache_sync_ra(), mm/readahead.c, v6.12.
        """
        gap = index - self.prev_index
        if index > 0 and nr_wanted <= self.max_pages and not 0 <= gap <= 1:
            history = self.history(file, index)
            if history <= nr_wanted:
                # A random read: just what was asked for.
                self.begin(index, nr_wanted, 0)
                return
            size = history + nr_wanted
            self.begin(index, size if size < self.max_pages else self.max_pages, 1)
            return
        size = initial_size(nr_wanted, self.max_pages)
        self.begin(index, size, size - nr_wanted if size > nr_wanted else size // 2)

    def begin(self, start: i64, size: i64, async_size: i64) -> None:
        """Set the window."""
        self.start = start
        self.size = size
        self.async_size = async_size

    def history(self, file: SimFile, index: i64) -> i64:
        """Return how many pages right before index are in the cache."""
        count: i64 = 0
        while count < self.max_pages and index > 0 and file.cache.find(index - 1) is not None:
            count += 1
            index -= 1
        return count

    def hit_marker(self, index: i64) -> None:
        """Choose the next window when the first page of the asynchronous part is read.

        Kernel: page_cache_async_ra() and get_next_ra_size(), mm/readahead.c, v6.12.
        """
        if index == self.start + self.size - self.async_size:
            self.start += self.size
            size = self.size
            self.size = 4 * size if size < self.max_pages // 16 else 2 * size
            if self.size > self.max_pages:
                self.size = self.max_pages
        else:
            self.start = index + 1
            self.size = self.max_pages
        self.async_size = self.size


def initial_size(nr_wanted: i64, max_pages: i64) -> i64:
    """Return the first window's size.

    Kernel: get_init_ra_size(), mm/readahead.c, v6.12.
    """
    size: i64 = 1
    while size < nr_wanted:
        size *= 2
    if size <= max_pages // 32:
        return size * 4
    if size <= max_pages // 4:
        return size * 2
    return max_pages


class PageReader:
    """Reads the missing pages of a range; one user's, reused."""

    def __init__(self, file: SimFile) -> None:
        self.file: SimFile = file
        self.next: i64 = 0
        self.end: i64 = 0
        self.marker: i64 = -1
        self.flags: i64 = 0
        self.is_active: bool = False
        self.wanted: i64 = -1
        self.kept: Page | None = None
        """The page at `wanted`, the first: its reader has a reference, whatever becomes of it in a full cache."""
        self.plug: Plug = Plug()
        self.has_plug: bool = False

    def start(self, first: i64, end: i64, marker: i64, is_ahead: bool) -> None:
        """Begin with pages first to end - 1; the page at marker will start the next readahead."""
        last = (self.file.size + BLOCK - 1) >> BLOCK_SHIFT
        self.next = first
        self.end = end if end < last else last
        self.marker = marker
        self.flags = REQ_RAHEAD if is_ahead else 0
        self.wanted = first
        self.kept = None
        self.is_active = True

    def take(self, index: i64) -> Page | None:
        """Return the page that was read for index, once, though it may be out of the cache again."""
        page = self.kept if index == self.wanted else None
        self.kept = None
        return page

    def advance(self, task: Task) -> bool:
        """Submit what is left; False: the task sleeps in a submission."""
        file = self.file
        cache = file.cache
        while self.next < self.end:
            first = self.next
            if cache.find(first) is not None:
                self.next += 1
                continue
            count: i64 = 1
            room = file.extents.run(first, self.end - first, False)
            while count < room and cache.find(first + count) is None:
                count += 1
            self.next = first + count
            state = file.extents.state(first)
            if state == HOLE or state == UNWRITTEN:
                self.fill(first, count)
                continue
            bio = self.make_bio(first, count)
            if not self.has_plug and not task.is_submitting:
                self.has_plug = start_plug(task, self.plug)
            if not submit_bio(file.lower(), bio):
                return False
        if self.has_plug:
            self.has_plug = False
            finish_plug(file.machine, task)
        self.is_active = False
        return True

    def new_page(self, index: i64) -> Page:
        """Add a page."""
        file = self.file
        page = Page(bytearray(BLOCK) if file.keeps_bytes else None)
        page.is_marker = index == self.marker
        if index == self.wanted and self.is_active:
            self.kept = page
        file.cache.add(index, page)
        return page

    def fill(self, first: i64, count: i64) -> None:
        """Add pages of zeros."""
        while count > 0:
            self.new_page(first).is_uptodate = True
            first += 1
            count -= 1

    def make_bio(self, first: i64, count: i64) -> ReadBio:
        """Add pages that are being read, and return their bio."""
        file = self.file
        bio = ReadBio(file, first)
        bio.op = REQ_OP_READ
        bio.flags = self.flags
        bio.sector = file.base_sector + (file.extents.place(first) << (BLOCK_SHIFT - 9))
        bio.nr_sectors = count << (BLOCK_SHIFT - 9)
        bio.nr_segments = segments_of(bio.nr_sectors)
        if file.keeps_bytes:
            bio.data = bytearray(int(count << BLOCK_SHIFT))
        index = first
        while index < first + count:
            page = self.new_page(index)
            page.is_reading = True
            bio.pages.append(page)
            index += 1
        return bio
