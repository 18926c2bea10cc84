"""The CPU that is here, measured: matmul peaks, streaming and cache bandwidth. Once, kept on disk.

Looking published chips up is in `catalog.py`; timing a user's program is in `timing.py`.
"""

from __future__ import annotations

import functools
import json
import math
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jaxscale_magic.chips.record import Chip, Figure

#: Raised when what is measured, or how, changes: older calibrations are then taken again.
FORMAT = 1
#: Where the OS does not say how large the last cache is.
ASSUMED_CACHE_BYTES = 32 * 2**20
SOURCE = "measured on this machine"
MATRIX_SIZES = (512, 1024, 1536)
#: Seconds that each kernel is repeated for; the largest rate seen counts.
KERNEL_SECONDS = 0.12


def host_chip(*, refresh: bool = False) -> Chip:
    """The record of this machine's CPU, as jax uses it; measured where no calibration is kept.

    Args:
        refresh: measure again, whatever is kept.
    """
    key = calibration_key()
    kept = None if refresh else _load(key)
    if kept is not None:
        return _chip(kept)
    figures = measure_host()
    _store(key, figures)
    return _chip(figures)


def recalibrate_host() -> Chip:
    """Measure again and keep the larger of old and new figures.

    For a run that beats the roof: the machine was busy when it was calibrated.
    """
    key = calibration_key()
    old, new = _load(key) or {}, measure_host()
    figures = {name: max(value, old.get(name, 0.0)) for name, value in new.items()}
    _store(key, figures)
    return _chip(figures)


def calibration_key() -> dict[str, Any]:
    """What a calibration is valid for: CPU, usable cores, jax version, and the way of measuring."""
    import jax

    return {"cpu": cpu_name(), "cores": usable_cores(), "jax": jax.__version__, "format": FORMAT}


@functools.cache
def cpu_name() -> str:
    """The CPU's model name, as the OS tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    if platform.system() == "Darwin":
        return _sysctl("machdep.cpu.brand_string") or platform.processor()
    return platform.processor() or platform.machine()


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def last_cache_bytes() -> tuple[float, bool]:
    """Size of the last-level cache, and whether the OS said so."""
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        try:
            text = path.read_text().strip()
            sizes.append(float(text.rstrip("KMG")) * {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1], 1))
        except (OSError, ValueError):
            continue
    if not sizes and platform.system() == "Darwin":
        found = [_sysctl(name) for name in ("hw.l3cachesize", "hw.perflevel0.l2cachesize", "hw.l2cachesize")]
        sizes = [float(text) for text in found if text and text.isdigit()]
    return (max(sizes), True) if sizes else (ASSUMED_CACHE_BYTES, False)


def _sysctl(name: str) -> str:
    try:
        done = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def memory_bytes() -> float:
    """Physical memory."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError, AttributeError):
        return math.nan


def measure_host() -> dict[str, float]:
    """Run every kernel; figure name -> FLOP/s or bytes/s. Takes about three seconds."""
    import jax

    kernels: list[tuple[str, Callable[[], Iterator[float]]]] = [
        *((dtype, functools.partial(_matmul_rates, dtype)) for dtype in ("f32", "bf16", "f64", "s8")),
        ("stream", _streaming_rates),
        ("cache", _cache_rates),
    ]
    from tqdm.auto import tqdm

    figures: dict[str, float] = {}
    with jax.default_device(jax.devices("cpu")[0]):
        for name, rates in tqdm(kernels, desc="measuring this machine", leave=False, delay=2):
            figures[name] = max(rates())
    return figures


def _best_seconds(run: Callable[[], object], seconds: float = KERNEL_SECONDS) -> float:
    """The fastest of many runs within `seconds`, at least three, after one that warms up."""
    run()
    best, end, runs = math.inf, time.perf_counter() + seconds, 0
    while runs < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
        runs += 1
    return best


def _blocked(function: Callable[..., Any], *args: Any) -> None:
    import jax

    jax.block_until_ready(function(*args))


def _matmul_rates(dtype: str) -> Iterator[float]:
    import jax
    import jax.numpy as jnp

    types = {"f32": jnp.float32, "bf16": jnp.bfloat16, "f64": jnp.float64, "s8": jnp.int8}
    with jax.enable_x64(True):
        for size in MATRIX_SIZES:
            a = jnp.ones((size, size), types[dtype])
            accumulator = jnp.int32 if dtype == "s8" else None
            product = jax.jit(functools.partial(jax.lax.dot, preferred_element_type=accumulator))
            yield 2 * size**3 / _best_seconds(functools.partial(_blocked, product, a, a))


def _streaming_rates() -> Iterator[float]:
    """Bytes/s well past the last cache: an update in place, a sum, and a sum of two arrays into a kept buffer."""
    import jax
    import jax.numpy as jnp

    cache, _ = last_cache_bytes()
    free = memory_bytes()
    size = int(min(max(4 * cache, 128 * 2**20), (free if free == free else 4e9) / 16)) // 4
    state = {"x": jnp.ones(size, jnp.float32), "spare": jnp.zeros(size, jnp.float32)}
    fixed = jnp.ones(size, jnp.float32)
    update = jax.jit(lambda x: x + 1, donate_argnums=0)
    total = jax.jit(jnp.sum)
    triad = jax.jit(lambda spare, a, b: a + b, donate_argnums=0, keep_unused=True)

    def run_update() -> None:
        state["x"] = jax.block_until_ready(update(state["x"]))

    def run_triad() -> None:
        state["spare"] = jax.block_until_ready(triad(state["spare"], fixed, state["x"]))

    yield 8 * size / _best_seconds(run_update, 3 * KERNEL_SECONDS)
    yield 4 * size / _best_seconds(functools.partial(_blocked, total, fixed))
    yield 12 * size / _best_seconds(run_triad, 3 * KERNEL_SECONDS)


def _cache_rates() -> Iterator[float]:
    """Bytes/s of loops over working sets that fit the caches, from a core's own to half of the last one.

    Counted as a program's bytes are: everything read and written in each trip of the loop.
    """
    import jax
    import jax.numpy as jnp

    cache, _ = last_cache_bytes()
    sizes = [2**k for k in range(16, 40, 2) if 2**k <= cache / 2] or [2**16]
    for nbytes in sizes:
        trips = max(10, int(2e8 / nbytes))
        x = jnp.ones(nbytes // 4, jnp.float32)

        def passes(x: Any, trips: int = trips) -> Any:
            return jax.lax.fori_loop(0, trips, lambda i, c: c * 0.999 + 1.0, x)

        run = functools.partial(_blocked, jax.jit(passes), x)
        yield 2 * nbytes * trips / _best_seconds(run, KERNEL_SECONDS / 2)


def _chip(figures: dict[str, float]) -> Chip:
    cores = usable_cores()
    size, said = last_cache_bytes()

    def figure(value: float, note: str = "", confidence: str = "high") -> Figure:
        return Figure(value=value, source=SOURCE, note=note, confidence=confidence)

    capacity = memory_bytes()
    return Chip(
        name="host",
        title=f"{cpu_name()}, {cores} core{'s' if cores > 1 else ''}",
        kind="cpu",
        aliases=("cpu",),
        device_kinds=("cpu",),
        matrix_flops={
            dtype: figure(figures[dtype], f"the fastest square product of {MATRIX_SIZES}")
            for dtype in ("f32", "bf16", "f64", "s8")
        },
        vector_flops=figure(
            figures["f32"],
            "the f32 product's rate: the same multiply-add units, so no elementwise loop is faster",
        ),
        hbm_bytes=figure(capacity) if capacity == capacity else None,
        hbm_bandwidth=figure(figures["stream"], "the fastest of an update in place, a sum and an addition"),
        cache_bytes=Figure(
            value=size,
            source="the operating system" if said else "assumed",
            confidence="high" if said else "low",
        ),
        cache_bandwidth=figure(
            max(figures["cache"], figures["stream"]),
            "the fastest loop over a working set that fits the caches",
        ),
        runs_as={
            "f16": ("f32", 1.0),
            "f8": ("f32", 1.0),
            "s4": ("s8", 1.0),
            "c64": ("f32", 1.0),
            "c128": ("f64", 1.0),
        },
    )


def cache_folder() -> Path:
    """Where calibrations are kept; `JAXSCALE_MAGIC_CACHE` names another place."""
    named = os.environ.get("JAXSCALE_MAGIC_CACHE")
    if named:
        return Path(named)
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("jaxscale-magic"))


def _file(key: dict[str, Any]) -> Path:
    text = "-".join(str(key[part]) for part in ("cpu", "cores", "jax", "format"))
    return cache_folder() / ("host-" + "".join(c if c.isalnum() or c in ".-" else "_" for c in text) + ".json")


def _load(key: dict[str, Any]) -> dict[str, float] | None:
    """A kept calibration; None where there is none, or it is damaged or another machine's."""
    try:
        kept = json.loads(_file(key).read_text(encoding="utf-8"))
        figures = {name: float(value) for name, value in kept["figures"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    wanted = {"f32", "bf16", "f64", "s8", "stream", "cache"}
    sound = all(math.isfinite(value) and value > 0 for value in figures.values())
    return figures if kept.get("key") == key and figures.keys() == wanted and sound else None


def _store(key: dict[str, Any], figures: dict[str, float]) -> None:
    """Keep a calibration; a folder that cannot be written only means measuring again next time."""
    path = _file(key)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
            temporary = file.name
            json.dump({"key": key, "figures": figures}, file)
        os.replace(temporary, path)
    except OSError:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
