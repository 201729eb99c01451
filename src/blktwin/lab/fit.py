"""Fits the CPU costs of the truth VMs: three numbers per kernel, from its two fitting rows only.

user_io: the gap between a completion and the next issue (1/IOPS - latency of the QD1 row). scale: one factor on all
costs of the path, so that the QD1 row's throughput comes out. sleep: what overlaps with the device at QD1 and does
not under load, so that the loaded row's throughput comes out. bfq: what the QD1 row takes longer under BFQ than under
mq-deadline. `python -m blktwin.lab.fit` prints the hosts that
sim/hosts.toml has.
"""

from __future__ import annotations

import json
from pathlib import Path

from blktwin.lab.command import run_command
from blktwin.lab.truth import KERNELS, LOADED_ROW, QD1_ROW, TRUTH_DIR, measure, read_truth
from blktwin.sim.costs import COST_NAMES
from blktwin.sim.hosts import Host, get_host

SHAPE = "tcg-shape"
FREE = ("user_io", "sleep")
SHARED = ("elevator", "cgroup_level", "aio", "bfq")
"""Instruction counts that all kernels share, not scaled."""


def with_costs(shape: Host, scale: float, user_io: int, sleep: int) -> Host:
    """Return the shape with its path scaled and the free costs set (ns)."""
    costs = {}
    for name in COST_NAMES:
        fixed = name in FREE or name in SHARED
        costs[name] = shape.costs[name] if fixed else round(shape.costs[name] * scale)
    costs["user_io"] = user_io
    costs["sleep"] = sleep
    return Host(shape.name, shape.source, shape.cpus, shape.cache_cpus, shape.hz, costs, shape.spec)


def fit(kernel: str) -> tuple[float, int, int]:
    """Return scale, user_io and sleep (ns) of a kernel."""
    shape = get_host(SHAPE)
    truth = read_truth(kernel)
    qd1 = truth[QD1_ROW]
    loaded = truth[LOADED_ROW]
    user_io = round((qd1.period_us - qd1.lat_us) * 1000)
    scale = 1.0
    sleep = 1000
    for _ in range(4):
        scale = solve_scale(kernel, shape, user_io, sleep, qd1.period_us)
        sleep = solve_sleep(kernel, shape, user_io, scale, loaded.period_us)
    return scale, user_io, sleep


def solve_scale(kernel: str, shape: Host, user_io: int, sleep: int, period_us: float) -> float:
    """Return the scale at which the QD1 row has that period: it is linear in the scale, so two points give it."""
    low, high = 0.5, 1.5
    at_low = measure(kernel, QD1_ROW, with_costs(shape, low, user_io, sleep)).period_us
    at_high = measure(kernel, QD1_ROW, with_costs(shape, high, user_io, sleep)).period_us
    return low + (period_us - at_low) * (high - low) / (at_high - at_low)


def solve_sleep(kernel: str, shape: Host, user_io: int, scale: float, period_us: float) -> int:
    """Return the sleep cost (ns) at which the loaded row has that period."""
    low, high = 0, 8000
    while high - low > 10:
        middle = (low + high) // 2
        if measure(kernel, LOADED_ROW, with_costs(shape, scale, user_io, middle)).period_us < period_us:
            low = middle
        else:
            high = middle
    return (low + high) // 2


def bfq_cost(kernel: str, folder: Path = TRUTH_DIR) -> int:
    """Return what BFQ costs an I/O (ns) beyond mq-deadline, from their QD1 rows."""
    rows = json.loads((folder / f"bfq-{kernel}.json").read_text())["rows"]
    bfq: float = rows["bfq.root.1w"]["iops"]
    deadline: float = rows["mq-deadline.root.1w"]["iops"]
    return round(1e9 / bfq - 1e9 / deadline)


def as_toml(kernel: str, scale: float, user_io: int, sleep: int) -> str:
    """Return the host's table for sim/hosts.toml."""
    shape = get_host(SHAPE)
    lines = [
        f'["tcg-{kernel}"]',
        f'source = "Fitted on the rows {QD1_ROW} and {LOADED_ROW} of tests/data/truth/bfq-{kernel}.json by '
        f'python -m blktwin.lab.fit: scale {scale:.3f}."',
        f'inherit = "{SHAPE}"',
    ]
    costs = {**with_costs(shape, scale, user_io, sleep).costs, "bfq": bfq_cost(kernel)}
    lines += [f"{name} = {costs[name]}" for name in COST_NAMES if costs[name] != shape.costs[name]]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print a host per kernel."""
    for kernel in KERNELS:
        print(as_toml(kernel, *fit(kernel)))


if __name__ == "__main__":
    run_command(main)
