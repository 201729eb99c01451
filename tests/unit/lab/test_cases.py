"""Cases of public reports end to end: the job as it was posted, on the model (cases/README.md: 8, 15, 16)."""

from __future__ import annotations

import pytest

from blktwin.fio import jobfile
from blktwin.fio.ddir import READ, WRITE
from blktwin.fio.results import RunResult
from blktwin.lab.run import simulate
from blktwin.lab.stack import Stack, find_rules
from blktwin.sim.devices.spec import parse_device

MIB = 1 << 20

CASE_15 = (
    "--time_based --name=benchmark --size=50G --rw=randwrite --runtime=100ms --filename=/dev/nvme1n1 --ioengine=psync "
    "--iodepth=1 --fsync=64 --blocksize=4k --numjobs=4 --group_reporting"
)
"""Its runtime alone is shorter than the report's 60 s."""

CASE_8 = "--direct=1 --bs=4k --runtime=10ms --time_based --numjobs=12 {} --group_reporting --name=job --rw=rw"


def run(words: str, devices: list[str], rules: str = "6.12", scheduler: str = "") -> RunResult:
    """Run a command line on a stack."""
    stack = Stack(devices=[parse_device(text) for text in devices], rules=find_rules(rules), scheduler=scheduler)
    return simulate(jobfile.load([], words.split(), env={}), stack)


@pytest.mark.parametrize(("rules", "mib_s", "kib"), [("6.12", 660, 4), ("6.13", 362, 2), ("6.18", 660, 4)])
def test_case_15_one_shot_back_merge(rules: str, mib_s: float, kib: float) -> None:
    """A device of an odd size has 2 KiB buffers: head-checked FIFO plugs no longer merge the halves of a page."""
    result = run(CASE_15, ["/dev/nvme1n1=ebs,size=1099511629824"], rules)
    [report] = result.reports()
    writes = report.lanes[WRITE]
    assert report.members == 4
    assert report.sync_ios > 0
    assert writes.bytes_per_s / MIB == pytest.approx(mib_s, rel=0.05)
    assert writes.io_bytes / result.disk_util[0].write_ios / 1024 == pytest.approx(kib, rel=0.05)


def interleaved_disks(rules: str) -> tuple[float, int]:
    """Read 20 disks in turn, 120 requests a batch; return MB/s and merges."""
    disks = [f"/dev/sd{chr(ord('a') + at)}" for at in range(20)]
    words = (
        f"--name=check --filename={':'.join(disks)} --rw=read --bs=4k --ioengine=libaio --direct=1 --iodepth=120 "
        "--iodepth_batch=120 --iodepth_batch_complete_min=120 --runtime=2 --size=64m"
    )
    slow = "nvme,channels=1,read=4300us,queues=1,depth=32"
    result = run(words, [f"{disk}={slow}" for disk in disks], rules, "none")
    [report] = result.reports()
    return report.lanes[READ].bytes_per_s / 1e6, sum(disk.read_merges for disk in result.disk_util)


def test_case_16_requests_of_many_disks_in_one_plug() -> None:
    """Looking at the plug's last request alone finds no merges; looking on finds them again."""
    last_only, no_merges = interleaved_disks("5.17")
    scanning, merges = interleaved_disks("6.1")
    assert no_merges == 0
    assert merges > 10_000
    assert last_only == pytest.approx(19, rel=0.05)
    assert scanning == pytest.approx(103, rel=0.1)
    assert scanning / last_only == pytest.approx(103 / 19, rel=0.1)


def test_case_8_twelve_jobs_on_the_raw_device() -> None:
    """16 I/Os in flight per job bring more than one: the report has 3.1 times as much on its device."""
    rates = []
    for engine in ("--ioengine=psync --iodepth=1", "--ioengine=libaio --iodepth=16"):
        words = CASE_8.format(engine) + " --filename=/dev/nvme0n1"
        [report] = run(words, ["/dev/nvme0n1=nvme"]).reports()
        assert (report.members, report.error) == (12, 0)
        reads, writes = report.lanes[READ], report.lanes[WRITE]
        assert reads.total_ios == pytest.approx(writes.total_ios, rel=0.1)
        rates.append(reads.bytes_per_s / MIB)
    assert rates[0] > 100
    assert rates[1] > 1.3 * rates[0]
