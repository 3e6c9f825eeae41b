"""Sphinx over the written pages; returns what it complained about."""

import io
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.console import nocolor

CONF = Path(__file__).parent / "conf"


def html(source: Path, out: Path, doctrees: Path) -> list[str]:
    """Render ``source`` into ``out``; returns warnings and errors, each as one line."""
    nocolor()
    said = io.StringIO()
    app = Sphinx(
        source, CONF, out, doctrees, "html", status=None, warning=said, parallel=2,
        keep_going=True,
    )  # fmt: skip
    app.build()
    return [line for line in said.getvalue().splitlines() if line.strip()]
