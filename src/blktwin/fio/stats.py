"""What fio keeps about one thread while it runs: counts, latencies, depth maps, 500 ms bandwidth windows.

Compiled: the job engine calls issued, submitted, reaped and completed for every I/O. Integers only.
Knows nothing of groups, percent or text: results.py merges threads, output_*.py print them.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from blktwin.fio.ddir import SYNC
from blktwin.fio.hist import BIN_COUNT, LatencyStat, RunningStat, bin_index, bin_value
from blktwin.fio.spec import JobSpec

WINDOW_NS: Final = 500_000_000
"""fio's bwavgtime and iopsavgtime."""
NEVER: Final = 9_223_372_036_854_775_807
MAP_SIZE: Final = 7
LATENCY_EDGES: Final = (2, 4, 10, 20, 50, 100, 250, 500, 750, 1000)
"""Exclusive upper edges of fio's latency ranges in ns and, times a thousand, in us; ms go on with 2000 and >=2000."""
LATENCY_RANGES: Final = 32


def latency_limits() -> list[int]:
    """Return the exclusive upper edge (ns) of each of the 32 ranges: 10 ns, 10 us and 12 ms ones; the last is open."""
    limits = [edge * unit for unit in (1, 1000, 1_000_000) for edge in LATENCY_EDGES]
    return [*limits, 2_000_000_000, NEVER]


def first_range_of_bins() -> list[int]:
    """Return for each histogram bin the latency range of its lowest value; no bin spans more than two ranges."""
    limits = latency_limits()
    ranges: list[int] = []
    current = 0
    for index in range(BIN_COUNT):
        width = 1 << max(0, (index >> 6) - 1)
        lowest = bin_value(index) - width // 2
        while lowest >= limits[current]:
            current += 1
        ranges.append(current)
    return ranges


LIMITS: Final = vec[i64](latency_limits())
RANGE_OF_BIN: Final = vec[i64](first_range_of_bins())


class DirectionStat:
    """Counts and latencies of one thread's reads, writes or trims."""

    def __init__(self, slat_bins: bool, clat_bins: bool, lat_bins: bool) -> None:
        self.io_bytes: i64 = 0
        self.total_ios: i64 = 0
        """Issued, as fio counts them."""
        self.done_ios: i64 = 0
        self.short_ios: i64 = 0
        self.drop_ios: i64 = 0
        self.slat: LatencyStat = LatencyStat(slat_bins)
        self.clat: LatencyStat = LatencyStat(clat_bins)
        self.lat: LatencyStat = LatencyStat(lat_bins)
        self.bw: RunningStat = RunningStat()
        """KiB/s of each 500 ms window in which bytes were done."""
        self.iops: RunningStat = RunningStat()
        self.window_bytes: i64 = 0
        """io_bytes when the current window began."""
        self.window_ios: i64 = 0

    def close_window(self, spent_ms: i64) -> None:
        """Turn what was done since the last call into one bandwidth and one iops sample; nothing done, no sample."""
        nbytes = self.io_bytes - self.window_bytes
        if nbytes > 0:
            self.bw.add(nbytes * 1000 // spent_ms // 1024)
            self.window_bytes = self.io_bytes
        ios = self.done_ios - self.window_ios
        if ios > 0:
            self.iops.add(ios * 1000 // spent_ms)
            self.window_ios = self.done_ios


class ThreadStat:
    """Everything that fio keeps about one thread. Times are ns of the machine's clock.

    Life: start, (reset at the end of ramp_time,) then per I/O issued_alone, or issued / submitted / add_slat / reaped,
    and completed or synced, then finish. The job engine adds to usr_ns, sys_ns and context_switches, and sets error.
    The last fsync of end_fsync is part of the runtime but is neither issued nor synced, as in fio.
    """

    def __init__(self, spec: JobSpec) -> None:
        self.slat_bins: bool = spec.slat_percentiles
        self.clat_bins: bool = spec.clat_percentiles
        self.lat_bins: bool = spec.lat_percentiles
        self.has_slat: bool = not spec.disable_slat
        self.has_clat: bool = not spec.disable_clat
        self.has_lat: bool = not spec.disable_lat
        self.runtime_limit_ns: i64 = spec.runtime_ns
        self.limits: vec[i64] = LIMITS
        self.range_of_bin: vec[i64] = RANGE_OF_BIN
        self.error: int = 0
        """errno of the failure that ended the thread."""
        self.error_text: str = ""
        self.epoch_ns: i64 = 0
        self.end_ns: i64 = 0
        self.window_end_ns: i64 = NEVER
        self.window_stop_ns: i64 = NEVER
        self.sync_ios: i64 = 0
        self.alone: i64 = 0
        """I/Os counted by issued_alone and not yet in the maps."""
        self.usr_ns: i64 = 0
        self.sys_ns: i64 = 0
        self.context_switches: i64 = 0
        self.major_faults: i64 = 0
        self.minor_faults: i64 = 0
        # Every attribute is set here: mypyc checks an integer attribute set elsewhere at each use.
        self.directions: vec[DirectionStat] = self.new_directions()
        self.sync: LatencyStat = LatencyStat(self.clat_bins or self.lat_bins)
        self.depth_map: vec[i64] = vec[i64]([0] * MAP_SIZE)
        self.submit_map: vec[i64] = vec[i64]([0] * MAP_SIZE)
        self.complete_map: vec[i64] = vec[i64]([0] * MAP_SIZE)
        self.latency_map: vec[i64] = vec[i64]([0] * LATENCY_RANGES)

    def new_directions(self) -> vec[DirectionStat]:
        """Return empty counts of reads, writes and trims."""
        return vec[DirectionStat]([DirectionStat(self.slat_bins, self.clat_bins, self.lat_bins) for _ in range(3)])

    def start(self, now_ns: i64) -> None:
        """Start the clocks of runtime, bandwidth and iops."""
        self.epoch_ns = now_ns
        self.end_ns = now_ns
        self.window_stop_ns = NEVER
        if self.runtime_limit_ns > 0:
            self.window_stop_ns = now_ns + self.runtime_limit_ns
        self.set_window_end(now_ns + WINDOW_NS)

    def reset(self, now_ns: i64) -> None:
        """Forget the ramp time: everything counts from now_ns on."""
        self.directions = self.new_directions()
        self.sync = LatencyStat(self.clat_bins or self.lat_bins)
        self.depth_map = vec[i64]([0] * MAP_SIZE)
        self.submit_map = vec[i64]([0] * MAP_SIZE)
        self.complete_map = vec[i64]([0] * MAP_SIZE)
        self.latency_map = vec[i64]([0] * LATENCY_RANGES)
        self.sync_ios = 0
        self.alone = 0
        self.usr_ns = 0
        self.sys_ns = 0
        self.context_switches = 0
        self.major_faults = 0
        self.minor_faults = 0
        self.start(now_ns)

    def set_window_end(self, end_ns: i64) -> None:
        """Plan the next sample; fio takes none at or after the job's runtime limit, where the job is stopping."""
        self.window_end_ns = end_ns
        if end_ns >= self.window_stop_ns:
            self.window_end_ns = NEVER

    def close_windows(self, now_ns: i64) -> None:
        """Close the window that ended by now_ns and skip the empty ones after it. now_ns: >= window_end_ns."""
        for direction in self.directions:
            direction.close_window(WINDOW_NS // 1_000_000)
        periods = (now_ns - self.window_end_ns) // WINDOW_NS + 1
        self.set_window_end(self.window_end_ns + periods * WINDOW_NS)

    def issued_alone(self, ddir: i64) -> None:
        """Count one I/O of a synchronous engine: issued at depth 1, submitted and reaped by itself."""
        self.alone += 1
        if ddir < SYNC:
            self.directions[ddir].total_ios += 1
        elif ddir == SYNC:
            self.sync_ios += 1

    def issued(self, ddir: i64, depth: i64) -> None:
        """Count one I/O given to an engine that submits each at once. depth: in flight, this one included."""
        self.queued(ddir)
        self.committed(1, depth)

    def queued(self, ddir: i64) -> None:
        """Count one I/O put into an asynchronous engine's queue; committed() follows when the queue is submitted."""
        if ddir < SYNC:
            self.directions[ddir].total_ios += 1
        elif ddir == SYNC:
            self.sync_ios += 1

    def committed(self, count: i64, depth: i64) -> None:
        """Count the depth that count queued I/Os saw when they were submitted. depth: in flight, they included."""
        index: i64 = 0
        while depth > 1 and index < 6:
            depth >>= 1
            index += 1
        self.depth_map[index] += count

    def submitted(self, count: i64) -> None:
        """Count one submission call of count I/Os (fio: engines without a commit step count 1 per I/O)."""
        self.submit_map[self.batch_index(count)] += 1

    def reaped(self, count: i64) -> None:
        """Count one call that fetched count completions."""
        self.complete_map[self.batch_index(count)] += 1

    def batch_index(self, count: i64) -> i64:
        """Return the column of a batch: 0, 1-4, 5-8, 9-16, 17-32, 33-64, more."""
        if count <= 0:
            return 0
        index: i64 = 1
        limit: i64 = 4
        while count > limit and index < 6:
            limit <<= 1
            index += 1
        return index

    def add_slat(self, ddir: i64, ns: i64) -> None:
        """Count a submission latency: from the I/O's start to its issue (asynchronous engines only)."""
        if self.has_slat and ddir < SYNC:
            self.directions[ddir].slat.add(ns)

    def completed(self, ddir: i64, nbytes: i64, clat_ns: i64, lat_ns: i64, now_ns: i64) -> None:
        """Count one read, write or trim as done. clat_ns: from issue; lat_ns: from start; now_ns: its end."""
        if now_ns >= self.window_end_ns:
            self.close_windows(now_ns)
        direction = self.directions[ddir]
        direction.io_bytes += nbytes
        direction.done_ios += 1
        if self.has_lat:
            if self.lat_bins:
                direction.lat.add(lat_ns)
            else:
                direction.lat.add_at(lat_ns, -1)
        if self.has_clat:
            index = bin_index(clat_ns)
            if self.clat_bins:
                direction.clat.add_at(clat_ns, index)
            else:
                direction.clat.add_at(clat_ns, -1)
            place = self.range_of_bin[index]
            if clat_ns >= self.limits[place]:
                place += 1
            self.latency_map[place] += 1

    def synced(self, lat_ns: i64) -> None:
        """Count the latency of one fsync or fdatasync."""
        if self.has_clat:
            self.sync.add(lat_ns)

    def finish(self, now_ns: i64) -> None:
        """End the thread; a window that ended before now_ns is closed."""
        if now_ns > self.window_end_ns:
            self.close_windows(now_ns)
        self.end_ns = now_ns
        self.depth_map[0] += self.alone
        self.submit_map[1] += self.alone
        self.complete_map[1] += self.alone
        self.alone = 0

    def runtime_ms(self, ddir: int) -> int:
        """Return fio's runtime of one direction: ms, rounded up from us; 0 when it moved no byte."""
        if self.directions[ddir].io_bytes == 0:
            return 0
        return (int(self.end_ns - self.epoch_ns) // 1000 + 999) // 1000

    def job_runtime_ms(self) -> int:
        """Return fio's total run time: whole ms from start to finish."""
        return int(self.end_ns - self.epoch_ns) // 1_000_000
