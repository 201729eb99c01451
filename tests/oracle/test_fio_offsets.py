"""The model's I/Os are fio's, one by one: direction, offset and length against the iolog of a real run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from oracles import require_fio

from blktwin.fio import jobfile
from blktwin.fio.pattern import NEXT_END, NEXT_SYNC, IoPattern
from blktwin.fio.spec import JobSpec
from blktwin.fio.unit import FioFile, IoUnit
from blktwin.lab.run import FOREVER_NS
from blktwin.lab.schedule import Schedule
from blktwin.lab.stack import Stack
from blktwin.lab.world import World

pytestmark = pytest.mark.oracle

NAMES = ("read", "write", "trim")
JOBS = [
    "--rw=read",
    "--rw=write",
    "--rw=rw",
    "--rw=rw --rwmixread=70",
    "--rw=randread",
    "--rw=randwrite",
    "--rw=randrw --rwmixread=30",
    "--rw=randrw --norandommap",
    "--rw=randread --norandommap",
    "--rw=randread:8",
    "--rw=randread:4 --rw_sequencer=identical",
    "--rw=read:8k",
    "--rw=randread --bsrange=4k-16k",
    "--rw=randread --bsrange=4k-16k --norandommap",
    "--rw=read --bsrange=4k-64k",
    "--rw=randrw --bsrange=4k-8k,4k-32k",
    "--rw=read --bssplit=4k/30:8k/30:16k/40",
    "--rw=randrw --bssplit=4k/50:8k/50,16k/20:32k/80 --norandommap",
    "--rw=randread --percentage_random=50 --norandommap",
    "--rw=randrw --percentage_random=30,70",
    "--rw=randwrite --fsync=3",
    "--rw=randwrite --fdatasync=5",
    "--rw=randrw --fsync=4",
    "--rw=trimwrite",
    "--rw=randread --blockalign=8k",
    "--rw=randread --randseed=77",
    "--rw=randwrite --randseed=77 --norandommap",
    "--rw=randread --bs=512 --offset=64k",
    "--rw=randread --size=100k --bs=8k",
    "--rw=randread --io_size=3m",
    "--rw=read --io_size=2500k",
    "--rw=read --number_ios=17",
    "--rw=randread --loops=2 --size=256k",
    "--rw=randwrite --randseed=77 --randrepeat=0",
    "--rw=randread --size=10g --number_ios=3000",
    "--rw=randtrim",
    "--rw=randread --bs=3k",
    "--rw=read --bs=3k --io_size=100k",
    "--rw=randread --size=64k --time_based=0 --loops=3",
    "--rw=randrw --offset=128k --size=512k",
]


def fio_iolog(options: list[str], tmp_path: Path) -> list[tuple[str, int, int]]:
    """Return what real fio does, from its iolog."""
    log = tmp_path / "log"
    command = [require_fio(), "--name=job", "--ioengine=null", "--size=1m", "--filename=file", *options]
    subprocess.run([*command, f"--write_iolog={log}"], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    rows = []
    for line in log.read_text().splitlines():
        words = line.split()
        if len(words) >= 4 and words[2] in ("read", "write", "trim", "sync", "datasync"):
            rows.append((words[2].removeprefix("data"), int(words[3]), int(words[4])))
    return rows


def model_iolog(options: list[str]) -> list[tuple[str, int, int]]:
    """Return what the model does, seen at the pattern."""
    plan = jobfile.load([], ["--name=job", "--ioengine=null", "--size=1m", "--filename=file", *options], env={})
    rows: list[tuple[str, int, int]] = []

    class Spy(IoPattern):
        def __init__(self, spec: JobSpec, files: list[FioFile], number: int) -> None:
            super().__init__(spec, files, number, 0)

        def next(self, unit: IoUnit) -> int:
            what = super().next(unit)
            if what == NEXT_SYNC:
                rows.append(("sync", 0, 0))
            elif what != NEXT_END:
                rows.append((NAMES[unit.ddir], int(unit.offset), int(unit.nbytes)))
            return what

    world = World(plan, Stack())
    schedule = Schedule(world.machine)
    world.build_threads(schedule)
    thread = world.threads[0]
    thread.pattern = Spy(plan.jobs[0], thread.pattern.files, 1)
    schedule.begin(world.threads)
    world.machine.run(FOREVER_NS, 1 << 60)
    return rows


@pytest.mark.parametrize("job", JOBS)
def test_same_ios_as_fio(job: str, tmp_path: Path) -> None:
    options = job.split()
    expected = [(name, *(place if name != "sync" else (0, 0))) for name, *place in fio_iolog(options, tmp_path)]
    assert len(expected) > 10
    assert model_iolog(options) == expected
