"""The terms of FlashAttention's theorems, and its rule for block sizes. Floor: core."""


def fa1_blocks(sram_elements: int, D: int) -> tuple[int, int]:
    """(block_m, block_n) = (min(ceil(M / 4D), D), ceil(M / 4D)) for M elements on chip.

    Source: FlashAttention, Algorithm 1, line 1.
    """
    block_n = -(-sram_elements // (4 * D))  # rounded up, exact beyond 2**53 too
    return min(block_n, D), block_n


def theta(kind: str, N: int, D: int, sram_elements: int, density: float = 1.0) -> float:
    """Elements that one head moves, up to a constant factor.

    Args:
        kind: ``"standard"``: N D + N^2; ``"flash"``: N^2 D^2 / M; ``"block-sparse"``:
            N D + density N^2 D^2 / M.
        sram_elements: M, elements on chip, D <= M <= N D.
        density: Share of the tiles that a mask keeps.

    Source: FlashAttention, Theorem 2 and Proposition 4 (Theorem 5: the backward alike).
    """
    tiled = N * N * D * D / sram_elements
    terms = {
        "standard": float(N * D + N * N),
        "flash": tiled,
        "block-sparse": N * D + density * tiled,
    }
    if kind not in terms:
        raise ValueError(f"kind must be one of {', '.join(terms)}, not {kind!r}")
    return terms[kind]
