"""Random worlds of loop devices hold every invariant of the specification (§7), and the audit sees broken ones.

A world is drawn by hypothesis in the default suite, where it shrinks, and by a seeded generator in the slow one, where
ten thousand of them are run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_backing import Dice, MemoryFile
from loop_scenes import D, Loop, R, Scene, Script, Step, W, flush, random_scene
from loop_storm import LoopStorm, run_scene

from blktwin.block.bio import REQ_FUA, REQ_SYNC
from blktwin.drivers.backing import FILE_FSYNC, FILE_READ, FILE_WRITE, FileCall
from blktwin.drivers.loop.command import CMD_BLOCKING, CMD_QUEUED
from blktwin.drivers.loop.reasons import REASON_NAMES


def by_hypothesis(data: st.DataObject) -> Callable[[Sequence[Any]], Any]:
    """Choose by hypothesis."""
    return lambda options: options[data.draw(st.integers(0, len(options) - 1))]


@given(st.data())
@settings(max_examples=60)
def test_any_world_holds(data: st.DataObject) -> None:
    """I1-I20, L1-L4, and every byte."""
    run_scene(random_scene(by_hypothesis(data)))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_ten_thousand_worlds_hold(part: int) -> None:
    """The same for many worlds; a failure names the seed of its world."""
    for seed in range(part * 500, part * 500 + 500):
        scene = random_scene(Random(seed).choice)
        try:
            run_scene(scene)
        except AssertionError as error:
            raise AssertionError(f"world {seed}: {error}") from error


def test_the_worlds_meet_everything() -> None:
    """Random worlds that never fall back, skip by the hint, fall short or fail would prove nothing."""
    seen: Counter[str] = Counter()
    for seed in range(70):
        world = run_scene(random_scene(Random(seed).choice))
        for device in world.loops:
            for name, nr in zip(REASON_NAMES, device.driver.nr_queued, strict=True):
                seen[name] += nr
            seen["inline"] += int(device.driver.nr_inline)
            seen["idle workers freed"] += int(device.driver.idle_workers.nr_freed)
            seen["splits"] += sum(int(one.nr_splits) for one in world.devices)
            seen["merges"] += sum(int(one.nr_merged_bios) for one in world.devices)
            seen["parts"] += sum(int(one.nr_parts) for one in world.devices)
        seen["later"] += bool(world.scene.later)
        for bio in world.bios:
            seen[f"status {bio.status}"] += 1
        for history in world.histories:
            seen["durable"] += sum(effect.durable >= 0 for effect in history.effects)
    wanted = ["policy", "not_aio", "hint_skip", "eagain_sync", "eagain_async", "write", "no_plug", "short", "inline"]
    wanted += ["idle workers freed", "splits", "merges", "parts", "durable", "status 0", "status 1", "status 10"]
    wanted += ["status 3", "status 12", "no_fmode", "ctx_forbidden", "root_fallback"]
    wanted += ["later"]
    assert [what for what in wanted if not seen[what]] == []


@given(st.data())
@settings(max_examples=10)
def test_the_same_world_twice(data: st.DataObject) -> None:
    """P6: nothing depends on addresses or hash seeds: the same ends at the same times, the same bytes."""
    scene = random_scene(by_hypothesis(data))
    one, two = run_scene(scene), run_scene(scene)
    assert one.sim.events.now_ns == two.sim.events.now_ns
    assert [(bio.ended_at, bio.status) for bio in one.bios] == [(bio.ended_at, bio.status) for bio in two.bios]
    assert [one.image(at) for at in range(len(one.loops))] == [two.image(at) for at in range(len(two.loops))]


# -- the audit can fail: each of these breaks one thing in a busy world


def busy(policy: str = "nowait_first") -> Scene:
    """A world with commands in every phase, two cgroups, flushes and FUA."""
    steps: list[Step] = []
    for at in range(12):
        steps += [("io", 0, W, REQ_SYNC, at * 40 % 480, 8), ("io", 0, R, 0, (at * 72 + 8) % 480, 16)]
        steps += [("io", 0, W, REQ_SYNC | REQ_FUA, (at * 104 + 24) % 480, 8), ("wait", 6)]
        steps += [flush(0), ("io", 0, D, 0, (at * 8 + 200) % 480, 8)]
    dice = Dice(eagain=400_000, late_eagain=300_000, sleep=700_000)
    scripts = [Script("/", 0, steps), Script("/a", 50_000, steps), Script("/b", 90_000, steps)]
    return Scene(rules="7.2", cpus=2, loops=[Loop(policy=policy, depth=16, dice=dice)], scripts=scripts)


def spoil_list(world: LoopStorm) -> None:
    """Lose a command that waits for a worker."""
    for one in world.audit.devices:
        for worker in one.workers():
            if worker.head is not None:
                worker.head = worker.head.next
                return


def spoil_twice(world: LoopStorm) -> None:
    """Queue a command that is being executed."""
    for cmd in world.audit.devices[0].commands():
        if cmd.phase == CMD_BLOCKING:
            world.loops[0].driver.root_worker.add(cmd)
            return


def spoil_hint(world: LoopStorm) -> None:
    """Count a write that is not there."""
    world.loops[0].driver.nr_blocking_writes += 1


def spoil_freeze(world: LoopStorm) -> None:
    """Forget to thaw."""
    world.loops[0].driver.nr_freeze_starts += 1


def spoil_memcg(world: LoopStorm) -> None:
    """Leak a reference on a memory cgroup."""
    world.loops[0].driver.nr_memcg_gets += 1


def spoil_run(world: LoopStorm) -> None:
    """Lose the run of a worker with commands."""
    for worker in world.audit.devices[0].workers():
        if worker.head is not None:
            slot: Any = worker.slot
            worker.is_pending = False
            worker.executing = slot.runner = None
            return


def spoil_range(world: LoopStorm) -> None:
    """Move an operation in flight."""
    for cmd in world.audit.devices[0].commands():
        if cmd.phase == CMD_BLOCKING and cmd.op != FILE_FSYNC:
            cmd.pos += 512
            return


def spoil_way(world: LoopStorm) -> None:
    """Read what is to be written."""
    for cmd in world.audit.devices[0].commands():
        if cmd.phase == CMD_BLOCKING and cmd.op == FILE_WRITE:
            cmd.op = FILE_READ


def spoil_references(world: LoopStorm) -> None:
    """Give a command too many references."""
    world.audit.devices[0].commands()[0].refs = 3


def spoil_tag(world: LoopStorm) -> None:
    """Take a tag that belongs to nobody."""
    world.loops[0].q.hctxs[0].tags.get(0)


def spoil_plug(world: LoopStorm) -> None:
    """Leave a request in the driver's plug."""
    world.loops[0].driver.plug.mq_list.append(world.disk.hctxs[0].requests[0])


def spoil_idle(world: LoopStorm) -> None:
    """Let a busy worker count as idle."""
    for worker in world.audit.devices[0].workers()[1:]:
        if worker.executing is not None:
            world.loops[0].driver.idle_workers.append(worker)
            return


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (spoil_list, "L1: .* is in no list"),
        (spoil_twice, "I2: "),
        (spoil_hint, "I13: "),
        (spoil_freeze, "I12: .* freeze"),
        (spoil_memcg, "I12: .* memory cgroups"),
        (spoil_run, "L1: .* has no run|I1: .* executed by nobody"),
        (spoil_range, "I9: "),
        (spoil_way, "I3: "),
        (spoil_references, "I1: .* references"),
        (spoil_tag, "I1: .* tags for"),
        (spoil_plug, "I15: .* driver's plug"),
        (spoil_idle, "I20: "),
    ],
)
def test_the_audit_sees(spoil: Callable[[LoopStorm], None], complaint: str) -> None:
    """Each breakage is found at once, and named."""
    world = LoopStorm(busy())
    for _ in range(20_000):
        assert world.sim.run(1 << 62, 1), "the world never came to what is to be broken"
        commands = world.audit.devices[0].commands()
        executed = [cmd for cmd in commands if cmd.phase == CMD_BLOCKING and cmd.op == FILE_WRITE and cmd.refs == 2]
        if any(cmd.phase == CMD_QUEUED for cmd in commands) and any(cmd.is_charged for cmd in executed):
            break
    world.audit.look()
    spoil(world)
    with pytest.raises(AssertionError) as caught:
        world.audit.look()
    assert re.match(complaint, str(caught.value)), str(caught.value)


def swap_commands(world: LoopStorm) -> bool:
    """Swap the first two commands of a list, when there are two."""
    for worker in world.audit.devices[0].workers():
        first = worker.head
        if first is not None and first.next is not None:
            second = first.next
            first.next, second.next, worker.head = second.next, first, second
            if worker.tail is second:
                worker.tail = first
            return True
    return False


def free_early(world: LoopStorm) -> bool:
    """Free idle workers at once, when there are any."""
    workers = world.loops[0].driver.idle_workers
    workers.free_idle(True)
    return workers.nr_freed > 0


@pytest.mark.parametrize(
    ("spoil", "complaint"), [(swap_commands, "I16: .* was overtaken"), (free_early, "I20: .* freed too soon")]
)
def test_the_audit_sees_it_later(spoil: Callable[[LoopStorm], bool], complaint: str) -> None:
    """What is broken shows at a later event."""
    world = LoopStorm(busy("workqueue"))
    while not spoil(world):
        assert world.sim.run(1 << 62, 1), "the world never came to what is to be broken"
        world.audit.look()
    with pytest.raises(AssertionError) as caught:
        world.run_tasks()
    assert re.match(complaint, str(caught.value)), str(caught.value)


# -- the model of the image can fail: files that lie


class LyingFile(MemoryFile):
    """Lies about one thing."""

    lie = ""
    count = 0

    def transfer(self, call: FileCall) -> int:
        """Do something else than what the call says, now and then."""
        if call.op == FILE_FSYNC:
            return 0 if self.lie == "fsync" else super().transfer(call)
        self.count += 1
        if self.count % 5:
            return super().transfer(call)
        if call.op == FILE_WRITE and self.lie == "lost":
            return int(call.nbytes)
        if call.op == FILE_WRITE and self.lie == "short":
            call.nbytes -= 512
            return super().transfer(call) + 512
        if call.op == FILE_READ and self.lie == "stale":
            return int(call.nbytes)
        if self.lie == "torn" and call.op == FILE_WRITE and call.data is not None:
            call.data[256:512] = bytes(256)
        if self.lie == "shifted" and call.op == FILE_WRITE and call.pos >= 512:
            call.pos -= 512
        return super().transfer(call)


class LyingStorm(LoopStorm):
    """A world over a lying file; the power is cut often."""

    lie = ""

    def make_file(self, at: int, loop: Loop) -> MemoryFile:
        """Make it."""
        file = LyingFile(self.sim, 512 * 512, loop.dice, 1)
        file.lie = self.lie
        return file

    def bio_ended(self, bio: Any) -> None:
        """Look at once at what a flush promises."""
        super().bio_ended(bio)
        if bio.wants & REQ_FUA or bio.length == 0:
            self.check_power_cut()


@pytest.mark.parametrize("policy", ["workqueue", "nowait_first"])
@pytest.mark.parametrize(
    ("lie", "complaint"),
    [
        ("fsync", "I6: "),
        ("lost", "I[46]: "),
        ("short", "I[46]: "),
        ("stale", "I3: .* nobody wrote"),
        ("torn", "I3: .* torn"),
        ("shifted", "I9: "),
        ("", ""),
    ],
)
def test_lies_are_seen(policy: str, lie: str, complaint: str) -> None:
    """A file that loses, tears or moves bytes, or forgets an fsync, does not pass; an honest one does."""
    world = LyingStorm(busy(policy))
    file = world.files[0]
    assert isinstance(file, LyingFile)
    file.lie = lie
    if not lie:
        world.run()
        return
    with pytest.raises(AssertionError) as caught:
        world.run()
    assert re.match(complaint, str(caught.value)), str(caught.value)
