"""Each switchable defect of the loop driver makes a property fail or ends the run by name; without it all is well.

The defects are those of kernels and posted patches: the switches of KernelCompat, and the policy rfc_exact.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from loop_backing import Dice
from loop_scenes import US, D, Loop, R, Scene, Script, Step, W, flush, with_policy
from loop_storm import LoopStorm

from blktwin.block.bio import REQ_SYNC
from blktwin.drivers.loop.config import BUGS_OF_V4, BUGS_OF_V5, COMPAT_NAMES
from blktwin.errors import LoopViolation


def stream(nr: int = 40, depth: int = 8) -> list[Step]:
    """Writes and reads of one task, `depth` in flight, some of them discards and flushes."""
    steps: list[Step] = []
    for at in range(nr):
        steps += [("io", 0, W, REQ_SYNC, at * 40 % 480, 8), ("io", 0, R, 0, (at * 72 + 8) % 480, 16)]
        if at % 5 == 4:
            steps += [flush(0), ("io", 0, D, 0, (at * 8 + 200) % 480, 8)]
        steps.append(("wait", depth))
    return steps


def batch(*ios: Step) -> list[Step]:
    """One plug with some I/Os, and the wait for their end."""
    return [("plug",), *ios, ("unplug",), ("wait", 0)]


def world(loop: Loop, *steps: list[Step], rules: str = "7.2", cpus: int = 2) -> Scene:
    """One loop device; each list of steps is a task in a cgroup of its own."""
    scripts = [Script("/a/b/c"[: 2 * at] or "/", at * 50 * US, mine) for at, mine in enumerate(steps)]
    return Scene(rules=rules, cpus=cpus, loops=[loop], scripts=scripts, max_events=60_000)


def nested_world() -> Scene:
    """A loop device over a file on a loop device, both with inline I/O."""
    loops = [Loop(policy="nowait_first", depth=16, below="file"), Loop(policy="nowait_first", depth=16, below="loop")]
    reads = batch(*(("io", 1, R, 0, at * 24, 8) for at in range(4)))
    return Scene(rules="7.2", cpus=2, loops=loops, scripts=[Script("/", 0, reads)])


NOWAIT = Loop(policy="nowait_first", depth=16, dice=Dice(eagain=300_000, late_eagain=200_000, sleep=700_000))
ON_DISK = Loop(policy="nowait_first", depth=16, below="bdev")
RFC = Loop(policy="rfc_exact", depth=16, dice=Dice(sleep=0))
FAR = [("io", 0, W, REQ_SYNC, 0, 16), ("wait", 0), ("io", 0, R, 0, 0, 16), ("wait", 0)]
READS = batch(*(("io", 0, R, 0, at * 24, 8) for at in range(4)))
WRITES = batch(*(("io", 0, W, REQ_SYNC, at * 24, 8) for at in range(4)))
ONE = batch(("io", 0, R, 0, 0, 8))

DEFECTS: dict[str, tuple[Scene, str]] = {
    "short_write_ok": (world(Loop(depth=4, dice=Dice(short_write=300_000)), stream()), "I4: a read"),
    "eof_read_zero_success": (world(Loop(is_direct=False, dice=Dice(lost_sectors=504)), FAR), "I4: a read"),
    "hint_use_after_completion": (world(replace(NOWAIT, depth=2), stream(), stream(), stream()), "I13: "),
    "hint_asserts_wrong_lock": (world(NOWAIT, stream()), "loop0: the hint's counter changes under another lock"),
    "eopnotsupp_is_error": (world(replace(NOWAIT, dice=Dice(not_supported=200_000)), stream()), "I5: .* not supported"),
    "eopnotsupp_completes_twice": (
        world(replace(NOWAIT, dice=Dice(not_supported=200_000)), stream()),
        "I[12]: |loop0: tag",
    ),
    "eagain_requeues_forever": (
        world(replace(NOWAIT, dice=Dice(eagain=400_000, stubborn=300_000)), stream()),
        "L3: .* goes to a worker again",
    ),
    "prep_failure_completes": (world(replace(NOWAIT, failing_preps=1), stream()), "I1: .* has -1 references"),
    "freeze_taken_twice": (world(NOWAIT, stream()), "I12: .* freeze protection"),
    "lower_bios_last": (
        world(replace(ON_DISK, depth=2, max_sectors=8), [("io", 0, W, REQ_SYNC, 0, 64), ("wait", 0)]),
        "I19: t1 waits above with a bio for below behind it",
    ),
    "plug_shared": (world(ON_DISK, READS), "L1: disk: the request at .* is nowhere|I15: "),
    "inline_nests": (nested_world(), "I14: loop0: a file within a file"),
    "rfc_unstarted_ok": (world(RFC, READS), "I1: loop0: the request at 24 .* never issued"),
}
"""By a switch of KernelCompat: a world that shows it, and what is said then."""


def said(scene: Scene) -> str:
    """Run a world; return what ends it, "" when all is well."""
    try:
        LoopStorm(scene).run()
    except (AssertionError, LoopViolation) as error:
        return str(error)
    return ""


def with_bug(scene: Scene, *names: str) -> Scene:
    """Return the same world with switches on."""
    return replace(scene, loops=[replace(loop, compat=names) for loop in scene.loops])


def test_every_switch_has_a_world() -> None:
    """A new switch needs one here."""
    assert set(DEFECTS) == set(COMPAT_NAMES)


@pytest.mark.parametrize("name", COMPAT_NAMES)
def test_a_defect_is_caught(name: str) -> None:
    """With the switch on a property fails; with it off (and a policy without defects) none does."""
    scene, complaint = DEFECTS[name]
    sound = with_policy(scene, "rfc_safe") if name == "rfc_unstarted_ok" else scene
    assert said(sound) == ""
    found = said(with_bug(scene, name))
    assert re.match(complaint, found), found or "nobody has noticed"


@pytest.mark.parametrize(("variant", "names"), [("v4", BUGS_OF_V4), ("v5", BUGS_OF_V5)])
def test_the_series_as_posted(variant: str, names: tuple[str, ...]) -> None:
    """All bugs of a version of the NOWAIT series at once, over a file in memory and over a disk."""
    for loop in (NOWAIT, ON_DISK):
        scene = world(replace(loop, variant=variant), WRITES, stream())
        assert said(scene) == ""
        assert said(with_bug(scene, *names)), f"{variant} passes on {loop.below}"


TWO = replace(world(RFC), loops=[RFC, Loop()])
MOVED = [("plug",), ("cpu", 0), ("io", 0, R, 0, 0, 8), ("cpu", 1), ("io", 0, R, 0, 64, 8), ("unplug",), ("wait", 0)]

RFC_CASES: dict[str, tuple[Scene, str]] = {
    "case 2 (a): reads and writes": (
        world(RFC, batch(("io", 0, R, 0, 0, 8), ("io", 0, W, REQ_SYNC, 64, 8))),
        "write issued as read: ",
    ),
    "case 2 (b): two devices": (
        replace(TWO, scripts=[Script("/", 0, batch(("io", 0, R, 0, 0, 8), ("io", 1, R, 0, 64, 8)))]),
        "foreign queue's request: loop0: rfc_exact takes a request of loop1",
    ),
    "case 2 (c): an elevator": (
        world(replace(RFC, scheduler="mq-deadline"), MOVED),
        "scheduler bypassed, driver tag missing: ",
    ),
    "never started": (world(RFC, READS), "request issued but never started: "),
    "discards": (
        world(RFC, batch(("io", 0, R, 0, 0, 8), ("io", 0, D, 0, 64, 8))),
        "request without data issued as read: ",
    ),
    "sleeps": (world(replace(RFC, dice=Dice(sleep=1_000_000)), ONE), "slept inside queue_rq: loop0"),
    "leaks": (world(RFC, [], ONE), "I12: loop0: 1 references on memory cgroups, 0 commands"),
}
"""The defects of the RFC that no switch has: a world, and what is said."""


@pytest.mark.parametrize("case", list(RFC_CASES))
def test_the_rfc_as_posted(case: str) -> None:
    """Each defect stops the run by its name, or a property fails; the corrected policies pass."""
    scene, complaint = RFC_CASES[case]
    found = said(scene)
    assert re.match(complaint, found), found or "nobody has noticed"
    assert said(with_policy(scene, "rfc_safe")) == ""
    assert said(with_policy(scene, "sync_read")) == ""


def test_the_rfc_loses_a_request_without_memory() -> None:
    """The posted code ignores the error of its helper."""
    found = said(world(replace(RFC, failing_preps=1), READS))
    assert re.match("request lost: ", found), found or "nobody has noticed"
    assert said(world(replace(RFC, failing_preps=1, policy="rfc_safe"), READS)) == ""


@pytest.mark.parametrize("rules", ["5.10", "6.12", "6.12.y", "7.2"])
@pytest.mark.parametrize("below", ["bdev", "file"])
def test_case_13_a_plug_at_its_limit(rules: str, below: str) -> None:
    """Inline I/O below while the plug is flushed: none is lost or issued twice, whatever the plug's limit is."""
    reads = batch(
        *(("io", 0, R, 0, at * 8, 8) for at in range(0, 64, 2)), *(("io", 0, W, 1, 8 + at, 8) for at in (0, 32))
    )
    for is_batched in (False, True):
        loop = replace(ON_DISK, depth=128, below=below, batch_plug=is_batched)
        storm = LoopStorm(world(loop, reads * 2, rules=rules))
        storm.run()
        assert storm.loops[0].driver.nr_inline > 0
