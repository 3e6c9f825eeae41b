"""How many FLOPs a training step of the model takes, by the paper's count."""

from flashlab.capstone.gpt import Size
from flashlab.reproduce.fa2 import Model


def weights(size: Size) -> int:
    """Weights that take part in a matmul: four matrices a layer, and the table of tokens."""
    a_layer = (3 + 1 + 4 + 4) * size.width**2
    return size.layers * a_layer + size.vocabulary * size.width


def step_flops(size: Size, B: int, N: int, causal: bool = True) -> float:
    """FLOPs of one training step on B sequences of N tokens.

    ``causal`` halves those of attention, as a causal kernel does; the paper counts all of them.
    What a backward pass computes again is not counted.
    """
    model = Model("", weights(size), size.layers, size.width)
    of_weights, of_attention = model.flops_per_token(N)
    return B * N * (of_weights + of_attention / (2 if causal else 1))
