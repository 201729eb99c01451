"""A rotating disk with one arm: seek by distance, wait for the sector to come round, transfer.

Requests are served in the order in which they come; ordering them is the I/O scheduler's work here.
Not modelled: the drive's own reordering (NCQ), zones of different speed, a cache beyond streaming.
"""

from __future__ import annotations

import math
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from blktwin.block.bio import REQ_OP_FLUSH
from blktwin.block.request import Request
from blktwin.sim.devices.base import SimDevice
from blktwin.sim.machine import SimMachine
from blktwin.units import NSEC_PER_SEC

SEEK_STEPS: Final = 1024


class HddParams:
    """What such a disk is; times in ns."""

    def __init__(self) -> None:
        self.rpm: int = 7200
        self.seek_min_ns: int = 500_000
        """To the next track."""
        self.seek_max_ns: int = 16_000_000
        """From the first track to the last."""
        self.bytes_per_s: int = 150 << 20
        """Off the platter."""
        self.overhead_ns: int = 0
        """The controller's time per command."""


class HddDevice(SimDevice):
    """The model described at the top of this file."""

    def __init__(
        self, machine: SimMachine, nr_queues: int, queue_depth: int, params: HddParams, capacity_sectors: int
    ) -> None:
        super().__init__(machine, nr_queues, queue_depth)
        self.overhead_ns: i64 = params.overhead_ns
        rotation_ns = 60 * NSEC_PER_SEC // params.rpm
        self.rotation_ns: i64 = rotation_ns
        # Not in i64: a fast disk that turns slowly has more than 63 bits of bytes times ns.
        self.track_sectors: i64 = max(1, params.bytes_per_s * rotation_ns // NSEC_PER_SEC // 512)
        self.tracks: i64 = max(1, -(-capacity_sectors // self.track_sectors))
        self.seek_ns: vec[i64] = vec[i64](seek_table(params.seek_min_ns, params.seek_max_ns))
        """By distance, in 1024ths of the disk."""
        self.free_at_ns: i64 = 0
        self.track: i64 = 0
        self.next_sector: i64 = -1
        """Where the last request ended; -1 at the start."""

    def done_at_ns(self, rq: Request, now_ns: i64) -> i64:
        """Return when rq, which arrives now, is done."""
        at = now_ns + self.overhead_ns
        if self.free_at_ns > at:
            at = self.free_at_ns
        if rq.op == REQ_OP_FLUSH or rq.nr_sectors == 0:
            return at
        transfer = rq.nr_sectors * self.rotation_ns // self.track_sectors
        if rq.sector == self.next_sector:
            # The buffer reads on, and gathers writes: a stream does not lose a turn between two commands.
            streamed = self.free_at_ns + transfer
            if streamed > at:
                at = streamed
        else:
            at += self.seek(rq.sector // self.track_sectors)
            at += self.rotate(rq.sector, at)
            at += transfer
        self.free_at_ns = at
        self.next_sector = rq.sector + rq.nr_sectors
        self.track = (self.next_sector - 1) // self.track_sectors
        return at

    def seek(self, track: i64) -> i64:
        """Return the time to move the arm to track."""
        distance = track - self.track
        if distance < 0:
            distance = -distance
        if distance == 0:
            return 0
        return self.seek_ns[distance * (SEEK_STEPS - 1) // self.tracks]

    def rotate(self, sector: i64, at_ns: i64) -> i64:
        """Return the wait at at_ns until sector comes under the head; the platters turn with the clock."""
        place = sector % self.track_sectors * self.rotation_ns // self.track_sectors
        wait = place - at_ns % self.rotation_ns
        return wait if wait >= 0 else wait + self.rotation_ns


def seek_table(min_ns: int, max_ns: int) -> list[int]:
    """Return the seek times by distance: min at one track, growing with the root of the distance to max."""
    return [min_ns + round((max_ns - min_ns) * math.sqrt(at / (SEEK_STEPS - 1))) for at in range(SEEK_STEPS)]
