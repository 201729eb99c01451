"""The files below the loop devices of loop_storm.py: how they are made, what they hold, what a power cut leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loop_backing import MemoryFile
from loop_history import SECTOR
from loop_scenes import IMAGE_SECTORS, Loop

from blktwin.block.bdev import BlockDevice
from blktwin.drivers.backing import Backing
from blktwin.sim.files.bdev_file import BdevFile
from blktwin.sim.files.crash import file_after_crash
from blktwin.sim.files.extents import BLOCK, HOLE, UNWRITTEN
from blktwin.sim.files.file import SimFile
from blktwin.sim.files.filesystem import KINDS
from blktwin.sim.files.params import FileParams
from blktwin.sim.files.store import FileStore, PlainStore
from blktwin.sim.image import ByteStore

if TYPE_CHECKING:
    from loop_storm import LoopStorm

PAGE_BYTES = 4096
IMAGE_BYTES = IMAGE_SECTORS * SECTOR
GARBAGE = b"\xdb" * BLOCK
"""What the disk holds where the file has no data yet: nobody may ever see it."""


def make_file(world: LoopStorm, at: int, loop: Loop) -> Backing:
    """Build the file below a loop device."""
    if loop.below == "memory":
        return MemoryFile(world.sim, loop.offset_bytes + IMAGE_BYTES, loop.dice, world.scene.seed + at)
    if loop.below == "bdev":
        whole = BdevFile(world.sim, BlockDevice(world.disk), keeps_bytes=True)
        whole.image = world.store
        return whole
    params = params_of(world, at)
    if KINDS[params.kind].in_memory:
        return SimFile(world.sim, None, 0, params)
    if loop.below == "loop":
        lower = world.loops[at - 1]
        below = world.files[at - 1]
        assert isinstance(below, SimFile)
        file = SimFile(world.sim, BlockDevice(lower.q), 0, params)
        file.image = FileStore(below, lower.config.offset_bytes)
    else:
        file = SimFile(world.sim, BlockDevice(world.disk), world.next_byte, params)
        file.image = world.store
        world.next_byte += params.region_bytes()
    fill(file, file.image, world.scene.disk_has_cache and loop.below == "file")
    return file


def image_bytes(world: LoopStorm, at: int) -> int:
    """Return the size of a device: that of the images, or what the file on it needs."""
    loops = world.scene.loops
    if world.scene.is_leaf(at):
        return IMAGE_BYTES
    assert loops[at].below in ("file", "bdev")
    return params_of(world, at + 1).region_bytes()


def params_of(world: LoopStorm, at: int) -> FileParams:
    """Return the parameters of a device's file."""
    loop = world.scene.loops[at]
    size = -(-(loop.offset_bytes + image_bytes(world, at)) // BLOCK) * BLOCK
    params = FileParams(loop.kind, size, loop.layout == "hole", keeps_bytes=True)
    can_share = KINDS[loop.kind].can_reflink
    if loop.layout == "unwritten":
        params.p_unwritten = 1.0
    elif loop.layout == "shared" and can_share:
        params.p_shared = 1.0
    elif loop.layout == "mixed":
        params.p_unwritten = params.p_hole = 0.3
        params.p_shared = 0.2 if can_share else 0.0
    params.extent_bytes = 4 * BLOCK
    params.seed = world.scene.seed
    params.journal_bytes = 2 * BLOCK
    params.dirty_background_bytes = 8 * BLOCK
    params.dirty_limit_bytes = 16 * BLOCK
    params.dio_align_bytes = loop.align_bytes
    params.is_nodatacow = loop.is_nodatacow
    if loop.free_bytes:
        params.free_bytes = loop.free_bytes
    return params


def fill(file: SimFile, store: ByteStore, has_cache: bool) -> None:
    """Put what nobody may see where the file has no data: holes, unwritten extents, room for blocks that move."""
    params = file.params
    if file.image is not store or not hasattr(store, "flush"):
        return
    nr_blocks = params.size_bytes // BLOCK
    places = [at for at in range(nr_blocks) if file.extents.state(at) in (HOLE, UNWRITTEN)]
    places += range(nr_blocks, nr_blocks + params.spare_room() // BLOCK)
    for place in places:
        store.write(int(file.base_sector) + place * BLOCK // SECTOR, GARBAGE)
    store.flush()


def offset_of(world: LoopStorm, loop: int) -> int:
    """Return where a device's image begins in its file."""
    return world.loops[loop].config.offset_bytes


def image_of(world: LoopStorm, loop: int) -> bytes:
    """Return what a device's image holds now."""
    file = world.files[loop]
    begin = offset_of(world, loop)
    if isinstance(file, MemoryFile):
        return bytes(file.bytes[begin:])
    assert isinstance(file, SimFile)
    return bytes(file.content(begin, IMAGE_BYTES))


def after_power_cut(world: LoopStorm, loop: int) -> bytes:
    """Return what a power cut now would leave of a device's image; nothing of a file in memory."""
    file = world.files[loop]
    begin = offset_of(world, loop)
    if isinstance(file, MemoryFile):
        return file.power_cut(world.rng)[begin:]
    assert isinstance(file, SimFile)
    store = store_after_power_cut(world, loop)
    if file.is_block_device:
        return bytes(store.read(begin // SECTOR, IMAGE_SECTORS))
    return file_after_crash(file, store, world.rng)[begin : begin + IMAGE_BYTES]


def store_after_power_cut(world: LoopStorm, loop: int) -> ByteStore:
    """Return what the device below a file holds after a power cut."""
    if world.scene.loops[loop].below != "loop":
        return world.disk_device.crash(world.rng)
    below = world.files[loop - 1]
    assert isinstance(below, SimFile)
    store = store_after_power_cut(world, loop - 1)
    if below.is_block_device:
        return PlainStore(bytes(store.read(0, world.disk.capacity_sectors)), offset_of(world, loop - 1))
    return PlainStore(file_after_crash(below, store, world.rng), offset_of(world, loop - 1))
