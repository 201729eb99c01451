"""What the numbers of --explain loop mean, in words: what D2C consists of, what would change it, what is lost."""

from __future__ import annotations

from blktwin.lab.explain_loop import CpuTime, Explained, Tries

STAGE_WORDS = {
    "D2W": "what the driver does, and attempts in vain, until a worker gets the request",
    "W2X": "the wait for a kworker",
    "X2Q'": "the file system's way to the device below",
    "Q'2C'": "the device below",
    "C'2C": "the way back from the device below",
    "X2C": "the file system alone: no I/O below (holes, page cache, metadata)",
}
MAIN_SHARE = 0.5
NOTED_WAIT = 0.2
NOTABLE = 0.02
SEVERAL = 3
INLINE_POLICIES = ("sync_read", "nowait_first", "rfc_safe", "rfc_exact")
NOT_COVERED = (
    "not modelled: bytes of stack (16 KiB on x86-64), and what a file system above has open in the task (a",
    "transaction); for these a kernel that submits inline was taken back before 6.19, and no depth here clears it",
)


def summarize(one: Explained, cpu: CpuTime) -> list[str]:
    """Return what happened on one loop device, the most important first."""
    if not one.requests:
        return ["nothing was executed"]
    lines = [dominant(one)]
    if one.stage_share("W2X") >= NOTED_WAIT:
        lines += waiting(one, cpu)
    elif one.stage_share("Q'2C'") >= MAIN_SHARE:
        lines.append(bound_of(one))
    lines += eagain(one)
    lines += inline(one)
    lines += merging(one)
    if not one.is_direct:
        lines.append(
            "the device is buffered: a worker does one request at a time, and the data is cached twice; direct-io = "
            "true changes both"
        )
    return lines


def dominant(one: Explained) -> str:
    """Say which stage D2C consists of most."""
    name = max(one.stage_ns, key=lambda stage: one.stage_ns[stage])
    share = one.stage_share(name)
    text = f"D2C is {ms(one.d2c.mean())} on average; {percent(share)} of it is {name}, {STAGE_WORDS[name]}"
    if share < MAIN_SHARE:
        rest = {stage: ns for stage, ns in one.stage_ns.items() if stage != name}
        second = max(rest, key=lambda stage: rest[stage])
        text += f", and {percent(one.stage_share(second))} {second}, {STAGE_WORDS[second]}"
    return text


def bound_of(one: Explained) -> str:
    """Say what any change of the driver could gain at most."""
    own = percent(1 - one.stage_share("Q'2C'"))
    if one.stage_share("Q'2C'") > 0.9:
        return f"no significant difference is to be expected from another policy: at most {own} of D2C is the driver's"
    return f"the loop driver's own part of D2C is {own}"


def waiting(one: Explained, cpu: CpuTime) -> list[str]:
    """Say whether requests waited for a CPU or for those before them, and what would take that away."""
    workers = len(one.workers)
    if not one.given:
        return []
    cure = cure_of(one)
    if one.waiting_share >= MAIN_SHARE:
        waits = f"for a CPU {percent(one.waiting_share)} of the time that they want one, behind {behind_words(one)}"
        if workers < SEVERAL:
            return [f"workers wait {waits}; workers with a better place or nice value avoid it, or {cure}"]
        most = max(cpu.runnable_ns, default=0)
        return [
            f"{workers} kworkers wait {waits}; up to {most} were runnable at once",
            "three things take that wait away: spreading the workers over the CPUs; one shared worker instead of one "
            f"for each cgroup; {cure}",
        ]
    batch = one.given / max(one.works, 1)
    if workers > 1:
        return [
            f"requests wait for those before them in their worker's list, {batch:.1f} per activation",
            f"what takes that away: {cure}",
        ]
    parallel = "per_command submits in parallel, or " if one.policy == "workqueue" else ""
    what = "worker and its list under lo_work_lock" if one.is_direct else "worker, which sleeps until each one is done"
    disturbed = ""
    if one.interrupted_share >= NOTED_WAIT:
        disturbed = f"; interrupts on its CPU take {percent(one.interrupted_share)} of its time"
    return [
        f"the bottleneck is the single {what}: it executes {percent(given_share(one))} of the requests one after the "
        f"other, {batch:.1f} per activation, and each waits for those before it{disturbed}",
        f"what takes that away: {parallel}{cure}",
    ]


def cure_of(one: Explained) -> str:
    """Say what would keep requests from needing a worker."""
    if not one.is_direct:
        return "direct I/O, which does not keep the worker until the device is done"
    if one.policy in INLINE_POLICIES:
        return "an image whose blocks are all allocated, so that nothing has to sleep"
    return "executing in the submitter (sync_read, nowait_first)"


def given_share(one: Explained) -> float:
    """Return the part of the requests that workers executed."""
    return one.given / max(one.given + one.inline, 1)


def behind_words(one: Explained) -> str:
    """Say behind whom the workers waited."""
    whole = sum(one.behind.values())
    parts = [f"{name} {percent(ns / whole)}" for name, ns in one.behind.items() if ns >= NOTABLE * whole]
    return ", ".join(parts[:3])


def eagain(one: Explained) -> list[str]:
    """Say what attempts without sleeping came to."""
    lines = []
    writes, reads = one.writes, one.reads
    if writes.tried and writes.failed > NOTABLE * writes.tried:
        lines.append(
            f"{attempts(writes)} of the writes tried without sleeping got EAGAIN: the file had to allocate (sparse, or "
            "shared blocks), or was locked; each was tried twice"
        )
    if writes.skipped:
        lines.append(
            f"the hint kept {writes.skipped} writes from such an attempt, because others waited for a worker; "
            f"{writes.tried} were tried"
        )
    if reads.failed:
        lines.append(
            f"{attempts(reads)} of the reads tried got EAGAIN: a write that allocates holds the file's lock, which "
            "makes reads erratic"
        )
    forbidden = one.reasons.get("ctx_forbidden", 0)
    if forbidden:
        lines.append(f"{forbidden} requests came from where no file may be entered: a nested loop device, an interrupt")
    return lines


def attempts(tries: Tries) -> str:
    """Return failed attempts as count and share."""
    return f"{tries.failed} ({percent(tries.failed / tries.tried)})"


def inline(one: Explained) -> list[str]:
    """Say what was executed by who submitted it."""
    if not one.inline:
        return []
    share = one.inline / max(one.inline + one.given, 1)
    deepest = max(one.depths, default=1)
    lines = [f"{percent(share)} of the requests were executed by who issued them: they have no D2W and no W2X"]
    if deepest > 1:
        lines.append(f"file code was nested {deepest} deep on one stack: what that needs of it is not modelled")
    return lines


def merging(one: Explained) -> list[str]:
    """Say which merges the loop device prevents."""
    if one.queued and one.followers > NOTABLE * one.queued:
        return [
            f"{one.followers} bios ({percent(one.followers / one.queued)}) begin where a request ends that is still "
            f"inside the driver: without it they could have been merged; the device below merged {one.lower_merged}"
        ]
    return []


# -- numbers


def percent(share: float) -> str:
    """Write a share of 1."""
    value = 100 * share
    return f"{value:.0f}%" if value >= 9.95 or value == 0 else f"{value:.1f}%"


def ms(ns: float) -> str:
    """Write a time in ms, or us when it is short."""
    return f"{ns / 1e6:.2f} ms" if ns >= 1e6 else us(ns)


def us(ns: float) -> str:
    """Write a time in us."""
    return f"{ns / 1000:.1f} us"
