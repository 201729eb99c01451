"""`make demo`: the author's job on the box of his mail, under both schedulers."""

from __future__ import annotations

import os
import sys
from importlib import resources
from pathlib import Path

from blktwin.errors import BlktwinError
from blktwin.fio import jobfile
from blktwin.fio.output import render
from blktwin.fio.results import RunResult
from blktwin.lab.run import simulate
from blktwin.lab.stack import Stack
from blktwin.sim.devices.spec import parse_device

JOB = "bfq-concurrent-sync-io.fio"
DEVICE = "/dev/nvme0n1=seed2-nvme"
RUNTIME_NS = 12_000_000_000


def job_path() -> str:
    """Return the job file: in the checkout, else the copy that is installed with the package."""
    path = Path("examples") / JOB
    return str(path) if path.exists() else str(resources.files("blktwin") / "examples" / JOB)


def run_demo(scheduler: str) -> RunResult:
    """Run the job under a scheduler."""
    plan = jobfile.load([job_path()], [], env=os.environ)
    for job in plan.jobs:
        job.runtime_ns = RUNTIME_NS
    return simulate(plan, Stack(devices=[parse_device(DEVICE)], scheduler=scheduler))


def throughput(result: RunResult) -> float:
    """Return the MiB/s written while all jobs ran."""
    window = result.blktwin["all_jobs"]
    assert isinstance(window, dict)
    rate = window["write_mib_s"]
    assert isinstance(rate, float)
    return rate


def main() -> int:
    """Print fio's output for both schedulers, and what they have in common."""
    rates = {}
    for scheduler in ("none", "mq-deadline"):
        print(f"== blktwin run examples/{JOB} --runtime 12s --device {DEVICE} --scheduler {scheduler}")
        result = run_demo(scheduler)
        sys.stdout.write(render(result, ["normal"]))
        rates[scheduler] = throughput(result)
        print()
    print("fio's group line divides the bytes of 19 s by one job's 12 s, so it shows more than the drive can do.")
    print("Throughput while all eight jobs run (the mail: 550 MiB/s in the root cgroup)")
    for scheduler, rate in rates.items():
        print(f"  {scheduler:12} {rate:7.1f} MiB/s")
    return 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except BlktwinError as error:
        raise SystemExit(f"blktwin: {error}") from None
