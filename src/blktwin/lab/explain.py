"""`--explain bfq`: a decision log on every device that runs BFQ, and what it says.

explain = Explain("bfq")
simulate(plan, stack, explain=explain)
print("\\n".join(summary(explain)))
"""

from __future__ import annotations

from blktwin.block.bfq.scheduler import Bfq
from blktwin.errors import UsageError
from blktwin.fio.engine_helper import HELPER_PIDS
from blktwin.fio.job import IoThread
from blktwin.lab.explain_log import DecisionLog
from blktwin.lab.explain_text import document, render
from blktwin.lab.explain_words import summarize
from blktwin.lab.world import World
from blktwin.sim.hints import near

KEY = "--explain"
SCHEDULERS = ("bfq",)


class Explain:
    """Explains one run; name is what --explain says."""

    def __init__(self, name: str) -> None:
        if name not in SCHEDULERS:
            hint = near(name, SCHEDULERS) or f"; there is {', '.join(SCHEDULERS)}"
            raise UsageError(f"nothing explains '{name}'{hint}", key=KEY)
        self.logs: list[DecisionLog] = []
        self.needs_stages = False
        """The run must keep the stages of its I/Os."""

    def install(self, world: World) -> None:
        """Log every device that runs BFQ, before anything has run; UsageError when none does."""
        names = job_names(world.threads)
        for path, disk in world.disks.items():
            elevator = disk.q.elevator
            if disk.is_used and isinstance(elevator, Bfq):
                log = DecisionLog(path, names, elevator.data())
                elevator.set_log(log)
                self.logs.append(log)
        if not self.logs:
            have = ", ".join(f"{path} has {disk.scheduler}" for path, disk in world.disks.items() if disk.is_used)
            raise UsageError(f"no device runs bfq ({have or 'there is no device'}); try --scheduler bfq", key=KEY)

    def finish(self, end_ns: int) -> None:
        """Close the books at the end of the run."""
        for log in self.logs:
            log.finish(end_ns)

    def document(self) -> dict[str, object]:
        """Return all of it for JSON, by device."""
        return {log.path: document(log, summarize(log)) for log in self.logs}

    def text(self) -> str:
        """Return all of it to be read."""
        return "".join(render(log, summarize(log)) for log in self.logs)


def summary(explain: Explain) -> list[str]:
    """Return what happened in words, the devices one after the other; after the run."""
    return [line for log in explain.logs for line in summarize(log)]


def job_names(threads: list[IoThread]) -> dict[int, str]:
    """Return each thread's name by pid: its job's, numbered where several threads have it."""
    times: dict[str, int] = {}
    for thread in threads:
        times[thread.spec.name] = times.get(thread.spec.name, 0) + 1
    names: dict[int, str] = {}
    for thread in threads:
        spec = thread.spec
        name = spec.name if times[spec.name] == 1 else f"{spec.name}.{spec.clone_index}"
        names[thread.pid] = name
        names[thread.pid + HELPER_PIDS] = name
    return names
