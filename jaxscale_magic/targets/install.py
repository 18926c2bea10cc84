"""Compilers for absent chips, each in a private virtual environment of the user's data folder.

The notebook's own environment stays as it is: its `import jax` neither sees them nor waits for them. Which compiler
a target needs, and where it is, is answered here; running it is `worker.py`'s business.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from jaxscale_magic.errors import TargetError


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """What a platform's compiler is called on the package index.

    Attributes:
        title: for people.
        marks: distributions that hold the compiler; one of them makes an environment able.
        requirements: what to install beside jax, `{jax}` standing for the kernel's version of it.
    """

    title: str
    marks: tuple[str, ...]
    requirements: tuple[str, ...]


#: The name that `install` takes -> what it installs. The CUDA compiler needs none of NVIDIA's libraries to compile.
PACKAGES = {
    "tpu": Package(
        title="the TPU compiler",
        marks=("libtpu", "libtpu-nightly"),
        requirements=("jax[tpu]=={jax}", "jaxlib=={jaxlib}", "flatbuffers"),
    ),
    "cuda": Package(
        title="the CUDA compiler",
        marks=("jax-cuda12-pjrt", "jax-cuda13-pjrt"),
        requirements=(
            "jax=={jax}",
            "jaxlib=={jaxlib}",
            "jax-cuda12-plugin=={jax}",
            "jax-cuda12-pjrt=={jax}",
            "flatbuffers",
        ),
    ),
}
_READY = "ready.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiler:
    """Where a platform's compiler is.

    Attributes:
        interpreter: the Python that can import it.
        version: which it is, for the cache and for people.
        private: whether it is an environment of `install`.
    """

    interpreter: str
    version: str
    private: bool = False


def compilers_folder() -> Path:
    """Where private environments lie: `JAXSCALE_MAGIC_DATA`, else the user's data folder."""
    root = os.environ.get("JAXSCALE_MAGIC_DATA") or platformdirs.user_data_dir("jaxscale-magic")
    return Path(root) / "compilers"


def environment_folder(name: str) -> Path:
    """The private environment of one compiler for this kernel's jax and Python."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return compilers_folder() / f"{name}-jax{_version('jax')}-py{python}"


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def find_compiler(platform: str) -> Compiler | None:
    """The compiler for a platform ("cpu", "tpu", "cuda"): the kernel's own, else the private one, else None."""
    jax = f"jax {_version('jax')}, jaxlib {_version('jaxlib')}"
    if platform == "cpu":
        return Compiler(interpreter=sys.executable, version=f"{jax}, cpu")
    for mark in PACKAGES[platform].marks:
        if found := _version(mark):
            return Compiler(interpreter=sys.executable, version=f"{jax}, {mark} {found}")
    folder = environment_folder(platform)
    try:
        packages = json.loads((folder / _READY).read_text("utf-8"))["packages"]
        interpreter = _interpreter(folder)
        if not interpreter.exists():
            return None
        marks = ", ".join(f"{mark} {packages[mark]}" for mark in PACKAGES[platform].marks if mark in packages)
        version = f"jax {packages['jax']}, jaxlib {packages['jaxlib']}, {marks}"
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Compiler(interpreter=str(interpreter), version=version, private=True)


def compiler_for(platform: str) -> Compiler:
    """The compiler for a platform.

    Raises:
        TargetError: it is not installed; the message says how to install it.
    """
    found = find_compiler(platform)
    if found is None:
        raise TargetError(
            f"{PACKAGES[platform].title} is not installed for jax {_version('jax')}; "
            f"`python -m jaxscale_magic install {platform}` installs it beside this environment."
        )
    return found


def _interpreter(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def install(name: str) -> Compiler:
    """Install a compiler into its private environment, showing progress; an interrupted one is taken up again.

    Raises:
        TargetError: no such compiler, no network, or no room; nothing half-made is ever used.
    """
    package = _package(name)
    found = find_compiler(name)
    if found is not None:
        where = "in its own environment" if found.private else "in this environment"
        print(f"{package.title} is already here, {where}: {found.version}")
        return found
    folder = environment_folder(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            if not _interpreter(folder).exists() or not _has_pip(folder):
                print(f"making {folder}", flush=True)
                _run([sys.executable, "-m", "venv", "--clear", str(folder)], f"an environment in {folder}")
            versions = {"jax": _version("jax"), "jaxlib": _version("jaxlib")}
            wanted = [requirement.format(**versions) for requirement in package.requirements]
            print(f"installing {package.title}: {', '.join(wanted)}", flush=True)
            pip = [str(_interpreter(folder)), "-m", "pip", "install", "--disable-pip-version-check", *wanted]
            _run(pip, f"{package.title} (is the package index reachable?)")
            listed = _run(
                [str(_interpreter(folder)), "-m", "pip", "list", "--format=json", "--disable-pip-version-check"],
                "the list of what was installed",
                capture=True,
            )
            packages = {each["name"]: each["version"] for each in json.loads(listed)}
            unfinished = folder / f"{_READY}.unfinished"
            unfinished.write_text(json.dumps({"packages": packages}), "utf-8")
            os.replace(unfinished, folder / _READY)
    except OSError as error:
        raise TargetError(f"{package.title} cannot be installed in {folder}: {error}") from error
    found = find_compiler(name)
    if found is None:
        raise TargetError(f"{package.title} was installed in {folder}, but cannot be found there.")
    print(f"ready: {found.version}")
    return found


def uninstall(name: str) -> int:
    """Remove a compiler's private environments, for every version of jax; returns how many there were.

    Raises:
        TargetError: no such compiler, or a folder that cannot be removed.
    """
    package = _package(name)
    folders = [f for f in compilers_folder().glob(f"{name}-jax*-py*") if f.is_dir()]
    for folder in folders:
        try:
            with contextlib.suppress(FileNotFoundError):
                (folder / _READY).unlink()  # first, so that what is half removed is not used
            shutil.rmtree(folder)
        except OSError as error:
            raise TargetError(f"{package.title} in {folder} cannot be removed: {error}") from error
        print(f"removed {folder}")
    if not folders:
        print(f"{package.title} is not installed in an environment of its own.")
    return len(folders)


def _package(name: str) -> Package:
    try:
        return PACKAGES[name]
    except KeyError:
        raise TargetError(f"there is no compiler {name!r} to install; there is {' and '.join(PACKAGES)}.") from None


def _has_pip(folder: Path) -> bool:
    asked = [str(_interpreter(folder)), "-m", "pip", "--version"]
    try:
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _run(command: Sequence[str], what: str, *, capture: bool = False) -> str:
    """Run one command; its output goes through, and the last of its errors into the message if it fails."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        command,
        check=False,
        text=True,
        env=environment,
        stdout=subprocess.PIPE if capture else None,
        stderr=subprocess.PIPE,
    )
    if done.returncode != 0:
        words = "\n".join((done.stderr or "").strip().splitlines()[-6:])
        raise TargetError(f"cannot install {what}; run the same command again to go on.\n{words}")
    return done.stdout or ""


@contextlib.contextmanager
def _alone(folder: Path, patience: float = 1800.0) -> Iterator[None]:
    """One installation at a time: a folder beside the environment, taken over where its owner has gone."""
    lock = folder.with_name(folder.name + ".lock")
    waiting = time.monotonic()
    while True:
        try:
            lock.mkdir()
            break
        except FileExistsError:
            if not _alive(lock):
                shutil.rmtree(lock, ignore_errors=True)
                continue
            if time.monotonic() - waiting > patience:
                raise TargetError(
                    f"another installation into {folder} does not end; remove {lock} if it is none."
                ) from None
            time.sleep(0.5)
    try:
        (lock / "pid").write_text(str(os.getpid()))
        yield
    finally:
        shutil.rmtree(lock, ignore_errors=True)


def _alive(lock: Path) -> bool:
    try:
        pid = int((lock / "pid").read_text())
        os.kill(pid, 0)
    except (FileNotFoundError, ValueError):
        # Just made, its owner not written yet; or left so by a crash in between.
        with contextlib.suppress(OSError):
            return time.time() - lock.stat().st_mtime < 10
        return False
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
