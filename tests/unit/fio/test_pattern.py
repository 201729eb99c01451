"""What a thread does next, by hand (that it is what fio does: oracle/test_fio_offsets)."""

from __future__ import annotations

import pytest

from blktwin.fio import jobfile
from blktwin.fio.ddir import DATASYNC, READ, SYNC, TRIM, WRITE
from blktwin.fio.pattern import NEXT_END, NEXT_IO, NEXT_SYNC, IoPattern
from blktwin.fio.unit import FioFile, IoUnit
from blktwin.lab.run import prepare
from blktwin.lab.stack import Stack

KIB = 1024


def pattern(words: str, *files: FioFile, number: int = 1, entropy: int = 0) -> IoPattern:
    """Return the pattern of a null-engine job over files of 64 KiB."""
    [spec] = jobfile.load([], ["--name=job", "--ioengine=null", "--bs=4k", "--size=64k", *words.split()], env={}).jobs
    return IoPattern(spec, list(files) or [FioFile("a", None, 64 * KIB, 0, 64 * KIB)], number, entropy)


def unit() -> IoUnit:
    """Return a unit of some thread."""
    world, _ = prepare(jobfile.load([], ["--name=t", "--ioengine=null", "--size=4k"], env={}), Stack())
    thread = world.threads[0]
    return IoUnit(thread, thread.pattern.files[0])


def draws(made: IoPattern, limit: int = 10_000) -> list[tuple[str, int, int, int]]:
    """Return (file, direction, offset, bytes) until the pass ends; a sync counts as done at once."""
    one = unit()
    rows = []
    for _ in range(limit):
        what = made.next(one)
        if what == NEXT_END:
            break
        if what == NEXT_SYNC:
            rows.append((made.file.name, int(made.sync_ddir), 0, 0))
            made.last_was_sync = True
        else:
            rows.append((one.file.name, int(one.ddir), int(one.offset), int(one.nbytes)))
            made.last_was_sync = False
    return rows


def test_sequential_reads_cover_the_file_in_order() -> None:
    assert draws(pattern("--rw=read")) == [("a", READ, at * 4096, 4096) for at in range(16)]


def test_random_writes_visit_every_block_once() -> None:
    rows = draws(pattern("--rw=randwrite"))
    assert sorted(offset for _, _, offset, _ in rows) == [at * 4096 for at in range(16)]
    assert [offset for _, _, offset, _ in rows] != sorted(offset for _, _, offset, _ in rows)


def test_without_a_map_blocks_repeat() -> None:
    made = pattern("--rw=randread --norandommap")
    offsets = [offset for _, _, offset, _ in draws(made, 200)]
    assert len(offsets) == 200
    assert len(set(offsets)) == 16


def test_a_timed_job_starts_over() -> None:
    assert len(draws(pattern("--rw=randread --time_based --runtime=1"), 50)) == 50
    assert [offset for _, _, offset, _ in draws(pattern("--rw=read --time_based --runtime=1"), 18)][-2:] == [0, 4096]


def test_a_restart_repeats_the_draws() -> None:
    made = pattern("--rw=randrw --bsrange=4k-8k")
    first = draws(made)
    made.restart()
    assert draws(made) == first


def test_threads_and_seeds_differ() -> None:
    one = draws(pattern("--rw=randread"))
    assert draws(pattern("--rw=randread", number=2)) != one
    free = "--rw=randread --randrepeat=0"
    assert draws(pattern(free, entropy=1)) == draws(pattern(free, entropy=1)) != draws(pattern(free, entropy=2))


def test_files_take_turns_and_a_done_file_is_left_out() -> None:
    files = [FioFile("a", None, 8 * KIB, 0, 8 * KIB), FioFile("b", None, 16 * KIB, 0, 16 * KIB)]
    assert [name for name, *_ in draws(pattern("--rw=read", *files))] == ["a", "b", "a", "b", "b", "b"]


def test_a_sync_takes_its_files_turn() -> None:
    files = [FioFile(name, None, 8 * KIB, 0, 8 * KIB) for name in "ab"]
    rows = [(name, ddir) for name, ddir, _, _ in draws(pattern("--rw=write --fsync=2", *files))]
    assert rows == [("a", WRITE), ("b", WRITE), ("a", SYNC), ("b", WRITE), ("a", WRITE), ("b", SYNC)]


def test_fsync_goes_before_fdatasync() -> None:
    rows = [ddir for _, ddir, _, _ in draws(pattern("--rw=write --fsync=4 --fdatasync=2 --size=32k"), 12)]
    assert rows[:7] == [WRITE, WRITE, DATASYNC, WRITE, WRITE, SYNC, WRITE]


def test_a_sync_is_due_until_it_is_told_to_be_done() -> None:
    made = pattern("--rw=write --fsync=1")
    one = unit()
    assert made.next(one) == NEXT_IO
    assert [made.next(one), made.next(one)] == [NEXT_SYNC, NEXT_SYNC]
    made.last_was_sync = True
    assert made.next(one) == NEXT_IO


def test_each_trim_is_followed_by_its_write() -> None:
    for words in ("--rw=trimwrite", "--rw=randtrimwrite"):
        rows = draws(pattern(words), 16)
        assert [ddir for _, ddir, _, _ in rows] == [TRIM, WRITE] * 8
        assert [row[2:] for row in rows[::2]] == [row[2:] for row in rows[1::2]]


@pytest.mark.parametrize("words", ["--bsrange=4k-16k", "--bssplit=4k/40:8k/60", "--bs_unaligned --bsrange=1k-9k"])
def test_lengths_stay_inside(words: str) -> None:
    rows = draws(pattern(f"--rw=randread {words}"))
    assert all(offset + nbytes <= 64 * KIB for _, _, offset, nbytes in rows)
    lengths = {nbytes for *_, nbytes in rows}
    assert len(lengths) > 1
    if "unaligned" not in words:
        assert all(nbytes % 4096 == 0 for nbytes in lengths)


def test_mixes_keep_their_share() -> None:
    big = FioFile("a", None, 64 << 20, 0, 64 << 20)
    ddirs = [ddir for _, ddir, _, _ in draws(pattern("--rw=randrw --rwmixread=80", big), 2000)]
    assert ddirs.count(READ) / 2000 == pytest.approx(0.8, abs=0.04)


def test_backwards_reads() -> None:
    offsets = [offset for _, _, offset, _ in draws(pattern("--rw=read:-8k"), 5)]
    assert offsets == [0, 56 * KIB, 52 * KIB, 48 * KIB, 44 * KIB]


def test_sequences_of_random_reads() -> None:
    """rw=randread:4 draws a place for every fourth I/O; the others follow it."""
    offsets = [offset for _, _, offset, _ in draws(pattern("--rw=randread:4 --norandommap"), 40)]
    follow = sum(b == a + 4096 for a, b in zip(offsets, offsets[1:], strict=False))
    assert follow >= 25


def test_a_split_of_which_only_a_share_of_zero_fits_ends() -> None:
    """fio 3.33 draws for ever here."""
    region = FioFile("a", None, 68 * KIB, 0, 68 * KIB)
    assert draws(pattern("--rw=read --bssplit=64k/100:4k/0", region)) == [("a", READ, 0, 64 * KIB)]


def test_lengths_above_2_gib_are_drawn_too() -> None:
    region = FioFile("a", None, KIB**3, 0, KIB**3)
    rows = draws(pattern("--rw=read --bsrange=4k-4g", region))
    assert len({length for *_, length in rows}) > 1
    assert sum(length for *_, length in rows) <= KIB**3
