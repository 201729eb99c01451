"""Prints docs/accuracy.md: the model against rows of real kernels, with fitted rows and misses (`make accuracy`)."""

from __future__ import annotations

from statistics import median

from blktwin.lab import bfq_report, loop_report, loop_seed_report
from blktwin.lab.command import run_command
from blktwin.lab.truth import KERNELS, LOADED_ROW, QD1_ROW, Row, compare
from blktwin.sim.hosts import get_host

LIMIT = 0.05

INTRO = f"""# Accuracy

What the model says against what real kernels did. `make accuracy` prints this page; `tests/truth` holds its limits.

## none and mq-deadline on null_blk

The kernels ran in a VM with one CPU in which one instruction takes one nanosecond, so that a run repeats exactly:
eight psync 4k random writers (`8w`, each starts 20 ms after the one before) or one (`1w`) on null_blk of 100 us and
depth 64, in the root cgroup, in /a, or in /c1/c2 (`tests/data/truth/README.md`). The device leaves nothing to fit;
the loaded rows are bound by the CPU. Three CPU numbers per kernel were fitted, on the rows {QD1_ROW} and
{LOADED_ROW} only (`python -m blktwin.lab.fit`); the shape of the costs and three numbers that all kernels share
(elevator, cgroup_level, aio) are in `sim/hosts.toml`: round instruction counts, chosen once with these tables in
sight, so a part of the agreement over schedulers and cgroup depths is theirs.

What differs between the kernels beyond that is `block/rules.py`: until 6.5 a write to a block device leaves its
plug when the writer goes to sleep, so kblockd issues it, under none too; in 7.2 there is no plug, and only
mq-deadline needs kblockd.
"""


def table(rows: list[Row]) -> list[str]:
    """Return the rows as a Markdown table."""
    lines = [
        "| kernel | row | IOPS, kernel | IOPS, model | error | latency us, kernel | model | error | |",
        "|---|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    for row in rows:
        note = "fitted" if row.is_fitted else "" if is_within(row) else "**missed**"
        lines.append(
            f"| {row.kernel} | {row.name} | {row.truth.iops:.0f} | {row.model.iops:.0f} | {row.iops_error:+.1%} "
            f"| {row.truth.lat_us:.1f} | {row.model.lat_us:.1f} | {row.lat_error:+.1%} | {note} |"
        )
    return lines


def is_within(row: Row) -> bool:
    """Say whether both errors are within the limit."""
    return abs(row.iops_error) <= LIMIT and abs(row.lat_error) <= LIMIT


def page() -> str:
    """Return the whole page."""
    rows = [row for kernel in KERNELS for row in compare(kernel)]
    free = [row for row in rows if not row.is_fitted]
    missed = [row for row in free if not is_within(row)]
    errors = [abs(error) for row in free for error in (row.iops_error, row.lat_error)]
    lines = [INTRO, *table(rows), ""]
    lines.append(
        f"Of {len(free)} rows that were not fitted, {len(free) - len(missed)} are within {LIMIT:.0%} in throughput and "
        f"mean latency; median error {median(errors):.1%}, worst {max(errors):.1%}."
    )
    lines += ["", "Costs in ns (the rest of the path scales with them):", ""]
    names = ("user_io", "submit", "issue", "irq", "wake", "switch", "sleep", "elevator", "cgroup_level")
    lines += [f"| kernel | {' | '.join(names)} |", "|---|" + "--:|" * len(names)]
    for kernel in KERNELS:
        costs = get_host(f"tcg-{kernel}").costs
        lines.append(f"| {kernel} | {' | '.join(str(costs[name]) for name in names)} |")
    return "\n".join(lines + bfq_report.sections() + loop_report.sections() + loop_seed_report.sections()) + "\n"


def main() -> None:
    """Print the page."""
    print(page(), end="")


if __name__ == "__main__":
    run_command(main)
