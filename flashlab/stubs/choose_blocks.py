"""FlashAttention's rule: how large tiles may be, given what fits on the chip."""


def check_sizes(**sizes):
    """Raise a ValueError that says which size is no whole number, or is too small."""
    for name, size in sizes.items():
        if type(size) is not int or size < 1:
            raise ValueError(f"{name} must be a positive integer, not {size!r}")


def choose_blocks(sram_elements: int, D: int) -> tuple[int, int]:
    check_sizes(sram_elements=sram_elements, D=D)

    # 1. Rows of a tile of keys
    # Step 1: define block_n: the rows that a quarter of the chip holds, rounded up
    raise NotImplementedError("Step 1 is not written yet")

    # 2. Rows of a tile of queries
    # Step 2: define block_m: as many, but at most D
    raise NotImplementedError("Step 2 is not written yet")

    # Given: the answer
    return block_m, block_n
