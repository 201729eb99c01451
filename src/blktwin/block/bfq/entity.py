"""What B-WF2Q+ schedules: entities (queues and groups), and the trees they stand in.

Times are virtual: sectors * 2**22 / weight. A tree here is a list through its entities, sorted by finish; new finishes
mostly belong near its end, and the first eligible entity near its head.
Kernel: struct bfq_entity, bfq_service_tree, bfq_sched_data, block/bfq-iosched.h, v6.12.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

SERVICE_SHIFT: Final = 22
NO_TREE: Final = 0
ACTIVE: Final = 1
IDLE: Final = 2
CLASS_RT: Final = 0
CLASS_BE: Final = 1
CLASS_IDLE: Final = 2
NR_CLASSES: Final = 3


class Entity:
    """The face that a queue or a group shows to the scheduler; service and budget are in sectors."""

    def __init__(self, sched_data: SchedData, parent: Entity | None, is_queue: bool) -> None:
        self.is_queue: bool = is_queue
        self.sched_data: SchedData = sched_data
        """Where it is scheduled."""
        self.parent: Entity | None = parent
        """The entity of the owning group; None below the root group."""
        self.my_sched_data: SchedData | None = None
        """A group's own children."""
        self.start: i64 = 0
        self.finish: i64 = 0
        self.service: i64 = 0
        """Received in this slot."""
        self.budget: i64 = 0
        """Assigned for this slot."""
        self.weight: i64 = 0
        """In force, raised or not."""
        self.orig_weight: i64 = 0
        self.new_weight: i64 = 0
        """Set, and taken over when the entity is activated or requeued (prio_changed)."""
        self.prio_changed: bool = False
        self.dev_weight: i64 = 0
        """A group's weight for this device, 0 if unset."""
        self.io_class: i64 = CLASS_BE
        """Which of the container's trees; a group is always best effort."""
        self.tree: i64 = NO_TREE
        self.on_st_or_in_serv: bool = False
        """Counted in its tree's wsum."""
        self.prev: Entity | None = None
        self.next: Entity | None = None
        self.allocated: i64 = 0
        """Requests allocated in its subtree."""
        self.in_groups_with_pending_reqs: bool = False
        """Counted in num_groups_with_pending_reqs; what that means is up to Rules.bfq_groups (pending.py)."""

    def service_tree(self) -> ServiceTree:
        """Return the tree that it belongs to."""
        return self.sched_data.tree_of(self.io_class)

    def path(self) -> str:
        """Return a name for logs."""
        return "?"


class EntityList:
    """Entities by finish, equal ones in the order of insertion, through prev and next, which are None outside."""

    def __init__(self) -> None:
        self.head: Entity | None = None
        self.tail: Entity | None = None

    def insert(self, entity: Entity) -> None:
        """Put entity behind all that finish at or before it."""
        before = self.tail
        if before is None:
            self.head = entity
            self.tail = entity
            return
        finish = entity.finish
        if before.finish <= finish:
            before.next = entity
            entity.prev = before
            self.tail = entity
            return
        behind = before
        before = before.prev
        while before is not None and before.finish > finish:
            behind = before
            before = before.prev
        if before is None:
            self.head = entity
        else:
            before.next = entity
            entity.prev = before
        entity.next = behind
        behind.prev = entity

    def remove(self, entity: Entity) -> None:
        """Take entity out; it must be here."""
        before = entity.prev
        behind = entity.next
        if before is None:
            self.head = behind
        else:
            before.next = behind
            entity.prev = None
        if behind is None:
            self.tail = before
        else:
            behind.prev = before
            entity.next = None

    def first_eligible(self, vtime: i64) -> Entity | None:
        """Return the first entity that has started by vtime."""
        entity = self.head
        while entity is not None and entity.start > vtime:
            entity = entity.next
        return entity

    def min_start(self) -> i64:
        """Return the earliest start; the list must not be empty."""
        entity = self.head
        assert entity is not None
        least = entity.start
        while entity is not None:
            if entity.start < least:
                least = entity.start
            entity = entity.next
        return least


class ServiceTree:
    """Entities of one I/O class in one container: active ones, and idle ones that still weigh in the virtual time."""

    def __init__(self) -> None:
        self.active: EntityList = EntityList()
        self.idle: EntityList = EntityList()
        self.vtime: i64 = 0
        self.wsum: i64 = 0
        """Weights of all entities here that are active, idle or in service."""


class SchedData:
    """One container: the root's, or a group's."""

    def __init__(self, owner: Entity | None, now_jif: i64) -> None:
        self.owner: Entity | None = owner
        """The group's entity; None for the root."""
        self.rt: ServiceTree = ServiceTree()
        self.be: ServiceTree = ServiceTree()
        self.idle: ServiceTree = ServiceTree()
        self.in_service_entity: Entity | None = None
        self.next_in_service: Entity | None = None
        self.idle_class_last_service: i64 = now_jif
        """In jiffies."""
        self.active_entities: i64 = 0
        """Entities in the active trees."""

    def tree_of(self, io_class: i64) -> ServiceTree:
        """Return the tree of an I/O class."""
        if io_class == CLASS_BE:
            return self.be
        return self.rt if io_class == CLASS_RT else self.idle


def delta(service: i64, weight: i64) -> i64:
    """Return how far service (sectors) moves the virtual time at a weight.

    Kernel: bfq_delta(), block/bfq-wf2q.c, v6.12.
    """
    return (service << SERVICE_SHIFT) // weight
