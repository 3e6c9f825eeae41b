"""Chapter 08: FlashAttention-3."""

from flashlab.claims.claim import Claim, Value

PAPER = "Shah et al. 2024 (arXiv:2407.08608)"

CLAIMS = (
    Claim(
        id="A28",
        chapters=("08",),
        words="FlashAttention-2 reaches about 35 % of an H100's peak.",
        shown=("computed", "cited", "measured"),
        source=f"{PAPER}, abstract and forward figures; H200 by `flashlab bench flash2_forward`",
        values=(
            Value(35, "% claimed"),
            Value(37, "% of the peak", margin=0.5),
            Value(35, "% on an H200", margin=2),
        ),
    ),
    Claim(
        id="A29",
        chapters=("08",),
        words="Warps that only load, by TMA, let loads overlap with the work of the others.",
        shown=("simulated", "cited"),
        source=f"{PAPER}, section 3.1 and Table 2; ours by `flashlab reproduce fa3-ablation`",
        values=(Value(1.16, "x as fast with a producer", margin=0.04),),
    ),
    Claim(
        id="A30",
        chapters=("08",),
        words="An H100 does 989 TFLOP/s in fp16 products and about 3.9 T exponentials a second, "
        "so exponentials cost.",
        shown=("computed",),
        source=f"{PAPER}, section 3.1; CUDA C++ Programming Guide, arithmetic throughput",
        values=(
            Value(989, "TFLOP/s in products"),
            Value(3.9, "T exponentials a second", margin=0.05),
            Value(512, "times as many FLOPs"),
            Value(256, "times as fast as exponentials", margin=1),
            Value(0.5, "of the time of the products", margin=0.01),
        ),
    ),
    Claim(
        id="A31",
        chapters=("08",),
        words="Ping-pong between warpgroups, and the product with V of a tile under the softmax "
        "of the next one, hide exponentials behind products.",
        shown=("simulated", "measured", "cited"),
        source=f"{PAPER}, sections 3.1, 3.2 and Table 2; H200 by hardware counters",
        values=(
            Value(1.14, "x with P V under softmax", margin=0.04),
            Value(640, "TFLOP/s with turns"),
            Value(-2, "%", margin=1),
        ),
    ),
    Claim(
        id="A33",
        chapters=("08", "09"),
        words="FlashAttention-3 is 1.5 to 2 times as fast as FlashAttention-2, up to 740 TFLOP/s "
        "(75 % of the peak), and close to 1.2 PFLOP/s in FP8.",
        shown=("computed", "cited", "measured"),
        source=f"{PAPER}, abstract; both figures are of D 256; H200 by `flashlab bench "
        "flash3_forward`",
        values=(
            Value(740, "TFLOP/s claimed", chapter="08"),
            Value(75, "% of 989", chapter="08"),
            Value(756, "TFLOP/s at D 256", chapter="08"),
            Value(1.5, "to 2 x FlashAttention-2", chapter="08"),
            Value(2, "x SDPA's flash kernel", margin=0.15, chapter="08"),
            Value(1171, "TFLOP/s in FP8 at D 256", chapter="09"),
            Value(1008, "TFLOP/s in FP8 at D 128", chapter="09"),
        ),
    ),
)
