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


KEYS_STAY = "flashlab-keys-stay"  # class of an element whose plain keys the notebook never gets


def keeps_keys() -> str:
    """HTML for an ``ipywidgets.HTML`` within an element of class ``KEYS_STAY``.

    JupyterLab looks for no shortcut where the focused element has this attribute of its own
    (Lumino, ``CommandRegistry``); otherwise an ``x`` typed on a slider would cut the cell. Keys
    with Ctrl, Alt or Cmd pass, such as Ctrl+S. Elsewhere it does nothing.
    """
    plain = "!(e.ctrlKey||e.metaKey||e.altKey)"
    mark = f"e.target.toggleAttribute('data-lm-suppress-shortcuts',{plain})"
    answer = f"e=>e.target.closest('.{KEYS_STAY}')&amp;&amp;{mark}"
    listen = f"window.addEventListener('keydown',{answer},true)"
    code = f"window.flashlabKeys||(window.flashlabKeys=true,{listen})"
    return f'<img hidden alt="" src="data:," onerror="{code}">'
