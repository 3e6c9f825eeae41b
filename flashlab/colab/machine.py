"""What Colab's machine is good for in this course, in a few sentences."""

import re

from flashlab import device

# Cards that Colab rents out, by a word of their name, and what each means here.
CARDS = {
    "T4": "Kernels are compiled and checked on it for right values. It earns no speed points: "
    "Triton uses no tensor cores on this generation, and bf16 is emulated.",
    "L4": "Kernels run compiled and are timed. Its bandwidth is a tenth of an H100's, so judge "
    "speed by the share of its own roof.",
    "A100": "Kernels run compiled and are timed. It is the card of the FlashAttention-2 paper.",
    "H100": "Everything runs, the Hopper part of lab 08 too.",
}
NO_GPU = (
    "Every exercise is graded here all the same: kernels run on the CPU under a recorder that "
    "counts their bytes. Speed is not measured. For a GPU: Runtime > Change runtime type."
)
OTHER = "Kernels run compiled and are timed on it."


def told() -> str:
    """The tier of this machine and what it means."""
    found = device.detect()
    return f"This machine: tier {found.tier} ({found.name}). {meaning(found)}"


def meaning(found: device.Device) -> str:
    """One or two sentences on a machine."""
    if found.tier == "cpu":
        return f"{found.note} {NO_GPU}".strip()
    words = re.split(r"[\s-]", found.name)
    return next((text for word, text in CARDS.items() if word in words), found.note or OTHER)
