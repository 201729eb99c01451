"""Every decision of BFQ in some random worlds, printed: equal compiled and interpreted (tests/parity)."""

from __future__ import annotations

from random import Random

from bfq_scenes import random_scene
from bfq_world import run_scene

NR_WORLDS = 60


def print_decisions() -> None:
    """Print dispatches, ends of slots and counts of each world."""
    for seed in range(NR_WORLDS):
        world = run_scene(random_scene(Random(seed).choice))
        print(f"world {seed}: {world.sim.events.now_ns} ns, {dict(sorted(world.log.seen.items()))}")
        for row in (*world.log.served, *world.log.expiries):
            print(*row)


if __name__ == "__main__":
    print_decisions()
