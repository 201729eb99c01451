"""The engines on a device of fixed latency: what reaches it at once, who waits, what counts as latency."""

from __future__ import annotations

import pytest

from blktwin.fio import jobfile
from blktwin.fio.ddir import READ, TRIM, WRITE
from blktwin.fio.results import JobResult, RunResult
from blktwin.lab.run import simulate
from blktwin.lab.stack import Stack
from blktwin.sim.devices.spec import parse_device

LATENCY_NS = 100_000


def run(words: str, device: str = "null,latency=100us,depth=64,queues=1", **stack: object) -> RunResult:
    """Run a job on one device."""
    common = "--name=job --direct=1 --filename=/dev/sda --size=256k"
    devices = [parse_device(f"/dev/sda={device}")]
    plan = jobfile.load([], f"{common} {words}".split(), env={})
    return simulate(plan, Stack(devices=devices, **stack))  # type: ignore[arg-type]


def only(words: str, **stack: object) -> JobResult:
    """Return the one job of a run."""
    [job] = run(words, **stack).jobs  # type: ignore[arg-type]
    return job


def span_ns(job: JobResult) -> int:
    """Return how long the job ran."""
    return int(job.stat.end_ns - job.stat.epoch_ns)


@pytest.mark.parametrize("engine", ["psync", "pvsync2", "sync"])
def test_a_synchronous_engine_waits_for_each_io(engine: str) -> None:
    job = only(f"--ioengine={engine} --rw=read")
    assert span_ns(job) == pytest.approx(64 * 105_000, rel=0.05)
    assert job.stat.directions[READ].clat.mean() == pytest.approx(LATENCY_NS, rel=0.05)
    assert job.stat.context_switches == 64


@pytest.mark.parametrize("engine", ["libaio", "io_uring"])
@pytest.mark.parametrize("depth", [2, 8])
def test_depth_divides_the_time(engine: str, depth: int) -> None:
    job = only(f"--ioengine={engine} --rw=randread --iodepth={depth}")
    assert span_ns(job) == pytest.approx(64 * LATENCY_NS / depth, rel=0.25)
    assert job.stat.directions[READ].slat.mean() > 0


def test_one_file_of_posixaio_never_sees_two_ios_at_once() -> None:
    deep, shallow = (only(f"--ioengine=posixaio --rw=randread --iodepth={depth}") for depth in (8, 1))
    assert span_ns(deep) == pytest.approx(span_ns(shallow), rel=0.1)
    # What waits for the helper counts as completion latency.
    assert deep.stat.directions[READ].clat.mean() > 6 * LATENCY_NS


def test_the_null_engine_touches_no_device() -> None:
    result = run("--ioengine=null --rw=read")
    assert result.jobs[0].stat.directions[READ].total_ios == 64
    assert result.disk_util[0].read_ios == 0


def test_a_batch_is_plugged_and_merges() -> None:
    words = "--ioengine=libaio --rw=read --iodepth=16 --iodepth_batch=16 --iodepth_batch_complete_min=16"
    [disk] = run(words).disk_util
    assert (disk.read_ios, disk.read_merges) == (4, 60)
    [single] = run("--ioengine=libaio --rw=read --iodepth=16").disk_util
    assert (single.read_ios, single.read_merges) == (64, 0)


@pytest.mark.parametrize("engine", ["libaio --iodepth=8", "psync", "posixaio", "io_uring --iodepth=8"])
def test_a_submitter_without_a_tag_sleeps(engine: str) -> None:
    words = f"--ioengine={engine} --rw=randread --numjobs=4"
    result = run(words, "null,latency=100us,depth=2,queues=1")
    assert [int(job.stat.directions[READ].done_ios) for job in result.jobs] == [64] * 4
    assert span_ns(result.jobs[0]) > 64 * 4 * LATENCY_NS / 2.2


def test_long_ios_go_down_in_pieces() -> None:
    result = run("--ioengine=psync --rw=write --bs=3m --size=6m", "null,latency=100us,size=64m")
    [job] = result.jobs
    assert job.stat.directions[WRITE].io_bytes == 6 << 20
    assert result.disk_util[0].write_ios + result.disk_util[0].write_merges >= 6


@pytest.mark.parametrize("engine", ["libaio", "io_uring", "posixaio"])
def test_trims_are_calls_of_their_own(engine: str) -> None:
    """Trims wait for themselves, whatever the depth."""
    job = only(f"--ioengine={engine} --rw=trim --iodepth=8", device="nvme,trim=100us,size=64m")
    assert job.stat.directions[TRIM].total_ios == 64
    assert span_ns(job) > 64 * 90_000


def test_o_sync_writes_flush() -> None:
    """A disk without FUA gets a flush after each write of an O_SYNC file."""
    plain = only("--ioengine=psync --rw=write", device="hdd")
    synced = only("--ioengine=psync --rw=write --sync=1", device="hdd")
    assert span_ns(synced) > span_ns(plain)
    assert synced.stat.sync_ios == 0


def test_end_fsync_is_part_of_the_runtime_only() -> None:
    job = only("--ioengine=psync --rw=write --end_fsync=1", device="nvme,write_cache=1,flush=5ms")
    assert span_ns(job) > 5_000_000
    assert (job.stat.sync_ios, job.stat.sync.count) == (0, 0)


def test_fdatasync_has_latencies_but_is_not_counted() -> None:
    job = only("--ioengine=psync --rw=write --fdatasync=16")
    assert (job.stat.sync_ios, job.stat.sync.count) == (0, 3)


def test_rate_sleeps_do_not_count_as_latency() -> None:
    job = only("--ioengine=libaio --iodepth=8 --rw=randread --rate_iops=1000")
    assert job.stat.directions[READ].clat.high < 3 * LATENCY_NS
    assert span_ns(job) == pytest.approx(64_000_000, rel=0.03)


def test_nothing_begins_after_the_runtime() -> None:
    job = only("--ioengine=psync --rw=randread --rate_iops=1000 --runtime=10500us")
    assert job.stat.directions[READ].total_ios == 11
    assert 10_400_000 <= span_ns(job) <= 10_700_000


def test_the_ramp_time_is_forgotten() -> None:
    """What was in flight at the end of the ramp is not issued anew, so fewer are issued than done."""
    job = only("--ioengine=libaio --iodepth=4 --rw=randread --time_based --ramp_time=5ms --runtime=10ms")
    lane = job.stat.directions[READ]
    assert span_ns(job) == pytest.approx(10_000_000, rel=0.03)
    assert 0 <= lane.done_ios - lane.total_ios <= 4
    assert lane.done_ios == pytest.approx(4 * 10_000_000 / 108_000, rel=0.1)
    assert job.stat.usr_ns < 10_000_000


@pytest.mark.parametrize("engine", ["psync", "libaio --iodepth=4"])
def test_think_time(engine: str) -> None:
    job = only(f"--ioengine={engine} --rw=randread --thinktime=2ms --thinktime_blocks=16 --thinktime_spin=500us")
    # With a depth the last three I/Os have not completed when the fourth pause would be due.
    pauses = 4 if engine == "psync" else 3
    assert pauses * 2_000_000 < span_ns(job) < (pauses + 1) * 2_000_000 + 64 * LATENCY_NS
    assert job.stat.usr_ns > pauses * 500_000
    assert job.stat.directions[READ].clat.high < 3 * LATENCY_NS


def test_several_depths_of_completion() -> None:
    """iodepth_low: once full, fio reaps until that depth."""
    job = only("--ioengine=libaio --rw=randread --iodepth=16 --iodepth_low=4 --iodepth_batch=8")
    assert job.stat.submit_map[1] + job.stat.submit_map[2] == sum(job.stat.submit_map)
    assert sum(job.stat.depth_map) == 64
