"""What the three steps of standard attention cost: FLOPs and bytes, in plain Python."""


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
    check_sizes(dtype_bytes, B=B, H=H, N_q=N_q, N_k=N_k, D=D)

    # 1. How large the matrices are
    # Step 1: define queries, keys, scores: elements of q, k and s of all heads
    raise NotImplementedError("Step 1 is not written yet")

    # 2. FLOPs of the three steps
    # Step 2: define qk_flops, softmax_flops, pv_flops
    raise NotImplementedError("Step 2 is not written yet")

    # 3. Bytes of the three steps
    # Step 3: define qk_bytes, softmax_bytes, pv_bytes: inputs read, output written
    raise NotImplementedError("Step 3 is not written yet")

    # Given: the answer
    return {
        "qk": (qk_flops, qk_bytes),
        "softmax": (softmax_flops, softmax_bytes),
        "pv": (pv_flops, pv_bytes),
    }
