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
    ### BEGIN SOLUTION 1: define in bytes matrix, scores, statistic; in blocks q_blocks, k_blocks
    matrix = N * D * dtype_bytes  # q, k, v or o
    scores = N * N * dtype_bytes  # s or p
    statistic = N * 4  # m, l or lse: a number a row, always fp32
    q_blocks = -(-N // block_m)  # rounded up: the last block may be smaller
    k_blocks = -(-N // block_n)
    ### END SOLUTION

    if kind == "standard":
        # 2. Standard attention
        ### BEGIN SOLUTION 2: define cost, with the keys q, k, s, p, v, o
        cost = {
            "q": matrix,  # every block of queries is loaded once
            "k": q_blocks * matrix,  # and meets all the keys
            "s": scores + scores,  # out, and in again for softmax
            "p": scores + scores,
            "v": q_blocks * matrix,
            "o": matrix,
        }
        ### END SOLUTION
    elif kind == "flash1":
        # 3. FlashAttention-1: keys outside
        ### BEGIN SOLUTION 3: define cost, with the keys q, k, v, o, m, l
        rounds = 2 * k_blocks - 1  # out after every block, in before every block but the first
        cost = {
            "q": k_blocks * matrix,  # every block of keys meets all the queries
            "k": matrix,
            "v": matrix,
            "o": rounds * matrix,
            "m": rounds * statistic,
            "l": rounds * statistic,
        }
        ### END SOLUTION
    else:
        # 4. FlashAttention-2: queries outside
        ### BEGIN SOLUTION 4: define cost, with the keys q, k, v, o, lse
        cost = {
            "q": matrix,
            "k": q_blocks * matrix,  # every block of queries meets all the keys
            "v": q_blocks * matrix,
            "o": matrix,  # written once, when it is finished
            "lse": statistic,
        }
        ### END SOLUTION

    # Given: the answer
    return cost
