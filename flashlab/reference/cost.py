"""Contract and reference of what standard attention costs: plain integers. Floor: core."""


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
