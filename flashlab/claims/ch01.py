"""Chapter 01: arithmetic intensity."""

from flashlab.claims.claim import Claim, Value

CLAIMS = (
    Claim(
        id="A1",
        chapters=("01", "02"),
        words="Standard attention is quadratic, yet its time goes into moving numbers, not into "
        "multiplying them.",
        shown=("counted", "measured"),
        source="Dao et al. 2022 (arXiv:2205.14135), section 2; A100 data sheet",
        values=(
            Value(75, "% of the least time", margin=1, chapter="01"),
            Value(3, "% of the FLOPs", margin=0.5, chapter="01"),
            Value(13, "% of their peak", margin=1, chapter="02"),
            Value(82, "% of its bandwidth", margin=1, chapter="02"),
        ),
    ),
    Claim(
        id="A4",
        chapters=("01",),
        words="An A100 does 312 TFLOP/s in fp16 and moves 1.5 to 2 TB/s: below about 150 to 200 "
        "FLOPs a byte a kernel waits for memory.",
        shown=("computed",),
        source="NVIDIA A100 data sheet, dense fp16, 40 GB and 80 GB",
        values=(
            Value(312, "TFLOP/s"),
            Value(1.5, "TB/s", tolerance=0.05),
            Value(2.0, "TB/s", tolerance=0.05),
            Value(200, "FLOPs a byte", tolerance=0.03),
            Value(150, "FLOPs a byte", tolerance=0.03),
        ),
    ),
    Claim(
        id="A5",
        chapters=("01", "02"),
        words="Softmax, mask and dropout do a few FLOPs an element, and their traffic dominates "
        "the time of standard attention.",
        shown=("computed", "measured"),
        source="Dao et al. 2022 (arXiv:2205.14135), sections 2.1 and 2.2",
        values=(
            Value(1.25, "FLOPs a byte", chapter="01"),
            Value(75, "% of the least time", margin=1, chapter="01"),
        ),
    ),
    Claim(
        id="A40",
        chapters=("01",),
        words="A kernel reaches at most the smaller of the peak and its bandwidth times its "
        "intensity.",
        shown=("computed", "measured"),
        source="Williams, Waterman and Patterson 2009, CACM 52(4), doi:10.1145/1498765.1498785",
        values=(
            Value(2.04, "TFLOP/s", tolerance=0.01),
            Value(312, "TFLOP/s"),
        ),
    ),
)
