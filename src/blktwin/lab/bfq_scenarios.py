"""Who shares a slow null_blk, and how many I/Os a second come of it: BFQ's rows of 500 us on four kernels, modelled.

Each scenario is a list of load generators and the window that counts. The measured numbers are in
tests/data/truth/bfq-scenarios.json; a starred one is one draw of a chaotic run and is compared with the envelope of
20 seeds, the others with one run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from blktwin.lab.bfq_runs import Bench, Compared, Load, ms, run_windows, spread
from blktwin.lab.truth import TRUTH_DIR

KERNELS = ("5.10", "6.1", "6.12", "7.2")
STEP_US = ms(650)
WINDOW_US = ms(2500)
SEEDS = range(1, 21)
LIMIT = 0.05
ENVELOPE_SLACK = 0.03
"""20 draws do not reach the ends of what is possible."""
JITTER_PPM = 2000
FILE = "bfq-scenarios.json"


@dataclass(slots=True)
class Scenario:
    """Load generators, the window that counts (us), and how the device and BFQ are set."""

    name: str
    loads: list[Load]
    window: tuple[int, int]
    latency_us: int = 500
    low_latency: int = 0


@dataclass(slots=True)
class Outcome(Compared):
    """One scenario on one kernel: measured IOPS, and the model's of each seed."""

    kernel: str
    name: str
    truth: float
    is_starred: bool
    model: list[float]

    @property
    def is_within(self) -> bool:
        """Say whether the model agrees: within the limit, a starred row inside the envelope."""
        if self.is_starred:
            return min(self.model) * (1 - ENVELOPE_SLACK) <= self.truth <= max(self.model) * (1 + ENVELOPE_SLACK)
        return abs(self.error) <= LIMIT


def loads_of(cgroups: list[str], step_us: int = STEP_US) -> list[Load]:
    """Return one psync writer for each cgroup, started one after the other."""
    return [Load(cgroup, at * step_us) for at, cgroup in enumerate(cgroups)]


def after(loads: list[Load], pause_us: int = STEP_US) -> tuple[int, int]:
    """Return the window that begins so long after the last start."""
    begin = max(load.start_us for load in loads) + pause_us
    return begin, begin + WINDOW_US


def scenarios() -> list[Scenario]:
    """Return the rows of the table, in its order."""
    plain = {
        "8 in root": ["/"] * 8,
        "8 in /a": ["/a"] * 8,
        "8 in /c1/c2": ["/c1/c2"] * 8,
        "1 in root, 2 in /a": ["/", "/a", "/a"],
        "4 in /a, 4 in /b": ["/a"] * 4 + ["/b"] * 4,
        "1 in /a, 1 in /b": ["/a", "/b"],
        "1 in /a": ["/a"],
    }
    rows = [Scenario(name, loads_of(groups), after(loads_of(groups))) for name, groups in plain.items()]
    leaving = loads_of(["/", "/a", "/a"])
    leaving[0].runtime_us = ms(5000)
    rows.insert(4, Scenario("1 in root, 2 in /a: root stops", leaving, (ms(5500), ms(5500) + WINDOW_US)))
    together = loads_of(["/a"] * 8, step_us=200)
    rows.append(Scenario("8 in /a, started together", together, after(together)))
    for name, cgroup in (("8 in root, low_latency 1", "/"), ("8 in /a, low_latency 1", "/a")):
        loads = loads_of([cgroup] * 8)
        rows.append(Scenario(name, loads, after(loads, STEP_US + ms(3000)), low_latency=1))
    return rows


def device_times() -> list[Scenario]:
    """Return eight writers in root and in a group on devices of other speeds."""
    rows = []
    for latency_us in (100, 230, 1100):
        for where, cgroup in (("root", "/"), ("/a", "/a")):
            loads = loads_of([cgroup] * 8)
            rows.append(Scenario(f"8 in {where}, {latency_us} us", loads, after(loads), latency_us))
    return rows


def run_scenario(job: tuple[Scenario, str, int]) -> float:
    """Return the IOPS of a (scenario, kernel, seed); seed 0 is without jitter."""
    scenario, kernel, seed = job
    bench = Bench(
        kernel,
        scenario.latency_us,
        tunables=[("iosched.low_latency", str(scenario.low_latency))],
        jitter=scenario.latency_us * JITTER_PPM // 1000 if seed else 0,
    )
    return sum(run_windows(bench, scenario.loads, [scenario.window], seed)[0])


def read_scenarios(part: str = "scenarios", folder: Path = TRUTH_DIR) -> dict[str, dict[str, tuple[float, bool]]]:
    """Return the measured IOPS by scenario and kernel, and whether the value is starred."""
    table = json.loads((folder / FILE).read_text())[part]
    return {name: {kernel: starred(value) for kernel, value in row.items()} for name, row in table.items()}


def starred(value: float | str) -> tuple[float, bool]:
    """Return a table's value and whether it has a star."""
    return (float(value.rstrip("*")), True) if isinstance(value, str) else (float(value), False)


def compare(
    part: str = "scenarios",
    folder: Path = TRUTH_DIR,
    *,
    with_starred: bool = True,
    workers: int = 1,
) -> list[Outcome]:
    """Return every row of a table on every kernel that was measured; starred ones are 20 runs each."""
    rows = scenarios() if part == "scenarios" else device_times()
    truth = read_scenarios(part, folder)
    outcomes = []
    jobs: list[tuple[Scenario, str, int]] = []
    for row in rows:
        for kernel, (iops, is_starred) in truth[row.name].items():
            if is_starred and not with_starred:
                continue
            outcomes.append(Outcome(kernel, row.name, iops, is_starred, []))
            jobs += [(row, kernel, seed) for seed in (SEEDS if is_starred else (0,))]
    results = spread(run_scenario, jobs, workers)
    by_row = {(outcome.name, outcome.kernel): outcome for outcome in outcomes}
    for (row, kernel, _), iops in zip(jobs, results, strict=True):
        by_row[row.name, kernel].model.append(iops)
    return outcomes
