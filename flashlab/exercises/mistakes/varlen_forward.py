"""What learners write instead of ``solutions/varlen_forward.py``. Floor: course."""

from flashlab.exercise import Mistake

_Q_FIRST = "q_first = tl.load(cu_q_ptr + seq * stride_cq)"
_N_Q = "N_q = tl.load(cu_q_ptr + (seq + 1) * stride_cq) - q_first"
_K_FIRST = "k_first = tl.load(cu_k_ptr + seq * stride_ck)"
_N_K = "N_k = tl.load(cu_k_ptr + (seq + 1) * stride_ck) - k_first"
_SHIFT = "shift = N_k - N_q  # query i sees key j"
_FULL = "full = tl.minimum(full, start_m + 1 + shift)"
_END = "end = tl.minimum(end, start_m + BLOCK_M + shift)"
_Q_SEQ = "q_seq = q_ptr + q_first.to(tl.int64) * stride_qm"
_K_SEQ = "k_seq = k_ptr + k_first.to(tl.int64) * stride_kn"
_V_SEQ = "v_seq = v_ptr + k_first.to(tl.int64) * stride_vn"
_O_SEQ = "o_seq = o_ptr + q_first.to(tl.int64) * (H * D)"
_LSE_SEQ = "lse_seq = lse_ptr + q_first"
_VISIBLE = "visible = mask_n[None, :]"
_DIAGONAL = "visible = visible & ((start_n + offs_n)[None, :] <= offs_m[:, None] + shift)"
_HIDE = 's = tl.where(visible, s, float("-inf"))'
_MASK_N = "mask_n = start_n + offs_n < N_k"
_LAST = "last = tl.load(cu_q_ptr + S * stride_cq)"
_REST = "mask_rest = (rows >= last) & (rows < T_q)"
_STORE_LSE = (
    'tl.store(lse_ptr + h * T_q + rows, tl.sum(nothing, 1) - float("inf"), mask=mask_rest)'
)

_SEQUENCE = (
    Mistake(
        "keys-of-the-query-ends",
        _K_FIRST,
        "k_first = tl.load(cu_q_ptr + seq * stride_cq)",
        "lengths-differ",
        "wrong",
        "The first key is taken from cu_seqlens_q: keys have ends of their own.",
    ),
    Mistake(
        "as-many-keys-as-queries",
        _N_K,
        "N_k = N_q + 0 * k_first",
        "one-sequence",
        "oob",
        "N_k is taken to be N_q: a sequence may have more or fewer keys than queries.",
    ),
    Mistake(
        "end-read-as-length-of-keys",
        _N_K,
        "N_k = tl.load(cu_k_ptr + (seq + 1) * stride_ck)",
        "two-sequences",
        "oob",
        "N_k is the end of the sequence in the pack, not its length: subtract k_first.",
    ),
    Mistake(
        "end-read-as-length-of-queries",
        _N_Q,
        "N_q = tl.load(cu_q_ptr + (seq + 1) * stride_cq)",
        "two-sequences",
        "oob",
        "N_q is the end of the sequence in the pack, not its length: subtract q_first.",
    ),
    Mistake(
        "lengths-of-the-sequence-before",
        _Q_FIRST,
        "q_first = tl.load(cu_q_ptr + (seq + 1) * stride_cq)",
        "one-sequence",
        "uninitialised",
        "q_first is the end of the sequence, not its start: cu_seqlens_q[seq].",
    ),
    Mistake(
        "stride-of-the-ends-ignored",
        _N_Q,
        "N_q = tl.load(cu_q_ptr + seq * stride_cq + 1) - q_first",
        "permuted",
        "oob",
        "The next end is read at + 1 element, but the ends may have a stride.",
    ),
)

_PACK = (
    Mistake(
        "queries-not-moved",
        _Q_SEQ,
        "q_seq = q_ptr",
        "two-sequences",
        "wrong",
        "q_seq is not moved by q_first: every sequence reads the first one's queries.",
    ),
    Mistake(
        "keys-not-moved",
        _K_SEQ,
        "k_seq = k_ptr",
        "two-sequences",
        "wrong",
        "k_seq is not moved by k_first: every sequence looks at the first one's keys.",
    ),
    Mistake(
        "values-not-moved",
        _V_SEQ,
        "v_seq = v_ptr",
        "two-sequences",
        "wrong",
        "v_seq is not moved by k_first: every sequence takes the first one's values.",
    ),
    Mistake(
        "output-not-moved",
        _O_SEQ,
        "o_seq = o_ptr",
        "two-sequences",
        "race",
        "o_seq is not moved by q_first: every sequence stores over the first one's o.",
    ),
    Mistake(
        "lse-not-moved",
        _LSE_SEQ,
        "lse_seq = lse_ptr",
        "two-sequences",
        "race",
        "lse_seq is not moved by q_first: every sequence stores over the first one's lse.",
    ),
    Mistake(
        "keys-moved-by-q-first",
        _K_SEQ,
        "k_seq = k_ptr + q_first.to(tl.int64) * stride_kn",
        "two-sequences",
        "oob",
        "k_seq is moved by q_first: the keys start at k_first.",
    ),
    Mistake(
        "moved-by-elements",
        _Q_SEQ,
        "q_seq = q_ptr + q_first",
        "two-sequences",
        "oob",
        "q_seq is moved by elements: q_first counts rows, and a row is stride_qm long.",
    ),
    Mistake(
        "batch-moved-by-the-longest",
        _Q_SEQ,
        "q_seq = q_ptr + seq * (blocks * BLOCK_M) * stride_qm",
        "lengths-differ",
        "oob",
        "The sequences are taken to lie max_seqlen_q apart, as if the batch were padded.",
    ),
)

_CAUSAL = (
    Mistake(
        "diagonal-of-the-pack",
        _SHIFT,
        "shift = k_first - q_first  # query i sees key j",
        "causal-few-queries",
        "wrong",
        "The diagonal is shifted by the starts in the pack: it is N_k - N_q within the sequence.",
    ),
    Mistake(
        "diagonal-top-left",
        _SHIFT,
        "shift = 0  # query i sees key j",
        "causal-few-queries",
        "wrong",
        "The diagonal starts in the top left corner: the last query has to see the last key.",
    ),
    Mistake(
        "positions-of-the-pack",
        _DIAGONAL,
        "visible = visible & ((k_first + start_n + offs_n)[None, :] <= offs_m[:, None] + shift)",
        "causal-sequences",
        "wrong",
        "The causal mask compares positions in the pack with positions in the sequence.",
    ),
    Mistake(
        "diagonal-within-the-tile",
        _DIAGONAL,
        "visible = visible & (offs_n[None, :] <= offs_m[:, None] + shift)",
        "causal-sequences",
        "wrong",
        "The diagonal takes offs_n for the key: it counts within the tile, add start_n.",
    ),
    Mistake(
        "strictly-below-the-diagonal",
        _DIAGONAL,
        "visible = visible & ((start_n + offs_n)[None, :] < offs_m[:, None] + shift)",
        "causal-sequences",
        "wrong",
        "The causal mask hides the diagonal itself: a query sees its own key, <= not <.",
    ),
    Mistake(
        "full-of-my-last-query",
        _FULL,
        "full = tl.minimum(full, start_m + BLOCK_M + shift)",
        "causal-sequences",
        "wrong",
        "full counts the keys that my last query sees: the first one decides which tiles need no "
        "mask.",
    ),
    Mistake(
        "full-one-key-too-many",
        _FULL,
        "full = tl.minimum(full, start_m + 2 + shift)",
        "causal-one-hidden",
        "wrong",
        "full is one key too many: my first query sees start_m + shift + 1 keys.",
    ),
    Mistake(
        "end-one-key-short",
        _END,
        "end = tl.minimum(end, start_m + BLOCK_M - 1 + shift)",
        "causal-last-key",
        "wrong",
        "end is the last key that my last query sees: it has to be the number of keys, one more.",
    ),
    Mistake(
        "end-of-my-first-query",
        _END,
        "end = tl.minimum(end, start_m + 1 + shift)",
        "causal-sequences",
        "wrong",
        "The loop ends with the keys of my first query: my last query sees more.",
    ),
)

_TILE = (
    Mistake(
        "keys-of-the-next-sequence",
        _VISIBLE,
        "visible = (mask_n | True)[None, :]",
        "short-sequences",
        "wrong",
        "Lanes behind the sequence are not hidden: they get the score 0 instead of -inf.",
    ),
    Mistake(
        "hidden-scores-zero",
        _HIDE,
        "s = tl.where(visible, s, 0.0)",
        "short-sequences",
        "wrong",
        "Hidden keys get the score 0: it must be -inf, a weight of nothing.",
    ),
    Mistake(
        "mask-one-key-too-many",
        _MASK_N,
        "mask_n = start_n + offs_n <= N_k",
        "short-sequences",
        "oob",
        "The mask takes one key too many: the first key of the next sequence, < N_k not <=.",
    ),
    Mistake(
        "rows-of-the-next-sequence",
        "mask_m = offs_m < N_q  #",
        "mask_m = offs_m + q_first < T_q  #",
        "short-sequences",
        "race",
        "Rows behind the sequence are stored: they are the next sequence's, mask them by N_q.",
    ),
)

_REST_OF_PACK = (
    Mistake(
        "rest-overwrites-sequences",
        _REST,
        "mask_rest = (rows >= 0 * last) & (rows < T_q)",
        "one-sequence",
        "wrong",
        "All tokens of the pack are set to 0, those of the sequences too: only those from the "
        "last end on belong to nobody.",
    ),
    Mistake(
        "rest-runs-over",
        _REST,
        "mask_rest = rows >= last",
        "short-sequences",
        "oob",
        "The mask of the rest has no end: it writes past T_q.",
    ),
    Mistake(
        "rest-starts-late",
        _REST,
        "mask_rest = (rows > last) & (rows < T_q)",
        "tokens-of-no-sequence",
        "uninitialised",
        "The rest starts one token late: the last end is itself the first token of no sequence.",
    ),
    Mistake(
        "rest-of-the-last-sequence",
        _LAST,
        "last = tl.load(cu_q_ptr + (S - 1) * stride_cq)",
        "one-sequence",
        "wrong",
        "The rest starts where the last sequence starts: its end is cu_seqlens_q[S].",
    ),
    Mistake(
        "rest-lse-zero",
        _STORE_LSE,
        "tl.store(lse_ptr + h * T_q + rows, tl.sum(nothing, 1), mask=mask_rest)",
        "tokens-of-no-sequence",
        "wrong",
        "Tokens of no sequence get lse 0: without a key it is -inf.",
    ),
)

_GIVEN = (
    Mistake(
        "zero-taken-for-no-scale",
        "D**-0.5 if sm_scale is None else float(sm_scale)",
        "float(sm_scale or D**-0.5)",
        "scale-zero",
        "wrong",
        "An sm_scale of 0 is replaced by the default: 0 is a scale, only None means 1/sqrt(D).",
    ),
)

MISTAKES = _SEQUENCE + _PACK + _CAUSAL + _TILE + _REST_OF_PACK + _GIVEN
