"""The hogs of a world: tasks of [[hog]] that never sleep."""

from __future__ import annotations

from blktwin.lab.stack_said import HogSpec
from blktwin.sim.hog import Hog
from blktwin.sim.machine import SimMachine

HOG_PID = 800_000


def start_hogs(machine: SimMachine, specs: list[HogSpec]) -> list[Hog]:
    """Let all hogs run from the start on; ConfigError for CPUs that are not there, or that run tasks to their end."""
    hogs: list[Hog] = []
    for spec in specs:
        if not machine.is_fair:
            raise spec.at.error('needs CPUs that tasks share: [host] sched = "eevdf" or "cfs"')
        for cpu in spec.cpus:
            if cpu >= machine.nr_cpus:
                raise spec.at.error(f"there is no CPU {cpu} of {machine.nr_cpus}", "cpus")
        group = machine.cgroups.get(spec.cgroup)
        for number in range(spec.count):
            name = spec.name if spec.count == 1 else f"{spec.name}.{number}"
            hog = Hog(HOG_PID + len(hogs), name, group, spec.nice, spec.cpus)
            machine.start_hog(hog, 0)
            hogs.append(hog)
    return hogs
