"""What a kernel's bug that is switched on breaks, told as such: with kernel-compat a broken rule is no bug of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from blktwin.errors import BlktwinError, ConfigError, LoopViolation
from blktwin.lab.stack_said import LoopSpec
from blktwin.lab.toml_values import place_text_of

REPORT = " (please report this)"
NAMES_MAX = 3


@contextmanager
def defects_told(loops: dict[str, LoopSpec]) -> Iterator[None]:
    """Make a LoopViolation of an assertion, a halt or lost I/O, if a loop device has kernel-compat switches on."""
    try:
        yield
    except (ConfigError, LoopViolation):
        raise
    except (AssertionError, BlktwinError) as error:
        switches = [text for text in map(switches_of, loops.values()) if text]
        if not switches:
            raise
        text = str(error).replace(REPORT, "") or "a rule of the block layer is broken"
        raise LoopViolation(f"{text}, with {', '.join(switches)}") from error


def switches_of(spec: LoopSpec) -> str:
    """Return the switches of a device that are on, and where they stand; "" for none."""
    names = [name.replace("_", "-") for name in spec.config.compat.enabled()]
    if not names:
        return ""
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return f"kernel-compat {', '.join(names[:NAMES_MAX])}{more} of {spec.name} ({place_text_of(spec.at)})"
