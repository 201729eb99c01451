"""Fits the CPU costs of the 6.12 VM on raw rows and on one loop row (`python -m blktwin.lab.loop_fit`).

The path's costs are those of tcg-6.1. Each of the others comes out of one row, in this order: user_io (the gap between
two I/Os) and idle_exit from psync1rr, aio_prep from aio1x32rr, irq_shared from aio1x32b16, sleep from psync12rw; then
loop_lock from workqueue.aio1x32rr, in which every request pays for the hand-over and nothing overlaps with the device:
of a grid of values that with the nearest median of several runs, for the row does not rise or fall evenly with it.
wake and tag_wait were measured in that VM (tests/data/truth/loop-6.12-again.json, traced).
raw.psync12rw is that of the second measurement: in the first one the guest was still booting.
"""

from __future__ import annotations

from blktwin.lab.command import run_command
from blktwin.lab.loop_truth import AGAIN, FITTED_LOOP_ROW, HOST, measure, read_rows, typical
from blktwin.sim.hosts import Host, get_host

STEPS = (
    ("idle_exit", "raw.psync1rr", 0, 2000, True),
    ("aio_prep", "raw.aio1x32rr", 0, 5000, True),
    ("irq_shared", "raw.aio1x32b16", 0, 1258, False),
    ("sleep", "raw.psync12rw", 0, 6000, True),
)
"""Cost, row, where to look for it (ns), and whether the row takes longer with it."""
LOCKS_NS = range(300, 801, 25)
PASSES = 2
NEAR_NS = 10


def solve(host: Host, name: str, row: str, bounds: tuple[int, int], is_slower: bool, iops: float) -> int:
    """Return the cost (ns) at which the row has that throughput, by halving."""
    low, high = bounds
    while high - low > NEAR_NS:
        middle = (low + high) // 2
        host.costs[name] = middle
        if (measure(row, host).iops > iops) == is_slower:
            low = middle
        else:
            high = middle
    host.costs[name] = (low + high) // 2
    return host.costs[name]


def fit() -> dict[str, int]:
    """Return the costs by name."""
    base = get_host(HOST)
    host = Host(base.name, base.source, base.cpus, base.cache_cpus, base.hz, dict(base.costs), base.spec)
    truth = {**read_rows(), "raw.psync12rw": read_rows(file=AGAIN)["raw.psync12rw"]}
    alone = truth["raw.psync1rr"]
    found = {"user_io": round((alone.period_us - alone.lat_us) * 1000)}
    host.costs.update(found)
    for _ in range(PASSES):
        for name, row, low, high, is_slower in STEPS:
            found[name] = solve(host, name, row, (low, high), is_slower, truth[row].iops)
    found["loop_lock"] = nearest_lock(host, truth[FITTED_LOOP_ROW].iops)
    return found


def nearest_lock(host: Host, iops: float) -> int:
    """Return the loop_lock (ns) with which the loop row comes nearest."""
    errors = {}
    for lock_ns in LOCKS_NS:
        host.costs["loop_lock"] = lock_ns
        errors[lock_ns] = abs(typical(FITTED_LOOP_ROW, host).iops / iops - 1)
    return min(errors, key=lambda lock_ns: errors[lock_ns])


def main() -> None:
    """Print the costs for sim/hosts.toml."""
    for name, value in fit().items():
        print(f"{name} = {value}")


if __name__ == "__main__":
    run_command(main)
