"""The one file that touches private names of jax and jaxlib. Everything else asks here.

Each function says what it replaces, so that a public way can take its place the day there is one.
"""

from __future__ import annotations

from typing import Any

from jaxscale_magic.errors import ModuleError


def module_bytes(compiled: Any) -> bytes:
    """The optimized module of a `jax.stages.Compiled`, serialized as an HloModuleProto.

    Raises:
        ModuleError: the backend does not hand its module out.
    """
    try:
        modules = compiled.runtime_executable().hlo_modules()
    except Exception as error:
        raise ModuleError(f"this backend does not hand out its compiled module: {error}.") from error
    if len(modules) != 1:
        raise ModuleError(f"the executable holds {len(modules)} modules; exactly one can be read.")
    data: bytes = modules[0].as_serialized_hlo_module_proto()
    return data


def text_to_module_bytes(text: str) -> bytes:
    """HLO text, as `--xla_dump_to` writes it, serialized as an HloModuleProto.

    Raises:
        ModuleError: XLA's parser refuses the text.
    """
    from jaxlib import _hlo  # type: ignore[attr-defined]

    try:
        data: bytes = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    except Exception as error:
        raise ModuleError(f"XLA cannot read this HLO text: {error}") from error
    return data


def backend_version(platform: str) -> str:
    """What runs on a platform, in words: "XLA:CPU, jaxlib 0.10.2"."""
    from importlib.metadata import version

    names = {"cpu": "XLA:CPU", "gpu": "XLA:GPU", "cuda": "XLA:GPU", "tpu": "XLA:TPU"}
    return f"{names.get(platform, platform)}, jaxlib {version('jaxlib')}"
