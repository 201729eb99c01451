"""The sections of docs/accuracy.md on the loop report and on what else was said of loop devices."""

from __future__ import annotations

from blktwin.lab import loop_seed, loop_seed_cases
from blktwin.lab.loop_seed import LIMIT, Answer
from blktwin.lab.loop_seed_cases import BufferedRow, SparseRow, TailRow

SEED_INTRO = f"""## Loop: the report of twelve jobs

`examples/loop-nowait.toml`: 4k reads and writes in order, direct, by 12 fio jobs on a drive and on a loop device over
a file on it; MiB/s read, and as much written (limit {LIMIT:.0%}). The profile mikulas-nvme and the costs of
mikulas-server are fitted on this table, about as many numbers as it has cells: it shows that one set of costs can give
all of them, and names them, but is no evidence for others. psync through the one worker is the farthest off and has
no cost of its own: the model's worker serves more evenly than a real one, so it keeps up longer.

What the costs say: one worker does a request in 7 us, and no more than that can pass it; a request that its submitter
executes pays 1.2 us for each other CPU that shares the hardware queue, of which four queues leave a quarter; a work
item per command takes the lock of the worker pool two or three times.

No request merges here, on the drive neither: each job submits one I/O at a time (fio's iodepth_batch=1), so no plug
ever holds two. Lei counted 26% merged on a raw drive, and hardly any through loop.
"""

SPARSE_INTRO = """## Loop: writes to a sparse image

`examples/loop-sparse.toml`: one job of depth 16, every write a first one. The series' author saw "an obvious drop" at
random and 5 to 10% in order with NOWAIT first, and none with the hint; where, he does not say, so the VM and the
file system's times are chosen for that.
"""

TAIL_INTRO = """## Loop: reads beside allocating writes

The report's 12 psync jobs on an image that is mapped or sparse: reads that are tried while a write allocates are
refused and wait for the worker, as Chinner predicted; through the worker all wait alike. `refused` and `by the hint`
are shares of all requests.
"""

ORDER_INTRO = """## Loop: the order of the three ways

Lei's VM: 70k reads and 70k writes a second with NOWAIT first and four queues at 40% of the CPUs, 64k at 52% with a work
item per command, 58k with the worker. The rows of the report, libaio, by CPU time per I/O:
"""

BUFFERED_INTRO = """## Loop: buffered or direct

`examples/loop-home.toml`, `loop-checkpoint.toml` and `loop-build.toml`, after systemd #21003, ANOLISA #2523 and osbuild
#1647. Only ratios can be compared: drives and jobs are guesses. `blktwin scenario examples/loop-build.toml` says "no
significant difference".
"""


def sparse_table(rows: list[SparseRow]) -> list[str]:
    """Return case 9 as Markdown."""
    lines = ["| | one worker, IOPS | NOWAIT, no hint | | with the hint | |", "|---|--:|--:|--:|--:|--:|"]
    return lines + [
        f"| {row.rw} | {row.worker:.0f} | {row.without:.0f} | {row.loss:+.1%} | {row.hinted:.0f} "
        f"| {row.loss_with_hint:+.1%} |"
        for row in rows
    ]


def tail_table(rows: list[TailRow]) -> list[str]:
    """Return case 10 as Markdown."""
    lines = [
        "| policy | image | read p50 us | p99 | p99/p50 | refused | by the hint |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    names = {"loop": "one worker", "nowait": "NOWAIT first"}
    return lines + [
        f"| {names[row.policy]} | {row.image} | {row.p50_us:.0f} | {row.p99_us:.0f} | {row.width:.2f} "
        f"| {row.eagain:.0%} | {row.skipped:.0%} |"
        for row in rows
    ]


def order_table(answers: list[Answer]) -> list[str]:
    """Return case 11 as Markdown: the three ways, the fastest first."""
    lines = ["| | IOPS | CPUs busy | CPU us per I/O |", "|---|--:|--:|--:|"]
    ways = ("nowait mq4", "per command", "loop")
    rows = [one for one in answers if one.cell.engine == "libaio" and one.cell.stack in ways]
    for one in sorted(rows, key=lambda row: -row.read):
        lines.append(f"| {loop_seed.NAMES[one.cell.stack]} | {one.iops:.0f} | {one.cpus:.1f} | {one.cpu_us:.1f} |")
    return lines


def buffered_table(rows: list[BufferedRow]) -> list[str]:
    """Return cases 27 and 28 as Markdown."""
    lines = ["| | reported | buffered | direct | unit | better by |", "|---|---|--:|--:|---|--:|"]
    return lines + [
        f"| {row.what} | {row.reported} | {row.buffered:.1f} | {row.direct:.1f} | {row.unit} | x{row.faster:.2f} |"
        for row in rows
    ]


def sections(workers: int = 2) -> list[str]:
    """Return all lines of this part."""
    answers = loop_seed.compare(workers)
    lines = ["", SEED_INTRO, *loop_seed.table(answers)]
    lines += ["", SPARSE_INTRO, *sparse_table(loop_seed_cases.sparse_rows(workers))]
    lines += ["", TAIL_INTRO, *tail_table(loop_seed_cases.tail_rows(workers))]
    lines += ["", ORDER_INTRO, *order_table(answers)]
    lines += ["", BUFFERED_INTRO, *buffered_table(loop_seed_cases.buffered_rows(workers))]
    return lines
