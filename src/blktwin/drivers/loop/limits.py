"""A loop device's size and limits, and whether its file can be read and written directly.

Kernel: get_size(), lo_can_use_dio(), loop_query_min_dio_size() and loop_update_limits(), drivers/block/loop.c, v6.12.y.
Differs: the alignment of memory plays no part.
"""

from __future__ import annotations

from typing import Final

from blktwin.block.limits import QueueLimits
from blktwin.drivers.backing import Backing
from blktwin.errors import ConfigError

SECTOR_BYTES: Final = 512
PAGE_BYTES: Final = 4096
MAX_HW_SECTORS: Final = 2560
MAX_DISCARD_SECTORS: Final = 0xFFFFFFFF >> 9


def size_sectors(file_bytes: int, offset_bytes: int, sizelimit_bytes: int) -> int:
    """Return the device's size: whole sectors of the file from the offset on, at most the limit (0: none).

    Kernel: get_size(), drivers/block/loop.c, v6.12.
    """
    nbytes = max(0, file_bytes - offset_bytes)
    if sizelimit_bytes > 0:
        nbytes = min(nbytes, sizelimit_bytes)
    return nbytes // SECTOR_BYTES


def min_direct_bytes(backing: Backing) -> int:
    """Return the alignment that direct I/O on the file needs."""
    return int(backing.dio_align_bytes) or SECTOR_BYTES


def choose_block_bytes(backing: Backing, wanted: int, is_direct: bool) -> int:
    """Return the logical block size: the wanted one, else what direct I/O needs, else a sector.

    ConfigError (EINVAL) for one that is no power of two from 512 to the page size.
    """
    block = wanted or (min_direct_bytes(backing) if is_direct else SECTOR_BYTES)
    if block < SECTOR_BYTES or block > PAGE_BYTES or block & (block - 1):
        raise ConfigError(f"EINVAL: {block} is no power of two in {SECTOR_BYTES}..{PAGE_BYTES}", key="sector-size")
    return block


def why_not_direct(backing: Backing, block_bytes: int, offset_bytes: int) -> str:
    """Say what keeps the device from direct I/O, "" when nothing does.

    Kernel: lo_can_use_dio(), drivers/block/loop.c, v6.12.
    """
    needed = min_direct_bytes(backing)
    if not backing.can_direct:
        return f"{backing.name or 'the file'} ({backing.kind}) cannot be opened with O_DIRECT"
    if block_bytes < needed:
        return f"the sector size is {block_bytes}, and direct I/O on the file needs {needed}"
    if offset_bytes % needed:
        return f"the offset {offset_bytes} is no multiple of {needed}, which direct I/O on the file needs"
    return ""


def update_limits(limits: QueueLimits, backing: Backing, block_bytes: int, is_read_only: bool) -> None:
    """Set the queue's limits anew.

    Kernel: loop_update_limits() and loop_get_discard_config(), drivers/block/loop.c, v6.12.y.
    """
    limits.logical_block_bytes = block_bytes
    limits.max_sectors = MAX_HW_SECTORS
    limits.is_rotational = backing.is_rotational
    limits.has_write_cache = backing.can_fsync and not is_read_only
    limits.has_fua = False
    max_sectors = 0
    if backing.is_block_device:
        max_sectors = int(backing.max_zeroes_sectors)
    elif backing.can_fallocate:
        max_sectors = MAX_DISCARD_SECTORS
    limits.max_discard_sectors = max_sectors
    limits.max_write_zeroes_sectors = max_sectors
    limits.discard_granularity_bytes = backing.block_bytes if max_sectors > 0 else 0
