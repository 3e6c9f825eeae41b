"""Which kernel torch's attention runs, and why not another: tried live, or from a record."""

import torch

from flashlab.bench import dispatch, records
from flashlab.bench.dispatch import ERROR, Call, Found
from flashlab.viz import chart
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.picture import Picture, svg

NAMES = {
    "flash": "FlashAttention",
    "cudnn": "cuDNN",
    "efficient": "memory-efficient",
    "math": "math",
}
CPU, GPU = "this CPU", "this GPU"
WIDTH, BOX, GAP, HEIGHT = 720, 168, 12, 76


def devices() -> list[str]:
    """Where calls can be tried, this machine first, and the card of a record."""
    here = [GPU, CPU] if torch.cuda.is_available() else [CPU]
    record = records.load("dispatch")
    return here + ([f"{record['facts']['card']} (recorded)"] if record else [])


def find(device: str, call: Call) -> Found:
    """What happens to a call on a device of ``devices()``."""
    if device in (CPU, GPU):
        return dispatch.attempt(call, "cpu" if device == CPU else "cuda")
    return dispatch.recorded(records.load("dispatch"), call)


def picture(found: Found, call: Call, device: str) -> Picture:
    """A box for each backend: ran, would take it, refuses; the reasons as a table."""
    parts, rows = [], [("backend", "", "why")]
    for at, (name, title) in enumerate(NAMES.items()):
        x = at * (BOX + GAP) + GAP
        verdict, fill, ink = _verdict(found, name)
        parts.append(chart.rect(x, 8, BOX, HEIGHT - 16, fill, 'rx="6"'))
        parts.append(chart.text(x + BOX / 2, 34, title, "middle", 14, ink))
        parts.append(chart.text(x + BOX / 2, 54, verdict, "middle", 13, ink))
        rows.append((title, verdict, found.refused[name] or "-"))
    caption = _caption(found)
    title = f"On {device}: {call.dtype}, D {call.D}, heads {call.heads}, with {call.also}"
    alt = f"Four boxes, one a backend. {caption}"
    return Picture(title, svg(WIDTH, HEIGHT, alt, "".join(parts)), caption, rows)


def _verdict(found: Found, name: str) -> tuple[str, str, str]:
    if found.ran == name:
        return "✔ runs", "blue", "paper"
    if found.refused[name] == dispatch.NO_KERNEL:
        return "not for this device", "panel", "soft"
    return ("✖ refuses", "grey", "ink") if found.refused[name] else ("○ would do", "sky", "ink")


def _caption(found: Found) -> str:
    if found.ran == ERROR:
        return "torch runs nothing and raises an error."
    spare = [NAMES[n] for n, why in found.refused.items() if not why and n != found.ran]
    said = f"torch runs {NAMES.get(found.ran, found.ran)}."
    return f"{said} Asked to, it would also run {' or '.join(spare)}." if spare else said


def _short(heads: str) -> str:
    return heads.replace("enable_gqa", "gqa")  # the place beside a slider is short


def dispatch_explorer() -> Explorer:
    """A device, and everything of a call that matters to a backend."""
    where = devices()

    def draw(dtype: str, D: int, heads: str, also: str, device: str = where[0]) -> Picture:
        call = Call(dtype, D, heads, also)
        return picture(find(device, call), call, device)

    place = [Control("device", "device", where, where[0])] if len(where) > 1 else []
    return Explorer(
        "What scaled_dot_product_attention runs",
        draw,
        (
            *place,
            Control("dtype", "dtype", dispatch.DTYPES, "float16"),
            Control("D", "head dimension D", dispatch.HEAD_DIMS, 64),
            Control("heads", "query and key heads", dispatch.HEADS, dispatch.HEADS[0], _short),
            Control("also", "and with", dispatch.ALSO, dispatch.ALSO[0]),
        ),
    )
