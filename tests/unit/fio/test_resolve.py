"""Options become typed jobs: defaults, corrections, groups, clones, file names, statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from blktwin.errors import ConfigError
from blktwin.fio.jobfile import load
from blktwin.fio.spec import Distribution, JobPlan, JobSpec

MS = 1_000_000
ROOT = Path(__file__).parents[3]


def plan(*args: str, require_runnable: bool = True, readonly: bool = False) -> JobPlan:
    """Load jobs from arguments, on the null engine unless they say otherwise."""
    head = ["--ioengine=null", "--size=1m"]
    return load([], [*head, *args], env={}, require_runnable=require_runnable, readonly=readonly)


def job(*options: str) -> JobSpec:
    """Load one job."""
    return plan("--name=j", *(f"--{option}" for option in options)).jobs[0]


def test_the_authors_file() -> None:
    """The author's eight writers, word for word."""
    path = ROOT / "examples" / "bfq-concurrent-sync-io.fio"
    loaded = load([str(path)], [], env={})
    assert [spec.name for spec in loaded.jobs] == [f"test{n}" for n in range(1, 9)]
    assert {spec.group_id for spec in loaded.jobs} == {0}
    for number, spec in enumerate(loaded.jobs):
        assert (spec.rw, spec.ioengine, spec.direct, spec.ioscheduler) == ("randwrite", "psync", True, "bfq")
        assert spec.filenames == ("/dev/nvme0n1",)
        assert spec.bs_min == spec.bs_max == (4096, 4096, 4096)
        assert spec.offset_increment_bytes == 10 << 30
        assert spec.startdelay_ns == (number * 1000 * MS, number * 1000 * MS)
        assert spec.group_reporting
        assert spec.runtime_ns == 0
    assert loaded.global_options["allow_mounted_write"] == "0"
    assert [note for note in loaded.notes if "no effect" in note and "allow_mounted_write" in note]
    assert len(loaded.notes) == 1


def test_defaults() -> None:
    """A job without options has fio's defaults."""
    spec = plan("--name=j").jobs[0]
    fresh = JobSpec(name="j")
    for field in ("rw", "bs_min", "bs_max", "iodepth", "loops", "rwmix_read", "percentage_random", "thinktime_blocks"):
        assert getattr(spec, field) == getattr(fresh, field), field
    assert spec.percentile_list == fresh.percentile_list
    assert spec.rate == fresh.rate
    assert spec.distribution == fresh.distribution
    assert spec.filenames == ("j.0.0",)
    assert (spec.iodepth_batch, spec.iodepth_low, spec.iodepth_batch_complete_max) == (1, 1, 1)


def test_sizes() -> None:
    """Bytes and percent are kept apart."""
    spec = job("size=50%", "io_size=8m", "offset=10%", "offset_increment=1g", "offset_align=4k", "filesize=2g")
    assert (spec.size_bytes, spec.size_percent) == (0, 50)
    assert (spec.io_size_bytes, spec.io_size_percent) == (8 << 20, 0)
    assert (spec.offset_bytes, spec.offset_percent) == (0, 10)
    assert (spec.offset_increment_bytes, spec.offset_align_bytes) == (1 << 30, 4096)
    assert spec.filesize_bytes == 2 << 30


def test_block_sizes() -> None:
    """An empty slot keeps what was there; bsrange and bssplit win over bs, whatever the order."""
    specs = plan("--bs=8k", "--name=a", "--bs=,16k", "--name=b", "--bsrange=1k-2k", "--bs=64k").jobs
    assert specs[0].bs_min == (8192, 16384, 16384)
    assert (specs[1].bs_min, specs[1].bs_max) == ((1024,) * 3, (2048,) * 3)
    spec = job("bssplit=4k/60:16k,8k", "rw=randrw")
    assert spec.bssplit == (((16384, 40), (4096, 60)), ((8192, 100),), ((8192, 100),))
    assert (spec.bs_min, spec.bs_max) == ((4096, 8192, 8192), (16384, 8192, 8192))


def test_times_and_thinktime() -> None:
    """Times are in ns; the spinning part is never longer than the pause."""
    spec = job("runtime=2m", "time_based", "ramp_time=500ms", "startdelay=1-3", "thinktime=100", "thinktime_spin=1ms")
    assert (spec.runtime_ns, spec.time_based, spec.ramp_time_ns) == (120_000 * MS, True, 500 * MS)
    assert spec.startdelay_ns == (1000 * MS, 3000 * MS)
    assert (spec.thinktime_ns, spec.thinktime_spin_ns) == (100_000, 100_000)


def test_depths() -> None:
    """Batches and marks are cut to the depth; 0 is the depth."""
    spec = job("iodepth=8", "iodepth_batch=0", "iodepth_low=99", "iodepth_batch_complete=4")
    assert (spec.iodepth_batch, spec.iodepth_low) == (8, 8)
    assert (spec.iodepth_batch_complete_min, spec.iodepth_batch_complete_max) == (4, 4)
    spec = job("iodepth=8", "iodepth_batch=4", "iodepth_low=2", "iodepth_batch_complete_max=6")
    assert (spec.iodepth_batch, spec.iodepth_low, spec.iodepth_batch_complete_max) == (4, 2, 6)


def test_patterns_and_mix() -> None:
    """The last of rwmixread and rwmixwrite counts."""
    spec = job("rw=randrw:4", "rwmixread=40", "rwmixwrite=30", "percentage_random=50,60", "rw_sequencer=identical")
    assert (spec.rw, spec.rw_seq, spec.rwmix_read) == ("randrw", 4, 70)
    assert spec.percentage_random == (50, 60, 60)
    assert job("rw=write:8k").rw_seq_add_bytes == 8192
    assert job("readwrite=readwrite").rw == "rw"


def test_random_options() -> None:
    """A seed leaves randrepeat alone; a skewed distribution or another alignment ends the random map."""
    spec = job("rw=randread", "randseed=0x10", "random_distribution=zipf:1.2:0.5")
    assert (spec.randseed, spec.randrepeat, spec.norandommap) == (16, True, True)
    assert spec.distribution[1] == Distribution("zipf", 1.2, 0.5)
    loaded = plan("--name=j", "--rw=randread", "--ba=512")
    assert loaded.jobs[0].blockalign == (512, 512, 512)
    assert loaded.jobs[0].norandommap
    assert any("random map" in note for note in loaded.notes)
    assert job("rw=read", "ba=512").blockalign == (0, 0, 0)


def test_rates() -> None:
    """Triples of bytes or I/Os per second, with the window and the process."""
    spec = job("rate=1m,500k", "rate_min=512k,", "rate_cycle=500", "rate_process=poisson", "rw=rw")
    assert spec.rate.bytes_per_s == (1 << 20, 512_000, 512_000)
    assert spec.rate.bytes_per_s_min == (512 << 10, 0, 0)
    assert (spec.rate.cycle_ns, spec.rate.process) == (500 * MS, "poisson")
    assert job("rate_iops=,100").rate.iops == (0, 100, 100)


def test_reporting() -> None:
    """What is not measured has no percentiles; the list is sorted."""
    spec = job("gtod_reduce=1", "clat_percentiles=1", "percentile_list=99:50", "unified_rw_reporting=1")
    assert (spec.disable_slat, spec.disable_clat, spec.disable_lat, spec.disable_bw) == (True,) * 4
    assert not spec.clat_percentiles
    assert spec.percentile_list == (50.0, 99.0)
    assert spec.unified_rw_reporting == "mixed"
    assert job("lat_percentiles=1", "slat_percentiles=1", "significant_figures=6").lat_percentiles


def test_system_options() -> None:
    """Priorities, cgroup, scheduler, flushes."""
    spec = job(
        "prio=3", "prioclass=2", "nice=-5", "cgroup=/a", "cgroup_weight=500", "ioscheduler=none", "fsync=64",
        "fdatasync=8", "end_fsync=1", "sync=1", "exitall", "thread",
    )  # fmt: skip
    assert (spec.prio, spec.prioclass, spec.nice, spec.cgroup, spec.cgroup_weight) == (3, 2, -5, "/a", 500)
    assert (spec.ioscheduler, spec.fsync, spec.fdatasync, spec.end_fsync) == ("none", 64, 8, True)
    assert (spec.sync, spec.exitall, spec.thread) == ("sync", True, True)


def test_direct_and_buffered() -> None:
    """The last one counts."""
    assert job("direct=1").direct
    assert job("buffered=0").direct
    assert not job("direct=1", "buffered=1").direct


def test_groups() -> None:
    """A stonewall or new_group opens a group, if the one before has jobs."""
    args = "--name=a --stonewall --name=b --name=c --new_group --numjobs=2 --name=d --stonewall --name=e --stonewall=0"
    seen = [(spec.name, spec.group_id, spec.stonewall) for spec in plan(*args.split()).jobs]
    assert seen == [
        ("a", 0, True),
        ("b", 0, False),
        ("c", 1, False),
        ("c", 1, False),
        ("d", 2, True),
        ("e", 2, False),
    ]


def test_clones() -> None:
    """Clones are numbered 0, n-1, ..., 1; only the first is a wall; each has its own options and files."""
    specs = plan("--name=j", "--numjobs=4", "--stonewall", "--directory=/a:/b").jobs
    assert [spec.clone_index for spec in specs] == [0, 3, 2, 1]
    assert [spec.stonewall for spec in specs] == [True, False, False, False]
    assert [spec.filenames[0] for spec in specs] == ["/a/j.0.0", "/b/j.3.0", "/a/j.2.0", "/b/j.1.0"]
    specs[0].rate.cycle_ns = 1
    assert specs[1].rate.cycle_ns == 1000 * MS


def test_file_names() -> None:
    """filename= may be a list, has directory= in front; a job may be named like its device."""
    assert job("filename=a:b\\:c", "directory=/d").filenames == ("/d/a", "/d/b:c")
    assert plan("--name=/dev/sda").jobs[0].filenames == ("/dev/sda",)
    adds = plan("--name=global", "--filename=a", "--name=j", "--filename=b:c", "--name=k")
    assert [spec.filenames for spec in adds.jobs] == [("a", "b", "c"), ("a",)]
    assert any("filename=b:c: added to the files named before" in note for note in adds.notes)
    assert job("filename_format=x.$jobname.$filenum").filenames == ("x.j.0",)
    assert plan("--name=a/b").jobs[0].filenames == ("a/b.0.0",)


def test_wait_for() -> None:
    """The job that is waited for stands above."""
    specs = plan("--name=a", "--name=b", "--wait_for=a").jobs
    assert specs[1].wait_for == "a"
    for args in (("--name=b", "--wait_for=a", "--name=a"), ("--name=a", "--wait_for=a")):
        with pytest.raises(ConfigError, match="wait_for"):
            plan(*args)


def test_not_yet_and_refused_stop_the_run() -> None:
    """Unless the value is the default, or nothing is going to run."""
    for args in (["--verify=md5"], ["--exec_prerun=true"], ["--nrfiles=4"], ["--write_bw_log"], ["--ioengine=mmap"]):
        with pytest.raises(ConfigError):
            plan("--name=j", *args)
        plan("--name=j", *args, require_runnable=False)
    harmless = ["--verify=0", "--nrfiles=1", "--zonemode=none", "--io_submit_mode=inline", "--stats=1"]
    assert len(plan("--name=j", *harmless).jobs) == 1


def test_no_effect_is_noted_once() -> None:
    """One line for all of them, with the place of the first."""
    loaded = plan("--mem=shm", "--name=a", "--mem=mmap", "--zero_buffers", "--name=b", "--zero_buffers")
    assert loaded.notes == ["no effect on a model: mem (command line), zero_buffers (command line)"]


def test_surprises_are_noted() -> None:
    """A value that fio reads in its own way is used as fio reads it, with a remark."""
    loaded = plan("--name=j", "--startdelay=1sec", "--time_based")
    assert loaded.jobs[0].startdelay_ns == (1000, 1000)
    assert not loaded.jobs[0].time_based
    assert any("startdelay=1sec: fio reads this as 1 us" in note for note in loaded.notes)
    assert any("time_based has no effect without runtime" in note for note in loaded.notes)


def test_buffered_io_stops_but_on_null() -> None:
    """direct=0 is the default of fio, and not modelled yet."""
    with pytest.raises(ConfigError, match="add direct=1"):
        plan("--name=j", "--ioengine=libaio")
    with pytest.raises(ConfigError, match="buffered: buffered I/O"):
        plan("--name=j", "--ioengine=psync", "--buffered=1")
    assert plan("--name=j", "--ioengine=libaio", "--direct=1").jobs[0].ioengine == "libaio"
    assert plan("--name=j", "--ioengine=psync", require_runnable=False).jobs[0].ioengine == "psync"


def test_readonly() -> None:
    """--readonly lets reads through only."""
    assert plan("--name=j", "--rw=randread", readonly=True).jobs
    for rw in ("write", "randrw", "trim"):
        with pytest.raises(ConfigError, match="--readonly forbids"):
            plan("--name=j", f"--rw={rw}", readonly=True)


def test_group_reporting_needs_one_kind_of_percentiles() -> None:
    """As in fio."""
    with pytest.raises(ConfigError, match="lat_percentiles"):
        plan("--group_reporting", "--name=a", "--name=b", "--lat_percentiles=1")
