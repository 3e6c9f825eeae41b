"""Chapter 04: tiling."""

from flashlab.claims.claim import Claim, Value

CLAIMS = (
    Claim(
        id="A3",
        chapters=("04",),
        words="At N = 8,192 the score matrix of one head has 67 million entries, 134 MB in fp16.",
        shown=("computed",),
        source="N x N entries of 2 bytes",
        values=(Value(67e6, "entries", tolerance=0.01), Value(134, "MB", tolerance=0.01)),
    ),
    Claim(
        id="A8",
        chapters=("02", "04"),
        words="Fusion serves elementwise chains; attention resists, since the rows of scores of "
        "one block of queries do not fit on the chip.",
        shown=("computed",),
        source="128 rows of 8,192 scores of 2 bytes; shared memory of a block: NVIDIA CUDA C++ "
        "Programming Guide, technical specifications per compute capability",
        values=(Value(2048, "KB", chapter="04"), Value(163, "KB", chapter="04")),
    ),
    Claim(
        id="A9",
        chapters=("04",),
        words="A tile of scores is used and thrown away; the whole matrix never exists.",
        shown=("counted",),
        source="Dao et al. 2022 (arXiv:2205.14135), Algorithm 1",
        values=(Value(0, "bytes of scores in memory"),),
    ),
    Claim(
        id="A38",
        chapters=("04",),
        words="In plain code: loops over tiles, a running maximum and sum, a factor that corrects "
        "what was summed, one division at the end; it returns O and the log-sum-exp.",
        shown=("computed",),
        source="Dao 2023 (arXiv:2307.08691), Algorithm 1",
        values=(Value(0, "from ordinary attention", margin=1e-12),),
    ),
)
