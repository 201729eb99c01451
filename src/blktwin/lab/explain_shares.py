"""Who got how much while all wanted something: the sample that weights are compared with."""

from __future__ import annotations

from blktwin.block.bfq.entity import Entity
from blktwin.block.bfq.queue import BfqQueue


class Sample:
    """What each competitor got while all of them had requests, since the last of them came or a weight changed."""

    def __init__(self) -> None:
        self.members: dict[str, dict[int, bool]] = {}
        """By competitor: its queues, by serial, and whether they have requests (queued or in the driver)."""
        self.busy: dict[str, int] = {}
        self.nr_busy = 0
        self.ns = 0
        self.sectors: dict[str, int] = {}

    def restart(self) -> None:
        """Forget what was measured."""
        self.ns = 0
        self.sectors = dict.fromkeys(self.members, 0)

    def see(self, name: str, serial: int, has_requests: bool) -> None:
        """Note whether a queue has requests."""
        queues = self.members.get(name)
        if queues is None:
            queues = self.members[name] = {}
            self.busy[name] = 0
            self.restart()
        if queues.get(serial, False) != has_requests:
            before = self.busy[name]
            after = self.busy[name] = before + (1 if has_requests else -1)
            self.nr_busy += (after > 0) - (before > 0)
        queues[serial] = has_requests

    def forget(self, serial: int) -> None:
        """Take a queue out, and its competitor with it when it was the only one."""
        for name in [name for name, queues in self.members.items() if serial in queues]:
            self.see(name, serial, False)
            del self.members[name][serial]
            if not self.members[name]:
                del self.members[name], self.busy[name]
            self.restart()

    def account(self, ns: int) -> None:
        """Add time that has passed."""
        if self.nr_busy == len(self.members):
            self.ns += ns

    def served(self, name: str, sectors: int) -> None:
        """Add service."""
        if self.nr_busy == len(self.members) and name in self.sectors:
            self.sectors[name] += sectors


class Shares:
    """Both samples, of cgroups with the root's queues, and of sync queues; and the weights in force."""

    def __init__(self) -> None:
        self.groups = Sample()
        self.queues = Sample()
        self.changed_ns = -1
        """When a weight or a cgroup last changed; -1: never."""
        self.weights: dict[str, int] = {}
        self.parents: dict[str, Entity] = {}

    def account(self, ns: int) -> None:
        """Add time that has passed."""
        self.groups.account(ns)
        self.queues.account(ns)

    def see(self, bfqq: BfqQueue) -> None:
        """Note whether a queue has requests, whenever that may have changed."""
        serial = int(bfqq.serial)
        has_requests = bfqq.nr_queued > 0 or bfqq.dispatched > 0
        if bfqq.is_sync:
            self.queues.see(str(serial), serial, has_requests)
        if bfqq.is_sync or bfqq.parent is not None:
            self.groups.see(competitor(bfqq), serial, has_requests)

    def served(self, bfqq: BfqQueue, sectors: int) -> None:
        """Add service of a queue."""
        self.queues.served(str(int(bfqq.serial)), sectors)
        self.groups.served(competitor(bfqq), sectors)

    def left(self, bfqq: BfqQueue) -> None:
        """See a queue leave its cgroup, or for another queue."""
        self.queues.forget(int(bfqq.serial))
        self.groups.forget(int(bfqq.serial))

    def moved(self, bfqq: BfqQueue, now_ns: int) -> None:
        """See a queue in another cgroup."""
        self.left(bfqq)
        self.see(bfqq)
        self.changed(now_ns)

    def changed(self, now_ns: int) -> None:
        """Begin both samples anew after a change of weights or cgroups."""
        self.changed_ns = now_ns
        self.groups.restart()
        self.queues.restart()

    def weigh(self, bfqq: BfqQueue, now_ns: int) -> list[tuple[str, int, int]]:
        """Return the weights in force that are new: (cgroup, or "" for the queue's own; before; after)."""
        parent = bfqq.parent
        if parent is not None:
            self.parents[bfqq.group_path] = parent
        pairs = [("", f"#{int(bfqq.serial)}", int(bfqq.orig_weight))]
        pairs += [(path, path, int(group.weight)) for path, group in self.parents.items()]
        out = []
        for path, key, weight in pairs:
            before = self.weights.get(key, weight)
            self.weights[key] = weight
            if before != weight:
                out.append((path, before, weight))
        if out:
            self.changed(now_ns)
        return out


def competitor(bfqq: BfqQueue) -> str:
    """Name what competes for the device at the top: a cgroup by its path, a queue of the root by its number."""
    return f"#{int(bfqq.serial)}" if bfqq.parent is None else bfqq.group_path
