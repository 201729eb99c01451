"""The extent map of a file: for each block of 4 KiB what it is and where it lies.

The first state follows from the seed, drawn per extent and only when somebody looks; what is known is kept in chunks.
A block lies at its own place, as far from the file's begin as in the file, until a write moves it (copy on write).
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from blktwin.rng import MASK32, mix32

HOLE: Final = 0
MAPPED: Final = 1
UNWRITTEN: Final = 2
"""Allocated, and reads zeros."""
SHARED: Final = 3
"""Mapped, and another file has it too: a write moves it."""

BLOCK: Final = 4096
BLOCK_SHIFT: Final = 12
CHUNK_SHIFT: Final = 10
CHUNK_BLOCKS: Final = 1024


class Undo:
    """What a block was at the last commit."""

    def __init__(self, state: i64, place: i64) -> None:
        self.state: i64 = state
        self.place: i64 = place


class ExtentMap:
    """States and places of a file's blocks, by number; places are in blocks from the file's begin on the device."""

    def __init__(self, nr_blocks: i64, spare_from: i64, nr_spare: i64) -> None:
        self.nr_blocks: i64 = nr_blocks
        """Blocks that are drawn; what comes later is a hole."""
        self.is_plain: bool = True
        self.nr_pieces: i64 = 1
        """Extents with something in them, as far as allocations have made or joined them."""
        """All is mapped, at its own place, and nothing has changed."""
        self.seed: i64 = 0
        self.extent_blocks: i64 = 256
        self.hole_below: i64 = 0
        """A draw of 32 bits below it makes a hole, then unwritten, then shared; mapped above."""
        self.unwritten_below: i64 = 0
        self.shared_below: i64 = 0
        self.chunks: dict[int, bytearray] = {}
        self.uniform: dict[int, int] = {}
        """Chunks that were given one state as a whole, and have not been looked at since."""
        self.last_index: i64 = -1
        self.last_chunk: bytearray = bytearray()
        self.moved: dict[int, int] = {}
        """Places of the blocks that are not at their own."""
        self.cow: dict[int, int] = {}
        """New places of blocks whose write has not ended."""
        self.spare_from: i64 = spare_from
        self.nr_spare: i64 = nr_spare
        self.next_spare: i64 = 0
        self.taken: dict[int, int] = {}
        """Spare places in use, each with its block."""
        self.keeps_undo: bool = False
        self.undo: dict[int, Undo] = {}
        """Blocks that have changed since the last commit began."""
        self.committing: dict[int, Undo] = {}
        """Those of the commit that is under way."""

    def draw(self, seed: int, extent_blocks: int, p_hole: float, p_unwritten: float, p_shared: float) -> None:
        """Say what the file is at first."""
        self.seed = seed
        self.extent_blocks = extent_blocks
        self.hole_below = threshold(p_hole)
        self.unwritten_below = threshold(p_hole + p_unwritten)
        self.shared_below = threshold(p_hole + p_unwritten + p_shared)
        if self.shared_below > 0:
            self.is_plain = False

    def first_state(self, block: i64) -> i64:
        """Return what a block is at first."""
        if block >= self.nr_blocks:
            return HOLE
        if self.shared_below == 0:
            return MAPPED
        extent = block // self.extent_blocks
        drawn = mix32(mix32(self.seed + 1) ^ mix32((extent >> 32) + 0x51ED27) ^ extent)
        if drawn < self.hole_below:
            return HOLE
        if drawn < self.unwritten_below:
            return UNWRITTEN
        return SHARED if drawn < self.shared_below else MAPPED

    def chunk(self, index: i64) -> bytearray:
        """Return the states of CHUNK_BLOCKS blocks, drawn when they are first looked at."""
        if index == self.last_index:
            return self.last_chunk
        found = self.chunks.get(int(index))
        if found is None:
            found = self.make_chunk(index)
            self.chunks[int(index)] = found
        self.last_index = index
        self.last_chunk = found
        return found

    def make_chunk(self, index: i64) -> bytearray:
        """Return a chunk as it was given or drawn."""
        state = self.uniform.pop(int(index), -1)
        if state >= 0:
            return bytearray([state]) * CHUNK_BLOCKS
        found = bytearray(CHUNK_BLOCKS)
        first = index << CHUNK_SHIFT
        at: i64 = 0
        while at < CHUNK_BLOCKS:
            found[at] = int(self.first_state(first + at))
            at += 1
        return found

    def is_whole_chunk(self, block: i64, last: i64) -> bool:
        """Say whether a chunk begins at block, ends by last, and may be changed as a whole."""
        if block & (CHUNK_BLOCKS - 1) or block + CHUNK_BLOCKS - 1 > last:
            return False
        return not self.keeps_undo and not self.moved and not self.cow

    def count(self, index: i64, state: i64) -> i64:
        """Return how many blocks of a chunk are in a state."""
        known: i64 = self.uniform.get(int(index), -1)
        if known < 0 and int(index) not in self.chunks and (index + 1) << CHUNK_SHIFT <= self.nr_blocks:
            # Not drawn yet, and there is only one thing that it can be.
            if self.shared_below == 0:
                known = MAPPED
            elif self.hole_below > MASK32:
                known = HOLE
        if known >= 0:
            return CHUNK_BLOCKS if state == known else 0
        return self.chunk(index).count(int(state))

    def fill(self, index: i64, state: i64) -> None:
        """Give all blocks of a chunk one state (is_whole_chunk() has been asked)."""
        self.chunks.pop(int(index), None)
        self.uniform[int(index)] = int(state)
        self.is_plain = False
        self.last_index = -1

    def state(self, block: i64) -> i64:
        """Return what a block is now."""
        if self.is_plain and block < self.nr_blocks:
            return MAPPED
        return self.chunk(block >> CHUNK_SHIFT)[block & (CHUNK_BLOCKS - 1)]

    def place(self, block: i64) -> i64:
        """Return where a block lies."""
        if self.moved:
            return self.moved.get(int(block), int(block))
        return block

    def write_place(self, block: i64) -> i64:
        """Return where a write of the block goes."""
        if self.cow:
            place = self.cow.get(int(block))
            if place is not None:
                return place
        return self.place(block)

    def run(self, block: i64, nr_blocks: i64, for_write: bool) -> i64:
        """Return how many blocks from block on have its state and lie behind one another, at most nr_blocks."""
        if self.is_plain and block + nr_blocks <= self.nr_blocks:
            return nr_blocks
        state = self.state(block)
        count: i64 = 1
        if not self.moved and not self.cow:
            while count < nr_blocks and self.state(block + count) == state:
                count += 1
            return count
        place = self.write_place(block) if for_write else self.place(block)
        while count < nr_blocks and self.state(block + count) == state:
            if (self.write_place(block + count) if for_write else self.place(block + count)) != place + count:
                break
            count += 1
        return count

    # -- changes

    def count_piece(self, first: i64, last: i64) -> None:
        """Count an extent that is allocated, with those that it joins."""
        self.nr_pieces += 1
        if first > 0 and self.state(first - 1) != HOLE:
            self.nr_pieces -= 1
        if last + 1 < self.nr_blocks and self.state(last + 1) != HOLE:
            self.nr_pieces -= 1

    def nr_levels(self) -> i64:
        """Return the height of a tree with 16 extents in a node.

        Kernel: struct xfs_iext_leaf and KEYS_PER_NODE, fs/xfs/libxfs/xfs_iext_tree.c, v6.12, have 15 and 16.
        """
        levels: i64 = 1
        pieces = self.nr_pieces >> 4
        while pieces > 0:
            levels += 1
            pieces >>= 4
        return levels

    def set(self, block: i64, state: i64) -> None:
        """Change a block."""
        if self.keeps_undo:
            self.keep_undo(block)
        self.chunk(block >> CHUNK_SHIFT)[block & (CHUNK_BLOCKS - 1)] = int(state)
        self.is_plain = False

    def keep_undo(self, block: i64) -> None:
        """Remember what a block was at the last commit."""
        if int(block) not in self.undo:
            self.undo[int(block)] = Undo(self.state(block), self.place(block))

    def free(self, block: i64) -> None:
        """Make a block a hole; one that was moved is at its own place again when it comes back."""
        self.set(block, HOLE)
        self.drop_cow(block)
        place = self.moved.pop(int(block), -1)
        if place >= 0:
            self.taken.pop(place, None)

    def start_cow(self, block: i64) -> bool:
        """Find a new place for a block that is to be written; False: there is none."""
        tries: i64 = 0
        pinned = self.pinned() if self.keeps_undo else None
        while tries < self.nr_spare:
            place = self.spare_from + self.next_spare
            self.next_spare += 1
            if self.next_spare == self.nr_spare:
                self.next_spare = 0
            if int(place) not in self.taken and (pinned is None or int(place) not in pinned):
                self.taken[int(place)] = int(block)
                self.cow[int(block)] = int(place)
                self.is_plain = False
                return True
            tries += 1
        return False

    def pinned(self) -> dict[int, bool]:
        """Return the places that a power cut may bring back: nobody may write there."""
        places: dict[int, bool] = {}
        for undo in self.undo.values():
            places[int(undo.place)] = True
        for undo in self.committing.values():
            places[int(undo.place)] = True
        return places

    def end_cow(self, block: i64) -> None:
        """Put a block that was written in its new place."""
        place = self.cow.pop(int(block), -1)
        if place < 0:
            return
        self.set(block, MAPPED)
        old = self.moved.get(int(block), -1)
        if old >= 0:
            self.taken.pop(old, None)
        self.moved[int(block)] = place

    def drop_cow(self, block: i64) -> None:
        """Forget a new place: the write has failed, or the block is gone."""
        place = self.cow.pop(int(block), -1)
        if place >= 0:
            self.taken.pop(place, None)

    # -- commits

    def begin_commit(self) -> None:
        """Begin to make all changes so far durable."""
        assert not self.committing, "a second commit begins"
        self.committing = self.undo
        self.undo = {}

    def end_commit(self, is_done: bool) -> None:
        """End the commit; one that failed leaves its changes undurable."""
        if not is_done:
            for block, undo in self.undo.items():
                if block not in self.committing:
                    self.committing[block] = undo
            self.undo = self.committing
        self.committing = {}


def threshold(share: float) -> int:
    """Return the bound of 32-bit draws for a share."""
    return min(int(share * 4294967296.0 + 0.5), 1 << 32)
