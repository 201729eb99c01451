"""One fio job after parsing: every value typed, in ns, bytes and counts, ready to run.

Knows nothing of text, files or units (jobfile.py, values.py make it) and nothing of how a job runs (job.py).
Triples are (read, write, trim). A field's default is fio 3.33's default.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from blktwin.fio.ddir import READ, TRIM, WRITE

Triple = tuple[int, int, int]
BE_CLASS = 2


@dataclass(slots=True)
class Distribution:
    """Where random offsets fall: kind is random, zipf, pareto, normal, zoned or zoned_abs.

    theta: zipf's theta, pareto's h, normal's deviation in percent. center: 0..1, or -1 for fio's random centre.
    zones: (access percent, size percent or bytes) pairs, for zoned (percent) and zoned_abs (bytes).
    """

    kind: str = "random"
    theta: float = 0.0
    center: float = -1.0
    zones: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class RateLimit:
    """rate=, rate_min=, rate_iops=, rate_iops_min= as triples (bytes/s and 1/s; 0 is none)."""

    bytes_per_s: Triple = (0, 0, 0)
    bytes_per_s_min: Triple = (0, 0, 0)
    iops: Triple = (0, 0, 0)
    iops_min: Triple = (0, 0, 0)
    process: str = "linear"
    cycle_ns: int = 1_000_000_000
    ignore_thinktime: bool = False


@dataclass(slots=True)
class JobSpec:
    """One thread of one job section (numjobs clones are separate JobSpecs)."""

    name: str
    file: str = ""
    line: int = 0
    clone_index: int = 0
    """0-based index among the numjobs clones of one section."""
    group_id: int = 0
    """fio's groupid: grows at stonewall+new_group, new_group, and between files."""
    stonewall: bool = False
    wait_for: str = ""
    group_reporting: bool = False
    options: dict[str, str] = field(default_factory=dict)
    """The section's own options as fio lists them under "job options" (order of appearance)."""
    description: str = ""

    filenames: tuple[str, ...] = ()
    filesize_bytes: int = 0
    size_bytes: int = 0
    """0: the whole device (or up to io_size)."""
    size_percent: int = 0
    io_size_bytes: int = 0
    io_size_percent: int = 0
    offset_bytes: int = 0
    offset_percent: int = 0
    offset_increment_bytes: int = 0
    offset_increment_percent: int = 0
    offset_align_bytes: int = 0
    number_ios: int = 0
    loops: int = 1
    runtime_ns: int = 0
    time_based: bool = False
    asks_time_based: bool = False
    """time_based was said, though without a runtime."""
    ramp_time_ns: int = 0
    startdelay_ns: tuple[int, int] = (0, 0)
    """Low and high; drawn uniformly when they differ."""

    ioengine: str = "psync"
    direct: bool = False
    sync: str = "none"
    """none, sync or dsync (O_SYNC, O_DSYNC writes)."""
    iodepth: int = 1
    iodepth_batch: int = 1
    iodepth_batch_complete_min: int = 1
    iodepth_batch_complete_max: int = 0
    """0: same as the minimum."""
    iodepth_low: int = 0
    """0: same as iodepth."""
    thread: bool = False

    rw: str = "read"
    """read write trim randread randwrite randtrim rw randrw trimwrite randtrimwrite."""
    rw_seq: int = 0
    """rw=randread:8 -> do 8 before a new offset; 0: not given."""
    rw_seq_add_bytes: int = 0
    """rw=read:8k -> skip added after each I/O (sequential patterns)."""
    rw_sequencer: str = "sequential"
    """sequential or identical."""
    rwmix_read: int = 50
    percentage_random: Triple = (100, 100, 100)
    bs_min: Triple = (4096, 4096, 4096)
    bs_max: Triple = (4096, 4096, 4096)
    bssplit: tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]] = ((), (), ())
    """Per direction (bytes, percent) pairs that add to 100; empty: use bs_min..bs_max."""
    bs_unaligned: bool = False
    bs_is_seq_rand: bool = False
    blockalign: Triple = (0, 0, 0)
    """0: the direction's bs_min."""
    randrepeat: bool = True
    allrandrepeat: bool = False
    randseed: int = 0
    norandommap: bool = False
    softrandommap: bool = False
    random_generator: str = "tausworthe"
    distribution: tuple[Distribution, Distribution, Distribution] = field(
        default_factory=lambda: (Distribution(), Distribution(), Distribution())
    )

    rate: RateLimit = field(default_factory=RateLimit)
    thinktime_ns: int = 0
    thinktime_spin_ns: int = 0
    thinktime_iotime_ns: int = 0
    thinktime_blocks: int = 1
    thinktime_blocks_type: str = "complete"
    """complete or issue."""

    fsync: int = 0
    fdatasync: int = 0
    end_fsync: bool = False
    prio: int = 0
    prioclass: int = 0
    """0 none, 1 rt, 2 be, 3 idle."""
    nice: int = 0
    cgroup: str = ""
    cgroup_weight: int = 0
    ioscheduler: str = ""

    exitall: bool = False
    exitall_on_error: bool = False
    unified_rw_reporting: str = "none"
    """none, mixed or both."""
    clat_percentiles: bool = True
    lat_percentiles: bool = False
    slat_percentiles: bool = False
    percentile_list: tuple[float, ...] = (
        1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99,
    )  # fmt: skip
    significant_figures: int = 4
    disable_slat: bool = False
    disable_clat: bool = False
    disable_lat: bool = False
    disable_bw: bool = False

    def directions(self) -> tuple[bool, bool, bool]:
        """Say which of read, write and trim this job issues."""
        kind = self.rw.removeprefix("rand")
        used = [False, False, False]
        used[READ] = kind in ("read", "rw")
        used[WRITE] = kind in ("write", "rw", "trimwrite")
        used[TRIM] = kind in ("trim", "trimwrite")
        return used[0], used[1], used[2]

    def io_priority(self) -> int:
        """Return the kernel's ioprio value that fio sets, class << 13 | level; 0 if the job sets neither.

        A level alone is best effort.

        fio: ioprio_value() in thread_main(), 3.33.
        """
        if not (self.prio or self.prioclass or "prio" in self.options):
            return 0
        return (self.prioclass or BE_CLASS) << 13 | self.prio

    @property
    def is_random(self) -> bool:
        """True for every rand* pattern."""
        return self.rw.startswith("rand")


@dataclass(slots=True)
class JobPlan:
    """All threads of one run in fio's order, with the options given in [global] sections (JSON's "global options")."""

    jobs: list[JobSpec]
    global_options: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What the user should know once on stderr: options with no effect on a model."""
    files: list[str] = field(default_factory=list)
    """Every file that the jobs were read from, included ones too; "-" is standard input."""
