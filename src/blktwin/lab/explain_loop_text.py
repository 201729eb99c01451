"""An explanation of a loop device as text to be read."""

from __future__ import annotations

from blktwin.fio.hist import LatencyStat
from blktwin.lab.explain_loop import CpuTime, Explained, Tries
from blktwin.lab.explain_loop_words import NOT_COVERED, STAGE_WORDS, percent, us
from blktwin.sim.stage_loop import MAX_BATCH

MAX_EXECUTORS = 8
MAX_BEHIND = 5
REASON_WORDS = {
    "policy": "the policy gives everything to workers",
    "not_aio": "buffered, or no read or write",
    "no_fmode": "the file cannot do without sleeping",
    "hint_skip": "a write, while others wait for a worker",
    "eagain_sync": "tried, and the file would have slept",
    "eagain_async": "tried, and the device below had no room",
    "ctx_forbidden": "issued where no file may be entered",
    "root_fallback": "no memory for its cgroup's worker",
    "write": "not a read",
    "no_plug": "the policy looks for a plug, and there is none",
    "short": "the rest of a short write",
    "blocked": "a worker's own attempt said EAGAIN",
}
OPEN = 1 << 30
GROUPS = ((0, 0), (1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, MAX_BATCH - 1), (MAX_BATCH, OPEN))


def render(one: Explained, summary: list[str]) -> str:
    """Return one loop device's explanation, the summary last."""
    mode = "direct" if one.is_direct else "buffered"
    below = f" on {one.lower}" if one.lower else ""
    lines = ["", f"Loop driver, {one.path}: {one.policy}, {mode}, {one.backing}{below}"]
    lines += executor_lines(one)
    lines += reason_lines(one)
    lines += work_lines(one)
    lines += wait_lines(one)
    lines += stage_lines(one)
    lines.append(
        f"  merges: {one.merged} here, {one.lower_merged} below; lost: {one.followers} bios begin where a request ends "
        "that is still inside the driver"
    )
    depths = ", ".join(f"{at}: {count}" for at, count in one.depths.items())
    lines.append(f"  call depth, loop devices' file code on the stack of who executed a request: {depths or 'none'}")
    lines += [f"    {line}" for line in NOT_COVERED]
    lines += ["  Summary", *(f"  - {line}" for line in summary)]
    return "\n".join(lines) + "\n"


def executor_lines(one: Explained) -> list[str]:
    """Return who executed how many requests."""
    whole = max(one.inline + one.given, 1)
    lines = [f"  executed by             {'inline':>9} {'as worker':>9}     of {one.inline + one.given}"]
    for who in one.executors[:MAX_EXECUTORS]:
        lines.append(f"    {who.name:20} {who.inline:9} {who.given:9} {percent((who.inline + who.given) / whole):>8}")
    rest = one.executors[MAX_EXECUTORS:]
    if rest:
        inline, given = sum(who.inline for who in rest), sum(who.given for who in rest)
        lines.append(f"    {f'{len(rest)} more':20} {inline:9} {given:9} {percent((inline + given) / whole):>8}")
    return lines


def reason_lines(one: Explained) -> list[str]:
    """Return why workers got requests, and what attempts came to."""
    lines = []
    if one.reasons:
        lines.append("  given to a worker because")
        ranked = sorted(one.reasons.items(), key=lambda pair: -pair[1])
        lines += [f"    {name:14} {count:9}  {REASON_WORDS.get(name, '')}" for name, count in ranked]
    for what, tries in (("reads", one.reads), ("writes", one.writes)):
        if tries.tried or tries.skipped:
            lines.append(f"  {what} tried without sleeping: {tries_text(tries)}")
    return lines


def tries_text(tries: Tries) -> str:
    """Return what attempts came to."""
    if not tries.tried:
        return f"0; skipped by the hint {tries.skipped}"
    late = percent(tries.eagain_late / tries.tried)
    return (
        f"{tries.tried}, EAGAIN {tries.failed} ({percent(tries.failed / tries.tried)}: "
        f"{percent(tries.eagain / tries.tried)} from the file, {late} from the device below); "
        f"skipped by the hint {tries.skipped}"
    )


def work_lines(one: Explained) -> list[str]:
    """Return activations and batches."""
    if not one.works:
        return []
    cells = grouped(one.batches, one.works)
    return [f"  works: {one.works}, {one.works_per_request:.2f} per request; requests per work: {', '.join(cells)}"]


def grouped(counts: dict[int, int], whole: int) -> list[str]:
    """Return the shares of small numbers one by one, of larger ones in groups."""
    cells = []
    for low, high in GROUPS:
        count = sum(number for size, number in counts.items() if low <= size <= high)
        if count * 1000 >= whole:
            name = f"{low}" if low == high else f"{low}-{high}" if high < OPEN else f"{low}+"
            cells.append(f"{name}: {percent(count / whole)}")
    return cells


def wait_lines(one: Explained) -> list[str]:
    """Return how long requests and workers waited, and behind whom."""
    lines = []
    if one.w2x.count and one.w2x.total:
        lines.append(f"  requests wait for their worker (W2X): {wait_text(one.w2x)}")
    if one.works:
        lines.append(f"  workers wait for a CPU, each time: {wait_text(one.cpu_wait)}")
        lines.append(
            f"    of the time that they want one, other tasks have it {percent(one.waiting_share)}, interrupts and "
            f"switches {percent(one.interrupted_share)}"
        )
        whole = sum(one.behind.values())
        cells = [f"{name} {percent(ns / whole)}" for name, ns in one.behind.items() if ns * 1000 >= whole]
        if cells:
            lines.append(f"    those tasks are {', '.join(cells[:MAX_BEHIND])}")
    return lines


def wait_text(stat: LatencyStat) -> str:
    """Return mean, median and tail of a wait."""
    if not stat.count:
        return "none"
    p50, p99 = stat.percentiles([50.0, 99.0])
    return f"mean {us(stat.mean())}, p50 {us(p50)}, p99 {us(p99)}"


def stage_lines(one: Explained) -> list[str]:
    """Return what D2C consists of."""
    cells = [
        f"    {name:6} {percent(one.stage_share(name)):>6}  {STAGE_WORDS[name]}"
        for name, ns in one.stage_ns.items()
        if ns
    ]
    return [f"  D2C {us(one.d2c.mean())} on average, of which", *cells] if cells else []


def cpu_text(cpu: CpuTime) -> str:
    """Return the CPU time of the run per I/O of the jobs, and how many kworkers were runnable."""
    if not cpu.ios:
        return ""
    cells = ", ".join(f"{name} {us(ns / cpu.ios)}" for name, ns in cpu.by.items())
    lines = ["", f"CPU time per I/O of the jobs: {us(cpu.total / cpu.ios)} ({cells})"]
    whole = sum(cpu.runnable_ns.values())
    if whole:
        shares = grouped(cpu.runnable_ns, whole)
        lines.append(f"Unbound kworkers that ran or waited for a CPU at the same time: {', '.join(shares)}")
    return "\n".join(lines) + "\n"
