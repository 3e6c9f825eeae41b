"""Chapter 07: FlashAttention-2."""

from flashlab.claims.claim import Claim, Value

PAPER = "Dao 2023 (arXiv:2307.08691)"

CLAIMS = (
    Claim(
        id="A22",
        chapters=("07",),
        words="FlashAttention-1 reached 25 to 40 % of an A100's peak; FlashAttention-2 is about "
        "twice as fast and reaches 50 to 73 % in the forward pass.",
        shown=("computed", "cited", "measured"),
        source=f"{PAPER}, abstract and the forward figures of section 4.1, whose lowest bars are "
        "lower; H200 by `flashlab bench flash2_forward`",
        values=(
            Value(25, "to 40 % claimed"),
            Value(40, "% claimed"),
            Value(50, "to 73 % claimed"),
            Value(73, "% claimed"),
            Value(16, "to 33 % tabled"),
            Value(33, "% tabled"),
            Value(37, "to 73 % tabled"),
            Value(73, "% tabled"),
            Value(2, "x as fast at D 64", margin=0.15),
            Value(55, "% of the peak", margin=1),
        ),
    ),
    Claim(
        id="A23",
        chapters=("07",),
        words="Tensor cores do about 16 times as many operations as the other units; "
        "FlashAttention-2 divides once, at the end, and stores the log-sum-exp alone.",
        shown=("computed", "counted"),
        source=f"{PAPER}, section 3.1; A100 data sheet",
        values=(
            Value(16, "times"),
            Value(0, "divisions in its loop"),
            Value(1, "number a row"),
        ),
    ),
    Claim(
        id="A24",
        chapters=("07",),
        words="A program for each head of each sequence leaves multiprocessors idle when "
        "sequences are long and few; a program for each block of queries fills them.",
        shown=("computed", "measured"),
        source=f"{PAPER}, section 3.2; both orders timed on an H200 by `flashlab "
        "bench flash_forward`",
        values=(
            Value(15, "% of the multiprocessors", margin=0.5),
            Value(100, "% of the multiprocessors"),
            Value(6.4, "x sooner"),
            Value(4, "times as long with keys outside", margin=0.25),
            Value(2, "times with queries outside", margin=0.15),
        ),
    ),
    Claim(
        id="A25",
        chapters=("07",),
        words="Warps that split keys must add up their rows through shared memory; warps that "
        "split queries have nothing to exchange.",
        shown=("simulated",),
        source=f"{PAPER}, section 3.3",
        values=(
            Value(0, "bytes between warps"),
            Value(0, "barriers"),
            Value(1_662_976, "bytes between warps"),
        ),
    ),
    Claim(
        id="A26",
        chapters=("07", "12"),
        words="GPT models trained at up to 225 TFLOP/s on each A100, 72 % of what the card can "
        "do.",
        shown=("computed", "cited"),
        source=f"{PAPER}, end-to-end performance and Table 1",
        values=(
            Value(225, "TFLOP/s", chapter="07"),
            Value(72, "% MFU"),
            Value(64, "% MFU, attention in full", margin=1, chapter="12"),
            Value(42, "% MFU, attention halved", margin=1, chapter="12"),
        ),
    ),
    Claim(
        id="A27",
        chapters=("07",),
        words="Under a causal mask tiles above the diagonal are skipped: up to twice as fast.",
        shown=("counted", "measured"),
        source=f"{PAPER}, section 3.1; H200 by `flashlab bench flash2_forward`",
        values=(
            Value(16, "tiles"),
            Value(10, "tiles"),
            Value(2, "x fewer tiles", tolerance=0.01),
            Value(1.9, "x faster"),
        ),
    ),
)
