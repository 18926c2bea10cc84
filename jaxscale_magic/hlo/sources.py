"""Which of the user's own lines made an instruction: the innermost frame that is not a library's."""

from __future__ import annotations

import linecache
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from jaxscale_magic.cost import Source
from jaxscale_magic.hlo.graph import Instruction, Module
from jaxscale_magic.user_files import is_library


class Lines:
    """Finds the source line of instructions of one module.

    Args:
        module: the module whose frames are walked.
        cell_files: file names of the cell under analysis; a frame in one of them wins over any other.
    """

    def __init__(self, module: Module, cell_files: Collection[str] = ()) -> None:
        self._frames = module.frames
        self._cell_files = frozenset(cell_files)
        self._found: dict[int, Source | None] = {}

    def __call__(self, instruction: Instruction) -> Source | None:
        """The user's line, or None where the module does not say."""
        return self.of(instruction.proto.metadata)

    def of(self, metadata: Any) -> Source | None:
        """The same, of an instruction's metadata."""
        frame = metadata.stack_frame_id
        if not frame:
            if metadata.source_file:
                return _with_text(Source(file=metadata.source_file, line=metadata.source_line))
            return None
        if frame not in self._found:
            self._found[frame] = self._choose(frame)
        return self._found[frame]

    def _choose(self, frame: int) -> Source | None:
        chain: list[Source] = []
        while frame in self._frames and len(chain) < 1000:
            source, frame = self._frames[frame]
            chain.append(source)
        for wanted in (
            lambda source: source.file in self._cell_files,
            lambda source: not is_library(source.file),
            lambda source: True,
        ):
            for source in chain:
                if wanted(source):
                    return _with_text(source)
        return None


def _with_text(source: Source) -> Source:
    return replace(source, text=linecache.getline(source.file, source.line).strip())
