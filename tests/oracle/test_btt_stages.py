"""Real btt is the oracle of --stages: the same tracepoints, through blktrace's binary, give the same table."""

from __future__ import annotations

from pathlib import Path

import pytest
from btt import BttTrace, run_btt
from oracles import require_tool

from blktwin.fio import jobfile
from blktwin.lab.run import simulate
from blktwin.lab.stack import Stack
from blktwin.sim.devices.spec import parse_device
from blktwin.sim.hosts import get_host
from blktwin.sim.stage_device import D2C, G2I, I2D, M2D, Q2C, Q2G, Q2M, Q2Q, STAGE_NAMES, DeviceStages

pytestmark = pytest.mark.oracle

BTT_STAGES = (Q2Q, Q2G, G2I, Q2M, I2D, M2D, D2C, Q2C)
NS = 1e-9

JOBS = {
    "none": "--rw=randrw --bs=4k --ioengine=psync --numjobs=4",
    "none libaio": "--rw=write --bs=4k --ioengine=libaio --iodepth=32 --iodepth_batch=16",
    "mq-deadline": "--rw=write --bs=4k --ioengine=libaio --iodepth=64 --iodepth_batch=32 --numjobs=3",
    "bfq": "--rw=read --bs=4k --ioengine=libaio --iodepth=32 --iodepth_batch=8 --numjobs=2",
    "mq-deadline psync": "--rw=randwrite --bs=4k --ioengine=psync --numjobs=6",
}


def traced(name: str, faults: dict[str, int]) -> tuple[DeviceStages, BttTrace]:
    """Run a job and return its device's stages and the rows."""
    words = ["--name=j", "--filename=/dev/nvme0n1", "--direct=1", "--time_based", "--runtime=20ms"]
    # btt tells I/Os apart by their sectors: the clones must not meet.
    words += ["--size=64m", "--offset_increment=64m", *JOBS[name].split()]
    stack = Stack(
        devices=[parse_device("/dev/nvme0n1=null,latency=60us,depth=8,queues=1,size=1g")],
        scheduler=name.split()[0],
        cpus=4 if name == "none" else 1,
        faults=faults,
    )
    trace = BttTrace(stack.host.cost_table())
    simulate(jobfile.load([], words, env={}), stack, trace=trace)
    trace.finish()
    [device] = trace.devices
    return device, trace


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("faults", [{}, {"refuse_ppm": 50_000}], ids=["sound", "refusing"])
def test_the_table_of_btt(name: str, faults: dict[str, int], tmp_path: Path) -> None:
    require_tool("btt")
    require_tool("blkparse")
    device, trace = traced(name, faults)
    report = run_btt(trace.rows, tmp_path)
    for stage in BTT_STAGES:
        ours = device.total(stage)
        title = STAGE_NAMES[stage]
        if ours.count == 0:
            assert title not in report.stages
            continue
        low, mean, high, count = report.stages[title]
        assert (title, int(ours.count)) == (title, count)
        # blkparse moves rows of equal times apart.
        assert int(ours.low) * NS == pytest.approx(low, abs=2 * NS), title
        assert int(ours.high) * NS == pytest.approx(high, abs=2 * NS), title
        assert ours.mean() * NS == pytest.approx(mean, abs=2 * NS), title
    assert report.stages["D2C"][3] > 100
    if "libaio" in JOBS[name]:
        assert report.stages["Q2M"][3] > 10, "nothing was merged: the test shows little"
    if faults:
        assert device.nr_requeued > 10
    queued, issued, ratio, smallest, _, largest, total = report.tables["Device Merge Information"]
    assert (int(queued), int(issued)) == (device.nr_queued, device.nr_issued)
    assert float(ratio) == pytest.approx(int(device.nr_queued) / int(device.nr_issued), abs=0.051)
    assert (int(smallest), int(largest)) == (device.sectors.low, device.sectors.high)
    assert int(total) == device.sectors.total - device.sectors_returned
    assert device.stat(Q2Q, 1) is None


def test_requests_waiting_at_an_arrival(tmp_path: Path) -> None:
    """On one CPU everything happens in the order in which it is traced, so btt's average is ours."""
    require_tool("btt")
    words = "--name=j --filename=/dev/nvme0n1 --direct=1 --size=64m --time_based --runtime=20ms --rw=write --bs=4k"
    stack = Stack(
        devices=[parse_device("/dev/nvme0n1=null,latency=60us,depth=2,queues=1,size=1g")],
        scheduler="mq-deadline",
        cpus=1,
        host=get_host(),
    )
    trace = BttTrace(stack.host.cost_table())
    jobs = [*words.split(), "--ioengine=libaio", "--iodepth=32", "--iodepth_batch=4"]
    simulate(jobfile.load([], jobs, env={}), stack, trace=trace)
    [device] = trace.devices
    report = run_btt(trace.rows, tmp_path)
    [average] = report.tables["Active Requests At Q Information"]
    ours = int(device.waiting_seen) / int(device.nr_queued)
    assert ours > 1
    assert float(average) == pytest.approx(ours, abs=0.051)
