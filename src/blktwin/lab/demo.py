"""`make demo`: the table of the BFQ mail, from its own job on its box."""

from __future__ import annotations

import os
import sys
import time

import blktwin.fio.job
from blktwin.errors import BlktwinError
from blktwin.fio import jobfile
from blktwin.fio.output import render
from blktwin.fio.results import RunResult
from blktwin.lab.bfq_seed import BEFORE, DEVICE, JOB, SEEDS, compare, job_path, table
from blktwin.lab.run import simulate
from blktwin.lab.stack import Stack, find_rules
from blktwin.sim.devices.spec import parse_device

IS_COMPILED = not blktwin.fio.job.__file__.endswith(".py")
RUNTIME_NS = 12_000_000_000


def run_once(scheduler: str) -> RunResult:
    """Run the command that main() prints."""
    plan = jobfile.load([job_path()], [], env=os.environ)
    for job in plan.jobs:
        job.runtime_ns = RUNTIME_NS
    stack = Stack([parse_device(DEVICE)], scheduler, rules=find_rules(BEFORE), cgroup="/c1")
    return simulate(plan, stack)


def main(scheduler: str = "bfq") -> int:
    """Print fio's output of one run, then the mail's table."""
    began = time.monotonic()
    seeds = SEEDS if IS_COMPILED else SEEDS[:1]
    command = (
        f"blktwin run examples/{JOB} --runtime 12s --device {DEVICE} --scheduler bfq --cgroup /c1 --rules {BEFORE}"
    )
    print(f"== {command}")
    sys.stdout.write(render(run_once(scheduler), ["normal"]))
    print("fio's group line divides the bytes of 19 s by one job's 12 s, so it shows more than the drive can do.\n")
    print("Throughput while all eight jobs run, MiB/s: the mail on concurrent sync I/O (March 2022), and this model")
    workers = min(2, os.cpu_count() or 1)
    print("\n".join(table(compare(seeds, scheduler=scheduler, workers=workers))))
    print("Before, outside root, BFQ idles for one job at a time and injects some I/O of the others: the value depends")
    print(f"on the drive's jitter: it is the median of {len(seeds)} seeds.")
    print(f"({time.monotonic() - began:.0f} s)")
    return 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except BlktwinError as error:
        raise SystemExit(f"blktwin: {error}") from None
