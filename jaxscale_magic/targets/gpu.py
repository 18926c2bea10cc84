"""The description of a GPU that XLA:GPU compiles for, written from figures; XLA calls it a GpuTargetConfig.

Figures are those of XLA's own target specifications, which also say what they mean.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxscale_magic.errors import TargetError


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuDevice:
    """What decides XLA:GPU's code: sizes in bytes, rates in SI units.

    Attributes:
        name: what JAX calls the device.
        capability: compute capability, major and minor.
        accelerated: whether code for exactly this architecture is wanted (wgmma, tcgen05).
        cores: streaming multiprocessors.
        fpus: f32 units a core.
        clock: Hz.
        memory, bandwidth: bytes and bytes/s of HBM.
        l2: bytes of the last-level cache.
        shared: bytes of shared memory a core, and what one block may use of it.
        dnn: cuDNN version that may be assumed.
    """

    name: str
    capability: tuple[int, int]
    accelerated: bool
    cores: int
    fpus: int
    clock: float
    memory: int
    bandwidth: int
    l2: int
    shared: tuple[int, int]
    dnn: tuple[int, int, int]


GPUS = {
    "a100": GpuDevice(
        name="NVIDIA A100-SXM4-80GB",
        capability=(8, 0),
        accelerated=False,
        cores=108,
        fpus=64,
        clock=1.41e9,
        memory=85100068864,
        bandwidth=2039040000000,
        l2=41943040,
        shared=(167936, 166912),
        dnn=(8, 9, 4),
    ),
    "h100": GpuDevice(
        name="NVIDIA H100 80GB HBM3",
        capability=(9, 0),
        accelerated=True,
        cores=132,
        fpus=128,
        clock=1.98e9,
        memory=84942979072,
        bandwidth=3352320000000,
        l2=52428800,
        shared=(233472, 232448),
        dnn=(8, 9, 4),
    ),
    "h200": GpuDevice(
        name="NVIDIA H200 141GB HBM3e",
        capability=(9, 0),
        accelerated=True,
        cores=132,
        fpus=128,
        clock=1.98e9,
        memory=151397597184,
        bandwidth=4800000000000,
        l2=52428800,
        shared=(233472, 232448),
        dnn=(9, 10, 0),
    ),
    "b200": GpuDevice(
        name="NVIDIA B200",
        capability=(10, 0),
        accelerated=True,
        cores=148,
        fpus=128,
        clock=1.965e9,
        memory=191514411008,
        bandwidth=7672320000000,
        l2=132644864,
        shared=(233472, 232448),
        dnn=(9, 7, 0),
    ),
    "gb200": GpuDevice(
        name="NVIDIA GB200",
        capability=(10, 0),
        accelerated=True,
        cores=152,
        fpus=128,
        clock=2.062e9,
        memory=197897748480,
        bandwidth=7928064000000,
        l2=135528448,
        shared=(233472, 232448),
        dnn=(9, 15, 0),
    ),
}


def describe_gpu(chip: str) -> str:
    """The textual GpuTargetConfigProto of a GPU.

    Raises:
        TargetError: XLA:GPU has no description of that chip here.
    """
    try:
        gpu = GPUS[chip]
    except KeyError:
        raise TargetError(f"no GPU {chip!r} can be described to the CUDA compiler; known: {', '.join(GPUS)}.") from None
    major, minor = gpu.capability
    feature = "ACCELERATED_FEATURES" if gpu.accelerated else "NONE"
    device = {
        "threads_per_block_limit": 1024,
        "threads_per_warp": 32,
        "shared_memory_per_block": 49152,
        "shared_memory_per_core": gpu.shared[0],
        "shared_memory_per_block_optin": gpu.shared[1],
        "threads_per_core_limit": 2048,
        "core_count": gpu.cores,
        "fpus_per_core": gpu.fpus,
        "block_dim_limit_x": 2**31 - 1,
        "block_dim_limit_y": 65535,
        "block_dim_limit_z": 65535,
        "thread_dim_limit_x": 1024,
        "thread_dim_limit_y": 1024,
        "thread_dim_limit_z": 64,
        "memory_bandwidth": gpu.bandwidth,
        "l2_cache_size": gpu.l2,
        "clock_rate_ghz": gpu.clock / 1e9,
        "device_memory_size": gpu.memory,
        "registers_per_core_limit": 65536,
        "registers_per_block_limit": 65536,
    }
    lines = "".join(f"  {key}: {value}\n" for key, value in device.items())
    version = dict(zip(("major", "minor", "patch"), gpu.dnn, strict=True))
    return (
        f"gpu_device_info {{\n{lines}"
        f"  cuda_compute_capability {{ major: {major} minor: {minor} feature_extension: {feature} }}\n"
        f'  dnn_version: "{".".join(map(str, gpu.dnn))}"\n  name: "{gpu.name}"\n}}\n'
        'platform_name: "CUDA"\n'
        f"dnn_version_info {{ {' '.join(f'{k}: {v}' for k, v in version.items())} }}\n"
        f'device_description_str: "{gpu.name}"\n'
    )
