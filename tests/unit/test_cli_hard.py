"""The command line where the world is hostile: Ctrl-C at any time, closed and full streams, files that must not go."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import blktwin
import blktwin.cli
from blktwin.cli import main
from blktwin.fio.output import render
from blktwin.fio.results import RunResult
from blktwin.fio.unit import FioFile
from blktwin.lab.world import World

JOB = "--name=job --rw=randread --direct=1 --filename=/dev/nvme0n1 --size=64k".split()
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(blktwin.__file__).parents[1]), "NO_COLOR": "1"}
INTERRUPTED_IMPORT = """
import os, signal, sys
class Hook:
    def find_spec(self, name, path=None, target=None):
        if name == "blktwin.lab.world":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Hook())
from blktwin.__main__ import main
sys.exit(main())
"""


def shell(redirection: str, *args: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command with redirections."""
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-m", "blktwin", *args]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False, env=ENVIRONMENT)


def test_ctrl_c_in_an_import_is_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT], capture_output=True, text=True, check=False, env=ENVIRONMENT
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "blktwin: interrupted\n")


def test_ctrl_c_while_thousands_of_clones_are_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[int] = []
    real = World.open_file

    def open_file(self: World, spec: object, index: int) -> FioFile:
        opened.append(index)
        if len(opened) == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return real(self, spec, index)  # type: ignore[arg-type]

    monkeypatch.setattr(World, "open_file", open_file)
    assert main(["run", *JOB, "--numjobs=3000"]) == 130
    assert len(opened) < 10
    assert capsys.readouterr() == ("", "blktwin: interrupted\n")


def test_ctrl_c_after_the_run_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def interrupted(result: RunResult, formats: list[str], version: int) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return render(result, formats, version)

    monkeypatch.setattr(blktwin.cli, "render", interrupted)
    assert main(["run", *JOB, f"--output={tmp_path}/out", "--output-format=json"]) == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("blktwin: interrupted: the results are those of the whole run, which had ended\n")
    document = json.loads((tmp_path / "out").read_text())
    assert document["jobs"][0]["read"]["total_ios"] == 16
    assert not document["blktwin"]["partial"]


def test_a_second_ctrl_c_ends_it_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def interrupted(*_: object) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("went on")

    monkeypatch.setattr(blktwin.cli, "render", interrupted)
    assert main(["run", *JOB, f"--output={tmp_path}/out"]) == 130
    assert capsys.readouterr().err == "blktwin: interrupted\n"
    assert list(tmp_path.iterdir()) == []


def test_partial_terse_results_are_marked_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def begin(self: World) -> list[str]:
        os.kill(os.getpid(), signal.SIGINT)
        return []

    monkeypatch.setattr(World, "describe", begin)
    assert main(["run", "--yes", "--output-format=terse", *JOB[:-1]]) == 130
    out, err = capsys.readouterr()
    assert out.startswith("3;")
    assert err == "blktwin: interrupted: the results are those until then\n"


ALL = [["profiles"], ["--help"], ["run", "--help"], ["--version"], ["run", "--showcmd", "-"], ["run", *JOB]]


@pytest.mark.parametrize("args", ALL, ids=" ".join)
@pytest.mark.parametrize(
    ("redirection", "hint"), [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")]
)
def test_an_output_that_takes_nothing_is_one_line(redirection: str, hint: str, args: list[str]) -> None:
    done = shell(redirection, *args, text="[j]\nrw=read\n")
    lines = [line for line in done.stderr.splitlines() if "by its name" not in line]
    assert (done.returncode, lines) == (1, [f"blktwin: standard output: {hint}"])


def test_a_closed_output_does_not_matter_to_a_run_with_a_file(tmp_path: Path) -> None:
    done = shell(">&-", "run", *JOB, f"--output={tmp_path}/out")
    assert done.returncode == 0, done.stderr
    assert "issued rwts: total=16" in (tmp_path / "out").read_text()


def test_a_closed_standard_input() -> None:
    done = shell("<&-", "run", "-")
    want = "blktwin: -: cannot read the job file: standard input is closed\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", want)


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "2>&- <&-"])
def test_a_lost_standard_error_changes_nothing_else(redirection: str) -> None:
    done = shell(redirection, "run", *JOB)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("job: (g=0)")
    wrong = shell(redirection, "run", "--seed=x", *JOB)
    assert (wrong.returncode, wrong.stdout) == (2, "")


def test_what_a_run_reads_is_never_the_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "more.fio").write_text("size=64k\n")
    job = tmp_path / "job.fio"
    job.write_text("[j]\nrw=read\ndirect=1\nfilename=/dev/sda\ninclude more.fio\n")
    groups = tmp_path / "groups.toml"
    groups.write_text("")
    for path in (job, tmp_path / "more.fio", groups):
        before = path.read_text()
        assert main(["run", str(job), f"--cgroups={groups}", f"--output={path}"]) == 2
        assert "is read by this run, and would be lost" in capsys.readouterr().err
        assert path.read_text() == before


def test_names_that_are_no_text_pass_through(tmp_path: Path) -> None:
    words = [*JOB[1:], f"--output={tmp_path}/out"]
    done = shell("", "run", "--name=\udcff\udcfe", *words)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out").read_bytes().startswith(b"\xff\xfe: (g=0)")


WRONG = [
    (["--device=/dev/sda", "--device=/dev/sda=hdd"], "--device /dev/sda: given twice"),
    (["--name=j2", "--direct=1", "--filename=/dev/sdb,size=1g"], "/dev/sdb,size=1g is not the name of a disk"),
    (["--name=j2", "--direct=1", "--filename=/dev/sdb=hdd"], "/dev/sdb=hdd is not the name of a disk"),
    (["--runtime=99999999999d"], "--runtime: longer than ten years"),
    (["--cgroups=/dev/zero"], "/dev/zero: more than 16 MiB"),
    (["--section=jib"], "no job section 'jib'; did you mean job?"),
    (["--device=/dev/sda=nvme,read=999999999999999999s"], "read: '999999999999999999s' is out of range"),
    (["--device=/dev/sda=nvme,read=normal(1us,999999999999s)"], "read: 'normal(1us,999999999999s)' is out of range"),
    (["--device=/dev/sda=nvme,read=lognormal(9999999s,3)"], "is out of range"),
    (["--device=/dev/sda=x\n\x1b[31m"], "no profile 'x\\n\\x1b[31m'"),
    (["--name=j2", "--direct=1", "--number_ios=1000000000", "--filename=/dev/sda"], "nothing limits the run: about"),
]


@pytest.mark.parametrize(("args", "hint"), WRONG, ids=[hint[:30] for _, hint in WRONG])
def test_one_clear_line(args: list[str], hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*JOB, *args] if args[0].startswith("--name") else [*args, *JOB]
    assert main(["run", *words]) in (1, 2)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("blktwin: ")
    assert err.count("\n") == 1
    assert hint in err


def test_two_schedulers_for_one_device_name_both_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = tmp_path / "j.fio"
    common = "rw=read\ndirect=1\nsize=64k\nfilename=/dev/sda\n"
    job.write_text(f"[a]\n{common}ioscheduler=none\n[b]\n{common}ioscheduler=mq-deadline\n")
    assert main(["run", str(job)]) == 1
    err = capsys.readouterr().err
    assert f"{job}:7: b: ioscheduler: /dev/sda has one scheduler: mq-deadline here, but none for a ({job}:1)" in err
    assert main(["run", "--scheduler=none", str(job)]) == 0
