"""The cgroups of one run: who is where, with which weights, and the changes of --cgroups at their times.

Differs: a cgroup is removed with all that is below it and whoever is in it; rmdir says EBUSY to both.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from blktwin.block.cgroup import Cgroup, CgroupTree
from blktwin.block.cgroup_files import Dev, dev_name
from blktwin.errors import ConfigError
from blktwin.fio.job import PHASE_DONE, IoThread
from blktwin.fio.spec import JobSpec
from blktwin.lab.cgroups import WEIGHT, WEIGHT_DEVICE, CgroupFile, Change, path_problem, time_text
from blktwin.lab.toml_file import Path_
from blktwin.sim.events import Event
from blktwin.sim.hints import near
from blktwin.sim.machine import SimMachine

Devices = dict[str, Dev]
"""(major, minor) by "/dev/..."."""


class ChangeEvent(Event):
    """The time of a change has come."""

    def __init__(self, control: CgroupControl, change: Change) -> None:
        super().__init__()
        self.control = control
        self.change = change

    def fire(self) -> None:
        """Make the change, as a system call that costs nothing; after the last job there is nobody to make it for."""
        control = self.control
        if all(thread.phase == PHASE_DONE for thread in control.threads):
            return
        machine = control.machine
        machine.enter_irq(0, 0)
        control.apply(self.change)
        machine.leave_irq()


class CgroupControl:
    """Places jobs, sets weights, makes the changes; `base` is the path of --cgroup.

    per_job: the path below base of a thread that nothing else places; %name and %n are its job's name and number.
    """

    def __init__(
        self, machine: SimMachine, file: CgroupFile | None, jobs: list[JobSpec], base: str, per_job: str = ""
    ) -> None:
        self.machine = machine
        self.tree: CgroupTree = machine.cgroups
        self.file = CgroupFile("") if file is None else file
        self.is_given = file is not None
        self.base = base
        self.per_job = per_job
        self.notes: list[str] = []
        self.names = list(dict.fromkeys(job.name for job in jobs))
        self.own = {job.name for job in jobs if job.cgroup}
        """Jobs with a cgroup= of their own."""
        self.places = self.match_places()
        self.devices: Devices = {}
        self.threads: list[IoThread] = []
        self.residents: dict[str, list[str]] = {}
        self.done: list[dict[str, object]] = []
        """Changes made, as the result shows them."""
        self.at_start: dict[str, dict[str, object]] = {}

    # -- before the run

    def match_places(self) -> dict[str, str]:
        """Return the path of each job that the file places."""
        places: dict[str, str] = {}
        for path, group in self.file.groups.items():
            where = ("cgroup", path, "jobs")
            for name in self.matching(where, group.jobs):
                if name in places:
                    raise self.file.error(where, f"{name} is in {places[name]} already")
                if name in self.own:
                    self.notes.append(f"{self.file.file}: {name} is not put into {path}: it has its own cgroup=")
                else:
                    places[name] = path
        return places

    def matching(self, where: Path_, patterns: list[str]) -> list[str]:
        """Return the names of the jobs that match any pattern, in fio's order; each pattern must match one."""
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in self.names):
                hint = near(pattern, self.names) or f"; there are {', '.join(self.names)}"
                raise self.file.error(where, f"no job '{pattern}'{hint}")
        return [name for name in self.names if any(fnmatchcase(name, pattern) for pattern in patterns)]

    def prepare(self, devices: Devices) -> None:
        """Make the file's cgroups and write their weights; all devices of the run are known."""
        self.devices = devices
        for path, spec in self.file.groups.items():
            group = self.tree.get(path)
            self.write_weights(group, ("cgroup", path), spec.weight, spec.devices)
            if spec.cpu_weight and self.machine.is_fair:
                self.machine.set_cpu_weight(group, spec.cpu_weight)
            elif spec.cpu_weight:
                self.notes.append(f"{self.file.file}: {path}: cpu.weight counts with a host of sched cfs or eevdf only")

    def cgroup_of(self, job: JobSpec) -> Cgroup:
        """Return a job's cgroup: its cgroup= below the run's, where the file puts it, or the run's."""
        if not job.cgroup:
            return self.tree.get(self.places.get(job.name) or self.own_path(job))
        group = self.tree.get(self.base.rstrip("/") + "/" + job.cgroup.strip("/"))
        if job.cgroup_weight:
            spec = self.file.groups.get(group.path)
            if spec is not None and (spec.weight not in (0, job.cgroup_weight) or spec.devices):
                self.notes.append(f"{self.file.file}: {job.name}'s cgroup_weight overrides the weights of {group.path}")
            group.set_weight(job.cgroup_weight)
        return group

    def own_path(self, job: JobSpec) -> str:
        """Return where a thread is that neither its job nor the file places."""
        if not self.per_job:
            return self.base
        name = job.name.replace("/", "_")
        path = self.base.rstrip("/") + self.per_job.replace("%name", name).replace("%n", str(job.clone_index))
        problem = path_problem(path)
        if problem:
            raise ConfigError(f"cgroup-per-job gives '{path}', which {problem}", file=job.file, line=job.line, key=name)
        return path

    def begin(self, threads: list[IoThread]) -> None:
        """Check the changes against what there is, and set them up; nothing has run yet."""
        self.threads = threads
        for thread in threads:
            self.note_resident(thread)
        for change in self.file.changes:
            self.check(change)
            self.machine.events.at(ChangeEvent(self, change), change.time_ns)
        self.at_start = {path: weights_of(group) for path, group in self.tree.by_path.items()}

    def check(self, change: Change) -> None:
        """Refuse a change of jobs, devices or cgroups that are not there."""
        key = "to" if change.kind == "move" else change.kind
        if change.path not in self.tree.by_path:
            hint = (
                near(change.path, [path for path in self.tree.by_path if path != "/"])
                or f': declare it with [cgroup."{change.path}"]'
            )
            raise self.file.error((*change.where, key), f"no cgroup {change.path}{hint}")
        self.matching((*change.where, "move"), change.jobs)
        self.resolve(change.where, change.devices)

    def resolve(self, where: Path_, weights: dict[str, int]) -> dict[Dev, int]:
        """Return weights by (major, minor); an error for a device that the run has not, or has twice here."""
        numbers = {dev_name(dev): dev for dev in self.devices.values()}
        found: dict[Dev, int] = {}
        for name, weight in weights.items():
            place = (*where, WEIGHT_DEVICE, name)
            dev = self.devices.get(name) or numbers.get(name)
            if dev is None:
                listed = ", ".join(f"{path} ({dev_name(one)})" for path, one in self.devices.items())
                hint = near(name, self.devices) or (f"; there are {listed}" if listed else "")
                raise self.file.error(place, f"the run has no such device{hint}")
            if dev in found:
                raise self.file.error(place, "given twice")
            found[dev] = weight
        return found

    # -- in the run

    def apply(self, change: Change) -> None:
        """Make a change now."""
        entry: dict[str, object] = {"at_ms": change.time_ns / 1e6}
        group = self.tree.get(change.path)
        if change.kind == "move":
            names = self.matching((*change.where, "move"), change.jobs)
            entry |= {"move": names, "to": change.path}
            for thread in self.threads:
                if thread.spec.name in names and thread.phase != PHASE_DONE:
                    thread.move_to(group)
                    self.note_resident(thread)
        elif change.kind == "remove":
            entry["remove"] = change.path
            self.remove(group, change)
        else:
            entry["cgroup"] = change.path
            if change.weight:
                entry[WEIGHT] = change.weight
            if change.devices:
                entry[WEIGHT_DEVICE] = {name: weight or "default" for name, weight in change.devices.items()}
            self.write_weights(group, change.where, change.weight, change.devices)
        self.done.append(entry)

    def write_weights(self, group: Cgroup, where: Path_, weight: int, devices: dict[str, int]) -> None:
        """Write the weight, then those of single devices (which it would clear)."""
        if weight:
            group.set_weight(weight)
        for dev, one in self.resolve(where, devices).items():
            group.set_dev_weight(dev, one)

    def remove(self, top: Cgroup, change: Change) -> None:
        """Remove a cgroup and all below it, from the bottom up."""
        groups: list[Cgroup] = []
        waiting = [top]
        while waiting:
            groups.append(waiting.pop())
            waiting += groups[-1].children
        for group in reversed(groups):
            left = [t.spec.name for t in self.threads if t.cgroup is group and t.phase != PHASE_DONE]
            if left and group.is_online:
                who = ", ".join(dict.fromkeys(left))
                where = f"{self.file.file}:{self.file.line_of(change.where)}"
                self.notes.append(
                    f"{where}: {group.path} is removed at {time_text(change.time_ns)} with {who} in it: "
                    "from then on its I/O counts for the cgroup above"
                )
            group.go_offline()

    def note_resident(self, thread: IoThread) -> None:
        """Remember that a job was in its cgroup."""
        names = self.residents.setdefault(thread.cgroup.path, [])
        if thread.spec.name not in names:
            names.append(thread.spec.name)

    # -- what the result says

    def describe(self, schedulers: Iterable[str]) -> list[str]:
        """Return notes from before the run."""
        has_weights = any(spec.weight or spec.devices for spec in self.file.groups.values())
        notes = self.notes
        self.notes = []
        if has_weights and "bfq" not in schedulers:
            notes.append(f"{self.file.file}: the weights mean nothing: no device has the scheduler bfq")
        return notes

    def late_notes(self) -> list[str]:
        """Return notes from the run."""
        missed = self.file.changes[len(self.done) :]
        late = [f"{self.file.file}:{self.file.line_of(c.where)}: {time_text(c.time_ns)} never came" for c in missed]
        return self.notes + late

    def provenance(self) -> dict[str, object]:
        """Return the result's "cgroups" and "cgroup_changes"; nothing if all ran in the root cgroup unasked."""
        if not self.is_given and len(self.tree.by_path) == 1:
            return {}
        groups = {path: {**about, "jobs": self.residents.get(path, [])} for path, about in self.at_start.items()}
        return {"cgroups": groups, "cgroup_changes": self.done}


def weights_of(group: Cgroup) -> dict[str, object]:
    """Return a cgroup's weights under the names of their files; the root has none."""
    if group.parent is None:
        return {}
    weights: dict[str, object] = {WEIGHT: group.weight}
    if group.dev_weights:
        weights[WEIGHT_DEVICE] = {dev_name(dev): weight for dev, weight in group.dev_weights.items()}
    return weights
