"""The bytes that three ways to compute attention move between memory and chip, in plain Python."""

KINDS = ("standard", "flash1", "flash2")


def check_sizes(N, **sizes):
    """Raise a ValueError that says which size is no whole number, or is too small."""
    if type(N) is not int or N < 0:
        raise ValueError(f"N must be an integer of 0 or more, not {N!r}")
    for name, size in sizes.items():
        if type(size) is not int or size < 1:
            raise ValueError(f"{name} must be a positive integer, not {size!r}")


def io_cost(
    N: int, D: int, *, block_m: int, block_n: int, dtype_bytes: int, kind: str
) -> dict[str, int]:
    check_sizes(N, D=D, block_m=block_m, block_n=block_n, dtype_bytes=dtype_bytes)
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {KINDS}, not {kind!r}")

    # 1. Sizes
    # Step 1: define in bytes matrix, scores, statistic; in blocks q_blocks, k_blocks
    raise NotImplementedError("Step 1 is not written yet")

    if kind == "standard":
        # 2. Standard attention
        # Step 2: define cost, with the keys q, k, s, p, v, o
        raise NotImplementedError("Step 2 is not written yet")
    elif kind == "flash1":
        # 3. FlashAttention-1: keys outside
        # Step 3: define cost, with the keys q, k, v, o, m, l
        raise NotImplementedError("Step 3 is not written yet")
    else:
        # 4. FlashAttention-2: queries outside
        # Step 4: define cost, with the keys q, k, v, o, lse
        raise NotImplementedError("Step 4 is not written yet")

    # Given: the answer
    return cost
