"""The colours of the product: one hue each for compute, memory and communication, told apart by the colour-blind.

Hues after the palette of Okabe and Ito, darkened for light pages and lightened for dark ones until text in them
has a contrast of 4.5 to every background listed here (WCAG 2.2, level AA).
"""

from __future__ import annotations

LIGHT = {
    "compute": "#0067A8",
    "memory": "#B34700",
    "communication": "#007553",
    "measured": "#A03E7C",
    "neutral": "#666666",
}
DARK = {
    "compute": "#56B4E9",
    "memory": "#FF8A3D",
    "communication": "#2FC49B",
    "measured": "#EBA6CD",
    "neutral": "#A3A3A3",
}
#: Pages that a report is shown on: white, JupyterLab's and GitHub's greys; JupyterLab's, VS Code's, GitHub's dark.
LIGHT_PAGES = ("#FFFFFF", "#F7F7F7", "#F6F8FA")
DARK_PAGES = ("#111111", "#212121", "#1E1E1E", "#0D1117")

#: Selectors by which notebook front ends and pages say that they are dark.
_DARK_PAGE = ('[data-jp-theme-light="false"]', ".vscode-dark", ".vscode-high-contrast", '[data-theme="dark"]')


def colour(tone: str) -> str:
    """The colour of a tone as CSS: the theme's, the light one where styles are stripped; grey for an unknown tone."""
    name = tone if tone in LIGHT else "neutral"
    return f"var(--jaxscale-{name},{LIGHT[name]})"


def paint(tone: str, *properties: str) -> str:
    """SVG attributes that paint in a tone: its light colour, and the theme's where styles are understood."""
    names = properties or ("fill",)
    light = LIGHT.get(tone, LIGHT["neutral"])
    plain = " ".join(f'{name}="{light}"' for name in names)
    return f'{plain} style="{";".join(f"{name}:{colour(tone)}" for name in names)}"'


def theme_css(within: str, *, own_page: bool = False) -> str:
    """The rules that give the colours to elements of class `within`.

    A fragment follows the front end's theme; on a page of our own (`own_page`) it follows the reader's system.
    """
    dark = ",".join(f"{page} .{within}" for page in _DARK_PAGE)
    system = f"@media screen and (prefers-color-scheme:dark){{.{within}{{{_variables(DARK)}}}}}" if own_page else ""
    return f".{within}{{{_variables(LIGHT)}}}{dark}{{{_variables(DARK)}}}{system}"


def _variables(colours: dict[str, str]) -> str:
    return ";".join(f"--jaxscale-{name}:{value}" for name, value in colours.items())
