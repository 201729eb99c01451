"""The model's I/Os are fio's, one by one: direction, offset and length against the iologs of a real run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from fio_pair import in_one_run
from oracles import require_fio

from blktwin.block.machine import Task
from blktwin.fio import jobfile
from blktwin.fio.ddir import SYNC
from blktwin.fio.engine_null import NullThread
from blktwin.lab.run import simulate
from blktwin.lab.stack import Stack
from blktwin.sim.costs import Costs
from blktwin.sim.trace import CostTrace

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
    "--rw=randtrimwrite",
    "--rw=randtrimwrite --bssplit=4k/50:8k/50",
    "--rw=trimwrite --bsrange=4k-16k",
    "--rw=trimwrite --loops=2",
    "--rw=randrw --bs=4k,8k",
    "--rw=randrw --bsrange=4k-8k --loops=2 --size=256k",
    "--rw=randrw --percentage_random=40 --loops=2 --size=256k",
    "--rw=randrw --fsync=4 --fdatasync=3",
    "--rw=randread --random_distribution=zipf:1.2",
    "--rw=randread --random_distribution=zipf:0.8 --randrepeat=0 --randseed=5",
    "--rw=randrw --random_distribution=pareto:0.2",
    "--rw=randread --random_distribution=normal:20",
    "--rw=randread --random_distribution=zoned:50/5:30/15:20/80",
    "--rw=randread --random_distribution=zoned_abs:60/100k:40/900k",
    "--rw=read:-8k",
    "--rw=rw:16k",
    "--rw=randwrite --softrandommap=1",
    "--rw=randread --bs=1000",
]


COMMON = "--ioengine=null --size=1m --filename=file"


def fio_iologs(tmp_path: Path) -> list[list[tuple[str, int, int]]]:
    """Return what real fio does, from its iologs: all jobs in one run."""
    words = in_one_run([f"{job} --write_iolog=log{at}" for at, job in enumerate(JOBS)], COMMON)
    subprocess.run([require_fio(), *words], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    logs = []
    for at in range(len(JOBS)):
        rows = []
        for line in (tmp_path / f"log{at}").read_text().splitlines():
            words = line.split()
            if len(words) >= 4 and words[2] in NAMES:
                rows.append((words[2], int(words[3]), int(words[4])))
            elif len(words) >= 3 and words[2] in ("sync", "datasync"):
                rows.append(("sync", 0, 0))
        logs.append(rows)
    return logs


class Spy(CostTrace):
    """Keeps what each thread of the null engine does, by thread number."""

    def __init__(self) -> None:
        super().__init__(Costs())
        self.rows: dict[int, list[tuple[str, int, int]]] = {}

    def user_io(self, task: Task) -> None:
        assert isinstance(task, NullThread)
        unit = task.unit
        row = ("sync", 0, 0) if unit.ddir >= SYNC else (NAMES[unit.ddir], int(unit.offset), int(unit.nbytes))
        self.rows.setdefault(task.number, []).append(row)


def model_iologs() -> list[list[tuple[str, int, int]]]:
    """Return what the model does."""
    spy = Spy()
    simulate(jobfile.load([], in_one_run(JOBS, COMMON), env={}), Stack(), trace=spy)
    return [spy.rows[number] for number in range(1, len(JOBS) + 1)]


def test_same_ios_as_fio(tmp_path: Path) -> None:
    for job, expected, ours in zip(JOBS, fio_iologs(tmp_path), model_iologs(), strict=True):
        assert len(expected) > 10, job
        assert (job, ours) == (job, expected)
