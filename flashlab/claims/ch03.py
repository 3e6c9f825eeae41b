"""Chapter 03: online softmax."""

from flashlab.claims.claim import Claim, Value

CLAIMS = (
    Claim(
        id="A10",
        chapters=("03",),
        words="Softmax with the maximum subtracted cannot overflow and is the same softmax.",
        shown=("computed",),
        source="Milakov and Gimelshein 2018 (arXiv:1805.02867), section 2",
        values=(Value(1, "is the largest exponential"),),
    ),
    Claim(
        id="A11",
        chapters=("03",),
        words="A running maximum, a running sum and an unnormalised output, rescaled by "
        "exp(m_old - m_new) when a tile brings a larger maximum, give ordinary softmax exactly.",
        shown=("computed",),
        source="Milakov and Gimelshein 2018 (arXiv:1805.02867), section 3; Dao et al. 2022 "
        "(arXiv:2205.14135), section 3.1",
        values=(Value(0, "from ordinary attention", margin=1e-12),),
    ),
    Claim(
        id="A12",
        chapters=("03",),
        words="In the end every term has been multiplied by exp(-m_final), whichever tile it came "
        "in.",
        shown=("computed",),
        source="the product of the factors telescopes",
        values=(Value(0, "from exp(s - m_last)", margin=1e-12),),
    ),
)
