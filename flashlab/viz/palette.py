"""Colours of all pictures as CSS variables, light and dark; safe for colour-blind readers."""

from collections.abc import Mapping

# Okabe and Ito's set (jfly.uni-koeln.de/color, 2008), darkened or lightened for contrast of text.
LIGHT = {
    "ink": "#1b1f24",
    "soft": "#57606a",
    "paper": "#ffffff",
    "panel": "#f3f5f8",
    "line": "#c4cad2",
    "blue": "#0072b2",
    "orange": "#b85000",
    "green": "#007a5a",
    "sky": "#b8dcf2",
    "sand": "#f6e0b5",
    "grey": "#e3e7ec",
}
DARK = {
    "ink": "#e8ecf1",
    "soft": "#a8b1bc",
    "paper": "#14181d",
    "panel": "#1f252c",
    "line": "#48525d",
    "blue": "#56b4e9",
    "orange": "#f0913f",
    "green": "#3ccb9f",
    "sky": "#1e4a66",
    "sand": "#5b4717",
    "grey": "#2b333b",
}


def css(scope: str = ":root") -> str:
    """CSS that sets ``--fl-<name>`` for light and dark pages, by system setting or by theme.

    Args:
        scope: Selector of the element that holds the picture.
    """

    def block(colours: dict[str, str]) -> str:
        return "".join(f"--fl-{name}:{value};" for name, value in colours.items())

    light, dark = block(LIGHT), block(DARK)
    return (
        f"{scope}{{{light}color-scheme:light}}"
        f"@media (prefers-color-scheme:dark){{{scope}{{{dark}color-scheme:dark}}}}"
        f"{scope}[data-theme=light]{{{light}color-scheme:light}}"
        f"{scope}[data-theme=dark]{{{dark}color-scheme:dark}}"
    )


LIGHT_PAGES = (
    '[data-jp-theme-light="true"]',
    "html[theme=light]",
    "html[data-theme=light]",
    "body.vscode-light",
)
DARK_PAGES = (
    '[data-jp-theme-light="false"]',
    "html[theme=dark]",
    "html[data-theme=dark]",
    "body.vscode-dark",
    "body.vscode-high-contrast",
)
# JupyterLab's own ink and paper win where it sets them.
JUPYTER = {
    "ink": "--jp-content-font-color1",
    "paper": "--jp-layout-color0",
    "panel": "--jp-cell-editor-background",
    "line": "--jp-border-color2",
    "soft": "--jp-content-font-color2",
}


def inline(
    scope: str, light: Mapping[str, str] | None = None, dark: Mapping[str, str] | None = None
) -> str:
    """CSS variables for HTML within a page: JupyterLab, Colab, VS Code, the site, the system.

    Args:
        scope: Selector of the element that holds the picture.
        light, dark: More colours, beside those of the palette.
    """

    def block(colours: Mapping[str, str]) -> str:
        return "".join(
            f"--fl-{name}:{f'var({JUPYTER[name]},{value})' if name in JUPYTER else value};"
            for name, value in colours.items()
        )

    day, night = block({**LIGHT, **(light or {})}), block({**DARK, **(dark or {})})
    return (
        f"{scope}{{{day}}}"
        f"@media (prefers-color-scheme:dark){{{scope}{{{night}}}}}"
        + "".join(f"{page} {scope}{{{day}}}" for page in LIGHT_PAGES)
        + "".join(f"{page} {scope}{{{night}}}" for page in DARK_PAGES)
    )
