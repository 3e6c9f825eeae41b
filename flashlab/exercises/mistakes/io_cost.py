"""What learners write instead of ``solutions/io_cost.py``. Floor: course."""

from flashlab.exercise import Mistake

_MATRIX = "matrix = N * D * dtype_bytes"
_SCORES = "scores = N * N * dtype_bytes"
_STATISTIC = "statistic = N * 4"
_QUERY_BLOCKS = "q_blocks = -(-N // block_m)"
_KEY_BLOCKS = "k_blocks = -(-N // block_n)"
_ROUNDS = "rounds = 2 * k_blocks - 1"
_FLASH2_K = '"k": q_blocks * matrix,  # every block of queries'
_ALL_KEYS = '"k": q_blocks * matrix,  # and meets all the keys'
_FLASH2_O = '"o": matrix,  # written once, when it is finished'

SIZES = (
    Mistake(
        "elements-for-bytes",
        _MATRIX,
        "matrix = N * D",
        "standard",
        "wrong",
        "q, k, v and o are counted in elements, not in bytes: multiply by dtype_bytes.",
    ),
    Mistake(
        "scores-have-d-columns",
        _SCORES,
        "scores = N * D * dtype_bytes",
        "standard-by-hand",
        "wrong",
        "s and p are taken to have D columns: they have a column for every key.",
    ),
    Mistake(
        "scores-in-elements",
        _SCORES,
        "scores = N * N",
        "standard",
        "wrong",
        "s and p are counted in elements, not in bytes: multiply by dtype_bytes.",
    ),
    Mistake(
        "statistics-in-fp16",
        _STATISTIC,
        "statistic = N * dtype_bytes",
        "flash1-by-hand",
        "wrong",
        "m, l and lse are counted in the dtype of q: they are always fp32, 4 bytes.",
    ),
    Mistake(
        "statistics-have-d-columns",
        _STATISTIC,
        "statistic = N * D * 4",
        "flash1-by-hand",
        "wrong",
        "A statistic is taken to have D columns: it is one number a row.",
    ),
    Mistake(
        "query-blocks-round-down",
        _QUERY_BLOCKS,
        "q_blocks = N // block_m",
        "standard-ragged",
        "wrong",
        "The number of query blocks is rounded down: the last one may be smaller, but it counts.",
    ),
    Mistake(
        "key-blocks-round-down",
        _KEY_BLOCKS,
        "k_blocks = N // block_n",
        "flash1-ragged",
        "wrong",
        "The number of key blocks is rounded down: the last one may be smaller, but it counts.",
    ),
    Mistake(
        "blocks-not-whole",
        _QUERY_BLOCKS,
        "q_blocks = N / block_m",
        "standard-by-hand",
        "wrong",
        "The number of query blocks is a float: divide integers with //, and round up.",
    ),
    Mistake(
        "block-sizes-swapped",
        _QUERY_BLOCKS,
        "q_blocks = -(-N // block_n)",
        "standard",
        "wrong",
        "Query blocks are counted with block_n: block_m is the rows of queries.",
    ),
)

ORDERS = (
    Mistake(
        "keys-once-in-standard",
        _ALL_KEYS,
        '"k": matrix,  # and meets all the keys',
        "standard-by-hand",
        "wrong",
        "In standard attention k is counted once: every block of rows loads all of it.",
    ),
    Mistake(
        "scores-written-only",
        '"s": scores + scores,',
        '"s": scores,',
        "standard-by-hand",
        "wrong",
        "s is counted once: it is written by the first kernel and read by the second.",
    ),
    Mistake(
        "weights-read-only",
        '"p": scores + scores,',
        '"p": scores,',
        "standard-by-hand",
        "wrong",
        "p is counted once: it is written by softmax and read by the third kernel.",
    ),
    Mistake(
        "o-read-in-the-first-round",
        _ROUNDS,
        "rounds = 2 * k_blocks",
        "flash1-by-hand",
        "wrong",
        "o, m and l are read in every round: in the first there is nothing to read yet.",
    ),
    Mistake(
        "o-written-only",
        _ROUNDS,
        "rounds = k_blocks",
        "flash1-by-hand",
        "wrong",
        "o, m and l are only written: in FlashAttention-1 each later round reads them again.",
    ),
    Mistake(
        "o-once-in-flash1",
        '"o": rounds * matrix,',
        '"o": matrix,',
        "flash1-by-hand",
        "wrong",
        "In FlashAttention-1 o is counted once: it moves in every round over the keys.",
    ),
    Mistake(
        "statistics-once-in-flash1",
        '"m": rounds * statistic,',
        '"m": statistic,',
        "flash1-by-hand",
        "wrong",
        "In FlashAttention-1 m is counted once: it moves in every round, as o does.",
    ),
    Mistake(
        "queries-once-in-flash1",
        '"q": k_blocks * matrix,',
        '"q": matrix,',
        "flash1-by-hand",
        "wrong",
        "In FlashAttention-1 q is counted once: every block of keys meets all the queries.",
    ),
    Mistake(
        "queries-per-query-block",
        '"q": k_blocks * matrix,',
        '"q": q_blocks * matrix,',
        "flash1-by-hand",
        "wrong",
        "In FlashAttention-1 q passes once a block of keys, not once a block of queries.",
    ),
    Mistake(
        "keys-once-in-flash2",
        _FLASH2_K,
        '"k": matrix,  # every block of queries',
        "flash2-by-hand",
        "wrong",
        "In FlashAttention-2 k is counted once: every block of queries meets all the keys.",
    ),
    Mistake(
        "keys-per-key-block",
        _FLASH2_K,
        '"k": k_blocks * matrix,  # every block of queries',
        "flash2-by-hand",
        "wrong",
        "In FlashAttention-2 k passes once a block of queries, not once a block of keys.",
    ),
    Mistake(
        "output-read-in-flash2",
        _FLASH2_O,
        '"o": 2 * matrix,',
        "flash2-by-hand",
        "wrong",
        "In FlashAttention-2 o is written once and never read: it stays on chip until the end.",
    ),
    Mistake(
        "lse-forgotten",
        f'            {_FLASH2_O}\n            "lse": statistic,\n',
        f"            {_FLASH2_O}\n",
        "flash2-by-hand",
        "wrong",
        "lse is missing: FlashAttention-2 stores one statistic a row.",
    ),
    Mistake(
        "floats",
        "    return cost",
        "    return {name: float(moved) for name, moved in cost.items()}",
        "standard-by-hand",
        "wrong",
        "The answer holds floats: counts are integers, and floats are not exact beyond 2**53.",
    ),
)

MISTAKES = SIZES + ORDERS
