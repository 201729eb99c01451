"""What a thread does next: direction, file, offset and length, as fio 3.33 chooses them, number by number.

Knows nothing of time and devices. The streams are random_state.py's; an oracle test compares runs with fio's iolog.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from blktwin.fio.ddir import READ, TRIM, WRITE
from blktwin.fio.random_dist import Normal, Pareto, RankSource, Zipf
from blktwin.fio.random_map import RandomMap
from blktwin.fio.random_state import (
    DEFAULT_SEED,
    RAND_BS_READ,
    RAND_MIX,
    RAND_SEQ,
    FioRandom,
    block_seed,
    thread_seeds,
)
from blktwin.fio.spec import JobSpec
from blktwin.fio.unit import FioFile, IoUnit

NEXT_END: Final = 0
NEXT_IO: Final = 1
NEXT_SYNC: Final = 2
NO_OFFSET: Final = -1
NR_SEEDS: Final = 24


class IoPattern:
    """The choices of one thread; `number` is its thread number, from 1."""

    def __init__(self, spec: JobSpec, files: list[FioFile], number: int, entropy: int) -> None:
        self.spec: JobSpec = spec
        self.files: list[FioFile] = files
        self.next_file: i64 = 0
        seed = spec.randseed if spec.randseed != 0 else DEFAULT_SEED if spec.randrepeat else entropy
        self.seeds: list[int] = thread_seeds(seed, number, NR_SEEDS)
        self.number: int = number
        self.offsets: FioRandom = FioRandom(block_seed(self.seeds, number, spec.randrepeat))
        self.mix: FioRandom = FioRandom(self.seeds[RAND_MIX])
        self.sizes: list[FioRandom] = [FioRandom(self.seeds[RAND_BS_READ + ddir]) for ddir in range(3)]
        self.seq: list[FioRandom] = [FioRandom(self.seeds[RAND_SEQ]) for _ in range(3)]
        has = spec.directions()
        self.is_mixed: bool = has[READ] and has[WRITE]
        self.is_trimwrite: bool = has[TRIM] and has[WRITE]
        self.has_one_ddir: bool = not self.is_mixed and not self.is_trimwrite
        self.first_file: FioFile = files[0]
        self.nr_files: i64 = len(files)
        self.single: i64 = READ if has[READ] else WRITE if has[WRITE] else TRIM
        self.is_random: bool = spec.is_random
        self.bs_min: vec[i64] = vec[i64](list(spec.bs_min))
        self.bs_max: vec[i64] = vec[i64](list(spec.bs_max))
        self.align: vec[i64] = vec[i64]([spec.blockalign[d] or spec.bs_min[d] for d in range(3)])
        self.map_block: i64 = self.smallest_block(has)
        self.percent_random: vec[i64] = vec[i64](list(spec.percentage_random))
        self.has_seq_share: bool = min(spec.percentage_random) < 100
        self.has_ranges: bool = list(spec.bs_min) != list(spec.bs_max) or any(spec.bssplit)
        self.run_length: i64 = spec.rw_seq
        self.run_left: i64 = 1
        self.is_identical: bool = spec.rw_sequencer == "identical"
        self.seq_add: i64 = spec.rw_seq_add_bytes
        self.wraps: bool = spec.time_based
        self.issues: vec[i64] = vec[i64]([0, 0, 0])
        self.mix_ddir: i64 = READ
        self.mix_limit: i64 = 0
        self.fsync_every: i64 = spec.fsync or spec.fdatasync
        self.last_was_sync: bool = True
        self.rwmix_read: i64 = spec.rwmix_read
        self.is_zoned: bool = any(dist.zones for dist in spec.distribution)
        self.bs_is_seq_rand: bool = spec.bs_is_seq_rand
        self.has_alignment: bool = not spec.bs_unaligned
        self.prepare()

    def smallest_block(self, has: tuple[bool, bool, bool]) -> i64:
        """Return the unit of the random map: the smallest block of any direction in use."""
        return min(self.spec.bs_min[ddir] for ddir in range(3) if has[ddir])

    def prepare(self) -> None:
        """Make the files' maps and distributions."""
        spec = self.spec
        dist = spec.distribution[self.single]
        has_map = self.is_random and not spec.norandommap and dist.kind == "random" and not any(spec.blockalign)
        for file in self.files:
            for ddir in range(3):
                file.nr_starts[ddir] = self.last_block(file, ddir)
            nr_blocks = int(file.io_bytes // self.map_block)
            if has_map and nr_blocks > 0:
                file.map = RandomMap(nr_blocks)
            if self.is_random and nr_blocks > 0:
                file.ranks = self.make_ranks(file, nr_blocks)

    def make_ranks(self, file: FioFile, nr_blocks: int) -> RankSource | None:
        """Return the source of a non-uniform distribution, None for a uniform or zoned one."""
        dist = self.spec.distribution[self.single]
        seed = jhash(file.name) * self.number if self.spec.randrepeat else self.seeds[4]
        if dist.kind == "zipf":
            return Zipf(nr_blocks, dist.theta, dist.center, seed)
        if dist.kind == "pareto":
            return Pareto(nr_blocks, dist.theta, dist.center, seed)
        if dist.kind == "normal":
            return Normal(nr_blocks, dist.theta, dist.center, seed)
        return None

    def restart(self) -> None:
        """Begin another pass over the files; a repeatable job repeats its offsets."""
        for file in self.files:
            file.reset()
        if self.spec.randrepeat:
            self.offsets = FioRandom(block_seed(self.seeds, self.number, True))

    # -- what next

    def next(self, unit: IoUnit) -> i64:
        """Fill unit with the next I/O; return NEXT_IO, NEXT_SYNC when a sync is due, NEXT_END at the end."""
        every = self.fsync_every
        if every > 0 and not self.last_was_sync:
            writes = self.issues[WRITE]
            if writes > 0 and writes % every == 0:
                self.last_was_sync = True
                return NEXT_SYNC
        tries = self.nr_files
        while tries > 0:
            tries -= 1
            file = self.first_file if self.nr_files == 1 else self.pick_file()
            ddir = self.single if self.has_one_ddir else self.next_ddir(file)
            if self.fill(unit, file, ddir):
                self.issues[ddir] += 1
                self.last_was_sync = False
                return NEXT_IO
        return NEXT_END

    def pick_file(self) -> FioFile:
        """Return the next file, round robin."""
        files = self.files
        at = self.next_file
        self.next_file = at + 1 if at + 1 < len(files) else 0
        return files[at]

    def next_ddir(self, file: FioFile) -> i64:
        """Choose the direction."""
        if self.is_trimwrite:
            return TRIM if file.last_pos[WRITE] == file.last_pos[TRIM] else WRITE
        if self.issues[self.mix_ddir] >= self.mix_limit:
            drawn: i64 = READ if self.mix.percent() <= self.rwmix_read else WRITE
            if drawn != self.mix_ddir:
                share = self.rwmix_read if self.mix_ddir == WRITE else 100 - self.rwmix_read
                self.mix_limit = self.issues[self.mix_ddir] * share // 100
            self.mix_ddir = drawn
        return self.mix_ddir

    def fill(self, unit: IoUnit, file: FioFile, ddir: i64) -> bool:
        """Set place and length of unit; False when the file has no more."""
        offset = self.next_offset(unit, file, ddir)
        if offset < 0 or offset >= file.io_bytes:
            return False
        nbytes = self.next_size(file, ddir, offset, unit.is_random)
        if nbytes <= 0:
            return False
        chart = file.map
        if chart is not None and unit.is_random:
            block = self.map_block
            if nbytes == block:
                # The draw has found it clear.
                chart.set(unit.block)
            else:
                done = chart.set_run(unit.block, (nbytes + block - 1) // block)
                if done > 0 and done * block < nbytes:
                    nbytes = done * block
        unit.file = file
        unit.ddir = ddir
        unit.offset = file.offset_bytes + offset
        unit.nbytes = nbytes
        file.last_start[ddir] = unit.offset
        file.last_pos[ddir] = unit.offset + nbytes
        return True

    # -- offsets, relative to the file's region

    def next_offset(self, unit: IoUnit, file: FioFile, ddir: i64) -> i64:
        """Return the next offset, NO_OFFSET at the end."""
        is_new = True
        if self.run_length > 0:
            self.run_left -= 1
            is_new = self.run_left == 0
            if is_new:
                self.run_left = self.run_length
        unit.is_random = False
        if is_new:
            if not self.is_random:
                return self.seq_offset(file, ddir)
            if self.has_seq_share and self.seq[ddir].percent() > self.percent_random[ddir]:
                offset = self.seq_offset(file, ddir)
                return offset if offset >= 0 else self.random_offset(unit, file, ddir)
            unit.is_random = True
            return self.random_offset(unit, file, ddir)
        if self.is_identical:
            start = file.last_start[ddir]
            return start - file.offset_bytes if start >= 0 else 0
        offset = self.seq_offset(file, ddir)
        if offset < 0 and self.is_random:
            return self.random_offset(unit, file, ddir)
        return offset

    def seq_offset(self, file: FioFile, ddir: i64) -> i64:
        """Return where the last I/O of this direction ended, plus the job's step."""
        pos = file.last_pos[ddir]
        if pos == file.offset_bytes + file.io_bytes and self.wraps:
            pos = file.offset_bytes
        if pos >= file.real_bytes:
            return NO_OFFSET
        offset = pos - file.offset_bytes
        if offset > 0 and self.seq_add != 0:
            offset += self.seq_add
            if offset >= file.real_bytes or offset < 0:
                offset = 0
        return offset

    def random_offset(self, unit: IoUnit, file: FioFile, ddir: i64) -> i64:
        """Draw an offset; a done block yields to the next free one, a full map starts over in a timed job."""
        block = self.random_block(file, ddir)
        if block < 0 and self.wraps:
            file.reset()
            block = self.random_block(file, ddir)
        if block < 0:
            return NO_OFFSET
        unit.block = block
        return block * self.align[ddir]

    def random_block(self, file: FioFile, ddir: i64) -> i64:
        """Draw one block, NO_OFFSET when all are done."""
        ranks = file.ranks
        if ranks is not None:
            return ranks.next_block()
        last = file.nr_starts[ddir]
        if last <= 0:
            return NO_OFFSET
        if self.is_zoned and self.spec.distribution[ddir].zones:
            return self.zoned_block(file, ddir)
        block = self.offsets.below(last)
        chart = file.map
        if chart is None or not chart.is_set(block):
            return block
        return chart.next_free(block)

    def last_block(self, file: FioFile, ddir: i64) -> i64:
        """Return how many aligned starts the region has."""
        size = file.io_bytes
        if size > file.real_bytes:
            size = file.real_bytes
        if self.bs_min[ddir] > self.align[ddir]:
            size -= self.bs_min[ddir] - self.align[ddir]
        return size // self.align[ddir]

    def zoned_block(self, file: FioFile, ddir: i64) -> i64:
        """Draw a zone by its share of accesses, then a block inside it."""
        dist = self.spec.distribution[ddir]
        draw = int(self.offsets.percent())
        region = int(file.io_bytes)
        start = 0
        for access, size in dist.zones:
            length = size if dist.kind == "zoned_abs" else region * size // 100
            draw -= access
            if draw <= 0:
                blocks = max(1, length // int(self.align[ddir]))
                first = start // int(self.align[ddir])
                return min(first + self.offsets.below(blocks), file.nr_starts[ddir] - 1)
            start += length
        return self.offsets.below(file.nr_starts[ddir])

    # -- lengths

    def next_size(self, file: FioFile, ddir: i64, offset: i64, is_random: bool) -> i64:
        """Return the next length, 0 when not even the smallest fits."""
        room = file.io_bytes - offset
        if self.bs_is_seq_rand:
            ddir = WRITE if is_random else READ
        low = self.bs_min[ddir]
        if not self.has_ranges:
            return low if low <= room else 0
        if low > room:
            return 0
        high = self.bs_max[ddir]
        split = self.spec.bssplit[ddir]
        if low == high and not split:
            return low
        while True:
            draw = self.sizes[ddir].next32()
            if split:
                size = split_size(split, draw, room)
            else:
                size = low + ((high * draw) >> 32 if high <= 0x7FFFFFFF else high // 2)
            if self.has_alignment:
                size -= size % low
            if size > high:
                size = high
            if size <= room:
                return size


def split_size(split: tuple[tuple[int, int], ...], draw: i64, room: i64) -> i64:
    """Return the length that a 32-bit draw picks from (bytes, percent) pairs, among those that fit."""
    share = 0
    size = 0
    for size, percent in split:
        if percent == 0:
            continue
        share += percent
        if int(draw) * 100 <= 0xFFFFFFFF * share and size <= room:
            break
    return size


def jhash(name: str) -> int:
    """Return Bob Jenkins' lookup3-style hash of a file name, as fio seeds its distributions (initval 0)."""
    data = name.encode()
    a = b = c = (0xDEADBEEF + len(data)) & 0xFFFFFFFF
    at = 0
    left = len(data)
    while left > 12:
        a = (a + int.from_bytes(data[at : at + 4], "little")) & 0xFFFFFFFF
        b = (b + int.from_bytes(data[at + 4 : at + 8], "little")) & 0xFFFFFFFF
        c = (c + int.from_bytes(data[at + 8 : at + 12], "little")) & 0xFFFFFFFF
        a, b, c = jhash_mix(a, b, c)
        at += 12
        left -= 12
    tail = data[at:] + bytes(12 - left)
    a = (a + int.from_bytes(tail[0:4], "little")) & 0xFFFFFFFF
    b = (b + int.from_bytes(tail[4:8], "little")) & 0xFFFFFFFF
    c = (c + int.from_bytes(tail[8:12], "little")) & 0xFFFFFFFF
    return jhash_final(a, b, c) if left > 0 else c


def rot(x: int, k: int) -> int:
    """Rotate a 32-bit word left."""
    return ((x << k) | (x >> (32 - k))) & 0xFFFFFFFF


def jhash_mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    """Mix three words, reversibly."""
    for k, turn in ((4, 0), (6, 1), (8, 2), (16, 0), (19, 1), (4, 2)):
        if turn == 0:
            a = ((a - c) & 0xFFFFFFFF) ^ rot(c, k)
            c = (c + b) & 0xFFFFFFFF
        elif turn == 1:
            b = ((b - a) & 0xFFFFFFFF) ^ rot(a, k)
            a = (a + c) & 0xFFFFFFFF
        else:
            c = ((c - b) & 0xFFFFFFFF) ^ rot(b, k)
            b = (b + a) & 0xFFFFFFFF
    return a, b, c


def jhash_final(a: int, b: int, c: int) -> int:
    """Mix three words for good."""
    c = ((c ^ b) - rot(b, 14)) & 0xFFFFFFFF
    a = ((a ^ c) - rot(c, 11)) & 0xFFFFFFFF
    b = ((b ^ a) - rot(a, 25)) & 0xFFFFFFFF
    c = ((c ^ b) - rot(b, 16)) & 0xFFFFFFFF
    a = ((a ^ c) - rot(c, 4)) & 0xFFFFFFFF
    b = ((b ^ a) - rot(a, 14)) & 0xFFFFFFFF
    return ((c ^ b) - rot(b, 24)) & 0xFFFFFFFF
