"""Chips: what is published of each one, and finding one by name.

`record.py` is the record, `tpu.toml` and `gpu.toml` hold the figures, `catalog.py` finds and loads them,
`host.py` measures the machine that is here. Nothing here knows a program.
"""

from __future__ import annotations

from jaxscale_magic.chips.catalog import chip, chip_for_device_kind, chips, load_chips
from jaxscale_magic.chips.record import Chip, Figure

__all__ = ["Chip", "Figure", "chip", "chip_for_device_kind", "chips", "load_chips"]
