"""Which source files are the user's own, and which belong to Python, a library or this package."""

from __future__ import annotations

import functools
import os
import sysconfig


@functools.cache
def _library_folders() -> tuple[str, ...]:
    here = os.path.dirname(os.path.abspath(__file__))
    paths = sysconfig.get_paths()
    folders = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    return tuple(os.path.join(folder, "") for folder in (*folders, here))


def is_library(file: str) -> bool:
    """Whether a file belongs to an installed package, the standard library or this package."""
    return file.startswith(("<frozen", *_library_folders())) or "site-packages" in file or "dist-packages" in file
