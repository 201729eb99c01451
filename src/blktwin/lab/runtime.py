"""A runtime given from outside the jobs: --runtime, or a stack file's."""

from __future__ import annotations

from blktwin.errors import ConfigError, UsageError
from blktwin.fio.build import IDLE_TIME_BASED, TIME_MAX_NS
from blktwin.fio.spec import JobPlan
from blktwin.fio.values import read_time_us
from blktwin.units import NSEC_PER_USEC


def runtime_ns(text: str) -> int:
    """Return the ns of a runtime as fio writes it; ConfigError without a place."""
    us, rest = read_time_us(text, 1_000_000)
    if rest or us <= 0:
        raise ConfigError(f"'{text}' is not a time above 0, such as 12s or 500ms")
    if us * NSEC_PER_USEC > TIME_MAX_NS:
        raise ConfigError("longer than ten years")
    return us * NSEC_PER_USEC


def apply_runtime(plan: JobPlan, text: str) -> None:
    """Give every job the runtime of the command line; "" leaves them as they are."""
    if not text:
        return
    try:
        ns = runtime_ns(text)
    except ConfigError as error:
        raise UsageError(error.message, key="--runtime") from None
    for job in plan.jobs:
        job.runtime_ns = ns
        job.time_based = job.time_based or job.asks_time_based
    plan.notes = [note for note in plan.notes if not note.endswith(IDLE_TIME_BASED)]
