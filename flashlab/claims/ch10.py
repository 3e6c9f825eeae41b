"""Chapter 10: in practice."""

from flashlab.claims.claim import Claim, Value

CLAIMS = (
    Claim(
        id="A34",
        chapters=("10",),
        words="PyTorch's scaled_dot_product_attention runs a flash kernel when the inputs allow.",
        shown=("measured",),
        source="the installed torch, asked in the cells; a GPU by `flashlab bench dispatch`",
    ),
    Claim(
        id="A35",
        chapters=("10",),
        words="A decode step has one query row; cutting the keys into shares and merging them by "
        "logsumexp gives every SM work.",
        shown=("counted", "measured", "cited"),
        source="Dao, Haziza, Massa and Sizov 2023, Flash-Decoding, with its table; the recorder; "
        "H200 by `flashlab bench split_kv_decode`",
        values=(
            Value(0, "from attention to all keys", margin=1e-6),
            Value(124, "of 132 SMs have nothing to do"),
            Value(1, "reads of each byte of the cache"),
            Value(36, "times faster than unsplit"),
        ),
    ),
    Claim(
        id="A36",
        chapters=("10",),
        words="Variable-length kernels take a flat batch and offsets, so that padding costs "
        "nothing.",
        shown=("counted", "measured"),
        source="the recorder; H200 by `flashlab bench varlen_forward`",
        values=(
            Value(0, "matrix FLOPs more than one by one"),
            Value(0, "% more bytes than one by one", margin=1.0),
        ),
    ),
    Claim(
        id="A37",
        chapters=("10",),
        words="Fused kernels, quantised caches, paged caches and speculative decoding all save "
        "bytes, not arithmetic.",
        shown=("computed", "counted"),
        source="arithmetic on the shapes of Llama 3 8B (arXiv:2407.21783, table 3); Kwon et al. "
        "2023 (arXiv:2309.06180); Leviathan et al. 2023 (arXiv:2211.17192), equation 1",
        values=(
            Value(4.0, "times fewer bytes"),
            Value(1.9, "times fewer bytes", margin=0.05),
        ),
    ),
)
