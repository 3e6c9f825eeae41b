"""Chapter 05: counting the IO."""

from flashlab.claims.claim import Claim, Value

PAPER = "Dao et al. 2022 (arXiv:2205.14135)"

CLAIMS = (
    Claim(
        id="A13",
        chapters=("05",),
        words="Standard attention needs Theta(N D + N^2) memory accesses, FlashAttention "
        "Theta(N^2 D^2 / M) with M numbers on the chip.",
        shown=("computed", "counted"),
        source=f"{PAPER}, Theorem 2; bytes: Figure 2, left and middle",
        values=(
            Value(4, "times the bytes", tolerance=0.05),
            Value(0.5, "times the bytes", tolerance=0.05),
            Value(6.577, "GB by the recorder"),
            Value(3.355, "GB by the recorder"),
            Value(1.745, "GB by the recorder"),
            Value(0.940, "GB by the recorder"),
            Value(6.577, "GB by formula"),
            Value(3.355, "GB by formula"),
            Value(1.745, "GB by formula"),
            Value(0.940, "GB by formula"),
            Value(40.3, "GB in standard attention"),
            Value(4.4, "GB in FlashAttention"),
        ),
    ),
    Claim(
        id="A14",
        chapters=("05",),
        words="At D 64 to 128 and about 100 KB on the chip, D^2 / M is well below 1.",
        shown=("computed",),
        source=f"{PAPER}, section 3.2; 100 KB of fp16 numbers",
        values=(
            Value(0.08, "is D^2/M at D 64", margin=0.001),
            Value(0.32, "is D^2/M at D 128", margin=0.001),
        ),
    ),
    Claim(
        id="A15",
        chapters=("05",),
        words="No exact algorithm needs asymptotically fewer accesses for every size of the chip "
        "from D to N D.",
        shown=("explained", "cited"),
        source=f"{PAPER}, Proposition 3; for each M of at least D^2: Saha and Ye 2024 "
        "(arXiv:2402.07443)",
    ),
    Claim(
        id="A16",
        chapters=("05",),
        words="Extra memory falls from N x N to N: the output and one statistic a row.",
        shown=("counted", "measured"),
        source=f"{PAPER}, Theorem 1 and Table 21; memory allocated, measured in the cell",
        values=(
            Value(4 * 512 * 512, "bytes beside the output in standard attention"),
            Value(4 * 512, "bytes beside the output in flash"),
            Value(10.6, "x less memory"),
            Value(20.4, "x less memory"),
        ),
    ),
    Claim(
        id="A17",
        chapters=("05", "12"),
        words="BERT-large trained 15 % faster than the MLPerf 1.1 record, GPT-2 three times "
        "faster, and sequences that did not fit before became trainable.",
        shown=("cited", "measured"),
        source=f"{PAPER}, section 4.1 and Tables 1, 2 and 4; H200 by `flashlab bench gpt`",
        values=(
            Value(15, "% faster", chapter="05"),
            Value(3.0, "x faster than HuggingFace", chapter="05"),
            Value(2.25, "x faster than standard attention", margin=0.05, chapter="12"),
            Value(7.58, "x faster than standard attention", margin=0.1, chapter="12"),
            Value(4.2, "x less memory", margin=0.05, chapter="12"),
            Value(52, "x less", margin=1, chapter="12"),
        ),
    ),
    Claim(
        id="A18",
        chapters=("05",),
        words="Block-sparse FlashAttention skips tiles that a mask drops, and is faster still.",
        shown=("counted", "measured", "cited"),
        source=f"{PAPER}, Proposition 4 and Figure 2, right; H200 by "
        "`flashlab bench block_sparse_forward`",
        values=(
            Value(44, "% of the tiles"),
            Value(44, "% of the bytes of k and v"),
            Value(6.9, "x faster at 10 % of the blocks", margin=0.05),
            Value(6.5, "times faster than with all flags on", margin=0.5),
        ),
    ),
)
