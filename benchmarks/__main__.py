"""`make bench`: every speed and memory target of the project as one row, measured in one run.

--rounds N (default 5) and --cpu-s SECONDS per contestant and round (default 1) trade time for repeatability.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable
from contextlib import ExitStack

from benchmarks import product, real_fio, simpy_model
from benchmarks.product import CASES, Case, Sample
from benchmarks.real_fio import LeftOut
from benchmarks.rounds import Contestant, race, ratio
from benchmarks.table import AT_LEAST, AT_MOST, Row, Target, render
from blktwin.buildinfo import describe, is_compiled

AGREE_MS = 200
AGREE_PERCENT = 1.0
MEMORY_MS = 500
SPEED_CASES = ("none", "mq-deadline", "bfq", "bfq-serial", "libaio", "null-engine", "loop-workqueue", "loop-nowait")
REAL_MS = 1000


def check_agreement() -> str:
    """Return how far SimPy's run is from ours; RuntimeError beyond 1 %, where a ratio would mean nothing."""
    ours = product.run_case(CASES["none"], AGREE_MS)
    theirs = simpy_model.run_case(CASES["none"], AGREE_MS)
    iops = abs(theirs.iops / ours.iops - 1) * 100
    latency = abs(theirs.clat_ns / ours.clat_ns - 1) * 100
    text = f"SimPy's model agrees with ours: IOPS within {iops:.3f} %, mean latency within {latency:.3f} %"
    if max(iops, latency) > AGREE_PERCENT:
        raise RuntimeError(f"the two models differ: IOPS by {iops:.2f} %, mean latency by {latency:.2f} %")
    return text


def of_product(name: str) -> Callable[[int], Sample]:
    """Return the runner of one of our cases."""
    return lambda runtime_ms: product.run_case(CASES[name], runtime_ms)


def of_fio(case: Case, filename: str) -> Callable[[int], Sample]:
    """Return the runner of real fio."""
    return lambda runtime_ms: real_fio.run_fio(case, runtime_ms, filename)


def interpreted(runtime_ms: int) -> Sample:
    """Run the first case by the interpreter, in a process of its own."""
    return product.run_apart("none", runtime_ms, interpreted=True)


def out_of(reason: str) -> Contestant:
    """Return a contestant that cannot run here."""
    return Contestant(of_product("none"), left_out=reason)


def contestants(stack: ExitStack, cpu_s: float) -> dict[str, Contestant]:
    """Return all, in the order of a round."""
    found = {name: Contestant(of_product(name), cpu_s) for name in SPEED_CASES}
    if not is_compiled():
        reason = "this build is interpreted (make finds no C compiler?)"
        found = {name: out_of(reason) for name in found}
    found["simpy"] = Contestant(lambda ms: simpy_model.run_case(CASES["none"], ms), cpu_s)
    found["interpreted"] = Contestant(interpreted, cpu_s)
    found["fio-null"] = Contestant(of_fio(CASES["null-engine"], "/dev/null"), 0, REAL_MS)
    try:
        path = stack.enter_context(real_fio.loop_device())
        found["fio-loop"] = Contestant(of_fio(CASES["none"], path), 0, REAL_MS)
    except LeftOut as reason_:
        found["fio-loop"] = out_of(str(reason_))
    return found


def versus(what: str, ours: Contestant, peer: Contestant, target: Target | None = None) -> Row:
    """Return the row of a pair."""
    note = "; ".join(who.left_out for who in (ours, peer) if who.left_out)
    return Row(what, "IO/s", ours.rate(), peer.rate(), ratio(ours, peer), target, note)


def speed_rows(run: dict[str, Contestant]) -> list[Row]:
    """Return the rows of simulated (fio: real) I/Os per CPU second."""

    def alone(what: str, name: str, target: Target | None = None) -> Row:
        return Row(what, "IO/s", run[name].rate(), target=target, note=run[name].left_out)

    none = run["none"]
    return [
        alone("8 psync jobs, none", "none", Target(AT_LEAST, 4e6, is_ratio=False)),
        versus("8 psync jobs, none / SimPy", none, run["simpy"], Target(AT_LEAST, 12.0)),
        versus("the same interpreted / SimPy", run["interpreted"], run["simpy"], Target(AT_LEAST, 1.0)),
        versus("8 psync jobs, mq-deadline / none", run["mq-deadline"], none),
        versus("none / 8 psync jobs, bfq, root cgroup", none, run["bfq"], Target(AT_MOST, 3.0)),
        versus("none / 8 psync jobs, bfq, serialised", none, run["bfq-serial"], Target(AT_MOST, 3.0)),
        versus("none / the same on a loop device, workqueue", none, run["loop-workqueue"], Target(AT_MOST, 3.0)),
        versus("none / the same on a loop device, nowait_first", none, run["loop-nowait"], Target(AT_MOST, 3.0)),
        versus("1 libaio job QD32, none / 8 psync jobs", run["libaio"], none),
        versus("null engine, 1 job / real fio", run["null-engine"], run["fio-null"]),
        versus("8 psync jobs, none / real fio, loop on tmpfs", none, run["fio-loop"]),
    ]


def memory_rows() -> list[Row]:
    """Return the peak memory of a run of 100 jobs, and how it grows with simulated time."""
    short = product.run_apart("100-jobs", MEMORY_MS)
    long = product.run_apart("100-jobs", 4 * MEMORY_MS)
    growth = long.peak_mib / short.peak_mib
    return [
        Row("peak memory, 100 psync jobs", "MiB", long.peak_mib, target=Target(AT_MOST, 150.0, is_ratio=False)),
        Row("the same / a quarter of the time", "MiB", long.peak_mib, short.peak_mib, growth, Target(AT_MOST, 1.05)),
    ]


def main() -> int:
    """Measure and print; the numbers are for reading, so that a slow machine fails nothing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpu-s", type=float, default=1.0)
    options = parser.parse_args()
    print(f"{describe()}; Python {platform.python_version()}; 4k random writes on {product.DEVICE}")
    print(check_agreement())
    with ExitStack() as stack:
        run = contestants(stack, options.cpu_s)
        race(run, options.rounds)
    print(f"I/Os per CPU second, medians of {options.rounds} rounds; ratios are ours / peer of the same round\n")
    sys.stdout.write(render(speed_rows(run) + memory_rows()))
    return 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
