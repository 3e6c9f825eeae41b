"""Chapter 11: beyond one GPU."""

from flashlab.claims.claim import Claim, Value

CLAIMS = (
    Claim(
        id="R1",
        chapters=("11",),
        words="A block of keys and values travels behind the computation if each device holds at "
        "least as many tokens as FLOP/s over bytes/s of the link.",
        shown=("computed", "cited"),
        source="Liu, Zaharia and Abbeel 2023 (arXiv:2310.01889), arithmetic intensity and minimal "
        "sequence lengths: 1.0 thousand and 24.5 thousand tokens a block",
        values=(
            Value(1.0, "thousand tokens", tolerance=0.05),
            Value(24.5, "thousand tokens", tolerance=0.03),
            Value(6.2, "thousand for a layer", tolerance=0.02),
            Value(149.5, "thousand for a layer", tolerance=0.02),
        ),
    ),
    Claim(
        id="R2",
        chapters=("11",),
        words="Parts of the keys, attended to one by one and merged by lse, give attention over "
        "all of them exactly, gradients too.",
        shown=("computed",),
        source="Rabe and Staats 2021 (arXiv:2112.05682), section 3; processes of this machine",
        values=(Value(0, "from one device", margin=1e-12),),
    ),
    Claim(
        id="R3",
        chapters=("11",),
        words="A causal ring whose ranks hold the sequence in order reaches little more than half "
        "of the ideal speed; zigzag divides the work evenly.",
        shown=("computed", "cited"),
        source="counted by the places of the tokens; ring-flash-attention (github.com/zhuzilin/"
        "ring-flash-attention), 8 H800, 8k tokens each: 54 % in order and 90 % zigzag",
        values=(
            Value(53, "% of ideal in order", margin=1),
            Value(100, "% of ideal in zigzag", margin=0.5),
            Value(54, "% measured in order", margin=1),
            Value(90, "% measured in zigzag", margin=1),
        ),
    ),
    Claim(
        id="R4",
        chapters=("11",),
        words="Every device holds its own tokens and the blocks of three others at most, so the "
        "longest sequence grows with the number of devices.",
        shown=("computed", "counted", "cited"),
        source="Liu, Zaharia and Abbeel 2023 (arXiv:2310.01889): a 7B model on 8 A100, 32k tokens "
        "without and 256k with the ring; messages counted in the processes of a run",
        values=(Value(8, "times the tokens"), Value(0, "bytes more than the formula")),
    ),
    Claim(
        id="R5",
        chapters=("11",),
        words="On two H200s a causal zigzag ring, forward and backward, comes close to half of "
        "one GPU's time.",
        shown=("measured",),
        source="two H200s by `flashlab bench ring_attention`, 65,536 tokens",
        values=(Value(0.98, "of ideal", margin=0.01),),
    ),
)
