"""Compilers in processes of their own: started once, kept warm, renewed when they die, hang or grow too large.

`compile_request` is the one function to call: pure, picklable, so that any executor can run it. What the process
does is in `worker_main.py`; which interpreter holds which compiler is in `install.py`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from jaxscale_magic.errors import TargetError
from jaxscale_magic.targets import cache
from jaxscale_magic.targets.install import compiler_for
from jaxscale_magic.targets.request import CompileRequest, CompileResult, Failure, read_frame, write_frame

#: Ends a process that serves: the package's folder is its argument, the package itself need not be installed.
_BOOT = (
    "import sys, types; p = types.ModuleType('jaxscale_magic'); p.__path__ = [sys.argv[1]]; "
    "sys.modules['jaxscale_magic'] = p; from jaxscale_magic.targets.worker_main import main; main()"
)
#: A worker that holds more than this when its work is done is replaced by a fresh one.
IDLE_BYTES = 6 * 2**30
#: Lines of a compiler's own output that an error shows.
TAIL_LINES = 12
_IDLE_WORKERS = 2


class Worker:
    """One compiler process and the pipes to it. Not shared between threads: `_borrowed` sees to that."""

    def __init__(self, interpreter: str, environment: dict[str, str]) -> None:
        self.noise: IO[bytes] = tempfile.TemporaryFile(prefix="jaxscale-magic-")  # noqa: SIM115 (lives as long as the process)
        package = str(Path(__file__).resolve().parent.parent)
        try:
            self.process = subprocess.Popen(
                [interpreter, "-P", "-c", _BOOT, package],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.noise,
                env=environment,
                cwd=tempfile.gettempdir(),
                start_new_session=os.name == "posix",  # Ctrl-C in the notebook is the kernel's to handle
            )
        except OSError as error:
            raise TargetError(f"the compiler's process cannot be started with {interpreter}: {error}") from error

    def ask(self, request: CompileRequest) -> CompileResult | Failure:
        """Send one request and wait for its answer; the process is killed where none comes in time.

        Raises:
            TargetError: it died, took longer than the request allows, or outgrew its memory.
        """
        with contextlib.suppress(OSError):
            self.noise.seek(0)
            self.noise.truncate()
        answer: list[Any] = []
        reader = threading.Thread(target=self._exchange, args=(request, answer), daemon=True)
        reader.start()
        start = time.monotonic()
        limit = request.memory_bytes or _memory_limit()
        try:
            while reader.is_alive():
                reader.join(0.1 if time.monotonic() - start > 1 else 0.02)
                if time.monotonic() - start > request.seconds:
                    raise self._killed(f"the compiler took longer than {request.seconds:.4g} s", request)
                held = resident_bytes(self.process.pid)
                if held is not None and held > limit:
                    raise self._killed(f"the compiler's process outgrew {limit / 2**30:.3g} GiB", request)
        except BaseException:
            self.kill()  # an interrupt ends the compile, and with it the only process that could finish it
            raise
        if not answer:
            self.kill()
            raise self._killed(f"the compiler's process ended ({_status(self.process)})", request)
        found: CompileResult | Failure = answer[0]
        return found

    def _exchange(self, request: CompileRequest, answer: list[Any]) -> None:
        """In a thread, so that neither a write nor a read can outlast the limits; no answer means it is dead."""
        with contextlib.suppress(Exception):
            write_frame(self.process.stdin, request)
            answer.append(read_frame(self.process.stdout))

    def _killed(self, reason: str, request: CompileRequest) -> TargetError:
        self.kill()
        return TargetError(describe_failure(reason, request, self.tail()))

    def tail(self) -> str:
        """The last lines that the compiler printed."""
        try:
            end = self.noise.seek(0, os.SEEK_END)
            self.noise.seek(max(0, end - 8192))
            lines = self.noise.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return ""
        return "\n".join(line[:400] for line in lines[-TAIL_LINES:])

    def kill(self) -> None:
        """End the process and everything it started."""
        with contextlib.suppress(OSError):
            if os.name == "posix":
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)

    @property
    def usable(self) -> bool:
        """Whether it lives, and is not too large to keep."""
        if self.process.poll() is not None:
            return False
        held = resident_bytes(self.process.pid)
        return held is None or held < IDLE_BYTES


_idle: dict[tuple[str, ...], list[Worker]] = {}
_lock = threading.Lock()


def _forget() -> None:
    """In a forked child: the parent's workers are not its own."""
    global _lock
    _lock = threading.Lock()
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@contextlib.contextmanager
def _borrowed(interpreter: str, environment: dict[str, str]) -> Iterator[Worker]:
    """A worker for one request: an idle one, else a new one; it is kept afterwards if it still serves."""
    key = (interpreter, *(f"{k}={v}" for k, v in sorted(environment.items())))
    with _lock:
        waiting = _idle.setdefault(key, [])
        worker = waiting.pop() if waiting else None
    if worker is None or not worker.usable:
        if worker is not None:
            worker.kill()
        worker = Worker(interpreter, environment)
    try:
        yield worker
    finally:
        with _lock:
            keep = worker.usable and len(_idle.setdefault(key, [])) < _IDLE_WORKERS
            if keep:
                _idle[key].append(worker)
        if not keep:
            worker.kill()


@atexit.register
def stop_workers() -> None:
    """End every idle worker of this process."""
    with _lock:
        workers = [worker for waiting in _idle.values() for worker in waiting]
        _idle.clear()
    for worker in workers:
        worker.kill()


def compile_request(request: CompileRequest) -> CompileResult:
    """Carry out one request: from the cache, else in a worker process of whoever calls this.

    Raises:
        TargetError: no compiler is installed for it, or it fails; the compiler's own words are in the message.
    """
    compiler = compiler_for(request.platform)
    key = cache.entry_name(request, compiler.version)
    kept = cache.load(key)
    if kept is not None:
        return kept
    with _borrowed(compiler.interpreter, worker_environment(request, private=compiler.private)) as worker:
        answer = worker.ask(request)
        if isinstance(answer, Failure):
            raise TargetError(describe_failure("the compiler refuses this program", request, answer.message))
    cache.store(key, answer)
    return answer


def worker_environment(request: CompileRequest, *, private: bool) -> dict[str, str]:
    """The environment of a worker: the kernel's, without what would make it look for devices or other packages."""
    dropped = ("PYTHONSTARTUP", "XLA_FLAGS", "JAX_NUM_CPU_DEVICES", "JAX_COMPILATION_CACHE_DIR")
    environment = {k: v for k, v in os.environ.items() if k not in dropped}
    if private:
        environment.pop("PYTHONPATH", None)
    environment |= {"JAX_PLATFORMS": "cpu", "PYTHONNOUSERSITE": "1"}
    if request.platform == "cpu":
        environment["JAX_NUM_CPU_DEVICES"] = str(request.devices)
    if request.platform == "tpu":
        environment |= {
            "TPU_SKIP_MDS_QUERY": "1",
            "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
            "TPU_LOG_DIR": "disabled",
            "TPU_STDERR_LOG_LEVEL": "3",
        }
    if request.platform == "cuda":
        environment |= {"JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1", "CUDA_VISIBLE_DEVICES": ""}
    return environment


def describe_failure(reason: str, request: CompileRequest, words: str) -> str:
    """One message: what happened, to how large a program for what, and the compiler's own words."""
    where = request.topology or f"{request.devices} CPU devices"
    size = f"{len(request.program) / 1e3:.4g} kB of StableHLO for {where}"
    return f"{reason} ({size})" + (f":\n{words.strip()}" if words.strip() else ".")


def _status(process: subprocess.Popen[bytes]) -> str:
    code = process.returncode
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"signal {signal.Signals(-code).name}"
    return f"exit status {code}"


def resident_bytes(pid: int) -> int | None:
    """Memory that a process holds, or None where the system does not say."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def _memory_limit() -> int:
    """Nine tenths of the machine's memory: beyond it the system would choose whom to kill."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 9 // 10
    except (OSError, ValueError, AttributeError):
        return 2**62
