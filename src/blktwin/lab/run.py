"""Runs a plan on a stack and returns fio's result: the one entry for the command line, tests and benchmarks."""

from __future__ import annotations

from collections.abc import Callable

import blktwin
from blktwin.block.queue import RequestQueue
from blktwin.errors import BlktwinError, ConfigError
from blktwin.fio.job import PHASE_DONE, IoThread
from blktwin.fio.results import DiskUtil, JobResult, RunResult
from blktwin.fio.spec import JobPlan
from blktwin.lab.defects import defects_told
from blktwin.lab.explain import Explain
from blktwin.lab.interrupt import Interrupt
from blktwin.lab.schedule import Schedule
from blktwin.lab.stack import Stack
from blktwin.lab.stages import Stages
from blktwin.lab.world import FIRST_PID, World, smallest_block
from blktwin.lab.world_disks import DeviceDisk
from blktwin.sim.trace import CostTrace

EPOCH_MS = 1_767_225_600_000
"""The simulated machine boots on 2026-01-01 00:00:00 UTC."""
CHUNK_EVENTS = 20_000
UNBOUNDED_IOS = 20_000_000
FOREVER_NS = 4_000_000_000_000_000_000
YEAR_NS = 31_536_000_000_000_000

Progress = Callable[[World, Schedule], None]


def simulate(
    plan: JobPlan,
    stack: Stack,
    *,
    trace: CostTrace | None = None,
    progress: Progress | None = None,
    allow_unbounded: bool = True,
    interrupt: Interrupt | None = None,
    explain: Explain | None = None,
    stages: Stages | None = None,
) -> RunResult:
    """Run all jobs to their end and return the result; Ctrl-C gives what is known so far, marked partial.

    explain: learns what schedulers or loop drivers decide; stages: where the time goes. Both are put into the result's
    `blktwin`, and bring a trace of their own.
    interrupt: the caller's, which goes on after the run; Ctrl-C before the run has begun is a KeyboardInterrupt.
    """
    if interrupt is None:
        with Interrupt() as own:
            return simulate(
                plan,
                stack,
                trace=trace,
                progress=progress,
                allow_unbounded=allow_unbounded,
                interrupt=own,
                explain=explain,
                stages=stages,
            )
    watch = stages
    explains_loops = explain is not None and explain.needs_stages
    if watch is None and explains_loops:
        watch = Stages()
    if watch is not None:
        trace = watch.make_trace(stack.host.cost_table(), explains_loops)
    world, schedule = prepare(plan, stack, trace, interrupt)
    if not allow_unbounded:
        check_bounds(world)
    if explain is not None:
        explain.install(world)
    plan.notes.extend(world.describe() + world.notes)
    with defects_told(stack.loops):
        is_partial = drive(world, schedule, progress, interrupt)
        plan.notes.extend(world.cgroups.late_notes())
        result = collect(world, schedule, is_partial)
        if watch is not None:
            watch.finish()
        if stages is not None:
            result.blktwin["stages"] = stages.document()
        if explain is not None:
            explain.finish(result.elapsed_ms * 1_000_000)
            result.blktwin["explain"] = explain.document()
    return result


def prepare(
    plan: JobPlan, stack: Stack, trace: CostTrace | None = None, interrupt: Interrupt | None = None
) -> tuple[World, Schedule]:
    """Build everything; nothing has run yet."""
    world = World(plan, stack, trace, interrupt)
    schedule = Schedule(world.machine)
    world.build_threads(schedule)
    return world, schedule


def drive(
    world: World, schedule: Schedule, progress: Progress | None = None, interrupt: Interrupt | None = None
) -> bool:
    """Run all jobs to their end; True when Ctrl-C came before that, if the caller's interrupt looks for it."""
    schedule.begin(world.threads)
    while world.machine.run(FOREVER_NS, CHUNK_EVENTS):
        if progress is not None:
            progress(world, schedule)
        if not schedule.waiting and not schedule.running:
            break
        if interrupt is not None and interrupt.is_set:
            return True
    if schedule.running or schedule.waiting:
        stuck = ", ".join(thread.spec.name for thread in schedule.running + schedule.waiting)
        if world.machine.events.size > 0:
            raise BlktwinError(f"after {FOREVER_NS // YEAR_NS} years of simulated time these jobs still run: {stuck}")
        raise BlktwinError(f"the simulation has come to a halt with jobs unfinished: {stuck} (please report this)")
    return False


def check_bounds(world: World) -> None:
    """Refuse jobs that would run for very long because nothing limits them, and say how long."""
    total = 0
    first = None
    for thread in world.threads:
        spec = thread.spec
        if spec.runtime_ns:
            continue
        if spec.time_based:
            raise ConfigError(
                "time_based without runtime never ends: give --runtime", file=spec.file, line=spec.line, key=spec.name
            )
        ios = int(thread.byte_limit) // smallest_block(spec)
        if spec.number_ios:
            ios = min(ios, spec.number_ios)
        total += ios * spec.loops
        first = first or spec
    if first is not None and total > UNBOUNDED_IOS:
        raise ConfigError(
            f"nothing limits the run: about {total:,} simulated I/Os; give --runtime TIME, or --yes to run them all",
            file=first.file,
            line=first.line,
            key=first.name,
        )


def collect(world: World, schedule: Schedule, is_partial: bool) -> RunResult:
    """Build the result out of what the threads and disks have counted."""
    machine = world.machine
    # What still fires after the last job (timers moved or cancelled) is no part of the run.
    end_ns = int(machine.events.now_ns) if is_partial else 0
    end_ns = max(end_ns, *(int(t.stat.end_ns) for t in world.threads))
    for thread in world.threads:
        if thread.phase != PHASE_DONE and thread.is_started:
            thread.stat.finish(max(end_ns, int(thread.stat.epoch_ns)))
    elapsed_ms = end_ns // 1_000_000
    jobs = [JobResult(thread.spec, thread.stat, FIRST_PID + thread.number) for thread in world.threads]
    return RunResult(
        jobs=jobs,
        disk_util=[disk_util(disk.q, end_ns) for disk in world.disks.values()],
        global_options=world.plan.global_options,
        elapsed_ms=elapsed_ms,
        epoch_ms=EPOCH_MS + elapsed_ms,
        version=blktwin.__version__,
        partial=is_partial,
        blktwin=provenance(world, schedule, is_partial),
    )


def disk_util(q: RequestQueue, end_ns: int) -> DiskUtil:
    """Return a disk's counters as /proc/diskstats has them."""
    stats = q.stats
    ticks = [int(ns) // 1_000_000 for ns in stats.ticks_ns]
    return DiskUtil(
        name=q.name,
        read_ios=int(stats.ios[0]),
        write_ios=int(stats.ios[1]),
        read_merges=int(stats.merges[0]),
        write_merges=int(stats.merges[1]),
        read_ticks_ms=ticks[0],
        write_ticks_ms=ticks[1],
        in_queue_ms=sum(ticks),
        busy_ms=int(stats.busy_ns(end_ns)) // 1_000_000,
        elapsed_ms=end_ns // 1_000_000,
    )


def provenance(world: World, schedule: Schedule, is_partial: bool) -> dict[str, object]:
    """Return the JSON's "blktwin" object: what ran, and the proof that nothing was lost."""
    stack = world.stack
    disks = {path: disk.about() for path, disk in world.disks.items() if isinstance(disk, DeviceDisk)}
    issued = sum(int(thread.nr_issued) for thread in world.threads)
    completed = sum(int(thread.nr_completed) for thread in world.threads)
    in_flight = issued - completed
    if in_flight and not is_partial:
        raise BlktwinError(f"{in_flight} I/Os were lost (please report this)")
    return {
        "version": blktwin.__version__,
        "seed": stack.seed,
        "rules": stack.rules.name,
        "stack": {
            "host": stack.host.name,
            "cpus": world.machine.nr_cpus,
            "cgroup": stack.cgroup,
            **({"file": stack.file, "variant": stack.variant} if stack.file else {}),
            "devices": disks,
            **world.loops.provenance(),
        },
        "conservation": {
            "submitted": issued,
            "completed": completed - failed(world.threads),
            "failed": failed(world.threads),
            "in_flight": in_flight,
        },
        **world.cgroups.provenance(),
        "all_jobs": schedule.common_window(),
        "partial": is_partial,
    }


def failed(threads: list[IoThread]) -> int:
    """Return how many I/Os ended in an error."""
    return sum(int(thread.nr_failed) for thread in threads)
