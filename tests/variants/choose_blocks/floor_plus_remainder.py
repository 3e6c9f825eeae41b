"""Correct in another style: divmod, and one more row where something is left."""


def choose_blocks(sram_elements, D):
    rows, left = divmod(sram_elements, 4 * D)
    rows += left > 0
    return (D if rows > D else rows), rows
