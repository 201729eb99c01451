"""Scenes for loop_storm.py: a disk, loop devices over files on it, cgroups with submitters, and what goes wrong.

random_scene(pick) draws one; pick chooses from a list, so that hypothesis (and its shrinking) or a plain seeded
generator can drive it. with_policy() replays the same requests under another policy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from loop_backing import Dice

from blktwin.block.bio import (
    REQ_FUA,
    REQ_NOWAIT,
    REQ_OP_DISCARD,
    REQ_OP_READ,
    REQ_OP_WRITE,
    REQ_OP_WRITE_ZEROES,
    REQ_PREFLUSH,
    REQ_SYNC,
)
from blktwin.block.rules import PRESET_NAMES

US, MS, SEC = 1_000, 1_000_000, 1_000_000_000
R, W, D, Z = REQ_OP_READ, REQ_OP_WRITE, REQ_OP_DISCARD, REQ_OP_WRITE_ZEROES

IMAGE_SECTORS = 512
"""Small, so that I/Os meet."""
POLICIES = ("workqueue", "per_command", "sync_read", "nowait_first", "rfc_safe")
"""All that keep every promise; rfc_exact is for the mutation tests."""

Step = tuple[Any, ...]
"""("io", loop, op, flags, sector, sectors), ("wait", at most in flight), ("sleep", ns), ("plug",), ("unplug",),
("cpu", where it goes on)."""
Pick = Callable[[Sequence[Any]], Any]

APART, GUARDED, FREE = "apart", "guarded", "free"
"""Writes of each task in a part of its own and in its own order; never overlapping what is in flight; anything goes."""


@dataclass(frozen=True)
class Loop:
    """One loop device; below: "memory", "file", "bdev", or "loop" for a file on the loop device before it."""

    policy: str = "workqueue"
    is_direct: bool = True
    hw_queues: int = 1
    depth: int = 128
    hint: bool = True
    variant: str = "fixed"
    is_read_only: bool = False
    offset_bytes: int = 0
    sizelimit_bytes: int = 0
    batch_plug: bool = False
    scheduler: str = "none"
    max_sectors: int = 0
    """Of one request (max_sectors_kb); 0: the driver's limit."""
    below: str = "memory"
    dice: Dice = Dice()
    """What the file in memory does."""
    kind: str = "ext4"
    layout: str = "mapped"
    """Of the image, before anything: "mapped", "hole", "unwritten", "shared", "mixed"."""
    align_bytes: int = 0
    """STATX_DIOALIGN of the file; 0: the disk's sector."""
    is_nodatacow: bool = False
    free_bytes: int = 0
    """What the file system has left; 0: enough."""
    failing_preps: int = 0
    """So many preparations find no memory, and so many new workers."""
    failing_workers: int = 0
    compat: tuple[str, ...] = ()
    """Switches of KernelCompat that are on."""

    def has_errors(self) -> bool:
        """Say whether an I/O may fail, the disk's own faults apart."""
        dice = self.dice
        causes = dice.error + dice.stubborn + dice.lost_sectors + self.free_bytes + self.failing_preps
        return causes > 0 or self.is_read_only


@dataclass
class Script:
    """One submitter."""

    cgroup: str = "/"
    start_ns: int = 0
    steps: list[Step] = field(default_factory=list)


@dataclass
class Scene:
    """One world."""

    rules: str = "6.12"
    cpus: int = 1
    cpu_spec: dict[str, Any] = field(default_factory=dict)
    """What differs from CpuSpec()."""
    costs: dict[str, int] = field(default_factory=dict)
    """What differs from loop_storm.py's."""
    mode: str = GUARDED
    loops: list[Loop] = field(default_factory=lambda: [Loop()])
    disk_scheduler: str = "none"
    disk_depth: int = 64
    disk_hw_queues: int = 1
    disk_ns: int = 20 * US
    disk_has_cache: bool = True
    disk_has_fua: bool = True
    disk_zeroes: bool = True
    """It has write-zeroes."""
    faults: dict[str, int] = field(default_factory=dict)
    seed: int = 1
    scripts: list[Script] = field(default_factory=list)
    later: list[Script] = field(default_factory=list)
    """Run when those have ended, and direct I/O has been switched on or off where that is possible (I11)."""
    max_events: int = 40_000

    def is_leaf(self, loop: int) -> bool:
        """Say whether no other loop device lies on a loop device."""
        return loop + 1 == len(self.loops) or self.loops[loop + 1].below != "loop"

    def leaves(self) -> list[int]:
        """Return the loop devices that tasks use."""
        return [at for at in range(len(self.loops)) if self.is_leaf(at)]


def with_policy(scene: Scene, policy: str) -> Scene:
    """Return the same world with another policy on every device."""
    return replace(scene, loops=[replace(loop, policy=policy) for loop in scene.loops])


# -- random scenes

PATHS = ["/", "/a", "/b", "/a/x"]
LENGTHS = [8, 8, 8, 8, 1, 3, 16, 16, 24, 64, 128]


def random_io(pick: Pick, loop: int, low: int, high: int) -> Step:
    """Draw one I/O in a range of sectors."""
    op = pick([R, R, R, W, W, W, W, D, Z])
    flags = 0
    if op == W:
        flags = pick([REQ_SYNC, REQ_SYNC, REQ_SYNC, 0, REQ_SYNC | REQ_FUA, REQ_SYNC | REQ_PREFLUSH])
    elif op == R:
        flags = pick([0, 0, 0, 0, REQ_NOWAIT])
    nr_sectors = min(pick(LENGTHS), high - low)
    at = low + pick(range(0, max(1, high - low - nr_sectors + 1), 8 if nr_sectors >= 8 else 1))
    return ("io", loop, op, flags, at, nr_sectors)


def flush(loop: int) -> Step:
    """Return an empty flush."""
    return ("io", loop, W, REQ_SYNC | REQ_PREFLUSH, 0, 0)


def random_phase(pick: Pick, loop: int, low: int, high: int) -> list[Step]:
    """Draw some steps that belong together."""
    kind = pick(["sync", "batch", "batch", "deep", "run", "flush", "sleep"])
    steps: list[Step] = []
    if kind == "sync":
        for _ in range(pick([1, 3])):
            steps += [random_io(pick, loop, low, high), ("wait", 0)]
    elif kind == "batch":
        steps.append(("plug",))
        steps += [random_io(pick, loop, low, high) for _ in range(pick([2, 4, 9, 36]))]
        steps += [("unplug",), ("wait", pick([0, 0, 4]))]
    elif kind == "deep":
        steps += [random_io(pick, loop, low, high) for _ in range(pick([3, 10]))]
    elif kind == "run":
        op = pick([R, W, W])
        at = low
        is_plugged = pick([True, False])
        steps += [("plug",)] if is_plugged else []
        while at + 8 <= high and len(steps) < 24:
            steps.append(("io", loop, op, REQ_SYNC if op == W else 0, at, 8))
            at += 8
        steps += [("unplug",)] if is_plugged else []
        steps.append(("wait", pick([0, 8])))
    elif kind == "flush":
        steps += [("wait", pick([0, 0, 2])), flush(loop), ("wait", pick([0, 0, 1]))]
    else:
        steps.append(("sleep", pick([10 * US, 100 * US, 2 * MS])))
    return steps


def random_dice(pick: Pick) -> Dice:
    """Draw what a file in memory does; an error or a short transfer now and then."""
    is_bad = pick([False, False, True])
    return Dice(
        eagain=pick([0, 100_000, 900_000]),
        late_eagain=pick([0, 0, 300_000]),
        not_supported=pick([0, 0, 200_000]),
        sleep=pick([0, 300_000, 1_000_000]),
        error=pick([0, 0, 50_000]) if is_bad else 0,
        short_write=pick([0, 200_000]) if is_bad else 0,
        short_read=pick([0, 200_000]) if is_bad else 0,
        no_punch=pick([0, 0, 300_000]) if is_bad else 0,
        lost_sectors=pick([0, 0, 0, 100]) if is_bad else 0,
        ns=pick([2 * US, 20 * US, 200 * US]),
    )


def random_loop(pick: Pick, policy: str, is_first: bool) -> Loop:
    """Draw one device."""
    below = pick(["memory", "file", "file", "bdev"]) if is_first else pick(["memory", "file", "file"])
    kind = pick(["ext4", "xfs", "xfs", "btrfs", "f2fs", "overlayfs", "tmpfs"])
    # What has no attempts without sleeping would sleep in the submitter under v4, which is a violation by itself.
    variants = ["fixed", "fixed", "v5"] if kind in ("overlayfs", "tmpfs") else ["fixed", "fixed", "v5", "v4"]
    return Loop(
        policy=policy,
        is_direct=pick([True, True, True, False]),
        hw_queues=pick([1, 1, 2, 3]),
        depth=pick([1, 2, 4, 16]),
        hint=pick([True, True, False]),
        variant=pick(variants) if policy == "nowait_first" else "fixed",
        offset_bytes=pick([0, 0, 4096, 8192, 512]),
        batch_plug=pick([False, True]),
        is_read_only=pick([False] * 15 + [True]),
        failing_preps=pick([0] * 7 + [2]),
        failing_workers=pick([0, 0, 0, 1]),
        scheduler=pick(["none", "none", "mq-deadline", "bfq"]),
        max_sectors=pick([0, 0, 16, 64]),
        below=below,
        dice=random_dice(pick),
        kind=kind,
        align_bytes=pick([0, 0, 0, 4096]),
        is_nodatacow=pick([False, False, True]),
        free_bytes=pick([0, 0, 0, 0, 65536]),
        layout=pick(["mapped", "mapped", "hole", "unwritten", "shared", "mixed"]),
    )


def random_cpus(pick: Pick, cpus: int) -> dict[str, Any]:
    """Draw what kind of CPUs there are, and where kernel workers run."""
    sched = pick(["fifo", "fifo", "fifo", "cfs", "eevdf"])
    spec: dict[str, Any] = {"sched": sched}
    if sched == "eevdf":
        spec["ticks"] = pick([False, True])
    if sched != "fifo" and cpus > 1 and pick([False, True]):
        spec["capacity"] = [512] + [1024] * (cpus - 1)
        spec["eas"] = pick([False, True])
    if pick([False, False, True]):
        spec["worker_cpus"] = [cpus - 1]
    spec["worker_max_active"] = pick([1024, 1024, 1, 2])
    spec["worker_scope"] = pick(["cache", "cpu", "system"])
    return spec


def nested(lower: Loop, upper: Loop) -> list[Loop]:
    """Put the second device's file on the first device."""
    kinds = {"tmpfs": "ext4"}
    below = "file" if lower.below == "memory" else lower.below
    lower = replace(
        lower, below=below, kind=kinds.get(lower.kind, lower.kind), free_bytes=0, is_read_only=False, failing_preps=0
    )
    return [lower, replace(upper, below="loop", kind=kinds.get(upper.kind, upper.kind))]


def random_faults(pick: Pick) -> dict[str, int]:
    """Draw what goes wrong; nothing most of the time."""
    faults = {
        "late_timer_ppm": pick([0, 0, 300_000]),
        "late_timer_ns": 50 * US,
        "slow_work_ppm": pick([0, 0, 300_000]),
        "slow_work_ns": 60 * US,
        "slow_io_ppm": pick([0, 0, 200_000]),
        "slow_io_ns": 500 * US,
        "refuse_ppm": pick([0, 0, 0, 50_000]),
        "io_error_ppm": pick([0, 0, 0, 0, 0, 60_000]),
    }
    return faults if any(value for name, value in faults.items() if name.endswith("_ppm")) else {}


def random_scripts(pick: Pick, leaves: list[int], mode: str, begin: int = 0, end: int = IMAGE_SECTORS) -> list[Script]:
    """Draw submitters in a range of sectors; apart: each has a stripe of its own."""
    nr_tasks = pick([1, 2, 3, 4])
    paths = pick([PATHS, PATHS, ["/"], ["/a"], ["/a", "/b"]])
    scripts: list[Script] = []
    for task in range(nr_tasks):
        low, high = begin, end
        if mode == APART:
            low, high = (begin + (end - begin) * at // nr_tasks // 8 * 8 for at in (task, task + 1))
        loop = pick(leaves)
        steps = [step for _ in range(pick([1, 2, 3, 5])) for step in random_phase(pick, loop, low, high)]
        scripts.append(Script(pick(paths), pick([0, 0, 100 * US]), steps))
    return scripts


def random_scene(pick: Pick, mode: str = "") -> Scene:
    """Draw any small world, of a mode or of any."""
    policies = pick([POLICIES, POLICIES, ("workqueue",), ("nowait_first",), ("nowait_first",)])
    loops = [random_loop(pick, pick(policies), at == 0) for at in range(pick([1, 1, 2]))]
    if len(loops) == 2 and pick([False, True]):
        loops = nested(*loops)
    mode = mode or pick([GUARDED, GUARDED, APART, FREE])
    cpus = pick([1, 2, 4])
    scene = Scene(
        rules=pick(PRESET_NAMES),
        cpus=cpus,
        cpu_spec=random_cpus(pick, cpus),
        costs={"worker_new": pick([0, 50 * US]), "worker_wake": pick([0, 5 * US])},
        mode=mode,
        loops=loops,
        disk_scheduler=pick(["none", "none", "mq-deadline", "bfq"]),
        disk_depth=pick([1, 2, 8, 16]),
        disk_hw_queues=pick([1, 2]),
        disk_ns=pick([5 * US, 20 * US, 200 * US]),
        disk_has_cache=pick([True, True, False]),
        disk_has_fua=pick([True, False]),
        disk_zeroes=pick([True, True, False]),
        faults=random_faults(pick),
        seed=pick(range(1, 1000)),
    )
    scene.scripts = random_scripts(pick, scene.leaves(), mode)
    if pick([False, False, True]):
        scene.later = random_scripts(pick, scene.leaves(), mode)
    return scene
