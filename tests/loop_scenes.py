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
"""("io", loop, op, flags, sector, sectors), ("wait", at most in flight), ("sleep", ns), ("plug",), ("unplug",)."""
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
    free_bytes: int = 0
    """What the file system has left; 0: enough."""
    compat: tuple[str, ...] = ()
    """Switches of KernelCompat that are on."""

    def has_errors(self) -> bool:
        """Say whether an I/O may fail, the disk's own faults apart."""
        return self.dice.error > 0 or self.free_bytes > 0 or self.is_read_only


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
    mode: str = GUARDED
    loops: list[Loop] = field(default_factory=lambda: [Loop()])
    disk_scheduler: str = "none"
    disk_depth: int = 64
    disk_hw_queues: int = 1
    disk_ns: int = 20 * US
    disk_has_cache: bool = True
    disk_has_fua: bool = True
    faults: dict[str, int] = field(default_factory=dict)
    seed: int = 1
    scripts: list[Script] = field(default_factory=list)
    max_events: int = 200_000

    def is_leaf(self, loop: int) -> bool:
        """Say whether no other loop device lies on a loop device."""
        return all(other.below != "loop" or at != loop + 1 for at, other in enumerate(self.loops))


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
        ns=pick([2 * US, 20 * US, 200 * US]),
    )


def random_loop(pick: Pick, policy: str, is_first: bool) -> Loop:
    """Draw one device."""
    below = "memory"
    return Loop(
        policy=policy,
        is_direct=pick([True, True, True, False]),
        hw_queues=pick([1, 1, 2, 3]),
        depth=pick([1, 2, 4, 16]),
        hint=pick([True, True, False]),
        variant=pick(["fixed", "fixed", "v5", "v4"]) if policy == "nowait_first" else "fixed",
        offset_bytes=pick([0, 0, 4096, 8192, 512]),
        batch_plug=pick([False, True]),
        scheduler=pick(["none", "none", "mq-deadline", "bfq"]),
        max_sectors=pick([0, 0, 16, 64]),
        below=below,
        dice=random_dice(pick),
        kind=pick(["ext4", "xfs", "xfs", "btrfs", "f2fs", "overlay", "tmpfs"]),
        layout=pick(["mapped", "mapped", "hole", "unwritten", "shared", "mixed"]),
    )


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


def random_scripts(pick: Pick, leaves: list[int], mode: str) -> list[Script]:
    """Draw the submitters; apart: each has a stripe of its own."""
    nr_tasks = pick([1, 2, 3, 4])
    paths = pick([PATHS, PATHS, ["/"], ["/a"], ["/a", "/b"]])
    scripts: list[Script] = []
    for task in range(nr_tasks):
        low, high = 0, IMAGE_SECTORS
        if mode == APART:
            low, high = IMAGE_SECTORS * task // nr_tasks, IMAGE_SECTORS * (task + 1) // nr_tasks
        loop = pick(leaves)
        steps = [step for _ in range(pick([1, 2, 3, 5])) for step in random_phase(pick, loop, low, high)]
        scripts.append(Script(pick(paths), pick([0, 0, 100 * US]), steps))
    return scripts


def random_scene(pick: Pick) -> Scene:
    """Draw any small world."""
    policies = pick([POLICIES, POLICIES, ("workqueue",), ("nowait_first",), ("nowait_first",)])
    loops = [random_loop(pick, pick(policies), at == 0) for at in range(pick([1, 1, 2]))]
    mode = pick([GUARDED, GUARDED, APART, FREE])
    scene = Scene(
        rules=pick(PRESET_NAMES),
        cpus=pick([1, 2, 4]),
        mode=mode,
        loops=loops,
        disk_scheduler=pick(["none", "none", "mq-deadline", "bfq"]),
        disk_depth=pick([1, 2, 8, 16]),
        disk_hw_queues=pick([1, 2]),
        disk_ns=pick([5 * US, 20 * US, 200 * US]),
        disk_has_cache=pick([True, True, False]),
        disk_has_fua=pick([True, False]),
        faults=random_faults(pick),
        seed=pick(range(1, 1000)),
    )
    scene.scripts = random_scripts(pick, [at for at in range(len(loops)) if scene.is_leaf(at)], mode)
    return scene
