"""A small run made of simulated numbers, with its output in every format (run it as a program to print that)."""

from __future__ import annotations

from typing import Any

from blktwin.fio.ddir import READ, SYNC, WRITE
from blktwin.fio.output import render
from blktwin.fio.results import DiskUtil, JobResult, RunResult
from blktwin.fio.spec import JobSpec
from blktwin.fio.stats import ThreadStat

MSEC = 1_000_000
EPOCH_MS = 1_700_000_000_123
OPTIONS = {"rw": "randrw", "bs": "4k", "thread": ""}


def sample_thread(spec: JobSpec, ios: int = 4000, start_ns: int = 0, step_ns: int = 400_000) -> ThreadStat:
    """Return a thread that did ios I/Os, one each step_ns: every third a write, each 50th an fsync."""
    stat = ThreadStat(spec)
    now_ns = start_ns
    stat.start(now_ns)
    for number in range(ios):
        now_ns += step_ns
        ddir = WRITE if number % 3 == 2 else READ
        clat_ns = 90 + number * number * 7919 % 3_000_000
        if spec.iodepth > 1:
            stat.queued(ddir)
            stat.committed(1, 1 + number % spec.iodepth)
            stat.submitted(1 + number % 4)
            stat.add_slat(ddir, 700 + number % 300)
            stat.reaped(1)
        else:
            stat.issued_alone(ddir)
        stat.completed(ddir, 4096, clat_ns, clat_ns + 250, now_ns)
        if number % 50 == 49:
            stat.issued_alone(SYNC)
            stat.synced(200_000 + number)
    stat.usr_ns, stat.sys_ns, stat.context_switches = 3 * MSEC, 5 * MSEC, ios
    stat.finish(now_ns)
    return stat


def sample_specs(**fields: Any) -> list[JobSpec]:
    """Return two clones of one section and a second section in a group of its own."""
    common: dict[str, Any] = {"rw": "randrw", "options": dict(OPTIONS)} | fields
    return [
        JobSpec("twins", clone_index=0, **common),
        JobSpec("twins", clone_index=1, **common),
        JobSpec("deep", ioengine="libaio", iodepth=8, slat_percentiles=True, group_id=1, **common),
    ]


def sample_result(*, partial: bool = False, **fields: Any) -> RunResult:
    """Return a run of sample_specs. fields: JobSpec fields that all three threads get."""
    jobs = [
        JobResult(spec, sample_thread(spec, 4000 - 100 * number), 1000 + number)
        for number, spec in enumerate(sample_specs(**fields))
    ]
    return RunResult(
        jobs,
        [DiskUtil("nvme0n1", 7000, 3500, 12, 3, 1500, 800, 2300, 1234, 1600)],
        {"ioengine": "psync"},
        elapsed_ms=1600,
        epoch_ms=EPOCH_MS,
        version="1.2.3",
        partial=partial,
        blktwin={"seed": 7, "rules": "7.2", "shares": [0.5, 0.25], "nested": {"none": None, "yes": True}},
    )


def main() -> None:
    """Print the sample in all formats, with and without merged threads."""
    for fields in ({}, {"group_reporting": True}, {"unified_rw_reporting": "mixed"}, {"unified_rw_reporting": "both"}):
        print(render(sample_result(**fields), ["terse", "json+", "normal"], 5), end="")


if __name__ == "__main__":
    main()
