"""Which tier this machine offers: cpu, gpu (sm_80 or newer) or hopper (sm_90). Floor: core."""

import functools
from dataclasses import dataclass

TIERS = ("cpu", "gpu", "hopper")


@dataclass(frozen=True)
class Device:
    """The best device for kernels on this machine.

    Args:
        tier: ``"cpu"``, ``"gpu"`` or ``"hopper"``.
        name: As the driver says it, or ``"no NVIDIA GPU"``.
        capability: 0 without a GPU, else for example 90 for sm_90.
        speed_points: False where kernels run but too slowly to be scored (sm_75).
        note: One sentence for the learner; empty when there is nothing to add.
    """

    tier: str
    name: str
    capability: int
    speed_points: bool
    note: str

    @property
    def tiers(self) -> tuple[str, ...]:
        """The tiers that can run here, lowest first."""
        return TIERS[: TIERS.index(self.tier) + 1]


def classify(name: str, capability: int) -> Device:
    """The tier of a GPU called ``name`` with compute capability ``capability`` (0: none).

    Source: design of the course, tiers; Triton has no tensor-core path below sm_80 since 3.3.
    """
    if capability == 0:
        return Device("cpu", "no NVIDIA GPU", 0, False, "")
    if capability < 75:
        note = (
            f"{name} (sm_{capability}) is older than Triton supports: kernels run on the CPU tier."
        )
        return Device("cpu", name, capability, False, note)
    if capability < 80:
        note = (
            f"{name} (sm_{capability}): correctness only, no speed points, because Triton uses "
            "no tensor cores below sm_80."
        )
        return Device("gpu", name, capability, False, note)
    return Device("hopper" if capability == 90 else "gpu", name, capability, True, "")


@functools.cache
def detect() -> Device:
    """What this machine has, asked once per process."""
    try:
        import torch
    except ImportError:
        return classify("", 0)
    if not torch.cuda.is_available():
        return classify("", 0)
    major, minor = torch.cuda.get_device_capability(0)
    return classify(torch.cuda.get_device_name(0), 10 * major + minor)
