"""The bytes of a device: what is on the medium, and what its volatile write cache still may lose.

Sectors of 512 bytes are atomic. After a power cut each sector holds what was stable, or what any later write put there:
one that has completed since, or one that was under way; no order holds between sectors.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64, mypyc_attr

from blktwin.block.bio import (
    REQ_FUA,
    REQ_OP_DISCARD,
    REQ_OP_FLUSH,
    REQ_OP_READ,
    REQ_OP_WRITE,
    REQ_OP_WRITE_ZEROES,
)
from blktwin.rng import Rng

if TYPE_CHECKING:
    from blktwin.block.request import Request

SECTOR: Final = 512
ZEROS: Final = bytes(SECTOR)


@mypyc_attr(allow_interpreted_subclasses=True)
class ByteStore:
    """Bytes that can be looked at and changed at once, without any I/O; sectors of 512 bytes."""

    @abstractmethod
    def read(self, sector: int, nr_sectors: int) -> bytearray:
        """Return the newest bytes; zeros where nothing was written."""

    @abstractmethod
    def write(self, sector: int, data: bytes | bytearray) -> None:
        """Put whole sectors there."""


class Version:
    """What one write put into one sector; serial: its place among all writes, in the order of completion."""

    def __init__(self, serial: int, data: bytes) -> None:
        self.serial: int = serial
        self.data: bytes = data


class Image(ByteStore):
    """A sparse image; without has_cache all that is written is stable at once."""

    def __init__(self, has_cache: bool = True) -> None:
        self.has_cache: bool = has_cache
        self.stable: dict[int, bytes] = {}
        """By sector; zeros where there is none."""
        self.cached: dict[int, list[Version]] = {}
        """By sector, oldest first: what no flush has covered yet."""
        self.serial: int = 0
        """Writes so far."""

    # -- bytes

    def read(self, sector: int, nr_sectors: int) -> bytearray:
        """Return the newest bytes."""
        out = bytearray()
        for at in range(sector, sector + nr_sectors):
            out += self.newest(at)
        return out

    def newest(self, sector: int) -> bytes:
        """Return one sector's newest bytes."""
        versions = self.cached.get(sector)
        if versions:
            return versions[-1].data
        return self.stable.get(sector, ZEROS)

    def write(self, sector: int, data: bytes | bytearray) -> None:
        """Complete a write of whole sectors."""
        assert len(data) % SECTOR == 0, f"a write of {len(data)} bytes"
        self.put(sector, data, 0, len(data) // SECTOR, not self.has_cache)

    def put(self, sector: int, data: bytes | bytearray, at: int, nr_sectors: int, is_stable: bool) -> None:
        """Complete a write of nr_sectors that begin at data[at]; is_stable: it does not stay in the cache."""
        self.serial += 1
        for place in range(sector, sector + nr_sectors):
            self.put_sector(place, bytes(data[at : at + SECTOR]), is_stable)
            at += SECTOR

    def zero(self, sector: int, nr_sectors: int) -> None:
        """Complete a discard or write-zeroes: zeros from now on."""
        self.serial += 1
        for place in range(sector, sector + nr_sectors):
            if self.has_cache or place in self.stable or place in self.cached:
                self.put_sector(place, ZEROS, not self.has_cache)

    def put_sector(self, sector: int, data: bytes, is_stable: bool) -> None:
        """Take a sector's new bytes."""
        if is_stable:
            self.cached.pop(sector, None)
            self.settle(sector, data)
        elif sector in self.cached or self.stable.get(sector, ZEROS) != data:
            self.cached.setdefault(sector, []).append(Version(self.serial, data))

    def settle(self, sector: int, data: bytes) -> None:
        """Put bytes on the medium."""
        if data == ZEROS:
            self.stable.pop(sector, None)
        else:
            self.stable[sector] = data

    def flush(self, until_serial: int = -1) -> None:
        """Make the first until_serial writes stable, all of them if -1."""
        if until_serial < 0 or until_serial >= self.serial:
            for sector, versions in self.cached.items():
                self.settle(sector, versions[-1].data)
            self.cached.clear()
            return
        for sector in list(self.cached):
            versions = self.cached[sector]
            count = 0
            while count < len(versions) and versions[count].serial <= until_serial:
                count += 1
            if count > 0:
                self.settle(sector, versions[count - 1].data)
                del versions[:count]
                if not versions:
                    del self.cached[sector]

    # -- requests

    def complete(self, rq: Request, flush_serial: int) -> None:
        """Do what a request that has completed without an error does to the bytes; flush_serial: see flush()."""
        op = rq.op
        if op == REQ_OP_FLUSH:
            self.flush(flush_serial)
        elif op == REQ_OP_DISCARD or op == REQ_OP_WRITE_ZEROES:
            self.zero(int(rq.sector), int(rq.nr_sectors))
        elif op == REQ_OP_READ or op == REQ_OP_WRITE:
            is_stable = not self.has_cache or rq.flags & REQ_FUA != 0
            bio = rq.bio
            while bio is not None:
                data = bio.data
                if data is not None:
                    self.transfer(op, int(bio.sector), data, int(bio.data_at), int(bio.nr_sectors), is_stable)
                bio = bio.next

    def transfer(self, op: i64, sector: int, data: bytearray, at: int, nr_sectors: int, is_stable: bool) -> None:
        """Move one bio's bytes."""
        if op == REQ_OP_WRITE:
            self.put(sector, data, at, nr_sectors, is_stable)
        else:
            # Never longer than it was: a transfer ends where the caller's memory ends.
            room = min(nr_sectors * SECTOR, len(data) - at)
            data[at : at + room] = self.read(sector, nr_sectors)[:room]

    # -- power cuts

    def crash(self, rng: Rng, in_flight: list[Request]) -> Image:
        """Return the image after a power cut; in_flight: requests that the device had taken and not completed."""
        choices: dict[int, list[bytes]] = {}
        for sector, versions in self.cached.items():
            choices[sector] = [version.data for version in versions]
        for rq in in_flight:
            if rq.op == REQ_OP_DISCARD or rq.op == REQ_OP_WRITE_ZEROES:
                for place in range(int(rq.sector), int(rq.sector + rq.nr_sectors)):
                    choices.setdefault(place, []).append(ZEROS)
            elif rq.op == REQ_OP_WRITE:
                add_in_flight(choices, rq)
        after = Image(self.has_cache)
        after.stable.update(self.stable)
        for sector in sorted(choices):
            versions_of = choices[sector]
            chosen = int(rng.below(len(versions_of) + 1))
            if chosen > 0:
                after.settle(sector, versions_of[chosen - 1])
        return after


def add_in_flight(choices: dict[int, list[bytes]], rq: Request) -> None:
    """Add what a write under way may have put into its sectors."""
    bio = rq.bio
    while bio is not None:
        data = bio.data
        if data is not None:
            at = int(bio.data_at)
            for place in range(int(bio.sector), int(bio.sector + bio.nr_sectors)):
                choices.setdefault(place, []).append(bytes(data[at : at + SECTOR]))
                at += SECTOR
        bio = bio.next
