"""Tab completion behind `%roofline` and `%%roofline`: options, chips, and the notebook's arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

#: Option -> the words that may follow it, given the notebook's names; None where it takes no word from a list.
Words = Callable[[Mapping[str, Any]], Iterable[str]]


def _chip_names(names: Mapping[str, Any]) -> list[str]:
    from jaxscale_magic.chips import chips

    return [chip.name for chip in chips()]


def _array_names(names: Mapping[str, Any]) -> list[str]:
    return [name for name, value in names.items() if not name.startswith("_") and hasattr(value, "shape")]


AFTER: dict[str, Words] = {"--on": _chip_names, "--batch": _array_names}


def options_of(parser: Any) -> dict[str, bool]:
    """Every spelling of a magic's options -> whether a word follows it."""
    return {
        spelling: action.nargs != 0
        for action in parser._actions
        for spelling in action.option_strings
        if action.help != "==SUPPRESS=="
    }


def completions(text: str, options: Mapping[str, bool], names: Mapping[str, Any]) -> list[str]:
    """What may stand at the end of a magic's line.

    Args:
        text: the line up to the cursor, the magic's name included.
        options: spelling -> whether a word follows it.
        names: the notebook's names.

    Returns:
        Whole words, the one being typed among them; empty where Python code begins.

    >>> completions("%roofline --on v5", {"--on": True}, {})
    ['v5e', 'v5p']
    """
    words = text.split(" ")
    typed, before = words[-1], [word for word in words[1:-1] if word]
    if before and before[-1] in AFTER:
        return _starting(typed, AFTER[before[-1]](names))
    if not _all_options(before, options):
        return []
    return _starting(typed, (option for option in options if option not in before)) if typed.startswith("-") else []


def _all_options(words: Sequence[str], options: Mapping[str, bool]) -> bool:
    """Whether only options and their words stand there: no code yet."""
    k = 0
    while k < len(words):
        if words[k] not in options:
            return False
        k += 2 if options[words[k]] else 1
    return k == len(words)


def _starting(typed: str, words: Iterable[str]) -> list[str]:
    return sorted(word for word in words if word.startswith(typed))


def register(shell: Any, magics: Mapping[str, Any]) -> None:
    """Complete behind each magic of `magics` (name -> function with an argument parser), as a line and a cell."""

    def hook(options: Mapping[str, bool]) -> Callable[[Any, Any], list[str]]:
        return lambda _, event: completions(event.text_until_cursor, options, shell.user_ns)

    for name, function in magics.items():
        for mark in ("%", "%%"):
            shell.set_hook("complete_command", hook(options_of(function.parser)), str_key=mark + name)
