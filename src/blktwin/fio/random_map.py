"""Which blocks of a file a random job has done: one bit each, in chunks made at first touch."""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64, u8

CHUNK_SHIFT: Final = 15
CHUNK_BITS: Final = 32768
CHUNK_BYTES: Final = 4096
GROUP_SHIFT: Final = 8
GROUP_BITS: Final = 256
GROUPS: Final = 128


class MapChunk:
    """32768 bits, how many are set, and how many in each group of 256."""

    def __init__(self) -> None:
        self.bits: vec[u8] = vec[u8](bytes(CHUNK_BYTES))
        self.groups: vec[i64] = vec[i64]([0] * GROUPS)
        self.nr_set: i64 = 0


class RandomMap:
    """Bits 0 to nr_blocks - 1, all clear at first."""

    def __init__(self, nr_blocks: int) -> None:
        self.nr_blocks: i64 = nr_blocks
        self.nr_chunks: i64 = (nr_blocks + CHUNK_BITS - 1) >> CHUNK_SHIFT
        self.empty: MapChunk = MapChunk()
        self.chunks: vec[MapChunk] = self.all_empty()

    def all_empty(self) -> vec[MapChunk]:
        """Return a row of chunks that nothing has touched."""
        return vec[MapChunk]([self.empty] * int(self.nr_chunks))

    def reset(self) -> None:
        """Clear all bits."""
        self.chunks = self.all_empty()

    def is_set(self, block: i64) -> bool:
        """Say whether block is done."""
        at = block & (CHUNK_BITS - 1)
        return (i64(self.chunks[block >> CHUNK_SHIFT].bits[at >> 3]) >> (at & 7)) & 1 != 0

    def set(self, block: i64) -> None:
        """Mark a clear block as done."""
        index = block >> CHUNK_SHIFT
        chunk = self.chunks[index]
        if chunk is self.empty:
            chunk = MapChunk()
            self.chunks[index] = chunk
        at = block & (CHUNK_BITS - 1)
        chunk.bits[at >> 3] |= u8(1 << (at & 7))
        chunk.groups[at >> GROUP_SHIFT] += 1
        chunk.nr_set += 1

    def set_run(self, block: i64, nr: i64) -> i64:
        """Mark up to nr blocks from block on, stopping at the first done one; return how many were marked."""
        done: i64 = 0
        while done < nr and block < self.nr_blocks and not self.is_set(block):
            self.set(block)
            block += 1
            done += 1
        return done

    def next_free(self, block: i64) -> i64:
        """Return the first clear block at or after block, wrapping to the start; -1 if all are done."""
        found = self.free_in(block, self.nr_blocks)
        if found < 0 and block > 0:
            found = self.free_in(0, block)
        return found

    def free_in(self, block: i64, end: i64) -> i64:
        """Return the first clear block of [block, end), -1 if there is none."""
        while block < end:
            chunk = self.chunks[block >> CHUNK_SHIFT]
            if chunk.nr_set == CHUNK_BITS:
                block = ((block >> CHUNK_SHIFT) + 1) << CHUNK_SHIFT
                continue
            at = block & (CHUNK_BITS - 1)
            if chunk.groups[at >> GROUP_SHIFT] == GROUP_BITS:
                block = (block | (GROUP_BITS - 1)) + 1
                continue
            byte = i64(chunk.bits[at >> 3])
            if byte == 255:
                block = (block | 7) + 1
                continue
            if (byte >> (at & 7)) & 1 == 0:
                return block
            block += 1
        return -1
