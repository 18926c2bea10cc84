"""`python -m jaxscale_magic`: the main job in a terminal, without a notebook."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jaxscale_magic import quantity as q
from jaxscale_magic.errors import JaxscaleError

if TYPE_CHECKING:
    from jaxscale_magic.report.record import RooflineReport


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m jaxscale_magic", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="analyse, run and time a small MLP here, then hold it against a TPU v5e")
    demo.add_argument("--html", type=Path, metavar="PATH", help="where to write the page (default: a new file)")
    commands.add_parser("chips", help="list every chip whose figures are known")
    calibrate = commands.add_parser("calibrate", help="measure this machine's own roofs")
    calibrate.add_argument("--again", action="store_true", help="measure even where a calibration is kept")
    for verb, does in (
        ("install", "install a compiler for absent chips, apart from this environment"),
        ("uninstall", "remove it again"),
    ):
        commands.add_parser(verb, help=does).add_argument("compiler", choices=("tpu", "cuda"))
    commands.add_parser("targets", help="list what this installation can compile for")
    asked = parser.parse_args(arguments)
    try:
        match asked.command:
            case "demo":
                run_demo(asked.html)
            case "chips":
                print_chips()
            case "calibrate":
                print_host(again=asked.again)
            case "install" | "uninstall" | "targets":
                from jaxscale_magic.targets import commands as compilers

                compilers.run(asked.command, getattr(asked, "compiler", ""))
    except JaxscaleError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def run_demo(page: Path | None) -> None:
    """A two-layer MLP: its report for this machine and for a TPU v5e, as text and as one HTML page."""
    import jax
    import jax.numpy as jnp

    import jaxscale_magic as jm

    def mlp(x: jax.Array, w1: jax.Array, w2: jax.Array) -> jax.Array:
        h = jax.nn.relu(x @ w1)
        return h @ w2

    keys = jax.random.split(jax.random.key(0), 3)
    shapes = [(256, 1024), (1024, 4096), (4096, 1024)]
    x, w1, w2 = (jax.random.normal(key, shape, jnp.float32) for key, shape in zip(keys, shapes, strict=True))
    print("The MLP  h = relu(x @ w1); y = h @ w2  in f32, 256 rows, 1024 wide, 4096 inside.\n")
    here = jm.roofline(mlp, x, w1, w2)
    print(here)
    print("\nThe same in bf16, held against a TPU v5e:\n")
    there = jm.roofline(mlp, *(a.astype(jnp.bfloat16) for a in (x, w1, w2)), on="v5e")
    print(there)
    if page is None:
        page = Path(tempfile.mkdtemp(prefix="jaxscale-magic-")) / "report.html"
    print(f"\nThe same as a page: {save_page(page, [here, there])}")


def save_page(path: Path, reports: Sequence[RooflineReport]) -> Path:
    """Write reports below one another into one HTML page."""
    from jaxscale_magic.report.html import reports_page

    try:
        path.write_text(reports_page(reports), encoding="utf-8")
    except OSError as error:
        raise JaxscaleError(f"the page cannot be written to {path}: {error}") from error
    return path.resolve()


def print_chips() -> None:
    """One line a chip: name, bf16 peak (f16 where there is no bf16), bandwidth, ridge."""
    import jaxscale_magic as jm

    print(f"{'name':10} {'chip':28} {'16-bit peak':>13} {'memory':>10} {'ridge':>11}")
    for chip in jm.chips():
        dtype = next((d for d in ("bf16", "f16") if d in chip.matrix_flops), None)
        peak = q.flop_rate(chip.peak_flops(dtype)) if dtype else q.UNKNOWN
        ridge = q.intensity(chip.ridge(dtype)) if dtype else q.UNKNOWN
        print(f"{chip.name:10} {chip.title:28} {peak:>13} {q.byte_rate(chip.hbm_bandwidth.value):>10} {ridge:>11}")
    print("\nFigures are per chip. The ridge is the FLOP per byte above which compute, not memory, limits.")


def print_host(*, again: bool) -> None:
    """This machine's measured roofs."""
    from jaxscale_magic.chips.host import host_chip

    chip = host_chip(refresh=again)
    print(chip.title)
    for dtype, figure in chip.matrix_flops.items():
        print(f"  {dtype:5} products  {figure.value / 1e9:10.1f} GFLOP/s")
    print(f"  main memory     {chip.hbm_bandwidth.value / 1e9:10.1f} GB/s")
    if chip.cache_bandwidth is not None and chip.cache_bytes is not None:
        size = chip.cache_bytes.value / 2**20
        print(f"  cache           {chip.cache_bandwidth.value / 1e9:10.1f} GB/s up to {size:.0f} MiB")


if __name__ == "__main__":
    sys.exit(main())
