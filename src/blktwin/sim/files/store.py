"""The bytes of a device that is itself a file: a loop device's, for a file that lies on it."""

from __future__ import annotations

from blktwin.sim.files.blocks import BlockFile
from blktwin.sim.files.extents import BLOCK
from blktwin.sim.image import SECTOR, ZEROS, ByteStore


class FileStore(ByteStore):
    """What a reader of a loop device over `file` sees now; sectors count from offset_bytes of the file."""

    def __init__(self, file: BlockFile, offset_bytes: int = 0) -> None:
        self.file: BlockFile = file
        self.offset_bytes: int = offset_bytes

    def read(self, sector: int, nr_sectors: int) -> bytearray:
        """Return the newest bytes; zeros behind the end of the file."""
        data = bytearray(self.file.content(self.offset_bytes + sector * SECTOR, nr_sectors * SECTOR))
        return data + bytearray(nr_sectors * SECTOR - len(data))

    def write(self, sector: int, data: bytes | bytearray) -> None:
        """Change sectors that the file has; what it has not can only become zeros."""
        file = self.file
        for at in range(len(data) // SECTOR):
            chunk = data[at * SECTOR : (at + 1) * SECTOR]
            block, within = divmod(self.offset_bytes + (sector + at) * SECTOR, BLOCK)
            page = file.cache.find(block)
            is_there = file.holds_bytes(block)
            assert is_there or page is not None or chunk == ZEROS, f"{file.name} has no block {block}"
            if page is not None and page.data is not None:
                page.data[within : within + SECTOR] = chunk
            if is_there:
                assert file.image is not None, "a file without its device's image"
                file.image.write(int(file.base_sector + file.extents.place(block) * 8) + within // SECTOR, chunk)


class PlainStore(ByteStore):
    """Bytes of what is over: a file after a power cut, as the device of another one; sectors as in FileStore."""

    def __init__(self, content: bytes, offset_bytes: int = 0) -> None:
        self.content: bytearray = bytearray(content)
        self.offset_bytes: int = offset_bytes

    def read(self, sector: int, nr_sectors: int) -> bytearray:
        """Return bytes; zeros behind the end."""
        begin = self.offset_bytes + sector * SECTOR
        data = self.content[begin : begin + nr_sectors * SECTOR]
        return data + bytearray(nr_sectors * SECTOR - len(data))

    def write(self, sector: int, data: bytes | bytearray) -> None:
        """Change bytes."""
        begin = self.offset_bytes + sector * SECTOR
        self.content[begin : begin + len(data)] = data
