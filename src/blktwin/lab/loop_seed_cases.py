"""What else was reported of NOWAIT first and of buffered loop devices, as runs: regressions, tails, orders, ratios."""

from __future__ import annotations

from dataclasses import dataclass

from blktwin.drivers.loop.reasons import REASON_EAGAIN_ASYNC, REASON_EAGAIN_SYNC, REASON_HINT_SKIP
from blktwin.fio.hist import LatencyStat
from blktwin.fio.results import RunResult
from blktwin.lab.bfq_runs import spread
from blktwin.lab.loop_seed import STACK, example, loop_driver, run_said, run_variant, window
from blktwin.lab.stack_file import load_stack
from blktwin.units import MIB, NSEC_PER_MSEC, NSEC_PER_USEC

SPARSE_STACK = "loop-sparse.toml"
HOME_STACK = "loop-home.toml"
CHECKPOINT_STACK = "loop-checkpoint.toml"
BUILD_STACK = "loop-build.toml"
SPARSE_MS = 150
TAIL_MS = 200

# -- case 9: writes to a sparse image


@dataclass(slots=True)
class SparseRow:
    """IOPS of one pattern: one worker, NOWAIT first without the hint and with it."""

    rw: str
    worker: float
    without: float
    hinted: float

    @property
    def loss(self) -> float:
        """What is lost without the hint, as a fraction below 0."""
        return self.without / self.worker - 1

    @property
    def loss_with_hint(self) -> float:
        """The same with it."""
        return self.hinted / self.worker - 1


def sparse_iops(variant: str) -> float:
    """Return the IOPS of a variant of the sparse scenario."""
    _, result = run_variant(SPARSE_STACK, variant, run_ms=SPARSE_MS)
    return sum(window(result)) * 256


def sparse_rows(workers: int = 1) -> list[SparseRow]:
    """Return both patterns."""
    names = ("workqueue", "nowait without hint", "nowait with hint")
    patterns = ("randwrite", "write")
    iops = spread(sparse_iops, [f"{rw} {name}" for rw in patterns for name in names], workers)
    return [SparseRow(rw, *iops[3 * at : 3 * at + 3]) for at, rw in enumerate(patterns)]


# -- case 10: reads beside allocating writes


@dataclass(slots=True)
class TailRow:
    """Reads of the report's 12 psync jobs: how wide their latency is, and how many requests could not go inline."""

    policy: str
    image: str
    p50_us: float
    p99_us: float
    eagain: float
    """The share of all requests that were tried and refused."""
    skipped: float
    """The share that the hint sent to the worker untried."""

    @property
    def width(self) -> float:
        """p99 over p50."""
        return self.p99_us / self.p50_us


def tail_row(what: tuple[str, bool]) -> TailRow:
    """Run one policy on a mapped or a sparse image."""
    variant, is_sparse = what
    said = load_stack(example(STACK)).read(variant)
    for file in said.files.values():
        file.params.is_sparse = is_sparse
    world, result = run_said(said, run_ms=TAIL_MS)
    p50, p99 = read_percentiles(result, [50.0, 99.0])
    driver = loop_driver(world)
    assert driver is not None
    queued = [int(n) for n in driver.nr_queued]
    total = int(driver.nr_inline) + sum(queued)
    return TailRow(
        policy=variant.removeprefix("psync "),
        image="sparse" if is_sparse else "mapped",
        p50_us=p50 / NSEC_PER_USEC,
        p99_us=p99 / NSEC_PER_USEC,
        eagain=(queued[REASON_EAGAIN_SYNC] + queued[REASON_EAGAIN_ASYNC]) / total,
        skipped=queued[REASON_HINT_SKIP] / total,
    )


def tail_rows(workers: int = 1) -> list[TailRow]:
    """Return both policies on both images."""
    policies = ("psync loop", "psync nowait")
    return spread(tail_row, [(policy, is_sparse) for policy in policies for is_sparse in (False, True)], workers)


def read_percentiles(result: RunResult, wanted: list[float]) -> list[int]:
    """Return percentiles (ns) of all jobs' reads together."""
    total = LatencyStat(True)
    for job in result.jobs:
        total.merge(job.stat.directions[0].clat)
    return total.percentiles(wanted)


# -- cases 27 and 28: buffered against direct I/O


@dataclass(slots=True)
class BufferedRow:
    """One figure of a buffered loop device and of one with direct I/O; faster: how much better direct I/O is."""

    what: str
    reported: str
    unit: str
    buffered: float
    direct: float
    is_time: bool

    @property
    def faster(self) -> float:
        """The ratio of the two, above 1 where direct I/O is better."""
        return self.buffered / self.direct if self.is_time else self.direct / self.buffered


def home_mb_s(variant: str) -> float:
    """Return the MB/s read from a home directory's image."""
    _, result = run_variant(HOME_STACK, variant, run_ms=SPARSE_MS)
    return window(result)[0] * MIB / 1e6


def checkpoint_ms(variant: str) -> float:
    """Return how long the checkpoint takes."""
    _, result = run_variant(CHECKPOINT_STACK, variant, run_ms=0)
    return job_ms(result, "checkpoint")


def build_ms(variant: str) -> float:
    """Return how long the build takes."""
    _, result = run_variant(BUILD_STACK, variant, run_ms=0)
    return job_ms(result, "job")


def job_ms(result: RunResult, name: str) -> float:
    """Return how long a job ran, the last sync included."""
    stat = next(job.stat for job in result.jobs if job.spec.name == name)
    return float(stat.end_ns - stat.epoch_ns) / NSEC_PER_MSEC


def buffered_rows(workers: int = 1) -> list[BufferedRow]:
    """Return the three reports."""
    home = spread(home_mb_s, ("buffered", "direct"), workers)
    checkpoint = spread(checkpoint_ms, ("buffered", "direct"), workers)
    build = spread(build_ms, ("buffered", "direct"), workers)
    return [
        BufferedRow("a home directory's image is read", "150-250, more than 1000", "MB/s", home[0], home[1], False),
        BufferedRow("a checkpoint beside fio", "305, 62.6", "ms", checkpoint[0], checkpoint[1], True),
        BufferedRow("an image is built in order", "no visible effect", "ms", build[0], build[1], True),
    ]
