"""What an image may hold: every sector's writes with their intervals, and which bytes a read or a power cut may show.

Time is a count of what happened (ticks), in the order in which the simulation executed it. Every write of a sector
has bytes of its own, which name the write and the sector; a zeroing is a write of zeros.
I3, I4: a read returns a write that may be the last one. I6, I7, I8: a power cut loses nothing that was made durable.
"""

from __future__ import annotations

import struct

SECTOR = 512
ZEROS = bytes(SECTOR)
STAMP = struct.Struct("<QQ")


class Effect:
    """One write of a range of sectors: serial 0 writes zeros. end -1: still in flight; durable -1: may be lost."""

    def __init__(self, serial: int, sector: int, nr_sectors: int, start: int) -> None:
        self.serial = serial
        self.sector = sector
        self.nr_sectors = nr_sectors
        self.start = start
        self.end = -1
        self.is_ok = False
        """It was acknowledged: what it wrote is there. Otherwise it may be, in parts."""
        self.durable = -1
        self.is_lost = False
        """A flush that should have covered it has failed: no later one does."""

    def name(self) -> str:
        """Say which one."""
        kind = f"write {self.serial}" if self.serial else "zeros"
        return f"{kind} of {self.sector}+{self.nr_sectors} [{self.start}, {self.end}]"


class Look:
    """One sector of a read: what it saw, from when to when."""

    def __init__(self, effect: Effect, start: int, end: int) -> None:
        self.effect = effect
        self.start = start
        self.end = end


def payload(serial: int, sector: int, nr_sectors: int) -> bytearray:
    """Return the bytes of a write."""
    return bytearray(b"".join(STAMP.pack(serial, sector + at) * (SECTOR // STAMP.size) for at in range(nr_sectors)))


class History:
    """The history of one image; sectors are those of the device that the writers see."""

    def __init__(self, nr_sectors: int) -> None:
        self.nr_sectors = nr_sectors
        self.begin = Effect(0, 0, nr_sectors, -1)
        """The image before anything: zeros."""
        self.begin.end = 0
        self.begin.is_ok = True
        self.begin.durable = 0
        self.of: list[list[Effect]] = [[self.begin] for _ in range(nr_sectors)]
        self.effects: list[Effect] = []
        self.by_serial: dict[int, Effect] = {}
        self.looks: dict[int, list[Look]] = {}
        """By sector: what reads have seen of writes, for linear()."""
        self.is_lossy = False
        """Writeback may fail and drop pages: what is not durable yet may be lost, and a flush will say so."""
        self.nr_flushing = 0
        """Flushes and FUA writes in flight."""

    # -- what happens

    def write(self, serial: int, sector: int, nr_sectors: int, now: int) -> Effect:
        """Begin a write, or (serial 0) a zeroing."""
        effect = Effect(serial, sector, nr_sectors, now)
        self.effects.append(effect)
        if serial:
            assert serial not in self.by_serial
            self.by_serial[serial] = effect
        for at in range(sector, sector + nr_sectors):
            self.of[at].append(effect)
        return effect

    def ended(self, effect: Effect, is_ok: bool, is_durable: bool, now: int) -> None:
        """End a write; is_durable: it was a FUA write that went well."""
        effect.end = now
        effect.is_ok = is_ok
        if is_durable and is_ok and not effect.is_lost:
            effect.durable = now

    def flushed(self, start: int, is_ok: bool, now: int) -> None:
        """See a flush that was submitted at start end now: all acknowledged before it is durable, or never will be.

        An error is told once: flushes and FUA writes that met the failed one may have succeeded without the data.
        """
        for effect in self.effects:
            if not is_ok:
                if effect.durable < 0 or effect.durable > start:
                    effect.durable = -1
                    effect.is_lost = True
            elif effect.durable < 0 and effect.is_ok and not effect.is_lost and 0 <= effect.end < start:
                effect.durable = now

    # -- what may be seen

    def effect_at(self, sector: int, chunk: bytes) -> Effect | None:
        """Return whose bytes these are, None for zeros; torn or misplaced bytes are nobody's."""
        if chunk == ZEROS:
            return None
        serial, place = STAMP.unpack_from(chunk)
        effect = self.by_serial.get(serial)
        assert effect is not None, f"I3: sector {sector} holds bytes that nobody wrote ({serial:#x})"
        assert chunk == STAMP.pack(serial, place) * (SECTOR // STAMP.size), f"I3: sector {sector} is torn"
        assert place == sector, f"I9: sector {sector} holds what was written to sector {place}"
        return effect

    def candidates(self, sector: int, chunk: bytes) -> list[Effect]:
        """Return the effects of which chunk may be."""
        effect = self.effect_at(sector, chunk)
        if effect is None:
            return [one for one in self.of[sector] if one.serial == 0]
        assert any(one is effect for one in self.of[sector]), f"I9: {effect.name()} is at sector {sector}"
        return [effect]

    def is_overwritten(self, effect: Effect, sector: int, before: int) -> bool:
        """Say whether a write that began after effect had ended was acknowledged before a time."""
        if self.is_lossy:
            return self.is_lost(effect, sector, before)
        if effect.end < 0:
            return False
        return any(one.is_ok and one.start > effect.end and 0 <= one.end < before for one in self.of[sector])

    def look(self, data: bytes, sector: int, start: int, now: int) -> None:
        """Check what a read from start to now has returned."""
        for at in range(len(data) // SECTOR):
            place = sector + at
            found = self.candidates(place, bytes(data[at * SECTOR : (at + 1) * SECTOR]))
            legal = [one for one in found if not self.is_overwritten(one, place, start)]
            if self.is_lossy and self.nr_flushing > 0:
                continue
            assert legal, f"I4: a read [{start}, {now}] of sector {place} returns {self.old(found)}; {self.tell(place)}"
            if legal[0].serial:
                self.looks.setdefault(place, []).append(Look(legal[0], start, now))

    def check_crash(self, data: bytes, now: int) -> None:
        """Check the whole image as a power cut at a time has left it; not in the middle of what may yet fail."""
        if self.is_lossy and self.nr_flushing > 0:
            return
        for place in range(self.nr_sectors):
            found = self.candidates(place, bytes(data[place * SECTOR : (place + 1) * SECTOR]))
            legal = [one for one in found if one.start <= now and not self.is_lost(one, place, now)]
            assert legal, f"I6: sector {place} comes back with {self.old(found)} at {now}; {self.tell(place)}"

    def is_lost(self, effect: Effect, sector: int, now: int) -> bool:
        """Say whether a write that began after effect had ended was durable by a time."""
        if effect.end < 0:
            return False
        return any(0 <= one.durable <= now and one.start > effect.end for one in self.of[sector])

    def old(self, found: list[Effect]) -> str:
        """Name effects."""
        return ", ".join(one.name() for one in found[-3:]) or "zeros that nobody wrote"

    def tell(self, sector: int) -> str:
        """Tell a sector's recent history."""
        return "; ".join(
            f"{one.name()} {'ok' if one.is_ok else 'not ok'} d{one.durable}" for one in self.of[sector][-5:]
        )

    # -- many at once

    def linear(self) -> None:
        """I3: the reads and writes of each sector can be put into one order that agrees with their intervals.

        Every write has bytes of its own, so that Gibbons and Korach's zones decide it; zeros are left out.
        """
        for sector, looks in self.looks.items():
            forward: list[tuple[int, int, Effect]] = []
            backward: list[tuple[int, int, Effect]] = []
            for effect in self.of[sector]:
                mine = [one for one in looks if one.effect is effect]
                if effect.serial and (mine or effect.is_ok):
                    first, last = zone_of(effect, mine)
                    if first < last:
                        forward.append((first, last, effect))
                    else:
                        backward.append((last, first, effect))
            forward.sort(key=lambda zone: zone[:2])
            for one, two in zip(forward, forward[1:], strict=False):
                assert one[1] < two[0], f"I3: sector {sector}: {one[2].name()} and {two[2].name()} alternate"
            for start, end, effect in backward:
                around = [zone for zone in forward if zone[0] < start and end < zone[1]]
                assert not around, f"I3: sector {sector}: {effect.name()} lies within {around[0][2].name()}"


def zone_of(effect: Effect, mine: list[Look]) -> tuple[int, int]:
    """Return when the first of those that wrote or saw a value ended, and when the last began."""
    ends = [one.end for one in mine] + ([effect.end] if effect.end >= 0 else [])
    return min(ends), max([one.start for one in mine] + [effect.start])
