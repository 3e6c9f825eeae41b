"""One output for every reader: widgets where a kernel runs, else HTML, else text."""

from collections.abc import Callable
from typing import Any

from flashlab.notebook import in_notebook


def bundle(view: Callable[[], Any], html: str, text: str) -> dict[str, Any]:
    """The mime bundle of one output.

    Args:
        view: Makes the ipywidgets widget; called in a notebook only.
        html: The same facts without controls, for a page without a kernel.
        text: The same facts in plain text.
    """
    data: dict[str, Any] = {"text/plain": text, "text/html": html}
    if in_notebook():
        data["application/vnd.jupyter.widget-view+json"] = {
            "version_major": 2,
            "version_minor": 0,
            "model_id": view().model_id,
        }
    return data


def keeps_keys(name: str) -> str:
    """HTML for an ``ipywidgets.HTML`` within the element of class ``name``: keys stay in there.

    JupyterLab looks for no shortcut where the focused element has this attribute of its own
    (Lumino, ``CommandRegistry``); otherwise an ``x`` typed on a slider would cut the cell.
    Elsewhere it does nothing.
    """
    mark = "e=>e.target.setAttribute('data-lm-suppress-shortcuts','true')"
    code = f"this.closest('.{name}').addEventListener('focusin',{mark})"
    return f'<img hidden alt="" src="data:," onerror="{code}">'
