"""The terminal's words about compilers: install, uninstall, targets. What they do is in `install.py`, `absent.py`."""

from __future__ import annotations

from jaxscale_magic.targets.absent import targets
from jaxscale_magic.targets.install import install, uninstall


def run(verb: str, compiler: str) -> None:
    """Carry out `install COMPILER`, `uninstall COMPILER` or `targets`.

    Raises:
        TargetError: as `install` and `uninstall`.
    """
    match verb:
        case "install":
            install(compiler)
        case "uninstall":
            uninstall(compiler)
        case _:
            print_targets()


def print_targets() -> None:
    """One line a family of targets: an example, and its compiler or the command that installs it."""
    for each in targets():
        print(f"{each.name:6} {each.example:14} {each.compiler or each.command}")
