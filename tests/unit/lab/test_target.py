"""--output: refused before the run where it cannot be, and never a lost or half file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from blktwin.errors import BlktwinError, UsageError
from blktwin.lab.target import Target


def entries(place: Path) -> list[str]:
    """Return the names in a directory."""
    return sorted(path.name for path in place.iterdir())


def test_a_new_file_has_the_usual_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        Target(str(tmp_path / "new")).write("text \u00e9 \udcff")
    finally:
        os.umask(before)
    assert (tmp_path / "new").read_bytes() == b"text \xc3\xa9 \xff"
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640
    assert entries(tmp_path) == ["new"]


def test_mode_links_and_the_users_other_files_stay(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    real = tmp_path / "there" / "real"
    real.write_text("old")
    real.chmod(0o604)
    (tmp_path / "link").symlink_to("there/real")
    (tmp_path / "link.partial").write_text("mine")
    target = Target(str(tmp_path / "link"))
    assert real.read_text() == "old"
    target.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (real.read_text(), real.stat().st_mode & 0o777) == ("new", 0o604)
    assert (tmp_path / "link.partial").read_text() == "mine"
    assert entries(tmp_path) == ["link", "link.partial", "there"]
    assert entries(tmp_path / "there") == ["real"]


@pytest.mark.parametrize("link", ["job.fio", "sym", "hard"])
def test_a_job_file_is_refused(link: str, tmp_path: Path) -> None:
    job = tmp_path / "job.fio"
    job.write_text("[j]\n")
    (tmp_path / "sym").symlink_to(job)
    (tmp_path / "hard").hardlink_to(job)
    with pytest.raises(UsageError, match="is read by this run, and would be lost"):
        Target(str(tmp_path / link), ["-", "no-such-file", str(job)])
    assert job.read_text() == "[j]\n"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("no/such/place", "no directory "),
        (".", "is a directory"),
        ("x" * 300, "File name too long"),
        ("loop", "Too many levels of symbolic links"),
        ("a\0b", "null byte"),
        ("file/below", "Not a directory"),
        ("../" * 40 + "proc/nowhere", "No such file"),
    ],
)
def test_what_cannot_be_written_is_seen_before(
    name: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=hint) as caught:
        Target(name)
    assert "\n" not in str(caught.value)
    assert entries(tmp_path) == ["file", "loop"]


def test_a_deleted_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(UsageError, match="--output: out: No such file or directory"):
        Target("out")


def test_a_failed_replacement_leaves_the_old_file_and_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    path = tmp_path / "out"
    path.write_text("old")
    target = Target(str(path))
    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(BlktwinError, match="out: Input/output error"):
        target.write("new")
    assert path.read_text() == "old"
    assert entries(tmp_path) == ["out"]


def test_devices_are_written_to_not_replaced() -> None:
    Target("/dev/null").write("text")
    with pytest.raises(BlktwinError, match="/dev/full: No space left on device"):
        Target("/dev/full").write("text")


def test_a_place_that_takes_no_new_file_still_takes_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    path.write_text("a longer old text")

    def refused(self: Target) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Target, "make_draft", refused)
    Target(str(path)).write("new")
    assert path.read_text() == "new"
    with pytest.raises(UsageError, match="Permission denied"):
        Target(str(tmp_path / "other"))
