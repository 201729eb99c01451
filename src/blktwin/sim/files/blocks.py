"""What a file is made of: size, extents, free space and cached pages, and how operations change them."""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from blktwin.drivers.backing import Backing
from blktwin.sim.files.extents import BLOCK, BLOCK_SHIFT, CHUNK_BLOCKS, HOLE, MAPPED, SHARED, UNWRITTEN, ExtentMap
from blktwin.sim.files.filesystem import KINDS, FileSystem
from blktwin.sim.files.pagecache import Page, PageCache
from blktwin.sim.files.params import FileParams, round_up
from blktwin.sim.image import SECTOR, ByteStore
from blktwin.sim.machine import SimMachine


@mypyc_attr(allow_interpreted_subclasses=True)
class BlockFile(Backing):
    """The blocks of a file, changed at once; who needs locks and time for it is another matter (file.py)."""

    def __init__(self, machine: SimMachine, base_bytes: int, params: FileParams) -> None:
        super().__init__()
        self.machine: SimMachine = machine
        self.params: FileParams = params
        fs = KINDS[params.kind]
        self.fs: FileSystem = fs
        self.base_sector: i64 = base_bytes >> 9
        self.size: i64 = params.size_bytes
        self.max_bytes: i64 = round_up(params.size_bytes + params.grow_bytes)
        self.cow_all: bool = fs.cow_all and not params.is_nodatacow
        self.keeps_bytes: bool = params.keeps_bytes
        self.image: ByteStore | None = None
        """The bytes of the device, for truncate() and content(); set by who builds the stack, if bytes are kept."""
        self.extents: ExtentMap = make_extents(params)
        self.free_bytes: i64 = params.free_bytes
        """What can still be allocated; -1: no limit."""
        limit = 1 << 62 if fs.in_memory else params.cache_bytes // BLOCK
        background = params.dirty_background_bytes // BLOCK
        self.cache: PageCache = PageCache(machine, limit, background, params.dirty_limit_bytes // BLOCK)
        self.is_meta_dirty: bool = False
        """The inode has changed since the last commit began: its times, its size or its extents."""
        self.is_committing: bool = False
        self.committed_size: i64 = self.size
        self.committing_size: i64 = self.size

    def size_bytes(self) -> i64:
        """Return the size now."""
        return self.size

    # -- allocation

    def moves(self, block: i64, state: i64) -> bool:
        """Say whether a write of a block needs a new place that it has not got yet."""
        if state == SHARED or (self.cow_all and state == MAPPED):
            return int(block) not in self.extents.cow
        return False

    def needs_allocation(self, first: i64, last: i64) -> bool:
        """Say whether blocks must be allocated or moved before they can be written."""
        block = first
        while block <= last:
            state = self.extents.state(block)
            if state == HOLE or self.moves(block, state):
                return True
            block += 1
        return False

    def allocate(self, first: i64, last: i64, prepaid: i64) -> bool:
        """Give every block of a range a place for a write; prepaid bytes are set aside for it already.

        False: no room, and nothing has changed.
        """
        extents = self.extents
        needs: i64 = -prepaid
        block = first
        while block <= last:
            state = extents.state(block)
            if state == HOLE or self.moves(block, state):
                needs += BLOCK
            block += 1
        if not self.take(needs):
            self.take(-prepaid)
            return False
        started: list[int] = []
        block = first
        while block <= last:
            if self.moves(block, extents.state(block)):
                if not extents.start_cow(block):
                    for one in started:
                        extents.drop_cow(one)
                    self.take(-needs - prepaid)
                    return False
                started.append(int(block))
            block += 1
        block = first
        if extents.state(first) == HOLE:
            extents.count_piece(first, last)
        while block <= last:
            if extents.state(block) == HOLE:
                extents.set(block, UNWRITTEN)
            block += 1
        self.is_meta_dirty = True
        return True

    def take(self, nbytes: i64) -> bool:
        """Take free space, or give it back (below 0); False: there is not enough."""
        if self.free_bytes < 0:
            return True
        if nbytes > self.free_bytes:
            return False
        self.free_bytes -= nbytes
        return True

    def written(self, first: i64, last: i64, is_ok: bool) -> None:
        """See a write of blocks end: they are mapped from now on."""
        extents = self.extents
        block = first
        while block <= last:
            if extents.cow and int(block) in extents.cow:
                if is_ok:
                    if extents.state(block) != SHARED:
                        self.take(-BLOCK)
                    extents.end_cow(block)
                else:
                    self.take(-BLOCK)
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

    def free_blocks(self, first: i64, last: i64) -> None:
        """Make holes of a range."""
        extents = self.extents
        block = first
        while block <= last:
            if extents.is_whole_chunk(block, last):
                index = block // CHUNK_BLOCKS
                self.take(-BLOCK * (CHUNK_BLOCKS - extents.count(index, HOLE) - extents.count(index, SHARED)))
                extents.fill(index, HOLE)
                block += CHUNK_BLOCKS
                continue
            state = extents.state(block)
            if state != HOLE:
                if int(block) in extents.cow:
                    self.take(-BLOCK)
                if state != SHARED:
                    self.take(-BLOCK)
                extents.free(block)
            block += 1
        self.is_meta_dirty = True

    def zero_blocks(self, first: i64, last: i64) -> bool:
        """Make unwritten blocks of a range; False: no room for its holes, and for what is another file's too."""
        extents = self.extents
        needs: i64 = 0
        block = first
        while block <= last:
            if extents.is_whole_chunk(block, last):
                index = block // CHUNK_BLOCKS
                needs += BLOCK * (extents.count(index, HOLE) + extents.count(index, SHARED))
                block += CHUNK_BLOCKS
                continue
            state = extents.state(block)
            if state == HOLE or state == SHARED:
                needs += BLOCK
            block += 1
        if not self.take(needs):
            return False
        block = first
        while block <= last:
            if extents.is_whole_chunk(block, last):
                extents.fill(block // CHUNK_BLOCKS, UNWRITTEN)
                block += CHUNK_BLOCKS
                continue
            state = extents.state(block)
            if state == SHARED:
                extents.free(block)
            if state != UNWRITTEN:
                extents.set(block, UNWRITTEN)
            block += 1
        self.is_meta_dirty = True
        return True

    def holds_bytes(self, block: i64) -> bool:
        """Say whether a block on the device holds what a reader would see."""
        state = self.extents.state(block)
        return not self.fs.in_memory and (state == MAPPED or state == SHARED)

    # -- pages

    def reserve(self, index: i64, page: Page | None) -> i64:
        """Set room aside for a page that becomes dirty: 1 done, 0 not needed, -1 there is none (delayed allocation)."""
        if self.fs.in_memory:
            if page is not None:
                return 0
        elif page is not None and page.is_reserved:
            return 0
        else:
            state = self.extents.state(index)
            # What is under way now will have moved when this write comes: it moves again.
            is_moving = int(index) in self.extents.cow or (page is not None and page.is_writeback)
            if state != HOLE and not self.moves(index, state) and not (self.cow_all and is_moving):
                return 0
        return 1 if self.take(BLOCK) else -1

    def take_reserved(self, first: i64, last: i64) -> i64:
        """Use up what is set aside for a range of pages; return it in bytes."""
        nbytes: i64 = 0
        index = first
        while index <= last:
            page = self.cache.find(index)
            if page is not None and page.is_reserved:
                page.is_reserved = False
                nbytes += BLOCK
            index += 1
        return nbytes

    def drop_pages(self, first: i64, last: i64) -> None:
        """Drop pages, with what they hold."""
        if self.cache.nr_pages == 0:
            return
        for index in self.cache.indices(first, last):
            page = self.cache.drop(index)
            if page is not None and page.is_reserved:
                page.is_reserved = False
                self.take(-BLOCK)
        self.cache.wake_throttled()

    # -- from outside, at once

    def truncate(self, size_bytes: int) -> None:
        """Set the size, as another program on the host may: what is behind it is gone, what is new reads zero.

        Direct I/O that is in flight there ends as it will.
        """
        assert 0 <= size_bytes <= self.max_bytes, f"a size of {size_bytes} where {self.max_bytes} is the most"
        old = self.size
        self.size = size_bytes
        self.is_meta_dirty = True
        if size_bytes >= old:
            return
        first: i64 = round_up(size_bytes) >> BLOCK_SHIFT
        last: i64 = (round_up(int(old)) >> BLOCK_SHIFT) - 1
        self.drop_pages(first, last)
        if not self.fs.in_memory:
            self.free_blocks(first, last)
        if size_bytes & (BLOCK - 1):
            self.zero_tail(size_bytes)

    def zero_tail(self, size_bytes: int) -> None:
        """Zero what is behind the end in the last block."""
        index = size_bytes >> BLOCK_SHIFT
        within = size_bytes & (BLOCK - 1)
        page = self.cache.find(index)
        if page is not None and page.data is not None:
            page.data[within:] = bytes(BLOCK - within)
        image = self.image
        if image is not None and self.holds_bytes(index):
            sector = int(self.base_sector + self.extents.place(index) * (BLOCK // SECTOR))
            data = image.read(sector, BLOCK // SECTOR)
            data[within:] = bytes(BLOCK - within)
            image.write(sector, data)

    def content(self, pos: int, nbytes: int) -> bytes:
        """Return what a reader would see now, without reading; shorter at the end of the file."""
        end = min(pos + nbytes, int(self.size))
        out = bytearray()
        while pos < end:
            index = pos >> BLOCK_SHIFT
            within = pos & (BLOCK - 1)
            take = min(BLOCK - within, end - pos)
            out += self.block_content(index)[within : within + take]
            pos += take
        return bytes(out)

    def block_content(self, index: int) -> bytes:
        """Return one block's bytes."""
        page = self.cache.find(index)
        if page is not None and page.is_uptodate and page.data is not None:
            return bytes(page.data)
        image = self.image
        if image is None or not self.holds_bytes(index):
            return bytes(BLOCK)
        return bytes(image.read(int(self.base_sector + self.extents.place(index) * (BLOCK // SECTOR)), BLOCK // SECTOR))

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


def make_extents(params: FileParams) -> ExtentMap:
    """Return the extent map of a new file."""
    own = round_up(params.size_bytes + params.grow_bytes) >> BLOCK_SHIFT
    extents = ExtentMap(round_up(params.size_bytes) >> BLOCK_SHIFT, own, params.spare_room() >> BLOCK_SHIFT)
    p_hole = 1.0 if params.is_sparse else params.p_hole
    extents.draw(params.seed, params.extent_bytes >> BLOCK_SHIFT, p_hole, params.p_unwritten, params.p_shared)
    extents.keeps_undo = params.keeps_bytes and params.kind != "bdev"
    return extents
