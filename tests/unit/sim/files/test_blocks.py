"""Whole chunks of blocks change as single blocks do, space is counted, and stores over files."""

from __future__ import annotations

import pytest
from file_world import FileWorld
from hypothesis import given, settings
from hypothesis import strategies as st

from blktwin.drivers.backing import FileCall
from blktwin.rng import Rng
from blktwin.sim.files.blocks import BlockFile
from blktwin.sim.files.crash import file_after_crash
from blktwin.sim.files.extents import BLOCK, HOLE, SHARED
from blktwin.sim.files.params import FileParams
from blktwin.sim.files.store import FileStore, PlainStore

NR_BLOCKS = 5000
ACTS = st.lists(
    st.tuples(st.booleans(), st.integers(0, NR_BLOCKS - 1), st.sampled_from([1, 700, 1024, 2048, 4999])), max_size=6
)


class Blocks(BlockFile):
    """A file without operations."""

    def advance(self, call: FileCall) -> bool:
        """Never called."""
        raise AssertionError


def make_file(keeps_undo: bool, p_hole: float, p_shared: float) -> BlockFile:
    """Build a file; with undo no chunk changes as a whole."""
    world = FileWorld()
    params = FileParams("xfs", NR_BLOCKS * BLOCK, p_hole=p_hole, p_shared=p_shared)
    params.extent_bytes = 16 * BLOCK
    params.free_bytes = NR_BLOCKS * BLOCK
    file = Blocks(world.machine, 0, params)
    file.extents.keeps_undo = keeps_undo
    return file


@settings(deadline=None, max_examples=30)
@given(ACTS, st.sampled_from([0.0, 0.4]), st.sampled_from([0.0, 0.3]))
def test_whole_chunks(acts: list[tuple[bool, int, int]], p_hole: float, p_shared: float) -> None:
    """Punching and zeroing long ranges comes to the same, chunk by chunk or block by block."""
    fast, slow = make_file(False, p_hole, p_shared), make_file(True, p_hole, p_shared)
    for is_punch, first, count in acts:
        last = min(first + count, NR_BLOCKS) - 1
        for file in (fast, slow):
            if is_punch:
                file.free_blocks(first, last)
            else:
                assert file.zero_blocks(first, last)
        assert fast.free_bytes == slow.free_bytes
    for block in range(NR_BLOCKS):
        assert fast.extents.state(block) == slow.extents.state(block)


def test_space_is_what_is_allocated() -> None:
    """Free space and allocated blocks are together what they were."""
    file = make_file(False, 0.3, 0.2)

    def total() -> int:
        own = sum(file.extents.state(block) not in (HOLE, SHARED) for block in range(NR_BLOCKS))
        return int(file.free_bytes) + BLOCK * own

    before = total()
    file.free_blocks(100, 3000)
    assert total() == before
    assert file.zero_blocks(50, 4000)
    assert total() == before
    assert file.allocate(4000, 4500, 0)
    file.written(4000, 4500, True)
    # What was shared has a place of its own now.
    assert total() == before


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_long_punch_is_quick(is_sparse: bool) -> None:
    """A discard of a whole large file does not look at each block."""
    world = FileWorld()
    file = Blocks(world.machine, 0, FileParams("ext4", 1 << 36, is_sparse))
    file.free_blocks(1, (1 << 24) - 2)
    assert len(file.extents.chunks) == 2, "only those at the ends are known block by block"
    assert file.extents.state(12345678) == HOLE


def test_stores() -> None:
    """A loop device's bytes are those of its file from an offset on."""
    world = FileWorld()
    data = bytes(range(1, 17)) * 512
    world.write(BLOCK, data)
    store = FileStore(world.file, BLOCK - 512)
    assert store.read(0, 18) == bytes(512) + data + bytes(512)
    store.write(1, b"n" * 512)
    assert world.read(BLOCK, 1024) == b"n" * 512 + data[512:1024]
    size = int(world.file.size_bytes())
    assert store.read((size - BLOCK) // 512, 4) == bytes(4 * 512)
    world.fsync()
    after = PlainStore(file_after_crash(world.file, world.device.crash(Rng(1, 1)), Rng(1, 2)), BLOCK - 512)
    assert after.read(0, 18) == store.read(0, 18)
    assert len(after.read(size // 512 - 1, 20)) == 20 * 512
    after.write(3, b"p" * 512)
    assert after.read(3, 1) == b"p" * 512
