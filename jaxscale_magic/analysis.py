"""From a captured program to its report: compile, count, price, run, time, advise. No IPython here."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax

from jaxscale_magic import quantity as q
from jaxscale_magic.advice import advise
from jaxscale_magic.batch import named_dimension
from jaxscale_magic.capture import Captured
from jaxscale_magic.chips import Chip, chip_for_device_kind
from jaxscale_magic.chips import chip as chip_by_name
from jaxscale_magic.cost import Cost, OpCost
from jaxscale_magic.errors import CellError, ChipError, JaxscaleError, ModuleError
from jaxscale_magic.hlo.count import count_module
from jaxscale_magic.hlo.read import read_module
from jaxscale_magic.jax_internals import text_to_module_bytes
from jaxscale_magic.judging import Judged, devices_of, judge
from jaxscale_magic.report.build import TOO_FAST
from jaxscale_magic.report.record import Fit, RooflineReport, Target
from jaxscale_magic.repricing import input_specs, situation
from jaxscale_magic.roofline import price
from jaxscale_magic.targets.aim import Aim, aim_at
from jaxscale_magic.targets.compile import CompiledModule, compile_here
from jaxscale_magic.timing import Effort, measure
from jaxscale_magic.useful_flops import useful_flops

_ONCE = "Other sizes and dtypes are not tried: {}, so running the code again could be noticed."
_HAS_EFFECTS = "Not timed: it calls back into Python (a debug print, a callback), which timing would repeat."


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How to analyse.

    Attributes:
        on: a chip's name, a target ("v5e:4x4", "h100:8"), a `Chip`, or None for the devices that are here.
        measure: time it where it can be run.
        loops, repeats: calls a sample and samples, or None to choose.
        budget: seconds that timing may take.
        batch: "x" or "x[1]": which input's dimension is the batch, or None to find the likeliest.
        advise: look for what would help.
        stand_in: let the CPU compiler stand in for another chip's own, even where that is installed.
    """

    on: str | Chip | None = None
    measure: bool = True
    loops: int | None = None
    repeats: int | None = None
    budget: float = 2.0
    batch: str | None = None
    advise: bool = True
    stand_in: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Analysis:
    """A report, the value of the cell's last expression or of the call, and whether a notebook displays that."""

    report: RooflineReport
    value: Any
    shows_value: bool = False


def analyze_module(module: str | bytes | Path, on: str | Chip) -> RooflineReport:
    """The report of a compiled module given as a path, text or bytes; see `jaxscale_magic.analyze_hlo`."""
    chip = chip_by_name(on)
    data, title = _module_data(module)
    cost, ops = count_module(read_module(data))
    target = Target(name=chip.name, chip=chip)
    return RooflineReport(
        title=title,
        target=target,
        cost=cost,
        module_ops=ops,
        verdict=price(cost, ops, chip),
        notes=cost.notes,
    )


def _module_data(module: str | bytes | Path) -> tuple[bytes, str]:
    if isinstance(module, bytes):
        _refuse_mlir(module[:4000].decode("latin-1"))
        return module, "HLO module"
    if isinstance(module, str) and "HloModule" in module[:10_000]:
        return text_to_module_bytes(module), "HLO module"
    if isinstance(module, str):
        _refuse_mlir(module)
    path = Path(module)
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ModuleError(
            f"{str(module)[:200]!r} is neither HLO text (which begins with `HloModule`) nor a file that can be read: "
            f"{why}."
        ) from error
    if data.lstrip()[:9] == b"HloModule":
        return text_to_module_bytes(data.decode()), path.name
    _refuse_mlir(data[:4000].decode("latin-1"), f"{path.name} holds")
    return data, path.name


def _refuse_mlir(text: str, what: str = "this is") -> None:
    """Refuse the program as it stands before compiling, which has no fusions, layouts or collectives yet.

    Raises:
        ModuleError: the text is StableHLO or another MLIR dialect.
    """
    head = text[:4000]
    if "module @" in head or "stablehlo." in head or "func.func" in head or head.startswith("ML\xefR"):
        raise ModuleError(
            f"{what} StableHLO, the program before it is compiled; what limits it is read from compiled HLO. Give "
            "`jax.jit(f).lower(x).compile().as_text()`, or hand the function itself to `jaxscale_magic.roofline(f, x)`."
        )


def analyze(captured: Captured, options: Options) -> Analysis:
    """Compile, count, price, run, time and advise.

    The program's results land (`Captured.bind`) as soon as it has run, before anything that takes long and may be
    interrupted; where it cannot be run, shapes land.

    Raises:
        ChipError, TargetError, ModuleError: as their names say.
        JaxscaleError: `options.batch` names no input.
        CellError: running the program raised.
    """
    aim = aim_at(options.on, stand_in=options.stand_in) if options.on is not None else None
    chip = aim.chip if aim is not None else _chip_here()
    if options.batch is not None:
        named_dimension(options.batch, captured.names, input_specs(captured))
    here = aim is None
    ran = compile_here(captured.traced) if here or not captured.abstract else None
    judged = (
        Judged(module=ran)
        if aim is None and ran is not None
        else judge(captured.traced, aim, devices_of(captured.leaves))
    )
    cost, ops = judged.count(chip, captured.files)
    value = captured.bind(_run(captured, ran))
    report = _report(captured, judged, aim, chip, cost, ops, options)
    if here and options.measure and ran is not None and not captured.abstract:
        if captured.traced.jaxpr.effects:
            report = replace(report, notes=(*report.notes, _HAS_EFFECTS))
        else:
            report = _timed(report, captured, ran, options)
    if options.advise and captured.once:
        report = replace(report, notes=(*report.notes, _ONCE.format(captured.once)))
    report = replace(report, notes=(*_warnings(report, captured), *report.notes))
    if options.advise:
        report = replace(report, advice=advise(situation(report, captured, judged, aim, options.batch)))
    return Analysis(report=report, value=value, shows_value=captured.shows_last and value is not None)


def _chip_here() -> Chip:
    """The record of the first local device.

    Raises:
        ChipError: an accelerator that no record describes.
    """
    device = jax.devices()[0]
    if device.platform == "cpu":
        return chip_by_name("host")
    found = chip_for_device_kind(device.device_kind)
    if found is None:
        raise ChipError(
            f"no figures are known for the device here, {device.device_kind!r}. "
            "Describe it in a TOML file and load that with jaxscale_magic.load_chips(path)."
        )
    return found


def _run(captured: Captured, compiled: CompiledModule | None) -> Any:
    """The program's output leaves; shapes where it cannot be run."""
    if captured.abstract or compiled is None:
        shapes = jax.tree.leaves(captured.traced.out_info)
        return [jax.ShapeDtypeStruct(s.shape, s.dtype) for s in shapes]
    args, kwargs = _spared(captured)
    try:
        return jax.block_until_ready(compiled.executable(*args, **kwargs))
    except Exception as error:  # a callback of the user's raised, memory ran out
        raise CellError(f"running it failed: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """What an error of the runtime's says: the exception that a callback raised, else the first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"(\w+\.)*\w*(Error|Exception|Interrupt)\b", line)]
    return (raised or lines or [type(error).__name__])[-1 if raised else 0][:300]


def _spared(captured: Captured) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs with donated arrays copied, so that the notebook keeps its own."""
    infos = jax.tree.leaves(captured.traced.args_info, is_leaf=lambda x: hasattr(x, "donated"))
    leaves, structure = jax.tree.flatten((captured.args, captured.kwargs))
    if not any(info.donated for info in infos):
        return captured.args, captured.kwargs
    copied = [jax.numpy.copy(leaf) if info.donated else leaf for leaf, info in zip(leaves, infos, strict=True)]
    args, kwargs = jax.tree.unflatten(structure, copied)
    return args, kwargs


def _report(
    captured: Captured,
    judged: Judged,
    aim: Aim | None,
    chip: Chip,
    cost: Cost,
    ops: tuple[OpCost, ...],
    options: Options,
) -> RooflineReport:
    here, compiled = aim is None, judged.module
    notes = [*cost.notes, *judged.notes]
    if captured.abstract:
        notes.append("Not run: some inputs are shapes without numbers; results land as shapes too.")
    elif not here:
        unheeded = " -n and -r do nothing here." if options.loops or options.repeats else ""
        notes.append(f"Not timed: no {chip.title} is here. The program itself ran here once.{unheeded}")
    if not here and compiled.devices == 1 and devices_of(captured.leaves) > 1:
        notes.append(
            f"Its inputs are sharded over {devices_of(captured.leaves)} devices here; one {chip.title} is looked at."
        )
    device = chip.per_device()
    fit = None
    if compiled.memory is not None:
        capacity = int(device.hbm_bytes.value) if device.hbm_bytes else None
        fit = Fit(**compiled.memory._asdict(), capacity=capacity)
    return RooflineReport(
        title=captured.title,
        target=Target(
            name=chip.name if aim is None else aim.name,
            chip=chip,
            devices=compiled.devices,
            compiler=compiled.compiler,
            stands_in=compiled.stands_in,
            here=here,
        ),
        cost=cost,
        module_ops=ops,
        verdict=price(cost, ops, chip),
        fit=fit,
        notes=tuple(notes),
        source_lines=captured.source_lines,
    )


def _timed(
    report: RooflineReport,
    captured: Captured,
    compiled: CompiledModule,
    options: Options,
) -> RooflineReport:
    """The report with its measurement; a calibration that a run beats is taken again."""
    effort = Effort(loops=options.loops, repeats=options.repeats, budget=options.budget)
    try:
        measured = measure(compiled.executable, captured.traced, captured.args, captured.kwargs, effort)
    except JaxscaleError:
        raise
    except Exception as error:  # memory for a second set of buffers, say: the results are there all the same
        why = next(iter(str(error).splitlines()), "") or type(error).__name__
        return replace(report, notes=(*report.notes, f"Not timed: running it again failed: {why[:300]}"))
    report = replace(report, measured=measured)
    if report.target.chip.kind == "cpu" and measured.minimum < TOO_FAST * report.time.lower:
        from jaxscale_magic.chips.host import recalibrate_host

        chip = recalibrate_host()
        report = replace(
            report,
            target=replace(report.target, chip=chip),
            verdict=price(report.cost, report.module_ops, chip),
        )
    return report


def _warnings(report: RooflineReport, captured: Captured) -> list[str]:
    """What a reader must know before any figure: dead or folded code, a bound that was beaten."""
    notes = []
    written = useful_flops(captured.traced.jaxpr)
    # Vector work too: a product of two vectors is compiled to a multiplication and a sum.
    done = report.cost.total_flops * report.target.devices
    if _folded(report):
        notes.append(
            "Nothing is left to run: the compiler computed the result while compiling (constant folding), or "
            "found that nobody uses it. Make its inputs arrays that the cell reads, and its results outputs."
        )
    elif written and done < 0.99 * written and not report.cost.unmodelled:
        notes.append(
            f"The compiler dropped work: the code as written takes {q.flops(written)} of matrix products, the "
            f"compiled program {q.flops(done)} (unused results, or constants folded)."
        )
    measured = report.measured
    if measured is not None and measured.minimum < TOO_FAST * report.time.lower:
        notes.append(
            f"MEASURED FASTER THAN POSSIBLE: {q.seconds(measured.minimum)} against a lower bound of "
            f"{q.seconds(report.time.lower)}. Either the program does less than was counted, or a figure of the chip "
            "is too low: do not trust this report's times."
        )
    return notes


def _folded(report: RooflineReport) -> bool:
    """Whether the program only hands out constants."""
    cost = report.cost
    reads_nothing = cost.min_hbm_bytes <= cost.output_bytes
    only_copies = all(op.opcode in ("copy", "constant") for op in report.module_ops)
    return cost.total_flops == 0 and not cost.unmodelled and reads_nothing and only_copies
