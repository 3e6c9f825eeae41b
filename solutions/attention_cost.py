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
    ### BEGIN SOLUTION 1: define queries, keys, scores: elements of q, k and s of all heads
    queries = B * H * N_q * D  # o has as many
    keys = B * H * N_k * D  # v has as many
    scores = B * H * N_q * N_k  # p has as many
    ### END SOLUTION

    # 2. FLOPs of the three steps
    ### BEGIN SOLUTION 2: define qk_flops, softmax_flops, pv_flops
    qk_flops = 2 * scores * D  # every score is a sum of D products
    softmax_flops = 5 * scores  # maximum, subtract, exp, sum, divide
    pv_flops = 2 * queries * N_k  # every element of o is a sum of N_k products
    ### END SOLUTION

    # 3. Bytes of the three steps
    ### BEGIN SOLUTION 3: define qk_bytes, softmax_bytes, pv_bytes: inputs read, output written
    qk_bytes = (queries + keys + scores) * dtype_bytes  # q and k in, s out
    softmax_bytes = (scores + scores) * dtype_bytes  # s in, p out
    pv_bytes = (scores + keys + queries) * dtype_bytes  # p and v in, o out
    ### END SOLUTION

    # Given: the answer
    return {
        "qk": (qk_flops, qk_bytes),
        "softmax": (softmax_flops, softmax_bytes),
        "pv": (pv_flops, pv_bytes),
    }
