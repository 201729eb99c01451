"""The command line: `blktwin run JOB.fio ...`. Results go to stdout or --output, everything else to stderr.

Exit: 0 done, 1 the job or an input is wrong, 2 usage, 3 a threshold was missed, 77 not available here, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import cyclopts
from cyclopts import Parameter
from rich.console import Console

import blktwin
from blktwin.block.rules import DEFAULT_RULES, PRESET_NAMES
from blktwin.errors import EXIT_INTERRUPTED, BlktwinError, Unavailable, UsageError, shown
from blktwin.fio import jobfile, options, showcmd
from blktwin.fio.cmdline import is_job_option, split_arguments, takes_next_word
from blktwin.fio.output import parse_formats, parse_terse_version, render
from blktwin.fio.results import RunResult
from blktwin.fio.spec import JobPlan
from blktwin.lab.cgroups import load_cgroups, path_problem
from blktwin.lab.eta import EtaLine
from blktwin.lab.explain import Explain
from blktwin.lab.interrupt import Interrupt
from blktwin.lab.run import simulate
from blktwin.lab.runtime import apply_runtime
from blktwin.lab.scenario import Scenario
from blktwin.lab.scenario_text import render_json, render_text
from blktwin.lab.stack import DEFAULT_SEED, Stack
from blktwin.lab.stack_build import assemble, read_stack
from blktwin.lab.stack_file import load_stack
from blktwin.lab.stack_said import StackFile
from blktwin.lab.stages import Stages
from blktwin.lab.streams import emit, printing, repair, say
from blktwin.lab.target import Target
from blktwin.sim.devices.options import OPTION_LIST
from blktwin.sim.devices.profiles import builtin_profiles
from blktwin.sim.devices.spec import parse_device
from blktwin.sim.hints import near
from blktwin.sim.hosts import DEFAULT_HOST, builtin_hosts

NOTE_MAX = 2000
"""Characters of a note on stderr."""
RUN_OPTIONS = (
    "on runtime seed yes scheduler set rules device cgroup cgroups stack variant host cpus output output-format "
    "terse-version section showcmd parse-only readonly eta explain stages help version"
).split()
NOT_HERE = {"vm": "the kernels issue brings it", "host": "the kernels issue brings it"}

DEFAULT = Parameter(show_default=True)
Settings = Annotated[
    tuple[str, ...],
    Parameter(help="iosched.fifo_batch=8, or sda.iosched.fifo_batch=8 for one device. May be repeated."),
]
Seed = Annotated[int, Parameter(help="Seed of devices and faults: same seed, same bytes."), DEFAULT]
SchedulerName = Annotated[str, Parameter(help="none, mq-deadline or bfq, for every device; overrides ioscheduler=.")]
Devices = Annotated[
    tuple[str, ...],
    Parameter(help="/dev/nvme0n1=PROFILE,key=value,...; `blktwin profiles` lists them. May be repeated."),
]
Rules_ = Annotated[
    str,
    Parameter(help=f"Kernel to imitate: {', '.join(PRESET_NAMES)}.", show_default=lambda _: DEFAULT_RULES),
]
HostName = Annotated[
    str,
    Parameter(
        help="CPUs and what each step costs; `blktwin profiles` lists them.", show_default=lambda _: DEFAULT_HOST
    ),
]
StackName = Annotated[
    str, Parameter(name="--stack", help="TOML file: devices, files, loop devices, cgroups: docs/loop.md.")
]
Formats = Annotated[str, Parameter(help="normal, json, json+, terse, or several with commas."), DEFAULT]

app = cyclopts.App(
    name="blktwin",
    help="A twin of the Linux block layer: run a fio job on simulated blk-mq, schedulers and devices.",
    version=blktwin.__version__,
    console=Console(stderr=False),
    error_console=Console(stderr=True),
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    default_parameter=Parameter(negative="", show_default=False),
)


@app.command(usage="Usage: blktwin run JOB.fio... [OPTIONS] [--name=JOB --rw=randread ...]")
def run(
    *jobs: Annotated[str, Parameter(help="fio job files (- is standard input).", show=True)],
    runtime: Annotated[str, Parameter(help="Runtime of every job, as fio's runtime= (12s, 500ms).")] = "",
    seed: Seed = DEFAULT_SEED,
    yes: Annotated[bool, Parameter(help="Run a job that nothing limits, however long.")] = False,
    scheduler: SchedulerName = "",
    set: Settings = (),
    rules: Rules_ = "",
    device: Devices = (),
    cgroup: Annotated[str, Parameter(help="Cgroup of the whole job, such as /c1."), DEFAULT] = "/",
    cgroups: Annotated[str, Parameter(help="TOML file: cgroups, weights, who runs where, changes.")] = "",
    stack: StackName = "",
    variant: Annotated[str, Parameter(help="One of the [[variant]] tables of --stack's file.")] = "",
    host: HostName = "",
    cpus: Annotated[int, Parameter(help="Number of CPUs, instead of the host's.")] = 0,
    on: Annotated[str, Parameter(help="Where to run: sim."), DEFAULT] = "sim",
    output: Annotated[str, Parameter(help="File for the results, instead of standard output.")] = "",
    output_format: Formats = "normal",
    terse_version: Annotated[str, Parameter(help="2, 3, 4 or 5."), DEFAULT] = "3",
    section: Annotated[tuple[str, ...], Parameter(help="Only this job section. May be repeated.")] = (),
    showcmd_: Annotated[bool, Parameter(name="--showcmd", help="Print the jobs as command lines, and stop.")] = False,
    parse_only: Annotated[bool, Parameter(help="Check the jobs, and stop.")] = False,
    readonly: Annotated[bool, Parameter(help="Refuse jobs that write or trim.")] = False,
    eta: Annotated[str, Parameter(help="auto, always or never: the status line on stderr."), DEFAULT] = "auto",
    explain: Annotated[str, Parameter(help="bfq, loop or both: tell with the results why BFQ or loop did what.")] = "",
    stages: Annotated[bool, Parameter(help="Print where the time of each device's I/Os went, as btt does.")] = False,
) -> int:
    """Run fio jobs, unchanged, on the simulated block layer.

    After the first --name every option that fio has belongs to that job, as on fio's own command line. Results go to
    standard output or --output, all messages to standard error.
    """
    said = read_stack(stack, variant)
    paths, job_args = find_jobs(jobs, said)
    check_choices(on, eta)
    formats, version = parse_formats(output_format), parse_terse_version(terse_version)
    explained, timed = make_explain(explain, formats), make_stages(stages, formats)
    if showcmd_:
        emit(showcmd.render(paths, job_args, section))
        return 0
    plan = jobfile.load(
        paths, job_args, sections=section, env=os.environ | said.env, require_runnable=not parse_only, readonly=readonly
    )
    if parse_only:
        return 0
    apply_runtime(plan, runtime or said.runtime)
    made = assemble(
        said,
        devices=[parse_device(text) for text in device],
        scheduler=scheduler,
        tunables=[split_tunable(text) for text in set],
        rules=rules,
        host=host,
        cpus=checked_cpus(cpus),
        cgroup=checked_cgroup(cgroup),
        cgroups=load_cgroups(cgroups) if cgroups else None,
        seed=seed,
    )
    target = Target(output, [*plan.files, cgroups, *said.sources(stack)]) if output else None
    return run_and_print(plan, made, target, formats, version, EtaLine(eta), yes, explained, timed)


def run_and_print(
    plan: JobPlan,
    stack: Stack,
    target: Target | None,
    formats: list[str],
    version: int,
    eta: EtaLine,
    allow_unbounded: bool,
    explain: Explain | None,
    stages: Stages | None = None,
) -> int:
    """Run the plan, print its results and then the notes, and return the exit status."""
    with Interrupt() as interrupt:
        with eta as line:
            progress = line.update if line.is_shown else None
            result = simulate(
                plan,
                stack,
                progress=progress,
                allow_unbounded=allow_unbounded,
                interrupt=interrupt,
                explain=explain,
                stages=stages,
            )
        text = render(result, formats, version)
        if stages is not None and "normal" in formats:
            text += stages.text()
        if explain is not None and "normal" in formats:
            text += explain.text()
        if target is None:
            emit(text)
        else:
            target.write(text)
        for note in plan.notes:
            say(f"blktwin: {shown(note, NOTE_MAX)}")
        return exit_code(result, interrupt.is_set)


@app.command(usage="Usage: blktwin scenario FILE.toml [OPTIONS]")
def scenario(
    file: Annotated[str, Parameter(help="A stack file (docs/loop.md) with its job and its variants.", show=True)],
    variant: Annotated[tuple[str, ...], Parameter(help="Only this variant. May be repeated.")] = (),
    runtime: Annotated[str, Parameter(help="Runtime of every job, instead of the file's.")] = "",
    seed: Annotated[int, Parameter(help="First seed."), DEFAULT] = DEFAULT_SEED,
    seeds: Annotated[int, Parameter(help="How many seeds: their spread tells noise from difference."), DEFAULT] = 3,
    output: Annotated[str, Parameter(help="File for the results, instead of standard output.")] = "",
    output_format: Annotated[str, Parameter(help="normal, json, or both with a comma."), DEFAULT] = "normal",
) -> int:
    """Run all variants of a stack file under the same job, and print them side by side.

    Exit status 3: a figure is farther from the one reported than the file's [expect] allows.
    """
    formats = [word.strip() for word in output_format.split(",")]
    for word in formats:
        if word not in ("normal", "json"):
            raise UsageError(f"unknown format {word!r}: normal or json", key="--output-format")
    if not 1 <= seeds <= 1000:
        raise UsageError(f"{seeds} is out of range: 1 to 1000", key="--seeds")
    source = load_stack(file)
    made = Scenario(source, seeds=list(range(seed, seed + seeds)), names=list(variant), runtime=runtime)
    target = Target(output, [file, *made.sources()]) if output else None
    with EtaLine("auto") as line:
        made.run(progress=line.update if line.is_shown else None)
    text = "".join(render_json(made) if word == "json" else render_text(made) for word in formats)
    if target is None:
        emit(text)
    else:
        target.write(text)
    for note in made.notes():
        say(f"blktwin: {shown(note, NOTE_MAX)}")
    if made.is_partial:
        return EXIT_INTERRUPTED
    return EXIT_MISSED if made.has_missed() else int(made.has_failed())


@app.command
def profiles() -> int:
    """List the device profiles and hosts, with their sources."""
    lines = ["Devices (--device /dev/NAME=PROFILE):"]
    for name, profile in builtin_profiles().items():
        lines.append(f"  {name:16} {' '.join(profile.source.split())}")
    lines.append("Keys of a device (--device /dev/NAME=PROFILE,key=value,... or --device /dev/NAME,key=value,...):")
    for option in OPTION_LIST:
        lines.append(f"  {option.name:16} {option.text} ({option.kind}; {', '.join(option.models)})")
    lines.append("Hosts (--host NAME):")
    for name, one in builtin_hosts().items():
        lines.append(f"  {name:16} {one.cpus} CPUs, HZ {one.hz}. {' '.join(one.source.split())}")
    emit("\n".join(lines) + "\n")
    return 0


EXIT_MISSED = 3
JOB_TOKENS: list[str] = []
"""fio's own words of this command line, taken out before cyclopts sees it (--runtime after --name is the job's)."""


def part_tokens(tokens: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part our options from fio's: after the first --name, every option that fio knows belongs to the job."""
    ours: list[str] = []
    fios: list[str] = []
    in_job = False
    at = 0
    while at < len(tokens):
        token = tokens[at]
        at += 1
        name = token.lstrip("-").partition("=")[0]
        if token == "-":
            # Standard input as the job file; cyclopts takes it for an option.
            fios.append(token)
            continue
        if token == "--" or not token.startswith("-") or token[1:].isdigit():
            ours.append(token)
            continue
        in_job = in_job or name == "name"
        is_ours = name in RUN_OPTIONS or name.removeprefix("no-") in RUN_OPTIONS
        if is_job_option(token) and (in_job or not is_ours):
            fios.append(token)
            if takes_next_word(token) and at < len(tokens):
                fios.append(tokens[at])
                at += 1
        else:
            if not is_ours and not is_job_option(token):
                raise unknown_option(token)
            ours.append(token)
    return ours, fios


def unknown_option(token: str) -> UsageError:
    """Return the error for an option that neither we nor fio have."""
    name = token.lstrip("-").partition("=")[0]
    names = [*RUN_OPTIONS, options.nearest(name) or "name"]
    hint = near("--" + name, ["--" + one for one in names])
    return UsageError(f"no such option{hint}", key=token.partition("=")[0])


def find_jobs(jobs: Sequence[str], said: StackFile) -> tuple[list[str], list[str]]:
    """Return job files and fio's words: the command line's, or the stack file's job."""
    paths, job_args = split_arguments([*JOB_TOKENS, *jobs])
    if not paths and not job_args:
        paths = said.jobs
    if not paths and not job_args:
        raise UsageError("no job: give a fio job file, or --name=... --rw=...")
    return paths, job_args


def check_choices(on: str, eta: str) -> None:
    """Check --on and --eta."""
    kind = on.partition(":")[0]
    if kind in NOT_HERE:
        raise Unavailable(f"--on {on}: not there yet ({NOT_HERE[kind]}): use sim")
    if on != "sim":
        raise UsageError(f"no machine '{on}'{near(on, ('sim',)) or '; use sim'}", key="--on")
    if eta not in ("auto", "always", "never"):
        raise UsageError(f"'{eta}' is none of auto, always, never", key="--eta")


def split_tunable(text: str) -> tuple[str, str]:
    """Split NAME=VALUE of --set."""
    name, equals, value = text.partition("=")
    if not equals or name.rpartition(".")[0].rpartition(".")[2] != "iosched":
        raise UsageError(
            f"'{text}' is not iosched.NAME=VALUE or DEVICE.iosched.NAME=VALUE (nr_requests, nomerges and "
            "rq_affinity are keys of --device)",
            key="--set",
        )
    return name, value


def checked_cpus(cpus: int) -> int:
    """Check --cpus."""
    if not 0 <= cpus <= 1024:
        raise UsageError(f"{cpus} is out of range: 1 to 1024", key="--cpus")
    return cpus


def checked_cgroup(path: str) -> str:
    """Check --cgroup."""
    parts = path.split("/")
    if not path.startswith("/") or ".." in parts:
        raise UsageError(f"'{path}' is not an absolute cgroup path such as /c1", key="--cgroup")
    plain = "/" + "/".join(part for part in parts if part)
    problem = path_problem(plain)
    if problem:
        raise UsageError(f"'{path}' {problem}", key="--cgroup")
    return plain


def make_explain(name: str, formats: list[str]) -> Explain | None:
    """Return what --explain asks for."""
    if not name:
        return None
    explain = Explain(name)
    if formats == ["terse"]:
        raise UsageError("terse has no place for it: use --output-format normal or json", key="--explain")
    return explain


def make_stages(is_asked: bool, formats: list[str]) -> Stages | None:
    """Return what --stages asks for."""
    if is_asked and formats == ["terse"]:
        raise UsageError("terse has no place for it: use --output-format normal or json", key="--stages")
    return Stages() if is_asked else None


def exit_code(result: RunResult, is_interrupted: bool) -> int:
    """Return the process's exit status."""
    if result.partial or is_interrupted:
        what = "until then" if result.partial else "of the whole run, which had ended"
        say(f"blktwin: interrupted: the results are those {what}")
        return EXIT_INTERRUPTED
    bad = [job for job in result.jobs if job.stat.error]
    for job in bad:
        text = f"{job.spec.name}: {job.stat.error_text} (errno {job.stat.error})"
        say(f"blktwin: {shown(text, NOTE_MAX)}")
    return 1 if bad else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; every error becomes one line on stderr."""
    repair()
    tokens = list(sys.argv[1:] if argv is None else argv)
    try:
        with printing():
            return dispatch(tokens)
    except BlktwinError as error:
        say(f"blktwin: {error}")
        return error.exit_code
    except cyclopts.CycloptsError as error:
        say(f"blktwin: {shown(' '.join(str(error).split()), NOTE_MAX)}")
        return UsageError.exit_code
    except BrokenPipeError:
        return 1
    except KeyboardInterrupt:
        say("blktwin: interrupted")
        return EXIT_INTERRUPTED
    except Exception as error:
        if os.environ.get("BLKTWIN_TRACEBACK"):
            raise
        text = shown(" ".join(f"{type(error).__name__} {error}".split()), 300)
        say(f"blktwin: internal error: {text} (please report it; BLKTWIN_TRACEBACK=1 shows more)")
        return 1


def dispatch(tokens: list[str]) -> int:
    """Hand the words to their command."""
    if not tokens:
        app.help_print([], console=Console(stderr=True))
        return UsageError.exit_code
    if tokens[:1] == ["run"]:
        ours, JOB_TOKENS[:] = part_tokens(tokens[1:])
        tokens = ["run", *ours]
    code = app(tokens, exit_on_error=False, print_error=False)
    return code if isinstance(code, int) else 0
