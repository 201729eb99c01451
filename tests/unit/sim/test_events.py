"""The event queue: order, ties, the hole at the root, removal, and that a steady state allocates nothing."""

from __future__ import annotations

import sys

import pytest

from blktwin.sim.events import Event, EventQueue


class Note(Event):
    """An event that writes its name down, and may act."""

    def __init__(self, log: list[str], name: str, queue: EventQueue | None = None, again_ns: int = 0) -> None:
        super().__init__()
        self.log = log
        self.name = name
        self.queue = queue
        self.again_ns = again_ns

    def fire(self) -> None:
        """Write, and come again if asked to."""
        self.log.append(self.name)
        if self.queue is not None:
            self.queue.at(self, self.queue.now_ns + self.again_ns)


class Ticker(Event):
    """An event that comes again and counts."""

    def __init__(self, queue: EventQueue, step_ns: int) -> None:
        super().__init__()
        self.queue = queue
        self.step_ns = step_ns

    def fire(self) -> None:
        """Come again."""
        self.queue.at(self, self.queue.now_ns + self.step_ns)


def test_time_order_then_queueing_order() -> None:
    """Equal times fire in the order of queueing."""
    queue, log = EventQueue(), list[str]()
    for name, time_ns in (("c", 30), ("a", 10), ("b1", 20), ("b2", 20), ("b3", 20), ("a2", 10)):
        queue.at(Note(log, name), time_ns)
    assert queue.run(1 << 60, 100) == 6
    assert log == ["a", "a2", "b1", "b2", "b3", "c"]
    assert queue.now_ns == 30


def test_until_and_max_events_stop_and_go_on() -> None:
    """A run stops at its limit and the next one continues."""
    queue, log = EventQueue(), list[str]()
    for time_ns in range(10):
        queue.at(Note(log, str(time_ns)), time_ns)
    assert queue.run(4, 100) == 5
    assert queue.next_time_ns() == 5
    assert queue.run(100, 2) == 2
    assert log == list("0123456")
    assert queue.run(100, 100) == 3
    assert queue.next_time_ns() == -1
    assert queue.nr_fired == 10


def test_an_event_may_queue_itself_from_fire() -> None:
    """The fired event's place is filled by the next at()."""
    queue, log = EventQueue(), list[str]()
    queue.at(Note(log, "x", queue, 10), 0)
    queue.at(Note(log, "y"), 15)
    queue.run(30, 100)
    assert log == ["x", "x", "y", "x", "x"]
    assert queue.size == 1


def test_the_past_becomes_now() -> None:
    """An event for a time gone by fires now, behind those that were queued before."""
    queue, log = EventQueue(), list[str]()
    queue.at(Note(log, "late"), 100)
    queue.run(100, 1)
    queue.at(Note(log, "same"), 100)
    queue.at(Note(log, "past"), 1)
    queue.run(100, 10)
    assert log == ["late", "same", "past"]
    assert queue.now_ns == 100


def test_queued_twice_is_refused() -> None:
    """An event stands in the queue once."""
    queue, event = EventQueue(), Event()
    queue.at(event, 1)
    with pytest.raises(AssertionError, match="queued already"):
        queue.at(event, 2)
    queue.remove(event)
    with pytest.raises(AssertionError, match="not queued"):
        queue.remove(event)


def test_remove_keeps_the_heap_in_order() -> None:
    """The last event may have to rise in the place of the removed one, or to sink."""
    for gone, left in ((11, [1, 2, 4, 10, 12, 20]), (2, [1, 4, 10, 11, 12, 20]), (4, [1, 2, 10, 11, 12, 20])):
        queue, log = EventQueue(), list[str]()
        events = {time_ns: Note(log, str(time_ns)) for time_ns in (1, 10, 2, 11, 12, 20, 4)}
        for time_ns, event in events.items():
            queue.at(event, time_ns)
        queue.remove(events[gone])
        queue.run(100, 100)
        assert log == [str(time_ns) for time_ns in left]


def test_at_serial_keeps_an_older_place() -> None:
    """A place taken early holds among equal times."""
    queue, log = EventQueue(), list[str]()
    place = queue.next_serial()
    queue.at(Note(log, "second"), 5)
    queue.at_serial(Note(log, "first"), 5, place)
    queue.run(5, 10)
    assert log == ["first", "second"]


def test_steady_state_allocates_nothing() -> None:
    """Thousands of events leave as many memory blocks as there were."""
    queue = EventQueue()
    for step in range(64):
        queue.at(Ticker(queue, 7 + step), step)
    queue.run(1 << 60, 5_000)
    length = len(queue.heap)
    before = sys.getallocatedblocks()
    queue.run(1 << 60, 20_000)
    assert sys.getallocatedblocks() - before < 64, "the event queue allocates per event"
    assert len(queue.heap) == length, "the heap grows in steady state"
