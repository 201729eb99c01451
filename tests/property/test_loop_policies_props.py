"""Metamorphic properties of the loop driver (spec §7.2): what a change of policy, company or size must not change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from loop_history import SECTOR
from loop_scenes import APART, IMAGE_SECTORS, POLICIES, Pick, Scene, Step, random_scene, random_scripts, with_policy
from loop_storm import SWEEPER_PID, LoopStorm, run_scene

from blktwin.block.bio import BLK_STS_OK


def sound(scene: Scene) -> Scene:
    """Return the same world without errors, and with each task's writes in a part of its own."""
    scene.faults = {name: value for name, value in scene.faults.items() if name != "io_error_ppm"}
    scene.loops = [
        replace(loop, free_bytes=0, failing_preps=0, dice=replace(loop.dice, error=0, no_punch=0, lost_sectors=0))
        for loop in scene.loops
    ]
    return scene


def apart_scene(pick: Pick) -> Scene:
    """Draw a world in which the final image does not depend on the order between tasks."""
    return sound(random_scene(pick, APART))


def images(world: LoopStorm) -> list[bytes]:
    """Return all images."""
    return [world.image(loop) for loop in range(len(world.loops)) if world.scene.is_leaf(loop)]


def same_image_everywhere(pick: Pick) -> None:
    """P1: same requests, same final image under every policy, whatever sleeps, falls short or comes late."""
    scene = apart_scene(pick)
    worlds = [run_scene(with_policy(scene, policy)) for policy in POLICIES]
    for policy, world in zip(POLICIES, worlds, strict=True):
        assert images(world) == images(worlds[0]), f"P1: {policy} leaves another image than {POLICIES[0]}"


def in_worlds(check: Callable[[Pick], None], seeds: range) -> None:
    """Check many worlds; a failure names the seed of its world."""
    for seed in seeds:
        try:
            check(Random(seed).choice)
        except AssertionError as error:
            raise AssertionError(f"world {seed}: {error}") from error


HALF = IMAGE_SECTORS // 2


def other_cgroups_change_no_data(pick: Pick) -> None:
    """P2: as many submitters again, elsewhere and in cgroups of their own: what the others write and read stays."""
    scene = apart_scene(pick)
    scene.later = []
    scene.scripts = random_scripts(pick, scene.leaves(), APART, 0, HALF)
    crowd = [
        replace(script, cgroup="/other" + script.cgroup)
        for script in random_scripts(pick, scene.leaves(), APART, HALF, IMAGE_SECTORS)
    ]
    alone = run_scene(scene)
    together = run_scene(replace(scene, scripts=scene.scripts + crowd))
    end = HALF * SECTOR
    assert [image[:end] for image in images(alone)] == [image[:end] for image in images(together)], "P2: other bytes"
    seen, seen_again = reads_of(alone), reads_of(together)
    others = [key for key, found in seen.items() if seen_again.get(key, found) != found]
    assert others == [], f"P2: the reads {others} (task, step) return something else"


def reads_of(world: LoopStorm) -> dict[tuple[int, int], bytes | None]:
    """Return what the reads that went well have returned, by task and place in its script."""
    return {
        (bio.task.pid, bio.number): None if bio.data is None else bytes(bio.data)
        for bio in world.bios
        if bio.op == 0 and bio.status == BLK_STS_OK and bio.task.pid != SWEEPER_PID
    }


def split_requests_change_only_timing(pick: Pick) -> None:
    """P5: adjacent parts of what was one I/O, or smaller requests: the same image."""
    scene = apart_scene(pick)
    whole = run_scene(replace(scene, loops=[replace(loop, max_sectors=0) for loop in scene.loops]))
    small = run_scene(replace(scene, loops=[replace(loop, max_sectors=16) for loop in scene.loops]))
    assert images(whole) == images(small)
    scripts = [replace(script, steps=split(script.steps)) for script in scene.scripts]
    parts = run_scene(replace(scene, scripts=scripts))
    assert shape(images(whole)) == shape(images(parts))


def split(steps: list[Step]) -> list[Step]:
    """Return a script in which each long I/O is two adjacent ones."""
    out: list[Step] = []
    for step in steps:
        if step[0] == "io" and step[5] >= 16:
            half = step[5] // 16 * 8
            out += [(*step[:5], half), (*step[:4], step[4] + half, step[5] - half)]
        else:
            out.append(step)
    return out


def shape(found: list[bytes]) -> list[list[bool]]:
    """Return which sectors hold zeros: the parts have other serials than the whole."""
    return [[not any(image[at : at + 16]) for at in range(0, len(image), SECTOR)] for image in found]


CHECKS = [same_image_everywhere, other_cgroups_change_no_data, split_requests_change_only_timing]


@pytest.mark.parametrize("check", CHECKS)
def test_metamorphic(check: Callable[[Pick], None]) -> None:
    """P1, P2 and P5 in some worlds."""
    in_worlds(check, range(6))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("check", CHECKS)
def test_metamorphic_in_many_worlds(check: Callable[[Pick], None], part: int) -> None:
    """The same in 500 worlds."""
    in_worlds(check, range(100 + part * 50, 150 + part * 50))
