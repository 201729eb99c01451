"""Real fio with the same job file: its null engine, and psync on a loop device over tmpfs.

CPU time is that of fio's own threads, as fio's JSON has it: the loop driver's workers are not counted, to fio's favour.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.product import JOB, Case, Sample

LOOP_BYTES = 256 << 20
LOOP_CTL_GET_FREE = 0x4C82
LOOP_CONFIGURE = 0x4C0A
LO_FLAGS_AUTOCLEAR = 4
TRIES = 8


class LeftOut(Exception):
    """This machine cannot run the comparison; the text says why."""


def fio_path() -> str:
    """Return the path of fio."""
    path = shutil.which("fio")
    if path is None:
        raise LeftOut("fio is not installed")
    return path


def run_fio(case: Case, runtime_ms: int, filename: str) -> Sample:
    """Run the job with real fio."""
    command = [fio_path(), "--output-format=json", "--eta=never", str(JOB)]
    env = {**os.environ, **case.variables(runtime_ms, filename)}
    done = subprocess.run(command, env=env, cwd="/", capture_output=True, text=True)
    if done.returncode != 0:
        raise LeftOut(f"fio failed: {(done.stderr.strip() or done.stdout.strip()).splitlines()[-1]}")
    ios = 0
    cpu_s = 0.0
    longest_ms = 1
    latency_ns = 0.0
    for job in json.loads(done.stdout[done.stdout.index("{") :])["jobs"]:
        write = job["write"]
        ios += write["total_ios"]
        latency_ns += write["clat_ns"]["mean"] * write["total_ios"]
        longest_ms = max(longest_ms, write["runtime"])
        cpu_s += (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1000
    if ios == 0 or cpu_s == 0:
        raise LeftOut("fio did nothing")
    return Sample(ios, cpu_s, ios * 1e3 / longest_ms, latency_ns / ios)


def tmpfs_directory() -> str:
    """Return a directory on tmpfs with room for the file."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, options, *_ = line.split()
        if kind == "tmpfs" and place in ("/dev/shm", "/tmp", "/run") and "ro" not in options.split(","):
            room = os.statvfs(place)
            if room.f_bavail * room.f_frsize > 2 * LOOP_BYTES:
                return place
    raise LeftOut("no tmpfs with room for the loop device's file")


@contextmanager
def loop_device() -> Iterator[str]:
    """Give a loop device of our own over tmpfs.

    The file never has a name and the device is set to clear itself when its last user is gone: when this process ends,
    however it ends, the kernel takes both away.
    """
    with ExitStack() as opened:
        try:
            path = make_loop_device(opened)
        except OSError as error:
            raise LeftOut(f"no loop device could be set up: {error.strerror}") from None
        yield path


def make_loop_device(opened: ExitStack) -> str:
    """Return the path of a new loop device; leaving opened closes all that keeps it alive."""
    if os.geteuid() != 0:
        raise LeftOut("a loop device needs root")
    if not os.path.exists("/dev/loop-control"):
        raise LeftOut("this kernel has no loop driver")
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    opened.callback(os.close, control)
    file = os.open(tmpfs_directory(), os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    opened.callback(os.close, file)
    os.posix_fallocate(file, 0, LOOP_BYTES)
    path, device = attach(control, file)
    opened.callback(os.close, device)
    return path


def attach(control: int, file: int) -> tuple[str, int]:
    """Put file behind a free loop device; return its path and an open descriptor that keeps it alive."""
    # struct loop_config: fd, block size, struct loop_info64 (its flags at 52), 8 reserved words.
    config = bytearray(struct.pack("<II232x64x", file, 512))
    struct.pack_into("<I", config, 8 + 52, LO_FLAGS_AUTOCLEAR)
    for _ in range(TRIES):
        path = f"/dev/loop{fcntl.ioctl(control, LOOP_CTL_GET_FREE)}"
        device = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.ioctl(device, LOOP_CONFIGURE, bytes(config))
        except OSError as error:
            os.close(device)
            if error.errno != errno.EBUSY:
                raise
            continue
        return path, device
    raise LeftOut("others take every free loop device")


def scheduler_of(path: str) -> str:
    """Return the scheduler that a device has now."""
    text = Path("/sys/block", Path(path).name, "queue/scheduler").read_text()
    return text.partition("[")[2].partition("]")[0] or text.strip()
