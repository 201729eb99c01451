"""`--explain bfq`: a decision log on every device that runs BFQ, and what it says; `--explain loop`: loop devices.

explain = Explain("bfq")            # or "loop", or "bfq,loop"
simulate(plan, stack, explain=explain)
print("\\n".join(summary(explain)))
"""

from __future__ import annotations

from blktwin.block.bfq.scheduler import Bfq
from blktwin.errors import UsageError
from blktwin.fio.engine_helper import HELPER_PIDS
from blktwin.fio.job import IoThread
from blktwin.lab import explain_loop, explain_loop_text, explain_loop_words
from blktwin.lab.explain_log import DecisionLog
from blktwin.lab.explain_text import document, render
from blktwin.lab.explain_words import summarize
from blktwin.lab.world import World
from blktwin.sim.hints import near

KEY = "--explain"
WHAT = ("bfq", "loop")
Json = dict[str, object]


class Explain:
    """Explains one run; name is what --explain says: one of WHAT, or several with commas."""

    def __init__(self, name: str) -> None:
        names = [word.strip() for word in name.split(",")]
        for word in names:
            if word not in WHAT:
                hint = near(word, WHAT) or f"; there is {', '.join(WHAT)}"
                raise UsageError(f"nothing explains '{word}'{hint}", key=KEY)
        self.explains_bfq = "bfq" in names
        self.logs: list[DecisionLog] = []
        self.loop = explain_loop.LoopExplain() if "loop" in names else None

    @property
    def needs_stages(self) -> bool:
        """The run must keep the stages of its I/Os, and watch loop drivers."""
        return self.loop is not None

    def install(self, world: World) -> None:
        """Log BFQ's devices and watch loop devices, before anything has run; UsageError when there is none."""
        if self.explains_bfq:
            self.install_bfq(world)
        if self.loop is not None:
            self.loop.install(world)

    def install_bfq(self, world: World) -> None:
        """Log every device that runs BFQ."""
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
        if self.loop is not None:
            self.loop.finish(end_ns)

    def document(self) -> Json:
        """Return all of it for JSON, by device; of a loop device under "loop", and the CPU time of the run."""
        devices: dict[str, Json] = {log.path: document(log, summarize(log)) for log in self.logs}
        out: Json = dict(devices)
        if self.loop is not None:
            for one in self.loop.loops:
                told = explain_loop.document(one, explain_loop_words.summarize(one, self.loop.cpu))
                out[one.path] = {**devices.get(one.path, {}), "loop": told}
            out["cpu"] = explain_loop.cpu_document(self.loop.cpu)
        return out

    def text(self) -> str:
        """Return all of it to be read."""
        text = "".join(render(log, summarize(log)) for log in self.logs)
        if self.loop is not None:
            cpu = self.loop.cpu
            for one in self.loop.loops:
                text += explain_loop_text.render(one, explain_loop_words.summarize(one, cpu))
            text += explain_loop_text.cpu_text(cpu)
        return text


def summary(explain: Explain) -> list[str]:
    """Return what happened in words, the devices one after the other; after the run."""
    lines = [line for log in explain.logs for line in summarize(log)]
    if explain.loop is not None:
        for one in explain.loop.loops:
            lines += explain_loop_words.summarize(one, explain.loop.cpu)
    return lines


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
