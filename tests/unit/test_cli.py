"""The command line as a process: exit codes, what goes where, hints, signals, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import blktwin
from blktwin.cli import main

JOB = "--name=job --rw=randread --direct=1 --filename=/dev/nvme0n1 --size=64k".split()
ENDLESS = "--name=job --rw=randread --direct=1 --filename=/dev/nvme0n1".split()
FILE = "--name=file --rw=read --direct=1 --filename=x --size=64k --mem=malloc".split()
ROOT = Path(__file__).parents[2]


def blktwin_cli(*args: str, cwd: Path | None = None, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command."""
    command = [sys.executable, "-m", "blktwin", *args]
    return subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=60, check=False, cwd=cwd or ROOT, env=environment()
    )


def popen(*args: str) -> subprocess.Popen[str]:
    """Start the command."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "blktwin", *args]
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment())


def environment() -> dict[str, str]:
    """Return the environment of the tests, with the same blktwin in any directory."""
    place = str(Path(blktwin.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": place, "NO_COLOR": "1", "COLUMNS": "100"}


def test_a_run_prints_its_result_and_nothing_else() -> None:
    done = blktwin_cli("run", *JOB)
    assert done.returncode == 0
    assert done.stdout.startswith("job: (g=0): rw=randread")
    assert "issued rwts: total=16,0,0,0" in done.stdout
    assert done.stderr == "blktwin: /dev/nvme0n1: nvme by its name, none, rules 6.12\n"


def test_json_is_one_document_whatever_is_noted(tmp_path: Path) -> None:
    done = blktwin_cli("run", "--output-format=json", *JOB, *FILE, cwd=tmp_path)
    assert done.returncode == 0
    assert [job["jobname"] for job in json.loads(done.stdout)["jobs"]] == ["job", "file"]
    assert all(line.startswith("blktwin: ") for line in done.stderr.splitlines())
    assert "mem" in done.stderr
    assert "no file system is modelled" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_alone_it_prints_help_and_fails() -> None:
    done = blktwin_cli()
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: blktwin COMMAND" in done.stderr


@pytest.mark.parametrize("args", [["--help"], ["run", "--help"]])
def test_help(args: list[str]) -> None:
    done = blktwin_cli(*args)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: blktwin" in done.stdout
    assert "--empty" not in done.stdout
    assert '""' not in done.stdout


def test_version_and_profiles() -> None:
    assert blktwin_cli("--version").stdout.strip() == blktwin.__version__
    listed = blktwin_cli("profiles")
    assert listed.returncode == 0
    assert "seed2-nvme" in listed.stdout
    assert "server" in listed.stdout


WRONG = [
    (2, ["rnu"], "run"),
    (2, ["run"], "no job"),
    (2, ["run", "--schedular=none", *JOB], "--scheduler"),
    (2, ["run", "--naem=x"], "--name"),
    (2, ["run", "--seed=x", *JOB], "--seed"),
    (2, ["run", "--rules=6.2", *JOB], "6.12"),
    (2, ["run", "--scheduler=mq-dedline", *JOB], "mq-deadline"),
    (2, ["run", "--scheduler=kyber", *JOB], "not modelled yet"),
    (2, ["run", "--host=servr", *JOB], "server"),
    (2, ["run", "--cpus=-1", *JOB], "out of range"),
    (2, ["run", "--cgroup=a", *JOB], "absolute"),
    (2, ["run", "--eta=often", *JOB], "auto"),
    (2, ["run", "--runtime=soon", *JOB], "--runtime"),
    (2, ["run", "--output-format=jsn", *JOB], "json"),
    (2, ["run", "--terse-version=9", *JOB], "terse"),
    (2, ["run", "--device=/dev/sda=nvmee", *JOB], "nvme"),
    (2, ["run", "--device=/dev/sda=nvme,sise=4g", *JOB], "size"),
    (2, ["run", "--set=fifo_batch=3", *JOB], "iosched"),
    (2, ["run", "--scheduler=mq-deadline", "--set=iosched.fifo_btch=3", *JOB], "fifo_batch"),
    (2, ["run", "--scheduler=mq-deadline", "--set=iosched.fifo_batch=x", *JOB], "whole number"),
    (2, ["run", "--scheduler=none", "--set=iosched.fifo_batch=3", *JOB], "none has no tunables"),
    (2, ["run", "--set=sda.iosched.fifo_batch=3", *JOB], "no device 'sda'"),
    (2, ["run", "--output=/no/such/place", *JOB], "no directory"),
    (2, ["run", "--output=/", *JOB], "is a directory"),
    (1, ["run", "--output=/dev/full", *JOB], "No space left"),
    (1, ["run", "no-such-file.fio"], "no-such-file.fio"),
    (1, ["run", *JOB, "--rw=randraed"], "randraed"),
    (1, ["run", *JOB, "--ioengine=libaoi"], "libaio"),
    (1, ["run", *ENDLESS], "simulated I/Os"),
    (1, ["run", *JOB, "--offset=2t"], "beyond the end"),
    (77, ["run", "--on=vm:6.1", *JOB], "not there yet"),
]


@pytest.mark.parametrize(("code", "args", "hint"), WRONG, ids=[" ".join(args)[:40] for _, args, _ in WRONG])
def test_wrong_use_is_one_line_on_stderr(
    code: int, args: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("blktwin: ")
    assert err.count("\n") == 1
    assert hint in err


def test_a_job_from_standard_input() -> None:
    done = blktwin_cli("run", "-", text="[piped]\nrw=read\ndirect=1\nfilename=/dev/sda\nsize=64k\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("piped: ")


def test_words_after_the_first_name_are_the_jobs() -> None:
    """--runtime before --name is ours and limits every job; after it, it is fio's."""
    ours = json.loads(blktwin_cli("run", "--runtime=1ms", "--output-format=json", *ENDLESS).stdout)
    fios = json.loads(blktwin_cli("run", "--output-format=json", *ENDLESS, "--runtime=1ms").stdout)
    assert "runtime" not in ours["jobs"][0]["job options"]
    assert fios["jobs"][0]["job options"]["runtime"] == "1ms"
    assert ours["jobs"][0]["read"] == fios["jobs"][0]["read"]


def test_options_with_separate_values_do_not_swallow_the_job_file(tmp_path: Path) -> None:
    (tmp_path / "a.fio").write_text("[a]\nrw=read\ndirect=1\nfilename=/dev/sdb\nsize=64k\n")
    args = ["run", "--device", "/dev/sda=hdd", "--device", "/dev/sdb=nvme", "--set", "sdb.iosched.fifo_batch=4"]
    done = blktwin_cli(*args, "--scheduler", "mq-deadline", "--output", "out.txt", "a.fio", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert (tmp_path / "out.txt").read_text().startswith("a: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.fio", "out.txt"]


def test_a_failed_write_keeps_the_old_result(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")
    command = ["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", sys.executable, "-m", "blktwin", "run", *JOB]
    command += ["--output-format=json+", f"--output={target}"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 1, done.stderr
    assert done.stderr == f"blktwin: {target}: File too large\n"
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_devices_of_several_kinds_in_one_run() -> None:
    args = ["run", "--device=/dev/sda=hdd", "--device=/dev/nvme0n1=nvme", "--cpus=3", "--host=tcg-6.1"]
    words = [
        "--name=all",
        "--rw=randread",
        "--direct=1",
        "--size=1m",
        "--number_ios=20",
        "--filename=/dev/sda:/dev/nvme0n1",
    ]
    done = blktwin_cli(*args, "--output-format=json", *words, "--name=one", *words[1:-1], "--filename=/dev/sda")
    document = json.loads(done.stdout)
    stack = document["blktwin"]["stack"]
    assert (stack["cpus"], stack["host"]) == (3, "tcg-6.1")
    assert {path: one["profile"] for path, one in stack["devices"].items()} == {
        "/dev/sda": "hdd",
        "/dev/nvme0n1": "nvme",
    }
    assert [disk["read_ios"] for disk in document["disk_util"]] == [30, 10]


def test_ctrl_c_prints_what_is_known(tmp_path: Path) -> None:
    fifo = tmp_path / "endless.fio"
    os.mkfifo(fifo)
    with popen("run", "--yes", "--output-format=json", str(fifo)) as process:
        # Opens when the other side does: the program runs by then.
        fifo.write_text("[job]\nrw=randread\ndirect=1\nfilename=/dev/nvme0n1\n")
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    document = json.loads(out)
    assert document["blktwin"]["partial"] is True
    assert document["jobs"][0]["read"]["total_ios"] > 0
    assert "Traceback" not in err


def test_a_closed_pipe_is_no_traceback() -> None:
    with popen("run", *JOB) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        err = process.stderr.read()
        process.wait(timeout=30)
    assert process.returncode == 1
    assert err == ""


def test_what_nobody_foresaw_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OverflowError("int too large")

    monkeypatch.delenv("BLKTWIN_TRACEBACK", raising=False)
    monkeypatch.setattr("blktwin.cli.simulate", broken)
    assert main(["run", *JOB]) == 1
    err = capsys.readouterr().err
    assert err.startswith("blktwin: internal error: OverflowError int too large (please report it")
    assert err.count("\n") == 1
