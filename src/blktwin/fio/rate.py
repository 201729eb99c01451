"""fio's rate control: when the next I/O of a direction is due, and whether a promised minimum is met.

Knows nothing of threads and devices. Times are us since the job's epoch, as in fio.
Differs: fio 3.33 crashes when poisson meets a rate below one block a second; here the mean grows instead.
"""

from __future__ import annotations

import math
import struct
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from blktwin.fio.random_state import RAND_POISSON, FioRandom
from blktwin.fio.spec import JobSpec
from blktwin.fio.stats import ThreadStat

SETTLE_NS: Final = 2_000_000_000
"""fio judges no minimum before."""


class RateControl:
    """The rates of one thread; bytes and us."""

    def __init__(self, spec: JobSpec, seeds: list[int]) -> None:
        rate = spec.rate
        self.is_limited: bool = any(rate.bytes_per_s) or any(rate.iops)
        self.has_minimum: bool = any(rate.bytes_per_s_min) or any(rate.iops_min)
        self.bps: vec[i64] = vec[i64]([rate.bytes_per_s[d] or rate.iops[d] * spec.bs_min[d] for d in range(3)])
        self.block: vec[i64] = vec[i64](list(spec.bs_min))
        self.issued: vec[i64] = vec[i64]([0, 0, 0])
        self.next_us: vec[i64] = vec[i64]([0, 0, 0])
        """When the next I/O of each direction is due."""
        self.is_poisson: bool = rate.process == "poisson"
        self.streams: list[FioRandom] = [FioRandom(seeds[at]) for at in RAND_POISSON]
        self.last_us: vec[i64] = vec[i64]([0, 0, 0])
        self.min_bps: vec[i64] = vec[i64](list(rate.bytes_per_s_min))
        self.min_iops: vec[i64] = vec[i64](list(rate.iops_min))
        self.cycle_ns: i64 = rate.cycle_ns
        self.seen_bytes: vec[i64] = vec[i64]([0, 0, 0])
        self.seen_ios: vec[i64] = vec[i64]([0, 0, 0])
        self.seen_ns: vec[i64] = vec[i64]([0, 0, 0])
        self.reads_percent: i64 = spec.rwmix_read

    def reset(self) -> None:
        """Start over at the end of the ramp time; the streams go on."""
        for ddir in range(3):
            self.issued[ddir] = 0
            self.next_us[ddir] = 0
            self.last_us[ddir] = 0
            self.seen_bytes[ddir] = 0
            self.seen_ios[ddir] = 0

    def note(self, ddir: i64, nbytes: i64) -> None:
        """Count an I/O that is issued now, and plan the next one of its direction."""
        bps = self.bps[ddir]
        self.issued[ddir] += nbytes
        if bps == 0:
            return
        if self.is_poisson:
            iops = bps // self.block[ddir]
            mean_us = 1_000_000 // iops if iops > 0 else 1_000_000 * self.block[ddir] // bps
            self.last_us[ddir] += exponential(self.streams[ddir], mean_us)
            self.next_us[ddir] = self.last_us[ddir]
            return
        done = self.issued[ddir]
        whole = done // bps
        self.next_us[ddir] = whole * 1_000_000 + (done - whole * bps) * 1_000_000 // bps

    def forgive(self, ddir: i64, slept_us: i64) -> None:
        """Take a think time out of the account (rate_ignore_thinktime), but for one block."""
        bps = self.bps[ddir]
        if bps == 0 or slept_us == 0:
            return
        # In two parts: the product may need more than 63 bits.
        missed = bps // 1_000_000 * slept_us + bps % 1_000_000 * slept_us // 1_000_000
        block = self.block[ddir]
        over = block if block * 1_000_000 // bps <= slept_us else 0
        self.issued[ddir] += missed - over
        self.last_us[ddir] += slept_us

    def choose(self, ddir: i64, now_us: i64, is_mixed: bool) -> i64:
        """Return the direction that goes next: the other one of a mix if only that is due, or due sooner."""
        if self.next_us[ddir] <= now_us or not is_mixed:
            return ddir
        other = ddir ^ 1
        if (self.reads_percent if ddir == 1 else 100 - self.reads_percent) == 0:
            return ddir
        if self.next_us[other] <= now_us or self.next_us[other] < self.next_us[ddir]:
            return other
        return ddir

    def missed_minimum(self, stat: ThreadStat, now_ns: i64) -> str:
        """Say which minimum the last cycle has not met, "" for none."""
        if now_ns - stat.epoch_ns < SETTLE_NS:
            return ""
        for ddir in range(3):
            direction = stat.directions[ddir]
            if direction.io_bytes == 0 or (self.min_bps[ddir] == 0 and self.min_iops[ddir] == 0):
                continue
            if self.seen_bytes[ddir] > 0:
                spent_ns = now_ns - self.seen_ns[ddir]
                if spent_ns < self.cycle_ns or spent_ns < 1_000_000:
                    continue
                spent_ms = spent_ns // 1_000_000
                bps = (direction.io_bytes - self.seen_bytes[ddir]) * 1000 // spent_ms
                iops = (direction.done_ios - self.seen_ios[ddir]) * 1000 // spent_ms
                if self.min_bps[ddir] > 0 and bps < self.min_bps[ddir]:
                    return f"rate_min={self.min_bps[ddir]}B/s missed: {bps}B/s"
                if self.min_bps[ddir] == 0 and iops < self.min_iops[ddir]:
                    return f"rate_iops_min={self.min_iops[ddir]} missed: {iops} IOPS"
            self.seen_bytes[ddir] = direction.io_bytes
            self.seen_ios[ddir] = direction.done_ios
            self.seen_ns[ddir] = now_ns
        return ""


def single(x: float) -> float:
    """Round to a C float, in which fio computes its exponential gaps."""
    rounded: float = struct.unpack("f", struct.pack("f", x))[0]
    return rounded


def exponential(rand: FioRandom, mean_us: i64) -> i64:
    """Draw a gap in whole us from an exponential distribution of that mean."""
    u = (float(int(rand.next32())) + 1.0) / 4294967296.0
    return i64(int(single(single(-math.log(single(u))) * float(int(mean_us)))))
