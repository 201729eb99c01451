"""One job on real fio and on the model, and the counts that both must agree on."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oracles import require_fio

from blktwin.fio import jobfile
from blktwin.fio.output import render
from blktwin.fio.results import RunResult
from blktwin.lab.run import simulate
from blktwin.lab.stack import Stack
from blktwin.sim.devices.spec import parse_device

DISK = "/dev/nullb0=null,latency=300us,depth=128,size=10g"
"""Where the model lays out regular files: slow enough that a submitter is always ahead."""

Json = dict[str, Any]


def fio_json(words: Sequence[str], where: Path, *, code: int = 0) -> Json:
    """Run real fio in a directory; its stderr and its notes on stdout are dropped."""
    command = [require_fio(), *words, "--output-format=json", "--output=fio.json"]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr + done.stdout
    text = (where / "fio.json").read_text()
    document: Json = json.loads(text[text.index("{") :])
    return document


def model_result(words: Sequence[str], device: str = DISK, **stack: Any) -> RunResult:
    """Run the same words on the model."""
    plan = jobfile.load([], list(words), env={})
    return simulate(plan, Stack(devices=[parse_device(device)], **stack))


def model_json(words: Sequence[str], device: str = DISK, **stack: Any) -> Json:
    """Run the same words on the model; the result as fio's JSON."""
    document: Json = json.loads(render(model_result(words, device, **stack), ["json"]))
    return document


def in_one_run(jobs: Sequence[str], common: str) -> list[str]:
    """Return the words of one run with a section for each job; each has a file of its own by fio's naming."""
    words = ["--name=global", *common.split()]
    for at, job in enumerate(jobs):
        words += [f"--name=job{at}", *job.split()]
    return words


def pairs(jobs: Sequence[str], common: str, where: Path) -> list[tuple[str, Json, Json]]:
    """Run all jobs at once, on fio and on the model: starting fio takes longer than most jobs."""
    words = in_one_run(jobs, common)
    model = model_json(words)["jobs"]
    return list(zip(jobs, model, fio_json(words, where)["jobs"], strict=True))


def counts(job: Json) -> dict[str, object]:
    """Return what a job of the JSON has counted: I/Os, bytes, syncs, errors."""
    return {
        "error": job["error"],
        "sync": job["sync"]["total_ios"],
        **{d: (job[d]["total_ios"], job[d]["io_bytes"]) for d in ("read", "write", "trim")},
    }


def maps(job: Json) -> dict[str, dict[str, float]]:
    """Return the three depth distributions of a job, without their zeros."""
    names = ("iodepth_level", "iodepth_submit", "iodepth_complete")
    return {name: {key: share for key, share in job[name].items() if share} for name in names}
