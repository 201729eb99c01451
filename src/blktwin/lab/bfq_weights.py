"""Do backlogged groups get what their weights say: rows of 6.12 and of the mails, modelled.

Ratios are what counts. The measured numbers are in tests/data/truth/bfq-scenarios.json.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from blktwin.lab.bfq_runs import Bench, Load, Weights, ms, run_windows, spread
from blktwin.lab.bfq_scenarios import FILE, STEP_US
from blktwin.lab.truth import TRUTH_DIR

LIMIT = 0.10
LATENCY_US = 200
"""Not noted; the rows of depth 1 say about 205 us an I/O when no time is lost."""
NR_REQUESTS = 256
"""With the default of twice a depth of 1, tags and not BFQ would share the device."""
IODEPTH = 16
MAIL_KERNELS = {"before": "6.1", "after": "7.2"}
MAIL_IODEPTH = 64
MAIL_LATENCY_US = 10
"""Nothing is told of the device or the box; with the costs of the VMs the CPU is the limit, as on a plain null_blk."""
SLOTS_US = ms(5000)
"""The window: long enough for many slots of the lighter group."""
LOW_LATENCY_OFF = [("iosched.low_latency", "0")]
GROUPS: dict[str, tuple[list[str], Weights]] = {
    "1:1, 100:100": (["/a", "/b"], {"/a": 100, "/b": 100}),
    "1:1, 100:300": (["/a", "/b"], {"/a": 100, "/b": 300}),
    "1:1, 10:90": (["/a", "/b"], {"/a": 10, "/b": 90}),
    "4:1, 100:300": (["/a"] * 4 + ["/b"], {"/a": 100, "/b": 300}),
    "4:1, 100:100": (["/a"] * 4 + ["/b"], {"/a": 100, "/b": 100}),
    "root:1, 100": (["/", "/a"], {"/a": 100}),
}
"""Generators by cgroup in the order of starting, the first group's first; and the weights."""


@dataclass(slots=True)
class Share:
    """One row: what two groups got, measured and modelled (IOPS or MiB/s), and each generator of the model."""

    table: str
    name: str
    truth: tuple[float, float]
    model: tuple[float, float]
    each: list[float]

    @property
    def truth_ratio(self) -> float:
        """What the second group got for one of the first."""
        return self.truth[1] / self.truth[0]

    @property
    def model_ratio(self) -> float:
        """The same of the model."""
        return self.model[1] / self.model[0]

    @property
    def error(self) -> float:
        """The error of the model's ratio, as a fraction."""
        return self.model_ratio / self.truth_ratio - 1

    @property
    def is_within(self) -> bool:
        """Say whether the ratios agree."""
        return abs(self.error) <= LIMIT


@dataclass(slots=True)
class Contest:
    """Two groups of backlogged readers on a device."""

    table: str
    name: str
    bench: Bench
    cgroups: list[str]
    iodepth: int
    truth: tuple[float, float]

    def run(self, seed: int) -> Share:
        """Run it and return what each group got; whatever is in the first generator's cgroup is the first group."""
        loads = [
            Load(group, at * STEP_US, rw="randread", iodepth=self.iodepth) for at, group in enumerate(self.cgroups)
        ]
        begin = len(loads) * STEP_US
        rates = run_windows(self.bench, loads, [(begin, begin + SLOTS_US)], seed)[0]
        sums = [0.0, 0.0]
        for group, rate in zip(self.cgroups, rates, strict=True):
            sums[group != self.cgroups[0]] += rate
        return Share(self.table, self.name, self.truth, (sums[0], sums[1]), rates)


def contests(folder: Path = TRUTH_DIR) -> list[Contest]:
    """Return all rows: 6.12 on devices of depth 1 and 8, then the mail's on both variants."""
    data = json.loads((folder / FILE).read_text())
    rows = []
    for depth in (1, 8):
        for name, columns in data["weights"]["rows"].items():
            cgroups, weights = GROUPS[name]
            bench = Bench(
                data["weights"]["kernel"],
                LATENCY_US,
                depth,
                tunables=LOW_LATENCY_OFF,
                weights=weights,
                device=f",nr_requests={NR_REQUESTS}",
            )
            first, second = columns[str(depth)]
            rows.append(Contest(f"depth {depth}", name, bench, cgroups, IODEPTH, (first, second)))
    for variant, kernel in MAIL_KERNELS.items():
        for name, ratio in data["yu kuai"]["ratios"][variant].items():
            first, second = (int(part) for part in name.split(":"))
            weights = {"/a": first, "/b": second}
            bench = Bench(kernel, MAIL_LATENCY_US, tunables=LOW_LATENCY_OFF, weights=weights)
            rows.append(Contest(f"mail, {variant}", name, bench, ["/a", "/b"], MAIL_IODEPTH, (1.0, ratio)))
    return rows


def run_contest(contest: Contest, seed: int = 0) -> Share:
    """Run one row."""
    return contest.run(seed)


def compare(folder: Path = TRUTH_DIR, *, workers: int = 1) -> list[Share]:
    """Return all rows, measured and modelled."""
    return spread(partial(run_contest, seed=0), contests(folder), workers)
