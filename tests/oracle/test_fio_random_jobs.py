"""Random jobs, many at once, on real fio and on the model: each does as many I/Os, bytes and syncs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from fio_pair import counts, fio_json, in_one_run, model_json

pytestmark = pytest.mark.oracle

ENGINES = ("null", "null", "psync", "sync", "pvsync2", "libaio", "io_uring", "posixaio")
PATTERNS = ("read", "write", "randread", "randwrite", "rw", "randrw")
TRIMS = ("trim", "randtrim", "trimwrite", "randtrimwrite")
SIZES = ("--bs=4k", "--bs=8k", "--bs=4k,8k", "--bsrange=4k-16k", "--bssplit=4k/30:8k/70",
         "--bssplit=4k/50:16k/50,8k/100", "--bs=12k", "--bsrange=512-2k")  # fmt: skip
EXTRAS = (
    "--number_ios=7",
    "--number_ios=38",
    "--io_size=40k",
    "--io_size=300k",
    "--loops=2",
    "--loops=3",
    "--norandommap",
    "--randseed=42",
    "--rwmixread=10",
    "--rwmixread=70",
    "--offset=8k",
    "--percentage_random=30",
    "--random_distribution=zipf:1.1",
    "--random_distribution=pareto:0.3",
    "--random_distribution=normal:10",
    "--random_distribution=zoned:50/10:50/90",
    "--softrandommap=1",
    "--allrandrepeat=1",
    "--end_fsync=1",
    "--rw_sequencer=identical",
)


def random_job(rng: random.Random) -> str:
    """Draw a job."""
    engine = rng.choice(ENGINES)
    words = [f"--ioengine={engine}"]
    if engine in ("libaio", "io_uring", "posixaio", "null"):
        words.append(f"--iodepth={rng.choice((1, 1, 2, 3, 8, 16))}")
        words += rng.sample(
            [f"--iodepth_batch={rng.randint(1, 8)}", f"--iodepth_batch_complete_min={rng.randint(0, 4)}"], 1
        )
    pattern = rng.choice(PATTERNS + TRIMS if engine == "null" else PATTERNS)
    if rng.random() < 0.2:
        pattern += rng.choice((":2", ":5")) if pattern.startswith("rand") else ":8k"
    words += [f"--rw={pattern}", rng.choice(SIZES), f"--size={rng.choice(('64k', '96k', '128k', '256k'))}"]
    words += rng.sample(EXTRAS, rng.randint(0, 4))
    # How often a queued sync is repeated depends on the disk, and so does libaio's last_was_sync.
    if engine in ("null", "psync", "sync", "pvsync2") and "read" != pattern[-4:]:
        words += rng.sample(["--fsync=1", "--fsync=3", "--fdatasync=4"], rng.randint(0, 1))
    if engine == "null":
        words += rng.sample(["--bs_unaligned"], rng.randint(0, 1))
    else:
        words.append("--direct=1")
    return " ".join(words)


def compare(seed: int, where: Path) -> None:
    """Run 100 jobs."""
    rng = random.Random(seed)
    jobs = [random_job(rng) for _ in range(100)]
    words = in_one_run(jobs, "--filename_format=f.$jobname")
    model = model_json(words)["jobs"]
    real = fio_json(words, where)["jobs"]
    different = {
        job: (counts(ours), counts(theirs))
        for job, ours, theirs in zip(jobs, model, real, strict=True)
        if counts(ours) != counts(theirs)
    }
    assert different == {}


def test_a_hundred_jobs(tmp_path: Path) -> None:
    compare(1, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 22))
def test_thousands_of_jobs(seed: int, tmp_path: Path) -> None:
    compare(seed, tmp_path)
