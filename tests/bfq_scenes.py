"""Scenes for bfq_world.py: machine, device, cgroups, processes with their scripts, and what is changed meanwhile.

random_scene(pick) draws one; pick chooses from a list, so that hypothesis (and its shrinking) or a plain seeded
generator can drive it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from blktwin.block.bio import REQ_META, REQ_OP_DISCARD, REQ_OP_READ, REQ_OP_WRITE, REQ_SYNC
from blktwin.block.rules import PRESET_NAMES, Rules

US, MS, SEC = 1_000, 1_000_000, 1_000_000_000
R, W, D = REQ_OP_READ, REQ_OP_WRITE, REQ_OP_DISCARD

Step = tuple[Any, ...]
"""("io", op, flags, sector, sectors), ("wait", at most in flight), ("sleep", ns), ("plug",), ("unplug",),
("move", path), ("prio", ioprio), ("again", index of the step to go on with)."""
Pick = Callable[[Sequence[Any]], Any]


@dataclass
class Script:
    """One process."""

    cgroup: str = "/"
    ioprio: int = 0
    start_ns: int = 0
    steps: list[Step] = field(default_factory=list)


@dataclass
class Scene:
    """One world; changes are (ns, kind, ...): weight, dev_weight, remove, tunable."""

    rules: str | Rules = "6.12"
    cpus: int = 1
    hz: int = 250
    depth: int = 16
    nr_requests: int = 0
    channels: int = 8
    """How many requests the device works on at once."""
    latency_ns: int = 100 * US
    is_rotational: bool = False
    bounce_ppm: int = 0
    refuse_ppm: int = 0
    seed: int = 1
    tunables: dict[str, int] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)
    scripts: list[Script] = field(default_factory=list)
    changes: list[tuple[Any, ...]] = field(default_factory=list)


# -- random scenes

PATHS = ["/", "/a", "/b", "/a/x", "/a/x/y"]
PRIOS = [0, 0, 0, 0, (2 << 13) | 4, (2 << 13) | 0, (2 << 13) | 7, (1 << 13) | 4, 3 << 13]
PAUSES = [50 * US, 1 * MS, 5 * MS, 9 * MS, 25 * MS, 130 * MS, 700 * MS, 2500 * MS, 11 * SEC]


def random_io(pick: Pick, sector: int) -> Step:
    """Draw one I/O at a sector."""
    op = pick([R, R, W, W, W, D])
    flags = pick([0, REQ_SYNC, REQ_SYNC, REQ_SYNC | REQ_META]) if op == W else pick([0, 0, 0, REQ_META])
    return ("io", op, flags if op != D else 0, sector, pick([8, 8, 8, 16, 40, 128]))


def random_phase(pick: Pick) -> list[Step]:
    """Draw some steps that belong together."""
    kind = pick(["sync", "sync", "seek", "seek", "batch", "backlog", "async", "sleep", "sleep", "move", "prio"])
    start = pick([0, 2048, 4096, 4200, 1 << 16, 1 << 20])
    op, flags = pick([(R, 0), (R, 0), (W, REQ_SYNC)])
    steps: list[Step] = []
    if kind in ("sync", "seek"):
        size = pick([8, 8, 16, 64, 256])
        pause = pick([0, 0, 0, 100 * US, 2 * MS, 6 * MS])
        for at in range(pick([2, 5, 25])):
            sector = start + at * size if kind == "sync" else start + at * 7919 % 97 * 4096
            steps += [("io", op, flags, sector, size), ("wait", 0)]
            if pause:
                steps.append(("sleep", pause))
    elif kind == "batch":
        steps.append(("plug",))
        steps += [random_io(pick, start + pick(range(0, 400, 8))) for _ in range(pick([2, 4, 8]))]
        steps += [("unplug",), pick([("wait", 0), ("wait", 0), ("sleep", MS)])]
    elif kind == "backlog":
        depth = pick([2, 4, 8])
        is_seeky = pick([False, True])
        for at in range(pick([8, 20, 40])):
            sector = start + (at * 7919 % 97 * 4096 if is_seeky else at * 8)
            steps += [("wait", depth - 1), ("io", op, flags, sector, 8)]
        steps.append(pick([("wait", 0), ("wait", 0), ("sleep", 100 * US)]))
    elif kind == "async":
        steps += [("io", W, 0, start + at * pick([8, 4096]), pick([8, 64])) for at in range(pick([1, 4, 12]))]
    elif kind == "sleep":
        steps.append(("sleep", pick(PAUSES)))
    elif kind == "move":
        steps.append(("move", pick(PATHS)))
    else:
        steps.append(("prio", pick(PRIOS)))
    return steps


TUNABLES = [
    ("slice_idle", [0, 1, 8, 30]),
    ("slice_idle_us", [500]),
    ("strict_guarantees", [0, 1]),
    ("low_latency", [0, 0, 1]),
    ("max_budget", [0, 16, 256, 4096]),
    ("timeout_sync", [1, 20, 125, 500]),
    ("fifo_expire_sync", [1, 125]),
    ("fifo_expire_async", [1, 250]),
    ("back_seek_max", [0, 16384]),
    ("back_seek_penalty", [1, 2]),
]


def random_change(pick: Pick) -> tuple[Any, ...]:
    """Draw a change at a time."""
    at_ns = pick([MS, 3 * MS, 8 * MS, 20 * MS, 90 * MS, 300 * MS, 1200 * MS, 3 * SEC])
    kind = pick(["weight", "dev_weight", "remove", "tunable"])
    if kind == "tunable":
        name, values = pick(TUNABLES)
        return (at_ns, kind, name, pick(values))
    path = pick(PATHS[1:])
    if kind == "remove":
        return (at_ns, kind, path)
    return (at_ns, kind, path, pick([1, 10, 100, 300, 1000] + ([0] if kind == "dev_weight" else [])))


def random_scene(pick: Pick) -> Scene:
    """Draw any small world."""
    is_rotational = pick([False, False, True])
    scene = Scene(
        rules=pick(PRESET_NAMES),
        cpus=pick([1, 1, 2]),
        hz=pick([100, 250, 250, 1000]),
        depth=pick([1, 2, 16, 16, 64]),
        nr_requests=pick([0, 0, 4, 64]),
        channels=pick([1, 2, 16]),
        latency_ns=pick([20 * US, 100 * US, 500 * US, 3 * MS]),
        is_rotational=is_rotational,
        bounce_ppm=pick([0, 0, 0, 100_000]),
        refuse_ppm=pick([0, 0, 0, 100_000]),
        seed=pick(range(1, 1000)),
    )
    for _ in range(pick([0, 0, 1, 2])):
        name, values = pick(TUNABLES)
        scene.tunables[name] = pick(values)
    for path in PATHS[1:]:
        if pick([False, False, True]):
            scene.weights[path] = pick([1, 50, 100, 200, 1000])
    paths = pick([PATHS, PATHS, ["/"], ["/a"], ["/a", "/b"]])
    prios = pick([PRIOS, [0]])
    for _ in range(pick([1, 2, 3, 3, 4])):
        steps = [step for _ in range(pick([1, 2, 3, 4])) for step in random_phase(pick)]
        start_ns = pick([0, 0, 0, 10 * MS, 200 * MS, 700 * MS])
        scene.scripts.append(Script(pick(paths), pick(prios), start_ns, steps))
    for _ in range(pick([0, 0, 1, 3])):
        scene.changes.append(random_change(pick))
    return scene
