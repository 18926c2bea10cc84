"""bqplot's scales library warns on import with current traitlets; nothing else is let through."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", r"metadata .* was set from the constructor", DeprecationWarning)
    import bqplot  # noqa: F401
