"""I/O priorities: class and level packed as the kernel does (class << 13 | level).

Kernel: IOPRIO_PRIO_VALUE(), include/uapi/linux/ioprio.h, v6.12.
"""

from __future__ import annotations

from typing import Final

IOPRIO_CLASS_SHIFT: Final = 13
IOPRIO_CLASS_NONE: Final = 0
IOPRIO_CLASS_RT: Final = 1
IOPRIO_CLASS_BE: Final = 2
IOPRIO_CLASS_IDLE: Final = 3
IOPRIO_BE_NORM: Final = 4


def pack(ioprio_class: int, level: int) -> int:
    """Return the packed priority; class 0..3, level 0 (high) to 7."""
    return (ioprio_class << IOPRIO_CLASS_SHIFT) | level


def class_of(ioprio: int) -> int:
    """Return the class of a packed priority."""
    return ioprio >> IOPRIO_CLASS_SHIFT


def level_of(ioprio: int) -> int:
    """Return the level, 0 (high) to 7, of a packed priority."""
    return ioprio & 7


def effective(ioprio: int, nice: int) -> int:
    """Return the priority that a request gets: a task without one is best effort at its nice level.

    Kernel: get_current_ioprio(), block/ioprio.c, v6.12.
    """
    if class_of(ioprio) != IOPRIO_CLASS_NONE:
        return ioprio
    return pack(IOPRIO_CLASS_BE, (nice + 20) // 5)
