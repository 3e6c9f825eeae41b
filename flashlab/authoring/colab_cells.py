"""The two cells by which a notebook starts on Google Colab: badge and set-up. Floor: front.

Both stand behind the title of every chapter and lab. The address is ``project.urls.Repository`` of
pyproject.toml and stands nowhere else by hand.
"""

import tomllib
from pathlib import Path

from flashlab import sources
from flashlab.authoring.canonical import Cell, lines

BADGE, SETUP = "colab-badge", "colab-setup"
BRANCH = "main"
_HOST = "https://github.com/"
_SETUP = """\
# @title Set up {{"display-mode":"form"}}
# On Google Colab: run this first. It installs the course and says what the machine can do.
# Anywhere else it has nothing to do.
keep_on_drive = False  # @param {{"type":"boolean"}}
import importlib.util
import os

if importlib.util.find_spec("flashlab") is None:
    course = os.environ.get(
        "FLASHLAB_COURSE",
        "{course}",
    )
    %pip install --no-deps {{course}}

from flashlab import colab

colab.set_up(drive=keep_on_drive)"""


def repository() -> str:
    """The course's address, such as ``https://github.com/account/flashlab``.

    Raises:
        ValueError: pyproject.toml names none, or one that Colab cannot open.
    """
    text = (sources.course_dir() / "pyproject.toml").read_text(encoding="utf-8")
    address = tomllib.loads(text)["project"].get("urls", {}).get("Repository", "")
    if not address.startswith(_HOST):
        raise ValueError(f"project.urls.Repository should start with {_HOST}, not {address!r}")
    return address


def colab_address(folder: str, name: str) -> str:
    """Where Colab opens a notebook of the repository."""
    path = repository().removeprefix(_HOST)
    return f"https://colab.research.google.com/github/{path}/blob/{BRANCH}/{folder}/{name}"


def installed_from() -> str:
    """What pip installs on Colab unless FLASHLAB_COURSE names something else."""
    return f"{repository()}/archive/refs/heads/{BRANCH}.zip"


def texts(path: Path) -> dict[str, tuple[str, str]]:
    """Cell id -> kind and text of the two cells of the notebook at ``path``."""
    address = colab_address(path.parent.name, path.name)
    badge = (
        f"[▶ Open in Google Colab]({address})\n\n"
        "There, run the next cell first; on a machine of your own skip it."
    )
    return {
        BADGE: ("markdown", badge),
        SETUP: ("code", _SETUP.format(course=installed_from())),
    }


def placed(cells: list[Cell], path: Path) -> list[Cell]:
    """``cells`` with both cells behind the title, whatever stood for them before."""
    rest = [cell for cell in cells if cell.get("id") not in (BADGE, SETUP)]
    woven = [_cell(name, *text) for name, text in texts(path).items()]
    return [*rest[:1], *woven, *rest[1:]]


def _cell(name: str, kind: str, text: str) -> Cell:
    cell = {"cell_type": kind, "id": name, "metadata": {}, "source": lines(text)}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})
