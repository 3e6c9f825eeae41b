"""Formulas as MathML, made when the site is built: browsers draw them without script or font."""

import html

from docutils import nodes
from latex2mathml.converter import convert


def setup(app) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def inline(writer, node: nodes.math) -> None:
    """A formula within a line."""
    writer.body.append(drawn(node.astext(), "inline"))
    raise nodes.SkipNode


def display(writer, node: nodes.math_block) -> None:
    """A formula on a line of its own; a wide one scrolls by itself."""
    formula = drawn(node.astext(), "block")
    writer.body.append(f'<div class="math-block" tabindex="0">{formula}</div>')
    raise nodes.SkipNode


def drawn(latex: str, how: str) -> str:
    """The formula, with its LaTeX as the text that a screen reader may fall back to."""
    shown = convert(latex.strip(), display=how)
    return shown.replace("<math ", f'<math alttext="{html.escape(latex.strip())}" ', 1)
