"""What a thread does next: direction, file, offset and length, as fio 3.33 chooses them, number by number.

Knows nothing of time and devices. The streams are random_state.py's; an oracle test compares runs with fio's iolog.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from blktwin.fio.ddir import DATASYNC, READ, SYNC, TRIM, WRITE
from blktwin.fio.random_dist import Normal, Pareto, RankSource, Zipf, jhash
from blktwin.fio.random_map import RandomMap
from blktwin.fio.random_state import (
    BLOCK_SEED,
    DEFAULT_SEED,
    RAND_BLOCK,
    RAND_BS_READ,
    RAND_MIX,
    RAND_SEQ,
    RAND_ZONE,
    FioRandom,
    thread_seeds,
)
from blktwin.fio.spec import JobSpec
from blktwin.fio.unit import FioFile, IoUnit

NEXT_END: Final = 0
NEXT_IO: Final = 1
NEXT_SYNC: Final = 2
"""sync_ddir says which."""
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
        if spec.allrandrepeat:
            self.seeds = [BLOCK_SEED * number + at for at in range(NR_SEEDS)]
        self.repeats: bool = spec.randrepeat and spec.randseed == 0
        """A given randseed= turns randrepeat off, but only after it has given the first pass its offsets."""
        if spec.randrepeat:
            self.seeds[RAND_BLOCK] = BLOCK_SEED * number
        self.number: int = number
        has = spec.directions()
        self.has_writes: bool = has[WRITE]
        self.is_mixed: bool = has[READ] and has[WRITE]
        self.is_trimwrite: bool = has[TRIM] and has[WRITE]
        self.seed_streams()
        self.has_one_ddir: bool = not self.is_mixed and not self.is_trimwrite
        self.first_file: FioFile = files[0]
        self.nr_files: i64 = len(files)
        self.single: i64 = READ if has[READ] else WRITE if has[WRITE] else TRIM
        self.is_random: bool = spec.is_random
        self.bs_min: vec[i64] = vec[i64](list(spec.bs_min))
        self.bs_max: vec[i64] = vec[i64](list(spec.bs_max))
        self.align: vec[i64] = vec[i64]([spec.blockalign[d] or spec.bs_min[d] for d in range(3)])
        self.map_block: i64 = min(spec.bs_min)
        """The map has a bit per smallest block of any direction, used or not; each direction marks by its own."""
        self.percent_random: vec[i64] = vec[i64](list(spec.percentage_random))
        self.has_seq_share: bool = min(spec.percentage_random) < 100
        self.has_ranges: bool = list(spec.bs_min) != list(spec.bs_max) or any(spec.bssplit)
        self.run_length: i64 = spec.rw_seq
        self.run_left: i64 = 1
        self.is_identical: bool = spec.rw_sequencer == "identical"
        self.seq_add: i64 = spec.rw_seq_add_bytes
        self.wraps: bool = spec.time_based
        self.wraps_seq: bool = spec.time_based and len(files) == 1
        self.issues: vec[i64] = vec[i64]([0, 0, 0])
        self.mix_ddir: i64 = READ
        self.mix_limit: i64 = 0
        self.fsync_every: i64 = spec.fsync
        self.fdatasync_every: i64 = spec.fdatasync
        self.has_sync: bool = (spec.fsync > 0 or spec.fdatasync > 0) and not self.is_trimwrite
        self.sync_ddir: i64 = SYNC
        self.last_was_sync: bool = False
        """What completed last, as the thread tells."""
        self.file: FioFile = files[0]
        self.ddir: i64 = self.single
        """What choose() chose; rate control may turn ddir."""
        self.rwmix_read: i64 = spec.rwmix_read
        self.is_zoned: bool = any(dist.zones for dist in spec.distribution)
        self.bs_is_seq_rand: bool = spec.bs_is_seq_rand
        self.has_alignment: bool = not spec.bs_unaligned
        is_plain = spec.rw_seq <= 0 and not self.has_seq_share and not self.is_trimwrite
        self.draws_always: bool = self.is_random and is_plain
        """Every offset is a random draw."""
        self.has_one_size: bool = not self.has_ranges and not self.bs_is_seq_rand and not self.is_trimwrite
        """Every I/O of a direction has the same length."""
        self.prepare()

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
                unit_bytes = min(spec.bs_min[READ], spec.bs_min[WRITE])
                file.ranks = self.make_ranks(file, -(-int(file.io_bytes) // unit_bytes))

    def make_ranks(self, file: FioFile, nr_blocks: int) -> RankSource | None:
        """Return the source of a non-uniform distribution, None for a uniform or zoned one."""
        dist = self.spec.distribution[self.single]
        seed = jhash(file.name) * self.number if self.repeats else self.seeds[RAND_BLOCK]
        if dist.kind == "zipf":
            return Zipf(nr_blocks, dist.theta, dist.center, seed)
        if dist.kind == "pareto":
            return Pareto(nr_blocks, dist.theta, dist.center, seed)
        if dist.kind == "normal":
            return Normal(nr_blocks, dist.theta, dist.center, seed)
        return None

    def seed_streams(self) -> None:
        """Make all streams, at their beginning; trimwrite draws the lengths of trims and writes alike."""
        seeds = self.seeds
        self.offsets: FioRandom = FioRandom(seeds[RAND_BLOCK])
        self.mix: FioRandom = FioRandom(seeds[RAND_MIX])
        self.zones: FioRandom = FioRandom(seeds[RAND_ZONE])
        self.sizes: list[FioRandom] = [FioRandom(seeds[RAND_BS_READ + ddir]) for ddir in range(3)]
        if self.is_trimwrite:
            self.sizes[TRIM] = FioRandom(seeds[RAND_BS_READ + WRITE])
        self.seq: list[FioRandom] = [FioRandom(seeds[RAND_SEQ]) for _ in range(3)]

    def restart(self) -> None:
        """Begin another pass over the files; a repeatable job repeats its draws."""
        for file in self.files:
            file.reset()
        self.mix_limit = 0
        self.last_was_sync = False
        if self.repeats:
            self.seed_streams()

    def end_ramp(self) -> None:
        """Forget what was issued in the ramp time."""
        for ddir in range(3):
            self.issues[ddir] = 0
        self.mix_limit = 0
        self.last_was_sync = False

    def all_done(self) -> bool:
        """Say whether no file has more I/O in this pass."""
        return all(file.is_done for file in self.files)

    # -- what next

    def next(self, unit: IoUnit) -> i64:
        """Fill unit with the next I/O; return NEXT_IO, NEXT_SYNC when a sync is due, NEXT_END at the end."""
        what = self.choose()
        return self.take(unit) if what == NEXT_IO else what

    def choose(self) -> i64:
        """Choose file and direction; return NEXT_IO, NEXT_SYNC when a sync of that file is due, NEXT_END at the end."""
        file = self.first_file
        if self.nr_files > 1:
            found = self.pick_file()
            if found is None:
                return NEXT_END
            file = found
            self.file = file
        elif file.is_done:
            return NEXT_END
        if self.has_sync and not self.last_was_sync and self.is_sync_due():
            return NEXT_SYNC
        self.ddir = self.single if self.has_one_ddir else self.next_ddir(file)
        return NEXT_IO

    def take(self, unit: IoUnit) -> i64:
        """Fill unit with an I/O of the chosen file and direction; a file without more gives way to the next."""
        while True:
            ddir = self.ddir
            if self.fill(unit, self.file, ddir):
                self.issues[ddir] += 1
                return NEXT_IO
            self.file.is_done = True
            what = self.choose()
            if what != NEXT_IO:
                return what

    def turn_to(self, ddir: i64) -> None:
        """Take another direction than choose() did."""
        self.ddir = ddir
        self.mix_ddir = ddir

    def is_sync_due(self) -> bool:
        """Say whether the writes so far ask for fsync, else for fdatasync; sync_ddir says which."""
        writes = self.issues[WRITE]
        if writes == 0:
            return False
        if self.fsync_every > 0 and writes % self.fsync_every == 0:
            self.sync_ddir = SYNC
            return True
        self.sync_ddir = DATASYNC
        return self.fdatasync_every > 0 and writes % self.fdatasync_every == 0

    def pick_file(self) -> FioFile | None:
        """Return the next file that is not done, round robin; None if all are."""
        files = self.files
        tries = self.nr_files
        while tries > 0:
            tries -= 1
            at = self.next_file
            self.next_file = at + 1 if at + 1 < self.nr_files else 0
            if not files[at].is_done:
                return files[at]
        return None

    def next_ddir(self, file: FioFile) -> i64:
        """Choose the direction."""
        if self.is_trimwrite:
            return TRIM if file.last_start[WRITE] == file.last_start[TRIM] else WRITE
        if self.issues[self.mix_ddir] >= self.mix_limit:
            drawn: i64 = READ if self.mix.percent() <= self.rwmix_read else WRITE
            if drawn != self.mix_ddir:
                share = self.rwmix_read if self.mix_ddir == WRITE else 100 - self.rwmix_read
                self.mix_limit = self.issues[self.mix_ddir] * share // 100
            self.mix_ddir = drawn
        return self.mix_ddir

    def fill(self, unit: IoUnit, file: FioFile, ddir: i64) -> bool:
        """Set place and length of unit; False when the file has no more."""
        if self.draws_always:
            unit.is_random = True
            offset = self.random_offset(unit, file, ddir)
        else:
            offset = self.next_offset(unit, file, ddir)
        if offset < 0 or offset >= file.io_bytes:
            return False
        block = self.bs_min[ddir]
        nbytes = block
        if not self.has_one_size:
            nbytes = self.next_size(file, ddir, offset, unit.is_random)
            if nbytes <= 0:
                return False
        elif nbytes > file.io_bytes - offset:
            return False
        chart = file.map
        if chart is not None and unit.is_random and not (self.is_trimwrite and ddir == WRITE):
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
        if self.is_trimwrite and ddir == TRIM and self.is_random and file.last_start[TRIM] == unit.offset:
            # The same place again: the write that follows must still see a difference.
            file.last_start[WRITE] -= 1
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
        if self.is_trimwrite and self.is_random and ddir == WRITE:
            unit.is_random = True
            return file.last_start[TRIM]
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
        if self.wraps_seq and pos >= file.offset_bytes + file.io_bytes:
            pos = file.offset_bytes
        if pos >= file.real_bytes:
            return NO_OFFSET
        if self.seq_add < 0 and file.offset_bytes > 0 and pos == file.offset_bytes:
            pos = file.io_bytes
        offset = pos - file.offset_bytes
        if offset != 0 and self.seq_add != 0:
            offset += self.seq_add
            if offset >= file.real_bytes or offset < 0:
                offset = file.offset_bytes if self.seq_add > 0 else file.io_bytes + self.seq_add
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
        if file.ranks is not None:
            return file.ranks.next_block()
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
        """Draw a zone by its share of accesses, then a block inside it; NO_OFFSET when the zone does not fit."""
        dist = self.spec.distribution[ddir]
        draw = self.zones.percent()
        last = file.nr_starts[ddir]
        start: i64 = 0
        for access, size in dist.zones:
            draw -= access
            if draw > 0:
                start += size
                continue
            if dist.kind == "zoned":
                return i64(int(start) * int(last) // 100) + self.offsets.below(i64(int(last) * int(size) // 100))
            first = start // self.align[ddir]
            end = (start + size) // self.align[ddir]
            return first + self.offsets.below(end - first) if end <= last else NO_OFFSET
        return self.offsets.below(last)

    # -- lengths

    def next_size(self, file: FioFile, ddir: i64, offset: i64, is_random: bool) -> i64:
        """Return the next length, 0 when not even the smallest fits."""
        if self.is_trimwrite and self.is_random and ddir == WRITE:
            return file.last_pos[TRIM] - file.last_start[TRIM]
        room = file.io_bytes - offset
        if self.bs_is_seq_rand:
            ddir = WRITE if is_random else READ
        low = self.bs_min[ddir]
        if not self.has_ranges:
            if low > room:
                return 0
            return low
        if low > room:
            return 0
        high = self.bs_max[ddir]
        split = self.spec.bssplit[ddir]
        if low == high and not split:
            return low
        if split and smallest_share(split) > room:
            return 0
        while True:
            draw = self.sizes[ddir].next32()
            if split:
                size = split_size(split, draw, room)
            else:
                size = low + scaled(high, draw)
            if self.has_alignment:
                size -= size % low
            if size > high:
                size = high
            if size <= room:
                return size


def scaled(high: i64, draw: i64) -> i64:
    """Return high times a 32-bit draw over 2**32, also where the product needs more than 63 bits."""
    if high <= 0x7FFFFFFF:
        return (high * draw) >> 32
    return (int(high) * int(draw)) >> 32


def smallest_share(split: tuple[tuple[int, int], ...]) -> i64:
    """Return the smallest length that a bssplit ever picks."""
    return min([size for size, percent in split if percent > 0])


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
