"""Compiled modules on disk: same export, same target, same compiler → compiled once.

Two processes may write at once (each to its own file, then an atomic rename), a damaged entry counts as none, and
a disk that is full or read-only costs the entry, never the answer.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import tempfile
import zlib
from dataclasses import replace
from pathlib import Path

import platformdirs

from jaxscale_magic.targets.request import CompileRequest, CompileResult

#: Bytes that all entries may hold together; the least recently used go first.
BYTES_KEPT = 512 * 2**20
#: Raised when the form of an entry, or what a worker puts into it, changes.
_FORM = "1"


def folder() -> Path:
    """Where entries lie: `JAXSCALE_MAGIC_CACHE`, else the user's cache folder."""
    root = os.environ.get("JAXSCALE_MAGIC_CACHE") or platformdirs.user_cache_dir("jaxscale-magic")
    return Path(root) / "modules"


def entry_name(request: CompileRequest, compiler: str) -> str:
    """The name of an entry: a digest of the request, the compiler's version and the form of entries."""
    return hashlib.sha256(f"{_FORM}\n{compiler}\n{request.key()}".encode()).hexdigest()


def load(name: str) -> CompileResult | None:
    """The result kept under that name, or None: absent, damaged or unreadable."""
    path = folder() / name
    try:
        data = path.read_bytes()
        digest, body = data[:32], data[32:]
        if hashlib.sha256(body).digest() != digest:
            raise ValueError("damaged")
        result = pickle.loads(zlib.decompress(body))
    except FileNotFoundError:
        return None
    except Exception:  # whatever is wrong with an entry, compiling again is right
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return replace(result, cached=True) if isinstance(result, CompileResult) else None


def store(name: str, result: CompileResult) -> None:
    """Keep a result; silently not, where the disk does not take it."""
    body = zlib.compress(pickle.dumps(result, protocol=5), 1)
    unfinished: str | None = None
    try:
        folder().mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(prefix="unfinished-", dir=folder())
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(body).digest() + body)
        os.replace(unfinished, folder() / name)
        _shrink()
    except OSError:
        if unfinished is not None:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)


def _shrink() -> None:
    """Drop the least recently used entries beyond `BYTES_KEPT`."""
    entries = []
    for each in os.scandir(folder()):
        with contextlib.suppress(OSError):  # another process may have dropped it
            status = each.stat()
            entries.append((status.st_mtime, status.st_size, each.path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= BYTES_KEPT:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size
