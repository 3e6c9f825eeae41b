"""What FlashAttention-3's paper reports of the forward pass on an H100, read off its figures.

TFLOP/s in fp16 at 16,384 tokens in all, hidden size 2,048, N in ``LENGTHS``. Shah et al. 2024
(arXiv:2407.08608), forward figures; H100 80GB SXM5, clock fixed at 1,830 MHz.
"""

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
CLAIMED = {  # of the abstract: TFLOP/s, and share of the peak
    "best": (740, 0.75),
    "FA2": (None, 0.35),
}
FASTER = (1.5, 2.0)  # than FlashAttention-2, forward, abstract
# Table 2, TFLOP/s: B 4, H 16, N 8,448, D 128, full
ABLATION = {"whole": 661, "without overlap": 582, "without a producer": 570}
TURNS = (570, 620, 640)  # section 3.1, TFLOP/s: without, and with (from, to)

# (D, causal) -> version -> TFLOP/s by length
FORWARD = {
    (64, False): {
        "FA3": (333, 392, 460, 476, 496, 497),
        "cuDNN": (335, 373, 395, 408, 412, 413),
        "FA2": (282, 306, 318, 321, 322, 324),
    },
    (64, True): {
        "FA3": (197, 265, 371, 420, 460, 473),
        "cuDNN": (225, 288, 334, 363, 379, 388),
        "FA2": (180, 229, 262, 284, 295, 299),
    },
    (128, False): {
        "FA3": (467, 565, 625, 638, 646, 648),
        "cuDNN": (497, 574, 617, 609, 600, 595),
        "FA2": (309, 350, 362, 368, 370, 370),
    },
    (128, True): {
        "FA3": (292, 423, 521, 579, 602, 616),
        "cuDNN": (315, 410, 484, 518, 529, 539),
        "FA2": (191, 260, 298, 319, 333, 335),
    },
    (256, False): {
        "FA3": (482, 627, 707, 736, 746, 756),
        "cuDNN": (470, 546, 580, 581, 580, 581),
        "FA2": (275, 313, 321, 323, 324, 326),
    },
    (256, True): {
        "FA3": (286, 427, 537, 612, 628, 642),
        "cuDNN": (308, 391, 450, 483, 497, 509),
        "FA2": (208, 251, 278, 293, 297, 298),
    },
}


def faster(D: int, causal: bool, N: int) -> float:
    """How many times as fast as FlashAttention-2 the third version is."""
    at = LENGTHS.index(N)
    found = FORWARD[D, causal]
    return found["FA3"][at] / found["FA2"][at]


def best() -> tuple[float, int, bool, int]:
    """The fastest bar: TFLOP/s, D, causal, N."""
    return max(
        (rate, D, causal, N)
        for (D, causal), found in FORWARD.items()
        for N, rate in zip(LENGTHS, found["FA3"], strict=True)
    )
