"""The cgroup files: what each write does and answers, and what each file prints."""

from __future__ import annotations

import pytest

from blktwin.block.bio import (
    REQ_FUA,
    REQ_OP_DISCARD,
    REQ_OP_FLUSH,
    REQ_OP_READ,
    REQ_OP_WRITE,
    REQ_OP_WRITE_ZEROES,
    REQ_PREFLUSH,
    REQ_SYNC,
)
from blktwin.block.cgroup import STAT_KINDS, Cgroup, CgroupTree, PolicyData, ServiceStats
from blktwin.block.cgroup_files import (
    EINVAL,
    ENODEV,
    ENOENT,
    EOPNOTSUPP,
    ERANGE,
    STAT_FILES,
    V1_WEIGHT,
    V1_WEIGHT_DEVICE,
    V2_WEIGHT,
    WEIGHT_FILES,
    file_names,
    read_file,
    write_file,
)

A, B, NO_BFQ = (259, 0), (259, 1), (8, 0)
DEVICES = {A: True, B: True, NO_BFQ: False}


class Data(PolicyData):
    """A policy that remembers what it hears and has counted something."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []
        self.stats = ServiceStats()

    def set_weight(self, weight: int) -> None:
        self.heard.append(("all", weight))

    def set_dev_weight(self, weight: int) -> None:
        self.heard.append(("dev", weight))

    def offline(self) -> None:
        self.heard.append(("offline", 0))

    def service_stats(self) -> ServiceStats:
        return self.stats


def group(path: str = "/a") -> Cgroup:
    return CgroupTree().get(path)


@pytest.mark.parametrize("name", [V2_WEIGHT, V1_WEIGHT_DEVICE])
@pytest.mark.parametrize(
    ("text", "answer", "weight"),
    [
        ("30", 0, 30),
        ("30\n", 0, 30),
        (" \t30 \n", 0, 30),
        ("1", 0, 1),
        ("1000", 0, 1000),
        ("0x1e", 0, 30),
        ("0X1E\n", 0, 30),
        ("036", 0, 30),
        ("default 30", 0, 30),
        ("default30", 0, 30),
        ("default  30 or so", 0, 30),
        ("default 036", 0, 36),
        ("18446744073709551646", 0, 30),
        ("default 18446744073709551646", 0, 30),
        ("30\0rubbish", 0, 30),
        ("", 0, 100),
        ("0", -ERANGE, 100),
        ("1001", -ERANGE, 100),
        ("default 0", -ERANGE, 100),
        ("default 1001", -ERANGE, 100),
        ("\n", -ERANGE, 100),
        ("9" * 5000, -ERANGE, 100),
        ("default", -EINVAL, 100),
        ("default x", -EINVAL, 100),
        ("default -1", -EINVAL, 100),
        ("Default 30", -EINVAL, 100),
        ("-30", -EINVAL, 100),
        ("+30", -EINVAL, 100),
        ("30 default", -EINVAL, 100),
        ("30k", -EINVAL, 100),
        ("08", -EINVAL, 100),
        ("0x", -EINVAL, 100),
        ("3.5", -EINVAL, 100),
        ("none", -EINVAL, 100),
        ("30,", -EINVAL, 100),
    ],
)
def test_the_weight_for_all_devices(name: str, text: str, answer: int, weight: int) -> None:
    one = group()
    assert write_file(one, name, text, DEVICES) == answer
    assert one.weight == weight
    assert one.dev_weights == {}
    assert read_file(one, name) == f"default {weight}\n"
    assert read_file(one, V1_WEIGHT) == f"{weight}\n"


@pytest.mark.parametrize(
    ("text", "answer", "weight"),
    [
        ("30", 0, 30),
        ("30\n", 0, 30),
        ("+30", 0, 30),
        ("0x1e", 0, 30),
        ("036\n", 0, 30),
        ("", 0, 100),
        ("0", -ERANGE, 100),
        ("1001", -ERANGE, 100),
        ("18446744073709551646", -ERANGE, 100),
        (" 30", -EINVAL, 100),
        ("30 ", -EINVAL, 100),
        ("30\n\n", -EINVAL, 100),
        ("\n", -EINVAL, 100),
        ("-30", -EINVAL, 100),
        ("++30", -EINVAL, 100),
        ("default 30", -EINVAL, 100),
        ("259:0 30", -EINVAL, 100),
        ("0x", -EINVAL, 100),
    ],
)
def test_the_v1_weight_is_a_bare_number(text: str, answer: int, weight: int) -> None:
    one = group()
    assert write_file(one, V1_WEIGHT, text, DEVICES) == answer
    assert one.weight == weight


@pytest.mark.parametrize("name", [V2_WEIGHT, V1_WEIGHT_DEVICE])
@pytest.mark.parametrize(
    ("text", "answer", "weights"),
    [
        ("259:0 50", 0, {A: 50}),
        ("259:0\t50\n", 0, {A: 50}),
        (" 259: 0   50", 0, {A: 50}),
        ("0259:00 50", 0, {A: 50}),
        ("259:0 50 and more", 0, {A: 50}),
        ("259:0 050", 0, {A: 50}),
        ("259:1 default", 0, {}),
        ("259:0 default\n", 0, {}),
        ("259:0 0", -ERANGE, {}),
        ("259:0 1001", -ERANGE, {}),
        ("259:0 0x20", -ERANGE, {}),
        ("259:0", -EINVAL, {}),
        ("259:0 \n", -EINVAL, {}),
        ("259:0 x", -EINVAL, {}),
        ("259:0 -5", -EINVAL, {}),
        ("259:0 defaults", -EINVAL, {}),
        ("259:050", -EINVAL, {}),
        ("259 :0 50", -EINVAL, {}),
        ("259 0 50", -EINVAL, {}),
        ("nvme0n1 50", -EINVAL, {}),
        ("259:x 50", -EINVAL, {}),
        ("259:7 50", -ENODEV, {}),
        ("259:7 rubbish", -ENODEV, {}),
        ("8:0 50", -EOPNOTSUPP, {}),
        ("8:0 rubbish", -EOPNOTSUPP, {}),
    ],
)
def test_the_weight_for_one_device(name: str, text: str, answer: int, weights: dict[tuple[int, int], int]) -> None:
    one = group()
    assert write_file(one, name, text, DEVICES) == answer
    assert one.dev_weights == weights
    assert one.weight == 100


def test_a_read_shows_the_devices_and_a_weight_clears_them() -> None:
    one = group()
    for text in ("259:0 50", "259:1 20", "default 30"):
        assert write_file(one, V2_WEIGHT, text, DEVICES) == 0
    assert read_file(one, V2_WEIGHT) == "default 30\n"
    for text in ("259:0 50", "259:1 20"):
        assert write_file(one, V2_WEIGHT, text, DEVICES) == 0
    assert read_file(one, V2_WEIGHT) == "default 30\n259:1 20\n259:0 50\n"
    assert read_file(one, V1_WEIGHT_DEVICE) == read_file(one, V2_WEIGHT)
    assert write_file(one, V2_WEIGHT, "259:1 default", DEVICES) == 0
    assert read_file(one, V2_WEIGHT) == "default 30\n259:0 50\n"
    assert write_file(one, V1_WEIGHT, "40", DEVICES) == 0
    assert read_file(one, V2_WEIGHT) == "default 40\n"


def test_the_policy_hears_of_every_change() -> None:
    one = group()
    one.devices[A] = data = Data()
    one.devices[B] = other = Data()
    for text in ("259:0 50", "259:0 0", "259:0 default", "70", "0"):
        write_file(one, V2_WEIGHT, text, DEVICES)
    assert data.heard == [("dev", 50), ("dev", 0), ("all", 70)]
    assert other.heard == [("all", 70)]


def test_the_root_has_no_weight_and_unknown_files_are_not_there() -> None:
    root = CgroupTree().root
    assert file_names(root) == list(STAT_FILES)
    assert file_names(group()) == [*WEIGHT_FILES, *STAT_FILES]
    for name in WEIGHT_FILES:
        assert read_file(root, name) is None
        assert write_file(root, name, "30", DEVICES) == -ENOENT
    assert read_file(group(), "io.weight") is None
    assert write_file(group(), "io.weight", "30", DEVICES) == -ENOENT
    assert root.weight == 100


@pytest.mark.parametrize("name", STAT_FILES)
def test_statistics_cannot_be_written(name: str) -> None:
    assert write_file(group(), name, "0", DEVICES) == -EINVAL


def test_a_removed_cgroup_has_no_files() -> None:
    one = group()
    one.go_offline()
    assert read_file(one, V2_WEIGHT) is None
    assert write_file(one, V2_WEIGHT, "30", DEVICES) == -ENODEV
    assert one.weight == 100


@pytest.mark.parametrize(
    ("op", "flags", "kinds"),
    [
        (REQ_OP_READ, 0, {"Read", "Sync"}),
        (REQ_OP_WRITE, 0, {"Write", "Async"}),
        (REQ_OP_WRITE, REQ_SYNC, {"Write", "Sync"}),
        (REQ_OP_WRITE, REQ_FUA, {"Write", "Sync"}),
        (REQ_OP_FLUSH, REQ_PREFLUSH, {"Read", "Sync"}),
        (REQ_OP_DISCARD, 0, {"Discard", "Async"}),
        (REQ_OP_DISCARD, REQ_SYNC, {"Discard", "Sync"}),
        (REQ_OP_WRITE_ZEROES, 0, {"Write", "Async"}),
    ],
)
def test_each_request_counts_by_operation_and_by_sync(op: int, flags: int, kinds: set[str]) -> None:
    stats = ServiceStats()
    stats.add(op, flags, 4096)
    stats.add(op, flags, 512)
    assert {kind for kind, n in zip(STAT_KINDS, stats.bytes, strict=True) if n == 4608} == kinds
    assert sum(stats.bytes) == 2 * 4608
    assert {kind for kind, n in zip(STAT_KINDS, stats.ios, strict=True) if n == 2} == kinds
    assert sum(stats.ios) == 4


def test_statistics_are_printed_as_the_kernel_does() -> None:
    one = group()
    one.devices[A] = data = Data()
    data.stats.add(REQ_OP_READ, 0, 4096)
    data.stats.add(REQ_OP_WRITE, 0, 8192)
    data.stats.add(REQ_OP_DISCARD, REQ_SYNC, 512)
    assert read_file(one, "blkio.bfq.io_service_bytes") == (
        "259:0 Read 4096\n259:0 Write 8192\n259:0 Sync 4608\n259:0 Async 8192\n259:0 Discard 512\n"
        "259:0 Total 12800\nTotal 12800\n"
    )
    one.devices[B] = Data()
    assert read_file(one, "blkio.bfq.io_serviced") == (
        "259:1 Read 0\n259:1 Write 0\n259:1 Sync 0\n259:1 Async 0\n259:1 Discard 0\n259:1 Total 0\n"
        "259:0 Read 1\n259:0 Write 1\n259:0 Sync 2\n259:0 Async 1\n259:0 Discard 1\n259:0 Total 3\nTotal 3\n"
    )
    assert read_file(group(), "blkio.bfq.io_serviced") == "Total 0\n"


def test_the_recursive_view_has_what_is_below_and_still_there() -> None:
    tree = CgroupTree()
    for path, nbytes in (("/", 1), ("/a", 10), ("/a/b", 100), ("/a/c", 1000)):
        data = Data()
        data.stats.add(REQ_OP_READ, 0, nbytes)
        tree.get(path).devices[A] = data

    def total(path: str, name: str = "blkio.bfq.io_service_bytes_recursive") -> str:
        return (read_file(tree.get(path), name) or "").splitlines()[-1]

    assert [total(path) for path in ("/", "/a", "/a/b")] == ["Total 1111", "Total 1110", "Total 100"]
    assert total("/a", "blkio.bfq.io_service_bytes") == "Total 10"
    assert total("/", "blkio.bfq.io_serviced_recursive") == "Total 4"
    tree.get("/a/c").go_offline()
    assert [total(path) for path in ("/", "/a")] == ["Total 111", "Total 110"]


def test_a_policy_without_counters_has_zeros() -> None:
    one = group()
    one.devices[A] = PolicyData()
    assert (read_file(one, "blkio.bfq.io_serviced") or "").endswith("259:0 Total 0\nTotal 0\n")
