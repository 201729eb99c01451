"""mq-deadline by hand: requests gather in a stopped queue, and the test takes out what the elevator gives."""

from __future__ import annotations

from block_world import MS, NO_PLUG, HandTask, World

from blktwin.block.bio import REQ_OP_READ, REQ_OP_WRITE, REQ_SYNC
from blktwin.block.deadline import Deadline
from blktwin.block.rules import Rules

SEC = 1000 * MS
R, W = REQ_OP_READ, REQ_OP_WRITE


def make(rules: Rules | str = NO_PLUG, hz: int = 250, **tunables: int) -> tuple[World, Deadline]:
    """Build a world whose queue is stopped: requests gather in the elevator."""
    elevator = Deadline()
    world = World(rules, elevator=elevator, hz=hz, depth=128)
    for name, value in tunables.items():
        elevator.set_tunable(name, value)
    world.q.hctxs[0].is_stopped = True
    return world, elevator


def put(world: World, op: int, *sectors: int, task: HandTask | None = None) -> None:
    """Insert requests of 4 KiB, one after another."""
    who = task or world.task()
    for sector in sectors:
        world.submit(who, sector, 8, op, REQ_SYNC if op == W else 0)


def order(world: World, elevator: Deadline, count: int = 1000) -> list[tuple[str, int]]:
    """Take out what the elevator gives, without completing anything."""
    out: list[tuple[str, int]] = []
    while len(out) < count:
        rq = elevator.dispatch_request(world.q.hctxs[0])
        if rq is None:
            return out
        out.append(("R" if rq.op == R else "W", int(rq.sector)))
    return out
