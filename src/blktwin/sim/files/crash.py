"""A file after a power cut: the device's image as the crash left it, seen through what of the extent map survives.

What fsync has committed is there. Of later changes of the extents and the size any subset may have been committed by
itself, a block that was written only together with its bytes: each block shows old bytes, zeros or new ones.
"""

from __future__ import annotations

from blktwin.rng import Rng
from blktwin.sim.files.blocks import BlockFile
from blktwin.sim.files.extents import BLOCK, MAPPED, SHARED, Undo
from blktwin.sim.image import SECTOR, ByteStore

SECTORS: int = BLOCK // SECTOR


def file_after_crash(file: BlockFile, after: ByteStore, rng: Rng) -> bytes:
    """Return what the file holds when the machine is up again; after: the device's bytes (SimDevice.crash()).

    file, its page cache and its device are left as they are. A file in memory is gone: b"".
    """
    if file.fs.in_memory:
        return b""
    assert file.keeps_bytes, "a file that keeps no bytes"
    sizes = sorted({int(file.committed_size), int(file.committing_size), int(file.size)})
    size = sizes[rng.below(len(sizes))] if len(sizes) > 1 else sizes[0]
    out = bytearray()
    for block in range(-(-size // BLOCK)):
        state, place = surviving(file, block, after, rng)
        if state in (MAPPED, SHARED):
            out += after.read(int(file.base_sector) + place * SECTORS, SECTORS)
        else:
            out += bytes(BLOCK)
    del out[size:]
    return bytes(out)


def surviving(file: BlockFile, block: int, after: ByteStore, rng: Rng) -> tuple[int, int]:
    """Return which of a block's states comes back, and its place."""
    extents = file.extents
    state, place = int(extents.state(block)), int(extents.place(block))
    older: list[Undo] = []
    for undo in (extents.committing.get(block), extents.undo.get(block)):
        if undo is not None:
            older.append(undo)
    if not older:
        return state, place
    chosen = rng.below(len(older) + 1)
    if chosen == len(older):
        if may_be_committed(file, state, place, after):
            return state, place
    elif chosen == 1:
        between = older[1]
        if may_be_committed(file, int(between.state), int(between.place), after):
            return int(between.state), int(between.place)
    return int(older[0].state), int(older[0].place)


def may_be_committed(file: BlockFile, state: int, place: int, after: ByteStore) -> bool:
    """Say whether a new state can be on disk: bytes go before the metadata that points to them (data=ordered)."""
    if state not in (MAPPED, SHARED):
        return True
    image = file.image
    assert image is not None, "a file without its device's image"
    sector = int(file.base_sector) + place * SECTORS
    return image.read(sector, SECTORS) == after.read(sector, SECTORS)
