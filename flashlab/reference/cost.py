"""Contracts and references of what attention costs: plain integers. Floor: core."""

KINDS = ("standard", "flash1", "flash2")


def check_sizes(dtype_bytes, **sizes):
    """Raise a ValueError that says which size is no whole number, or is too small."""
    for name, size in sizes.items():
        if type(size) is not int or size < 0:
            raise ValueError(f"{name} must be an integer of 0 or more, not {size!r}")
    if type(dtype_bytes) is not int or dtype_bytes < 1:
        raise ValueError(f"dtype_bytes must be a positive integer, not {dtype_bytes!r}: fp16 is 2")


def attention_cost(
    B: int, H: int, N_q: int, N_k: int, D: int, *, dtype_bytes: int
) -> dict[str, tuple[int, int]]:
    """FLOPs and bytes of the three steps of standard attention, each a kernel of its own.

    s = q k^T;  p = softmax(s), row by row;  o = p v.

    A step reads each of its inputs from memory once and writes its output once. A multiplication
    and an addition are 2 FLOPs; softmax takes 5 for each element (maximum, subtract, exp, sum,
    divide). Scaling the scores is not counted.

    Args:
        B: batch size; this and the following are 0 or more.
        H: heads.
        N_q: queries.
        N_k: keys.
        D: head dimension.
        dtype_bytes: bytes of an element of every tensor, s and p too; 1 or more; 2 for float16.

    Returns:
        cost: ``{"qk": (flops, bytes), "softmax": (flops, bytes), "pv": (flops, bytes)}``; exact
            integers for all heads together.

    Raises:
        ValueError: a size is not an integer, or too small.

    Source: counts as in Dao et al. 2022, section 2.2 and Algorithm 0.
    """
    check_sizes(dtype_bytes, B=B, H=H, N_q=N_q, N_k=N_k, D=D)
    queries, keys, scores = N_q * D, N_k * D, N_q * N_k  # elements of one head
    one_head = {
        "qk": (2 * scores * D, queries + keys + scores),
        "softmax": (5 * scores, 2 * scores),
        "pv": (2 * scores * D, scores + keys + queries),
    }
    return {
        step: (B * H * flops, B * H * elements * dtype_bytes)
        for step, (flops, elements) in one_head.items()
    }


def elementwise_cost(
    B: int, H: int, N_q: int, N_k: int, *, dtype_bytes: int
) -> dict[str, tuple[int, int]]:
    """FLOPs and bytes of masking s and of dropout on p, each a kernel of its own.

    A kernel reads its matrix and writes a matrix of the same size. The pattern is worked out from
    the position (a causal mask, random bits from a counter), so it costs no bytes, and its integer
    arithmetic is not counted. Masking adds 0 or -inf: 1 FLOP an element. Dropout compares a random
    number with p and multiplies: 2 FLOPs an element.

    Args:
        B, H, N_q, N_k, dtype_bytes: as for ``attention_cost``.

    Returns:
        cost: ``{"mask": (flops, bytes), "dropout": (flops, bytes)}``; integers, for all heads.

    Raises:
        ValueError: a size is not an integer, or too small.
    """
    check_sizes(dtype_bytes, B=B, H=H, N_q=N_q, N_k=N_k)
    scores = B * H * N_q * N_k
    moved = 2 * scores * dtype_bytes
    return {"mask": (scores, moved), "dropout": (2 * scores, moved)}


def check_positive(**sizes):
    """Raise a ValueError that says which size is not a positive whole number."""
    for name, size in sizes.items():
        if type(size) is not int or size < 1:
            raise ValueError(f"{name} must be a positive integer, not {size!r}")


def io_cost(
    N: int, D: int, *, block_m: int, block_n: int, dtype_bytes: int, kind: str
) -> dict[str, int]:
    """Bytes that one head of attention moves between memory and chip, tensor by tensor.

    standard: three kernels, s = q k^T, p = softmax(s), o = p v. A program loads block_m rows
    of q (or p) once, passes all of k (or v) and writes its rows of s (or o).
    flash1: for every block of block_n keys, over all blocks of queries: q is loaded, o and the
    statistics m and l are loaded (but not in the first round) and stored.
    flash2: for every block of block_m queries, over all blocks of keys: k and v are loaded;
    o and lse are stored once.

    Args:
        N: queries, and keys; 0 or more; blocks need not divide it.
        D: head dimension; this and the following are 1 or more.
        block_m: query rows of a tile.
        block_n: key rows of a tile.
        dtype_bytes: bytes of an element of q, k, v, o, s and p; m, l and lse are always fp32.
        kind: ``"standard"``, ``"flash1"`` or ``"flash2"``.

    Returns:
        cost: bytes loaded and stored together: ``q k v o`` and ``s p`` (standard), ``m l``
            (flash1), ``lse`` (flash2); a lane beyond the last row moves nothing.

    Raises:
        ValueError: a size is not an integer or too small, or kind is another word.

    Source: Dao et al. 2022, Algorithms 0 and 1; Dao 2023 (FlashAttention-2), Algorithm 1.
    """
    check_sizes(1, N=N)
    check_positive(D=D, block_m=block_m, block_n=block_n, dtype_bytes=dtype_bytes)
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {KINDS}, not {kind!r}")
    from flashlab.iocount import bounds  # here: it brings Triton along, which no reference needs

    head, tiles = (1, 1, N, N, D), (block_m, block_n, dtype_bytes)
    if kind == "standard":
        return bounds.moved_bytes(
            bounds.standard_forward_bytes(*head, dtype_bytes, block_m=block_m)
        )
    order = bounds.flash1_forward_bytes if kind == "flash1" else bounds.flash_forward_bytes
    return bounds.moved_bytes(order(*head, *tiles))


def choose_blocks(sram_elements: int, D: int) -> tuple[int, int]:
    """The tile sizes that FlashAttention's first algorithm takes for a chip of M elements.

    block_n = ceil(M / 4D);  block_m = min(ceil(M / 4D), D).

    Args:
        sram_elements: M, the numbers (not bytes) that fit on chip; 1 or more.
        D: head dimension; 1 or more.

    Returns:
        block_m: query rows of a tile.
        block_n: key rows of a tile.

    Raises:
        ValueError: sram_elements or D is not a positive integer.

    Source: Dao et al. 2022, Algorithm 1, line 1 (there B_r and B_c).
    """
    check_positive(sram_elements=sram_elements, D=D)
    from flashlab.iocount import bounds  # here, as above

    return bounds.fa1_blocks(sram_elements, D)
