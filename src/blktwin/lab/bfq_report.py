"""The sections of docs/accuracy.md on BFQ: a table each, and a sentence on each row that misses."""

from __future__ import annotations

from statistics import median

from blktwin.lab import bfq_rows, bfq_scenarios, bfq_seed, bfq_weights
from blktwin.lab.bfq_notes import NOTES, row_note
from blktwin.lab.bfq_rows import CHAOTIC, MEDIAN_LIMIT, WORST_LIMIT, RatioRow
from blktwin.lab.bfq_scenarios import Outcome
from blktwin.lab.bfq_weights import Share

SEED_INTRO = """## BFQ: the mail on concurrent sync I/O

`examples/bfq-concurrent-sync-io.fio` on the profile seed2-nvme: MiB/s in the five seconds after the last of the eight
jobs has started. Before, outside root, BFQ keeps the device for one job at a time and injects I/O of the others; how
much depends on the drive's jitter, so that cell is the median of all seeds (limit 5%; the others 3%). The profile's
spread of write latencies was set so that this median is near the mail's: it is no evidence for the model, the other
cells are.
"""

SCENARIO_INTRO = """## BFQ: who shares a slow null_blk

psync 4k random writers, started 650 ms apart, on null_blk of 500 us and depth 64 in a VM with one CPU; low_latency 0
but where the row says so; IOPS of all writers over 2.5 s, kernel and model. With one CPU, injection hardly ever starts
where BFQ idles, so most rows are exact (limit 5%). A starred row is one draw of a chaotic run: there the model is run
with 20 seeds, and the kernel's value must lie between their ends (3% beyond allowed).
"""

TIMES_INTRO = """## BFQ: devices of other speeds

The same with eight writers, in root and in /a. The CPU of the VM counts here, and no cost is fitted on 6.12, which runs
on those of 6.1: no limit is held.
"""

WEIGHT_INTRO = f"""## BFQ: weights

Two groups of libaio randread jobs of depth 16 on 6.12, low_latency 0, on null_blk of depth 1 and 8; then the mails'
table, a job of depth 64 in each of two groups, before the change of 6.2 and after. What counts is the ratio (limit
{bfq_weights.LIMIT:.0%}); device times were not noted and are guesses. A name is "jobs in the first group:in the second,
weights"; a process in root weighs 40 in BFQ's tree.
"""

ROWS_INTRO = f"""## BFQ: rows of a fast null_blk

All BFQ rows of `tests/data/truth/bfq-KERNEL.json`: 100 us, jobs 20 ms apart, so that merges, weight raising and
injection are all in play. A number is IOPS over the IOPS of the kernel's (the model's) own row under none: for `mix`
and `w` rows none._cg_a.8w. The model's is the median of {len(bfq_rows.SEEDS)} seeds, with their range. Limits: median
error {MEDIAN_LIMIT:.0%}, worst {WORST_LIMIT:.0%}. The kernel ran each row once. The `w` rows ran one after another in
one boot: peak rate, hw_tag, the groups' virtual times and the burst list carried over; here each pair starts afresh.
"""


def scenario_table(outcomes: list[Outcome], part: str) -> list[str]:
    """Return the rows as Markdown: kernels side by side."""
    kernels = [kernel for kernel in bfq_scenarios.KERNELS if any(one.kernel == kernel for one in outcomes)]
    lines = ["| scenario | " + " | ".join(f"{kernel} | model" for kernel in kernels) + " |"]
    lines.append("|---|" + "--:|--:|" * len(kernels))
    names = list(dict.fromkeys(one.name for one in outcomes))
    by_cell = {(one.name, one.kernel): one for one in outcomes}
    for name in names:
        cells = [scenario_cell(by_cell[name, kernel]) for kernel in kernels]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    missed = [one for one in outcomes if not one.is_within]
    held = len(outcomes) - len(missed)
    lines += ["", f"{held} of {len(outcomes)} values are within their limits."]
    return lines + notes(part, [(one.kernel, one.name) for one in missed])


def scenario_cell(one: Outcome) -> str:
    """Return the measured value and the model's, as two cells."""
    star = "*" if one.is_starred else ""
    model = f"{one.middle:.0f}"
    if one.is_starred:
        model += f" ({min(one.model):.0f} to {max(one.model):.0f})"
    return f"{one.truth:.0f}{star} | {model}" + ("" if one.is_within else f" **{one.error:+.0%}**")


def weight_table(shares: list[Share]) -> list[str]:
    """Return the rows as Markdown."""
    lines = [
        "| | groups | measured | model | ratio, measured | model | error |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for one in shares:
        truth = "" if one.truth[0] == 1 else f"{one.truth[0]:.0f}:{one.truth[1]:.0f}"
        error = f"{one.error:+.1%}" + ("" if one.is_within else " **missed**")
        lines.append(
            f"| {one.table} | {one.name} | {truth} | {one.model[0]:.0f}:{one.model[1]:.0f} | {one.truth_ratio:.2f} "
            f"| {one.model_ratio:.2f} | {error} |"
        )
    return lines + notes("weights", [(one.table, one.name) for one in shares if not one.is_within])


def rows_table(rows: list[RatioRow]) -> list[str]:
    """Return the rows as Markdown, with the summary that the limits are about."""
    lines = ["| kernel | row | kernel/none | model/none | range | error |", "|---|---|--:|--:|--:|--:|"]
    for row in rows:
        miss = "" if row.is_within else " **missed**"
        span = f"{min(row.model):.3f} to {max(row.model):.3f}"
        lines.append(
            f"| {row.kernel} | {row.name} | {row.truth:.3f} | {row.middle:.3f} | {span} | {row.error:+.0%}{miss} |"
        )
    lines += ["", rows_summary(rows), ""]
    return lines + [f"- {row.kernel}, {row.name}: {row_note(row)}" for row in rows if not row.is_within]


def rows_summary(rows: list[RatioRow]) -> str:
    """Return what the limits are about in a sentence."""
    missed = sum(not row.is_within for row in rows)
    chaotic = [row for row in rows if row.is_chaotic]
    steady = [row for row in rows if not row.is_chaotic]
    reached = sum(row.is_reached for row in chaotic)
    return (
        f"Median error {middle(rows):.1%} (limit {MEDIAN_LIMIT:.0%}); {len(rows) - missed} of {len(rows)} rows are "
        f"within {WORST_LIMIT:.0%}. In {len(steady)} rows the seeds agree: there the median error is "
        f"{middle(steady):.1%}. {len(chaotic)} are chaotic (the seeds differ by more than {CHAOTIC - 1:.0%}), "
        f"and one run of a kernel says little: in {reached} of them it lies within the seeds' range."
    )


def middle(rows: list[RatioRow]) -> float:
    """Return the median error."""
    return median(abs(row.error) for row in rows)


def notes(part: str, missed: list[tuple[str, str]]) -> list[str]:
    """Return a line for each row that misses, with what is known about it."""
    if not missed:
        return []
    return ["", *(f"- {key}, {name}: {NOTES.get((part, key, name), 'not explained yet.')}" for key, name in missed)]


def sections(workers: int = 2) -> list[str]:
    """Return all lines of the BFQ part; it runs for minutes."""
    lines = ["", SEED_INTRO, *bfq_seed.table(bfq_seed.compare(workers=workers))]
    scenarios = bfq_scenarios.compare(workers=workers)
    lines += ["", SCENARIO_INTRO, *scenario_table(scenarios, "scenarios")]
    times = bfq_scenarios.compare("device times", workers=workers)
    lines += ["", TIMES_INTRO, *scenario_table(times, "device times")]
    lines += ["", WEIGHT_INTRO, *weight_table(bfq_weights.compare(workers=workers))]
    lines += ["", ROWS_INTRO, *rows_table(bfq_rows.compare(workers=workers))]
    return lines
