"""The machine that is here as a `Chip`: its roofs measured through jax once, and kept on disk.

Published chips are in `catalog.py`; timing a user's program is in `timing.py`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxscale_magic.chips.record import Chip, Figure
from jaxscale_magic.errors import ChipError

#: Changes whenever what is measured, or how it is written down, changes: older files are then measured anew.
FORMAT = 1
MATMUL_DTYPES = {"f32": "float32", "bf16": "bfloat16", "f64": "float64", "s8": "int8"}
MATMUL_SIZES = (512, 1024, 2048)
#: Seconds for one kernel at one size; a matmul expected to take longer than the second figure is left out.
KERNEL_SECONDS, LONGEST_MATMUL = 0.06, 0.25
MEMORY_SECONDS, CACHE_SECONDS = 0.15, 0.02
SMALLEST_WORKING_SET = 64 << 10
ASSUMED_CACHE = 32 << 20
#: XLA:CPU multiplies these on another dtype's instructions, in one pass: an upper roof.
RUNS_AS = {
    **dict.fromkeys(("f32:high", "f32:highest", "tf32", "f16", "f8", "f4"), ("f32", 1.0)),
    **dict.fromkeys(("s4", "s16", "u16", "s32", "u32"), ("s8", 1.0)),
}

#: Measures one kernel at one size: told the best rate so far, returns its own.
_Kernel = Callable[[float], float]
#: Typed here, since jax leaves it untyped.
_wait: Callable[[Any], Any] = jax.block_until_ready
#: Rates by cache file, for this process.
_known: dict[Path, dict[str, float]] = {}


def host_chip(*, refresh: bool = False, progress: bool | None = None) -> Chip:
    """This machine's CPU as a chip called "host": FLOP/s, bytes/s and bytes, per jax CPU device.

    Measured in a few seconds the first time, then read from the cache folder (`JAXSCALE_MAGIC_CACHE`, else
    the user's own): a file for each CPU model, number of usable cores and version of jax. What cannot be read
    is measured anew; where nothing can be written, the chip's facts say so ("not_cached").

    Args:
        refresh: measure again, whatever is known.
        progress: show a bar while measuring; None shows it too.

    Raises:
        ChipError: jax has no CPU device.
    """
    key = _key()
    path = _cache_file(key)
    rates = None if refresh else _known.get(path) or _read(path, key)
    return _chip(rates, "") if rates else _kept(path, key, _calibrate(progress is not False))


def recalibrate_host(*, progress: bool | None = None) -> Chip:
    """Measure again and keep the larger of the old and the new value of every rate.

    For a run that beats the roof: the roof was then measured on a busy machine.

    Raises:
        ChipError: jax has no CPU device.
    """
    key = _key()
    path = _cache_file(key)
    old, new = _known.get(path) or _read(path, key) or {}, _calibrate(progress is not False)
    return _kept(path, key, {name: max(rate, old.get(name, 0.0)) for name, rate in new.items()})


def _key() -> dict[str, Any]:
    return {"format": FORMAT, "cpu": _model(), "cores": _cores(), "jax": jax.__version__}


def _cache_file(key: Mapping[str, Any]) -> Path:
    import platformdirs

    folder = os.environ.get("JAXSCALE_MAGIC_CACHE") or platformdirs.user_cache_dir("jaxscale-magic")
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    return Path(folder).expanduser() / f"host-{digest}.json"


def _read(path: Path, key: Mapping[str, Any]) -> dict[str, float] | None:
    """The rates in a cache file; None where there is none, or it is damaged or another machine's."""
    try:
        entry = json.loads(path.read_text("utf-8"))
        rates = {name: float(entry["rates"][name]) for name in (*MATMUL_DTYPES, "memory", "cache")}
        sound = entry["key"] == key and all(0 < rate < float("inf") for rate in rates.values())
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return rates if sound else None


def _kept(path: Path, key: Mapping[str, Any], rates: dict[str, float]) -> Chip:
    """The chip of these rates, put into the cache in one step, or with a fact that says why not."""
    _known[path] = rates
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as file:
            temporary = Path(file.name)
            json.dump({"key": key, "rates": rates}, file)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        return _chip(rates, f"not kept in {path.parent} ({error.strerror}): measured again by every process")
    return _chip(rates, "")


def _calibrate(progress: bool) -> dict[str, float]:
    """The best rate of every kernel: dtype -> FLOP/s, and "memory" and "cache" in bytes/s."""
    try:
        device = jax.devices("cpu")[0]
    except RuntimeError as error:
        raise ChipError(f"the host cannot be measured, jax has no CPU device here: {error}.") from None
    from tqdm.auto import tqdm

    cache, _ = _cache_bytes()
    again = [step for step in _matmuls() if step[0] == "f32"]  # later on: a busy moment counts less
    steps = [*_matmuls(), *_memory(_streamed_bytes(cache)), *_cached(cache), *again]
    rates: dict[str, float] = {}
    with jax.default_device(device):
        for name, kernel in tqdm(steps, "measuring this machine, once", leave=False, disable=not progress):
            rates[name] = max(rates.get(name, 0.0), kernel(rates.get(name, 0.0)))
    return {**rates, "cache": max(rates["cache"], rates["memory"])}


def _chip(rates: Mapping[str, float], warning: str) -> Chip:
    source = f"measured here with jax {jax.__version__}" + (f"; {warning}" if warning else "")
    cache, told = _cache_bytes()
    memory, cores = _memory_bytes(), _cores()

    def rate(name: str, note: str) -> Figure:
        return Figure(value=rates[name], source=source, note=note)

    system = Figure(value=float(cache), source="the operating system")
    assumed = replace(system, source="assumed", note="the system does not tell it", confidence="low")
    return Chip(
        name="host",
        title=f"{_model()}, {cores} core{'s' * (cores > 1)}",
        kind="cpu",
        matrix_flops={dtype: rate(dtype, "the fastest square product") for dtype in MATMUL_DTYPES},
        vector_flops=rate("f32", "the f32 product's peak: the same multiply-add units; an upper roof in f32"),
        hbm_bytes=replace(system, value=float(memory)) if memory else None,
        hbm_bandwidth=rate("memory", "the fastest of an update in place, a sum, a product with a vector, a + b"),
        cache_bytes=system if told else assumed,
        cache_bandwidth=rate("cache", "the fastest over 64 KiB to half of the last cache; no margin added"),
        runs_as=RUNS_AS,
        facts={"not_cached": warning} if warning else {},
    )


def _matmuls() -> Iterator[tuple[str, _Kernel]]:
    for dtype in MATMUL_DTYPES:
        for size in MATMUL_SIZES:
            yield dtype, functools.partial(_matmul_rate, MATMUL_DTYPES[dtype], size)


def _matmul_rate(dtype: str, size: int, best: float) -> float:
    """FLOP/s of a square product; 0.0 where `best` says that it would take too long."""
    work = 2.0 * size**3
    if best and work / best > LONGEST_MATMUL:
        return 0.0
    with jax.enable_x64(dtype == "float64"):
        square = jnp.asarray(np.random.default_rng(0).integers(1, 4, (size, size)), dtype)
        wide = jnp.int32 if dtype == "int8" else None
        product = _compiled(lambda a, b: jnp.matmul(a, b, preferred_element_type=wide), square, square)
        return work / _fastest(lambda: product(square, square), KERNEL_SECONDS)


def _memory(nbytes: int) -> Iterator[tuple[str, _Kernel]]:
    for kernel in (_in_place, _summed, _matrix_vector, _triad):
        yield "memory", functools.partial(kernel, nbytes, MEMORY_SECONDS)


def _cached(cache: int) -> Iterator[tuple[str, _Kernel]]:
    size = SMALLEST_WORKING_SET
    while size <= max(cache // 2, SMALLEST_WORKING_SET):
        for kernel in (_loop, _in_place, _matrix_vector):
            yield "cache", functools.partial(kernel, size, CACHE_SECONDS)
        size *= 4


def _compiled(function: Callable[..., Any], *args: Any, donate: tuple[int, ...] = ()) -> Any:
    return jax.jit(function, donate_argnums=donate, keep_unused=True).lower(*args).compile()


def _overwriting(function: Callable[..., Any], arrays: int, nbytes: int, seconds: float) -> float:
    """Seconds of a run that writes its result over its first array, as the next run's first."""
    first, *others = (jnp.ones(nbytes // 4, jnp.float32) for _ in range(arrays))
    program, held = _compiled(function, first, *others, donate=(0,)), [first]
    del first

    def step() -> Any:
        held.append(program(held.pop(), *others))
        return held[0]

    return _fastest(step, seconds)


def _in_place(nbytes: int, seconds: float, best: float) -> float:
    """Bytes/s of reading and writing one array where it lies."""
    return 2 * nbytes / _overwriting(lambda x: -x, 1, nbytes, seconds)


def _triad(nbytes: int, seconds: float, best: float) -> float:
    """Bytes/s of a + b written into the memory of the result before."""
    return 3 * nbytes / _overwriting(lambda spare, a, b: a + b, 3, nbytes, seconds)


def _summed(nbytes: int, seconds: float, best: float) -> float:
    """Bytes/s of reading one array."""
    array = jnp.ones(nbytes // 4, jnp.float32)
    program = _compiled(jnp.sum, array)
    return nbytes / _fastest(lambda: program(array), seconds)


def _matrix_vector(nbytes: int, seconds: float, best: float) -> float:
    """Bytes/s of reading a matrix once, on all cores."""
    width = max(64, 1 << ((nbytes // 4).bit_length() // 2))
    matrix, vector = jnp.ones((nbytes // 4 // width, width), jnp.float32), jnp.ones(width, jnp.float32)
    program = _compiled(jnp.matmul, matrix, vector)
    return matrix.nbytes / _fastest(lambda: program(matrix, vector), seconds)


def _loop(nbytes: int, seconds: float, best: float) -> float:
    """Bytes/s of updating one array in place, many times within one program: no launch is in it."""
    array, times = jnp.ones(nbytes // 4, jnp.float32), max(8, (16 << 20) // nbytes)
    program = _compiled(lambda x, n: jax.lax.fori_loop(0, n, lambda _, y: -y, x), array, times)
    count = jnp.asarray(times)
    return 2.0 * nbytes * times / _fastest(lambda: program(array, count), seconds)


def _fastest(step: Callable[[], Any], seconds: float) -> float:
    """Shortest of the blocked steps that fit into `seconds`, after one to warm up; at least three."""
    _wait(step())
    best, done, end = float("inf"), 0, time.perf_counter() + seconds
    while done < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        _wait(step())
        best, done = min(best, time.perf_counter() - start), done + 1
    return best


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def _model() -> str:
    if sys.platform == "darwin":
        return _sysctl("machdep.cpu.brand_string") or platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine() or "CPU"


def _sysctl(name: str) -> str:
    try:
        return subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, timeout=5).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _cache_bytes() -> tuple[int, bool]:
    """Size of the last-level cache, and whether the system told it."""
    if sys.platform == "darwin":
        told = [_sysctl(name) for name in ("hw.l3cachesize", "hw.perflevel0.l2cachesize", "hw.l2cachesize")]
        sizes = [int(text) for text in told if text.isdigit() and int(text)]
    else:
        sizes = [_sysfs_size(each) for each in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return (max(sizes), True) if any(sizes) else (ASSUMED_CACHE, False)


def _sysfs_size(file: Path) -> int:
    try:
        text = file.read_text("ascii").strip()
        return int(text.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(text[-1:], 0)
    except (OSError, ValueError):
        return 0


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _streamed_bytes(cache: int) -> int:
    """Bytes of one streamed array: well past the last cache, but three of them in free memory."""
    free = (_memory_bytes() or 4 << 30) // 4
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    except (OSError, ValueError, StopIteration):
        pass
    return max(min(max(4 * cache, 64 << 20), free // 8), 1 << 20) // 4096 * 4096
