"""FlashAttention's rule: how large tiles may be, given what fits on the chip."""


def check_sizes(**sizes):
    """Raise a ValueError that says which size is no whole number, or is too small."""
    for name, size in sizes.items():
        if type(size) is not int or size < 1:
            raise ValueError(f"{name} must be a positive integer, not {size!r}")


def choose_blocks(sram_elements: int, D: int) -> tuple[int, int]:
    check_sizes(sram_elements=sram_elements, D=D)

    # 1. Rows of a tile of keys
    ### BEGIN SOLUTION 1: define block_n: the rows that a quarter of the chip holds, rounded up
    block_n = -(-sram_elements // (4 * D))  # q, k, v and o: four tiles of D columns
    ### END SOLUTION

    # 2. Rows of a tile of queries
    ### BEGIN SOLUTION 2: define block_m: as many, but at most D
    block_m = min(block_n, D)  # a tile of scores is then no larger than one of keys
    ### END SOLUTION

    # Given: the answer
    return block_m, block_n
