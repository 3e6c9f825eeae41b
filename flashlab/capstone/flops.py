"""How many FLOPs a training step takes, and which share of a GPU's peak that is: MFU."""

from flashlab.capstone.gpt import Size


def weights(size: Size) -> int:
    """Weights that take part in a matmul: four matrices a layer, and the table of tokens."""
    a_layer = (3 + 1 + 4 + 4) * size.width**2
    return size.layers * a_layer + size.vocabulary * size.width


def step_flops(size: Size, B: int, N: int, causal: bool = True) -> int:
    """FLOPs of one training step on B sequences of N tokens.

    6 for each weight and token (2 forward, 4 backward), and 12 * width for each layer and pair of
    tokens (Dao 2023, section 4.2). ``causal`` halves the pairs, as a causal kernel does; the paper
    counts all of them. What a backward pass computes again is not counted.
    """
    pairs = B * N * N // (2 if causal else 1)
    return 6 * weights(size) * B * N + 12 * size.layers * size.width * pairs


def mfu(flops: float, seconds: float, peak: float) -> float:
    """Model FLOPs utilisation: FLOPs a second, as a share of ``peak`` FLOP/s."""
    return flops / seconds / peak
