"""Rooflines for JAX in a notebook cell: what limits this code on any chip, read from the compiled module.

`%load_ext jaxscale_magic` gives `%%roofline`; `roofline(f, *args)` is the same without IPython. Nothing heavy is
imported here: jax, the widgets and pandas come in when first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

# The rooms `chips` and `roofline` are imported before the functions of the same names are bound over them, so
# that importing a room later cannot take the function's place.
import jaxscale_magic.roofline  # noqa: F401  imported for its effect on the name
from jaxscale_magic.chips import Chip, chip, chips, load_chips
from jaxscale_magic.errors import JaxscaleError

if TYPE_CHECKING:
    from jaxscale_magic.report.record import RooflineReport

__all__ = [
    "Chip",
    "JaxscaleError",
    "analyze_hlo",
    "chip",
    "chips",
    "load_chips",
    "load_ipython_extension",
    "roofline",
]

__version__ = "0.1.0"


def __dir__() -> list[str]:
    """The public names only: what completion offers."""
    return sorted((*__all__, "__version__"))


def roofline(
    fun: Callable[..., Any],
    *args: Any,
    on: str | Chip | None = None,
    measure: bool = True,
    batch: str | None = None,
    **kwargs: Any,
) -> RooflineReport:
    """What limits `fun(*args, **kwargs)`, and how far from that limit it runs.

    Args:
        fun: a function of arrays; a jitted one keeps its shardings, donation and static arguments.
        *args: arrays, or `jax.ShapeDtypeStruct`s: then nothing is allocated or run.
        on: the chip to hold it against ("v5e", "h100", a `Chip`); None is the devices that are here.
        measure: also time it, where it runs here.
        batch: which input's dimension counts as the batch, as in "x" (its first) or "x[1]" (its second).
        **kwargs: passed to `fun`.

    Returns:
        The report; it displays itself in a notebook, and `print(report)` is its text.

    Raises:
        CellError: the function cannot be traced.
        ChipError: `on` names no known chip.
        TargetError: the compiler refuses the program.
    """
    from jaxscale_magic.analysis import Options, analyze
    from jaxscale_magic.capture_call import capture_call

    captured = capture_call(fun, args, kwargs)
    return analyze(captured, Options(on=on, measure=measure, batch=batch)).report


def analyze_hlo(module: str | bytes | Path, *, on: str | Chip) -> RooflineReport:
    """The report of a module that is compiled already, such as `jax.jit(f).lower(x).compile().as_text()`.

    Args:
        module: a path to a dump (`--xla_dump_to`, text or .pb), the HLO text itself, or the serialized bytes.
            It is analysed as it is: for the bytes of a TPU or GPU, give a module compiled for one.
        on: the chip to hold it against.

    Raises:
        ModuleError: this is no HLO module.
        ChipError: `on` names no known chip.
    """
    from jaxscale_magic.analysis import analyze_module

    return analyze_module(module, on)


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext jaxscale_magic` calls."""
    from jaxscale_magic.completion import register
    from jaxscale_magic.magics import RooflineMagics

    shell.register_magics(RooflineMagics)
    register(shell, {"roofline": RooflineMagics.roofline})
