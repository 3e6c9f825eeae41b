"""Numbers of the FlashAttention-2 paper (Dao 2023, arXiv:2307.08691), and its arithmetic.

TFLOP/s on an A100 80 GB, fp16, 16,384 tokens in all, B x N = 16k, H x D = 2,048.
"""

import statistics
from dataclasses import dataclass

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
CLAIMED = {  # percent of the peak, forward: abstract
    "FlashAttention-1": (25, 40),
    "FlashAttention-2": (50, 73),
}
FORWARD = {  # the bars of the paper's forward figures, by head dimension and mask
    (64, False): {
        "FlashAttention-1": (91, 96, 99, 104, 104, 104),
        "FlashAttention-2": (178, 191, 193, 192, 192, 192),
    },
    (128, False): {
        "FlashAttention-1": (69, 66, 71, 71, 72, 73),
        "FlashAttention-2": (209, 224, 227, 222, 224, 223),
    },
    (64, True): {
        "FlashAttention-1": (56, 70, 81, 89, 91, 94),
        "FlashAttention-2": (115, 146, 167, 177, 181, 183),
    },
    (128, True): {
        "FlashAttention-1": (49, 59, 65, 68, 70, 71),
        "FlashAttention-2": (132, 168, 187, 198, 200, 197),
    },
}


def percent_of_peak(version: str, peak_tflops: float) -> tuple[float, float]:
    """The lowest and the highest bar of a version, in percent of ``peak_tflops``."""
    rates = [rate for setting in FORWARD.values() for rate in setting[version]]
    return 100 * min(rates) / peak_tflops, 100 * max(rates) / peak_tflops


def speed_up(D: int) -> float:
    """How many times as fast the second is, over the sizes of one D: the geometric mean."""
    ratios = [
        second / first
        for (d, _), rates in FORWARD.items()
        if d == D
        for first, second in zip(*rates.values(), strict=True)
    ]
    return statistics.geometric_mean(ratios)


@dataclass(frozen=True)
class Model:
    """A GPT-3 model: Brown et al. 2020 (arXiv:2005.14165), Table 2.1.

    Args:
        name: As the table calls it.
        params: Number of parameters.
        layers, hidden: Layers, and size of a token's vector.
    """

    name: str
    params: float
    layers: int
    hidden: int

    def flops_per_token(self, N: int) -> tuple[float, float]:
        """(of the parameters, of attention) for one training step, forward and backward.

        6 a parameter; 12 x layers x hidden x N for attention, in full under a causal mask too.
        Source: Dao 2023, end-to-end performance.
        """
        return 6 * self.params, 12 * self.layers * self.hidden * N


MODELS = {
    model.name: model
    for model in (Model("GPT3-1.3B", 1.3e9, 24, 2048), Model("GPT3-2.7B", 2.7e9, 32, 2560))
}
# Table 1: TFLOP/s of each of 8 A100s without FlashAttention, with the first, with the second.
TRAINING = {
    ("GPT3-1.3B", 2048): (142, 189, 196),
    ("GPT3-1.3B", 8192): (72, 170, 220),
    ("GPT3-2.7B", 2048): (149, 189, 205),
    ("GPT3-2.7B", 8192): (80, 175, 225),
}


def mfu(tflops: float, peak_tflops: float) -> float:
    """Model FLOPs utilisation: the model's FLOPs a second, as a share of the peak."""
    return tflops / peak_tflops
