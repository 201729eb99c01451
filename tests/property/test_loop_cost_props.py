"""What policies cost and decide in worlds without chance (spec §7.2): P3 packed workers, P4 attempts inline."""

from __future__ import annotations

from dataclasses import replace

import pytest
from loop_scenes import US, Loop, R, Scene, Script, Step, W
from loop_storm import LoopStorm

from blktwin.block.bio import REQ_SYNC
from blktwin.drivers.loop.reasons import REASON_EAGAIN_SYNC, REASON_HINT_SKIP
from blktwin.sim.stage_device import D2C

FILE_OP_NS = 40 * US


def mean_d2c_ns(policy: str, nr_cgroups: int, worker_cpus: list[int]) -> int:
    """Return the mean D2C of synchronous readers, each in a cgroup and on a CPU of its own."""
    reads: list[Step] = [step for at in range(40) for step in (("io", 0, R, 0, at * 8, 8), ("wait", 0))]
    scene = Scene(
        rules="7.2",
        cpus=10,
        cpu_spec={"worker_cpus": worker_cpus, "worker_scope": "system"},
        costs={"file_op": FILE_OP_NS},
        disk_ns=10 * US,
        loops=[Loop(policy=policy, below="file", depth=32)],
        scripts=[Script(f"/p{at}", 0, reads) for at in range(nr_cgroups)],
    )
    world = LoopStorm(scene)
    world.run_tasks()
    stat = world.device_of(world.loops[0].q).total(D2C)
    assert stat.count == 40 * nr_cgroups
    return int(stat.total // stat.count)


def test_packed_workers_are_linear_and_inline_is_flat() -> None:
    """P3: workers packed on one CPU wait for each other: D2C grows with their number; inline it does not."""
    packed = [mean_d2c_ns("workqueue", nr, [9]) for nr in (1, 2, 4, 8)]
    for nr, found in zip((2, 4, 8), packed[1:], strict=True):
        assert nr * FILE_OP_NS < found < 1.1 * nr * FILE_OP_NS, packed
    inline = [mean_d2c_ns("nowait_first", nr, [9]) for nr in (1, 2, 4, 8)]
    assert max(inline) < 1.05 * min(inline), inline
    spread = [mean_d2c_ns("workqueue", nr, []) for nr in (1, 4)]
    assert spread[1] < 1.5 * spread[0], spread


def image_of(layout: str, kind: str, steps: list[Step], policy: str = "nowait_first") -> LoopStorm:
    """Run one writer on an image of a layout."""
    loop = Loop(policy=policy, below="file", kind=kind, layout=layout)
    world = LoopStorm(Scene(rules="7.2", cpus=2, loops=[loop], scripts=[Script("/a", 0, steps)]))
    world.run_tasks()
    world.check_images()
    return world


def mixed(nr: int) -> list[Step]:
    """Whole blocks, written and read, eight at a time."""
    steps: list[Step] = []
    for at in range(nr):
        op, flags = (W, REQ_SYNC) if at % 3 else (R, 0)
        steps += [("io", 0, op, flags, at * 40 % 504, 8), ("wait", 7)]
    return steps


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_a_mapped_image_needs_no_worker(kind: str) -> None:
    """P4: overwrites and reads of mapped blocks all go inline."""
    driver = image_of("mapped", kind, mixed(80)).loops[0].driver
    assert sum(driver.nr_queued) == 0
    assert driver.nr_inline >= 80


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_each_burst_into_holes_costs_one_attempt(kind: str) -> None:
    """P4: of a burst of writes into holes one is tried, the others are not; all of them go to workers."""
    bursts = 7
    steps: list[Step] = []
    for burst in range(bursts):
        steps += [("io", 0, W, REQ_SYNC, (burst * 8 + at) * 8, 8) for at in range(8)] + [("wait", 0)]
    driver = image_of("hole", kind, steps).loops[0].driver
    tried, skipped = int(driver.nr_queued[REASON_EAGAIN_SYNC]), int(driver.nr_queued[REASON_HINT_SKIP])
    assert (tried, skipped) == (bursts, bursts * 7)


def test_without_the_hint_all_are_tried() -> None:
    """P4: without the hint each write into a hole is tried first."""
    loop = Loop(policy="nowait_first", below="file", layout="hole", hint=False)
    steps: list[Step] = [("io", 0, W, REQ_SYNC, at * 8, 8) for at in range(40)]
    world = LoopStorm(Scene(rules="7.2", cpus=2, loops=[loop], scripts=[Script("/a", 0, steps)]))
    world.run()
    assert world.loops[0].driver.nr_queued[REASON_EAGAIN_SYNC] == 40
    again = LoopStorm(replace(world.scene, loops=[replace(loop, hint=True)]))
    again.run()
    assert again.loops[0].driver.nr_queued[REASON_EAGAIN_SYNC] < 40


def test_the_second_pass_over_holes_is_inline() -> None:
    """P4: what was a hole is mapped when it is written again."""
    steps: list[Step] = [("io", 0, W, REQ_SYNC, at % 32 * 8, 8) for at in range(32)] + [("wait", 0)]
    world = image_of("hole", "xfs", steps + steps)
    assert world.loops[0].driver.nr_queued[REASON_EAGAIN_SYNC] + world.loops[0].driver.nr_queued[REASON_HINT_SKIP] == 32
    assert world.loops[0].driver.nr_inline >= 32


def test_direct_io_changes_only_with_nothing_in_flight() -> None:
    """I11: a change while requests are in flight is a broken promise, and said."""
    steps: list[Step] = [("io", 0, R, 0, at * 8, 8) for at in range(8)]
    world = LoopStorm(Scene(rules="7.2", loops=[Loop(below="file")], scripts=[Script("/", 0, steps)]))
    while world.loops[0].in_flight() == 0:
        assert world.sim.run(1 << 62, 1)
    with pytest.raises(AssertionError, match="requests in flight"):
        world.loops[0].set_direct_io(False)
    world.run_tasks()
    world.loops[0].set_direct_io(False)
