"""`make demo`: the table of the BFQ mail, from its own job on its box."""

from __future__ import annotations

import os
import sys
import time

import blktwin.fio.job
from blktwin.fio.output import render
from blktwin.lab.bfq_seed import BEFORE, DEVICE, JOB, LAST_START_MS, SEEDS, WINDOW_MS, compare, run_seed, table
from blktwin.lab.command import run_command

IS_COMPILED = not blktwin.fio.job.__file__.endswith(".py")


def main() -> None:
    """Print fio's output of one run, then the mail's table."""
    began = time.monotonic()
    seeds = SEEDS if IS_COMPILED else SEEDS[:1]
    runtime_s = (LAST_START_MS + WINDOW_MS) // 1000
    command = f"blktwin run examples/{JOB} --runtime {runtime_s}s --device {DEVICE} --scheduler bfq --cgroup /c1"
    print(f"== {command} --rules {BEFORE}")
    sys.stdout.write(render(run_seed(BEFORE, "/c1"), ["normal"]))
    total_s = LAST_START_MS // 1000 + runtime_s
    print(f"fio's group line divides the bytes of {total_s} s by one job's {runtime_s} s: more than the drive does.\n")
    print("Throughput while all eight jobs run, MiB/s: the mail on concurrent sync I/O (March 2022), and this model")
    print("\n".join(table(compare(seeds, workers=min(2, os.cpu_count() or 1)))))
    print("Before, outside root, BFQ idles for one job at a time and injects some I/O of the others: the value depends")
    print(f"on the drive's jitter: it is the median of {len(seeds)} seeds.")
    print(f"({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    run_command(main)
