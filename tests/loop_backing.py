"""A file in memory for worlds of the loop driver: it sleeps, refuses, fails and falls short as a dice says.

It is as strange as drivers/backing.py allows, where a file of sim/files/ is as strange as a file system is.
"""

from __future__ import annotations

from dataclasses import dataclass

from blktwin.block.machine import Machine, Task, Timer
from blktwin.drivers.backing import (
    EAGAIN,
    EIO,
    EIOCBQUEUED,
    EOPNOTSUPP,
    FILE_FSYNC,
    FILE_READ,
    FILE_WRITE,
    IOCB_DIRECT,
    IOCB_NOWAIT,
    Backing,
    FileCall,
)
from blktwin.rng import Rng

SECTOR = 512


@dataclass(frozen=True)
class Dice:
    """How often (ppm) and for how long."""

    eagain: int = 0
    """An attempt without sleeping says EAGAIN at once."""
    late_eagain: int = 0
    """It says so at its end."""
    not_supported: int = 0
    """It says EOPNOTSUPP."""
    sleep: int = 300_000
    """A blocking operation sleeps before it does anything."""
    error: int = 0
    short_write: int = 0
    short_read: int = 0
    no_punch: int = 0
    stubborn: int = 0
    """A blocking operation says EAGAIN."""
    lost_sectors: int = 0
    """So much shorter is the file than it was when the device was bound."""
    ns: int = 20_000
    """What an operation takes."""


class Alarm(Timer):
    """Ends one asynchronous operation."""

    def __init__(self, file: MemoryFile, call: FileCall, result: int) -> None:
        super().__init__()
        self.file = file
        self.call = call
        self.result = result

    def fire(self) -> None:
        """End it."""
        self.file.in_flight.remove(self.call)
        result = self.file.apply(self.call, self.result)
        self.call.lower_ended()
        self.call.ki_complete(result)


class Nap:
    """The state of a call that has slept."""

    def __init__(self) -> None:
        self.is_over = False


class NapAlarm(Timer):
    """Ends a nap."""

    def __init__(self, file: MemoryFile, nap: Nap, task: Task) -> None:
        super().__init__()
        self.file = file
        self.nap = nap
        self.task = task

    def fire(self) -> None:
        """Wake the sleeper."""
        self.nap.is_over = True
        self.file.machine.wake_task(self.task)


class MemoryFile(Backing):
    """nbytes of memory; what fsync() has seen is durable."""

    def __init__(self, machine: Machine, nbytes: int, dice: Dice, seed: int, name: str = "memory") -> None:
        super().__init__()
        self.machine = machine
        self.name = name
        self.kind = "memory"
        self.bytes = bytearray(nbytes)
        self.durable = bytearray(nbytes)
        self.dice = dice
        self.rng = Rng(seed, 4711)
        self.in_flight: list[FileCall] = []
        self.executing: list[FileCall] = []
        """Calls that sleep."""
        self.log: list[tuple[int, int, int, int]] = []
        """Every call that did something: op, position, bytes, result."""
        self.nr_nowait = 0
        self.nr_refused = 0

    def hits(self, ppm: int) -> bool:
        """Draw."""
        return ppm > 0 and int(self.rng.below(1_000_000)) < ppm

    def size_bytes(self) -> int:
        """Return the size."""
        return len(self.bytes)

    def end(self) -> int:
        """Return where reads end now."""
        return len(self.bytes) - self.dice.lost_sectors * SECTOR

    def lower_queue_name(self) -> str:
        """Return that there is none."""
        return ""

    def advance(self, call: FileCall) -> bool:
        """Go on."""
        if call.step == 0:
            call.step = 1
            self.machine.trace.file_op(self.machine.current, call.op, call.nbytes)
            if call.flags & IOCB_NOWAIT:
                self.attempt(call)
                return True
            if self.hits(self.dice.sleep):
                nap = Nap()
                call.state = nap
                task = call.task
                assert task is not None
                self.executing.append(call)
                self.machine.arm_timer(NapAlarm(self, nap, task), int(self.machine.now_ns()) + self.dice.ns)
        nap_before = call.state
        if isinstance(nap_before, Nap):
            if not nap_before.is_over:
                return False
            self.executing.remove(call)
            call.state = None
        if call.flags & IOCB_DIRECT and call.op in (FILE_READ, FILE_WRITE):
            self.start(call, 0)
        else:
            call.result = self.apply(call, 0)
        return True

    def attempt(self, call: FileCall) -> None:
        """Try without sleeping."""
        assert call.flags & IOCB_DIRECT, "an attempt without sleeping on a buffered call"
        self.nr_nowait += 1
        if self.hits(self.dice.eagain):
            self.nr_refused += 1
            call.result = -EAGAIN
        elif self.hits(self.dice.not_supported):
            call.result = -EOPNOTSUPP
        else:
            self.start(call, -EAGAIN if self.hits(self.dice.late_eagain) else 0)

    def start(self, call: FileCall, result: int) -> None:
        """Let it end later."""
        call.lower_queued()
        call.result = -EIOCBQUEUED
        self.in_flight.append(call)
        delay = self.dice.ns + int(self.rng.below(self.dice.ns))
        self.machine.arm_timer(Alarm(self, call, result), int(self.machine.now_ns()) + delay)

    def apply(self, call: FileCall, result: int) -> int:
        """Do what the call says unless it is to fail; return its result."""
        if result == 0:
            result = self.transfer(call)
        self.log.append((int(call.op), int(call.pos), int(call.nbytes), result))
        return result

    def transfer(self, call: FileCall) -> int:
        """Move the bytes."""
        if self.hits(self.dice.error):
            return -EIO
        if self.hits(self.dice.stubborn) and not call.flags & IOCB_NOWAIT and call.op != FILE_FSYNC:
            return -EAGAIN
        op, pos, nbytes = call.op, int(call.pos), int(call.nbytes)
        if op == FILE_FSYNC:
            self.durable[:] = self.bytes
            return 0
        if op == FILE_READ:
            nbytes = max(0, min(nbytes, self.end() - pos))
            if nbytes > SECTOR and self.hits(self.dice.short_read):
                nbytes = SECTOR * (1 + int(self.rng.below(nbytes // SECTOR - 1)))
            if call.data is not None:
                call.data[:nbytes] = self.bytes[pos : pos + nbytes]
            return nbytes
        assert pos + nbytes <= len(self.bytes), f"I9: {pos}+{nbytes} of a file of {len(self.bytes)} bytes"
        assert not self.is_read_only, "I10: a file that is read-only is written"
        if op == FILE_WRITE:
            if nbytes > SECTOR and self.hits(self.dice.short_write):
                nbytes = SECTOR * (1 + int(self.rng.below(nbytes // SECTOR - 1)))
            if call.data is not None:
                self.bytes[pos : pos + nbytes] = call.data[:nbytes]
            return nbytes
        if self.hits(self.dice.no_punch):
            return -EOPNOTSUPP
        self.bytes[pos : pos + nbytes] = bytes(nbytes)
        return 0

    def power_cut(self, rng: Rng) -> bytes:
        """Return what a power cut may leave: of every sector what it was at the last fsync(), or what it is."""
        out = bytearray(self.bytes)
        for at in range(0, len(out), SECTOR):
            if rng.below(2):
                out[at : at + SECTOR] = self.durable[at : at + SECTOR]
        return bytes(out)
