"""The outcome of a run, and fio's two ways to add threads up: reports (group_reporting) and run-status groups.

RunResult is what a machine hands back; its reports() and make_groups turn it into what the renderers print
(output_json.py, output_normal.py, output_terse.py). Knows nothing of text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt

from blktwin.fio.ddir import READ
from blktwin.fio.hist import LatencyStat, RunningStat
from blktwin.fio.spec import JobSpec
from blktwin.fio.stats import DirectionStat, ThreadStat

DIRECTIONS = 3


@dataclass(slots=True)
class JobResult:
    """One thread that ran: its job, its counts and the pid that fio would print."""

    spec: JobSpec
    stat: ThreadStat
    pid: int = 0


@dataclass(slots=True)
class DiskUtil:
    """What one disk did during the run, as /proc/diskstats counts it (ticks, queue and busy time in ms)."""

    name: str
    read_ios: int = 0
    write_ios: int = 0
    read_merges: int = 0
    write_merges: int = 0
    read_ticks_ms: int = 0
    write_ticks_ms: int = 0
    in_queue_ms: int = 0
    busy_ms: int = 0
    elapsed_ms: int = 0

    @property
    def util(self) -> float:
        """Busy time in percent of the run, at most 100."""
        return min(100.0, 100 * self.busy_ms / self.elapsed_ms) if self.elapsed_ms else 0.0


@dataclass(slots=True)
class RunResult:
    """A whole run, in fio's order of threads."""

    jobs: list[JobResult]
    disk_util: list[DiskUtil] = field(default_factory=list)
    """Empty (only the null engine ran): fio then prints no disk statistics."""
    global_options: dict[str, str] = field(default_factory=dict)
    elapsed_ms: int = 0
    """Machine time from the start of the run to its end."""
    epoch_ms: int = 0
    """Unix time (ms) at which the run ended, on the machine's clock: the only date in the output."""
    version: str = ""
    """blktwin's version."""
    partial: bool = False
    """Stopped before its end: everything counts up to that moment."""
    blktwin: dict[str, object] = field(default_factory=dict)
    """The JSON's top-level key "blktwin": str, int, float, bool, None, lists and dicts of them."""

    def reports(self) -> list[Report]:
        """Return the blocks of the output, threads merged where group_reporting says so."""
        return make_reports(self.jobs)


@dataclass(slots=True)
class Rate:
    """Bandwidth or iops samples of several threads: fio adds up all five fields, means and minima too."""

    count: int = 0
    low: int = 0
    high: int = 0
    mean: float = 0.0
    m2: float = 0.0

    def add(self, other: Rate | RunningStat) -> None:
        """Add another thread's samples."""
        if not other.count:
            return
        self.count += other.count
        self.low += other.low
        self.high += other.high
        if isinstance(other, Rate):
            self.mean += other.mean
            self.m2 += other.m2
        else:
            self.mean += other.mean()
            self.m2 += other.squared_deviations()

    def deviation(self) -> float:
        """Return what fio prints as deviation."""
        return sqrt(self.m2 / (self.count - 1)) if self.count > 1 else 0.0


@dataclass(slots=True)
class Lane:
    """One direction of a report."""

    io_bytes: int = 0
    total_ios: int = 0
    short_ios: int = 0
    drop_ios: int = 0
    runtime_ms: int = 0
    slat: LatencyStat = field(default_factory=lambda: LatencyStat(False))
    clat: LatencyStat = field(default_factory=lambda: LatencyStat(False))
    lat: LatencyStat = field(default_factory=lambda: LatencyStat(False))
    bw: Rate = field(default_factory=Rate)
    iops: Rate = field(default_factory=Rate)
    prios: dict[int, LatencyStat] = field(default_factory=dict)
    """Latencies by I/O priority, kept when the report's threads have different ones."""

    def add(self, other: Lane | DirectionStat, runtime_ms: int) -> None:
        """Add one direction of a thread, or of another report."""
        self.io_bytes += other.io_bytes
        self.total_ios += other.total_ios
        self.short_ios += other.short_ios
        self.drop_ios += other.drop_ios
        self.runtime_ms = max(self.runtime_ms, runtime_ms)
        self.slat.merge(other.slat)
        self.clat.merge(other.clat)
        self.lat.merge(other.lat)
        self.bw.add(other.bw)
        self.iops.add(other.iops)

    def add_prio(self, prio: int, stat: LatencyStat) -> None:
        """Add the latencies of one priority."""
        if stat.count:
            self.prios.setdefault(prio, LatencyStat(False)).merge(stat)

    @property
    def bytes_per_s(self) -> int:
        """Bandwidth in bytes/s, rounded down; 0 without runtime."""
        return 1000 * self.io_bytes // self.runtime_ms if self.runtime_ms else 0


@dataclass(slots=True)
class Report:
    """One block of output: a thread, or the threads of a group under group_reporting."""

    first: JobSpec
    """Gives name, group, description, unified_rw_reporting and significant_figures."""
    last: JobSpec
    """Gives percentiles, job options and depth: fio takes them from a group's last thread."""
    pid: int
    lanes: list[Lane] = field(default_factory=lambda: [Lane() for _ in range(DIRECTIONS)])
    sync: LatencyStat = field(default_factory=lambda: LatencyStat(False))
    sync_ios: int = 0
    members: int = 0
    error: int = 0
    error_text: str = ""
    job_runtime_ms: int = 0
    usr_ns: int = 0
    sys_ns: int = 0
    context_switches: int = 0
    major_faults: int = 0
    minor_faults: int = 0
    depth_map: list[int] = field(default_factory=lambda: [0] * 7)
    submit_map: list[int] = field(default_factory=lambda: [0] * 7)
    complete_map: list[int] = field(default_factory=lambda: [0] * 7)
    latency_map: list[int] = field(default_factory=lambda: [0] * 32)

    @property
    def is_mixed(self) -> bool:
        """True when reads, writes and trims are reported as one."""
        return self.first.unified_rw_reporting == "mixed"

    @property
    def total_ios(self) -> int:
        """Reads, writes and trims issued."""
        return sum(lane.total_ios for lane in self.lanes)

    @property
    def usr_percent(self) -> float:
        """User CPU time in percent of the run time."""
        return self.usr_ns / 10_000 / self.job_runtime_ms if self.job_runtime_ms else 0.0

    @property
    def sys_percent(self) -> float:
        """System CPU time in percent of the run time."""
        return self.sys_ns / 10_000 / self.job_runtime_ms if self.job_runtime_ms else 0.0

    @property
    def percentiles(self) -> list[float]:
        """The percentile list in fio's order: ascending, cut at the first 0."""
        wanted = list(self.last.percentile_list)
        return sorted(wanted[: wanted.index(0.0)] if 0.0 in wanted else wanted)

    @property
    def percentile_decimals(self) -> int:
        """Decimals of the percentiles: as many as the longest in the option has."""
        text = self.last.options.get("percentile_list", "")
        cells = text.split(":") if text else [f"{percentile:g}" for percentile in self.last.percentile_list]
        return max((len(cell.strip().partition(".")[2]) for cell in cells), default=0)

    def mixed_lane(self) -> Lane:
        """Return all directions as one (unified_rw_reporting=both)."""
        mixed = Lane()
        for lane in self.lanes:
            mixed.add(lane, lane.runtime_ms)
            for prio, stat in lane.prios.items():
                mixed.add_prio(prio, stat)
        return mixed

    def add(self, job: JobResult, has_prios: bool) -> None:
        """Add one thread."""
        stat = job.stat
        self.last = job.spec
        self.members += 1
        if not self.error:
            self.error, self.error_text = stat.error, stat.error_text
        for ddir in range(DIRECTIONS):
            direction = stat.directions[ddir]
            lane = self.lanes[READ if self.is_mixed else ddir]
            lane.add(direction, stat.runtime_ms(ddir))
            if has_prios:
                lane.add_prio(job.spec.io_priority(), direction.lat if job.spec.lat_percentiles else direction.clat)
        self.sync.merge(stat.sync)
        self.sync_ios += stat.sync_ios
        self.job_runtime_ms += stat.job_runtime_ms()
        self.usr_ns += stat.usr_ns
        self.sys_ns += stat.sys_ns
        self.context_switches += stat.context_switches
        self.major_faults += stat.major_faults
        self.minor_faults += stat.minor_faults
        self.depth_map = [a + b for a, b in zip(self.depth_map, stat.depth_map, strict=True)]
        self.submit_map = [a + b for a, b in zip(self.submit_map, stat.submit_map, strict=True)]
        self.complete_map = [a + b for a, b in zip(self.complete_map, stat.complete_map, strict=True)]
        self.latency_map = [a + b for a, b in zip(self.latency_map, stat.latency_map, strict=True)]


def make_reports(threads: list[JobResult]) -> list[Report]:
    """Merge the threads as fio does: under group_reporting those of one group that follow each other."""
    members: list[list[JobResult]] = []
    for job in threads:
        if members and job.spec.group_reporting and members[-1][-1].spec.group_id == job.spec.group_id:
            members[-1].append(job)
        else:
            members.append([job])
    reports = []
    for jobs in members:
        report = Report(jobs[0].spec, jobs[0].spec, jobs[0].pid)
        has_prios = len({job.spec.io_priority() for job in jobs}) > 1
        for job in jobs:
            report.add(job, has_prios)
        reports.append(report)
    return reports


@dataclass(slots=True)
class GroupLane:
    """One direction of a run-status group; bandwidths in bytes/s."""

    io_bytes: int = 0
    min_run_ms: int = 0
    max_run_ms: int = 0
    min_bw: int = 0
    max_bw: int = 0

    @property
    def bw(self) -> int:
        """All bytes over the longest runtime; 0 when nothing ran."""
        return self.io_bytes * 1000 // self.max_run_ms if self.max_run_ms else 0

    def add(self, lane: Lane) -> None:
        """Add a report's direction; one that moved nothing does not count."""
        if not lane.runtime_ms:
            return
        if not self.max_run_ms:
            self.min_run_ms, self.min_bw = lane.runtime_ms, lane.bytes_per_s
        self.min_run_ms = min(self.min_run_ms, lane.runtime_ms)
        self.max_run_ms = max(self.max_run_ms, lane.runtime_ms)
        self.min_bw = min(self.min_bw, lane.bytes_per_s)
        self.max_bw = max(self.max_bw, lane.bytes_per_s)
        self.io_bytes += lane.io_bytes


@dataclass(slots=True)
class GroupRun:
    """One run-status group: the reports of one fio groupid."""

    group_id: int
    lanes: list[GroupLane] = field(default_factory=lambda: [GroupLane() for _ in range(DIRECTIONS)])
    is_mixed: bool = False
    is_both: bool = False
    digits: int = 4

    def mixed_bw(self) -> tuple[int, GroupLane]:
        """Return (bandwidth, extremes) of all directions as one: fio adds the directions' bandwidths."""
        ran = [lane for lane in self.lanes if lane.max_run_ms]
        mixed = GroupLane(
            io_bytes=sum(lane.io_bytes for lane in ran),
            min_run_ms=min((lane.min_run_ms for lane in ran), default=0),
            max_run_ms=max((lane.max_run_ms for lane in ran), default=0),
            min_bw=min((lane.min_bw for lane in ran), default=0),
            max_bw=max((lane.max_bw for lane in ran), default=0),
        )
        return sum(lane.bw for lane in ran), mixed


def make_groups(reports: list[Report]) -> list[GroupRun]:
    """Return the run-status groups 0..last; empty ones too, as fio prints them."""
    count = 1 + max((report.first.group_id for report in reports), default=-1)
    groups = [GroupRun(group_id) for group_id in range(count)]
    for report in reports:
        group = groups[report.first.group_id]
        group.is_mixed = group.is_mixed or report.is_mixed
        group.is_both = group.is_both or report.first.unified_rw_reporting == "both"
        group.digits = report.first.significant_figures
        for total, lane in zip(group.lanes, report.lanes, strict=True):
            total.add(lane)
    return groups
