"""Cases, budget and hints of ``flash3_forward``. Floor: course."""

from collections.abc import Mapping

from flashlab.exercise import Case, Exercise, Output, Sizes, Tiles
from flashlab.exercises import flash2_forward
from flashlab.exercises.attention_inputs import make_inputs
from flashlab.exercises.mistakes.flash3_forward import MISTAKES

ROWS, BLOCK_N = 64, 128  # of a warpgroup, of a key block: given, not tuned


def budget(sizes: Sizes, tiles: Tiles, itemsize: int) -> Mapping[str, tuple[int, int]]:
    """q read, o and lse written once; k and v read once a tile, up to its last row's block.

    A tile has the rows of all consumers: they share what the producer brings.
    """
    B, H, N_q, N_k, D = (sizes[name] for name in ("B", "H", "N_q", "N_k", "D"))
    row = D * itemsize
    if not B * H * N_q * N_k * sizes.get("H_kv", H):
        return {"q": (0, 0), "k": (0, 0), "v": (0, 0), "o": (0, 0), "lse": (0, 0)}
    causal, shift = sizes.get("causal", False), N_k - N_q
    first = -(-shift % BLOCK_N) if causal else 0
    block_m = ROWS * (3 if D == 64 and N_q >= 2048 and first == 0 else 2)
    keys = 0
    for start in range(0, N_q, block_m):
        blocks = max(-(-(start + block_m + shift - first) // BLOCK_N), 1)
        keys += min(first + blocks * BLOCK_N, N_k) if causal else N_k
    heads = B * H
    return {
        "q": (heads * N_q * row, 0),
        "k": (heads * keys * row, 0),
        "v": (heads * keys * row, 0),
        "o": (0, heads * N_q * row),
        "lse": (0, heads * N_q * 4),
    }


def _sizes(N_q: int, N_k: int, B: int = 1, H: int = 1, H_kv: int = 0, D: int = 64, **rest) -> dict:
    return {"B": B, "H": H, "H_kv": H_kv or H, "N_q": N_q, "N_k": N_k, "D": D, **rest}


def _case(name: str, group: str, why: str, *sizes: int, **rest) -> Case:
    """A case of fixed sizes: the tiles of this exercise are given."""
    options = {key: rest.pop(key) for key in ("dtype", "trivial") if key in rest}
    return Case(name, group, lambda _: _sizes(*sizes, **rest), why, **options)


NOTHING = "there is nothing to attend to, so zeros are right"
CASES = (
    _case(
        "one-block", "core",
        "One block of keys, 64 rows for each of two consumers: nothing comes round yet.",
        128, 128, D=128,
    ),
    _case(
        "three-blocks", "core",
        "Three blocks, two slots: the third block lies where the first one was.",
        128, 384, H=3,
    ),
    _case(
        "seven-blocks", "core",
        "Seven blocks, two slots: phases go 0, 1, 0, 1 and the maximum moves.",
        64, 896, H=3, D=128, scores="rising",
    ),
    _case(
        "falling-scores", "core",
        "Later blocks (further left) have far larger scores: what was added before must shrink.",
        128, 384, scores="falling",
    ),
    _case(
        "large-scores", "core",
        "Scores beyond +-88, where exp overflows in fp32 unless the maximum is subtracted.",
        128, 256, scores="large",
    ),
    _case(
        "given-scale", "core", "sm_scale is given as 0.5, which is not 1/sqrt(D).",
        128, 256, sm_scale=0.5,
    ),
    _case(
        "ragged-keys", "ragged",
        "The last block has 5 keys; TMA fills the rest with zeros, whose score 0 is the largest.",
        128, 261, scores="negative",
    ),
    _case(
        "ragged-queries", "ragged",
        "2 batches of 2 heads with 131 queries: what TMA stores must end with the head.",
        131, 133, B=2, H=2, D=128,
    ),
    _case(
        "one-token", "ragged", "One query, one key: o is v.", 1, 1, D=128,
        trivial="of one key the mean and the first row of V are the answer",
    ),
    _case(
        "negative-scale", "ragged", "sm_scale is -0.5: the largest s is the smallest score.",
        70, 261, sm_scale=-0.5,
    ),
    _case(
        "three-consumers", "ragged",
        "At D 64 and from 2048 queries on a tile has 192 rows of three consumers.",
        2060, 261, D=64,
    ),
    _case(
        "causal-square", "causal", "Only the diagonal block of a tile hides keys.",
        384, 384, H=2, D=128, causal=True,
    ),
    _case(
        "causal-few-queries", "causal", "5 queries see the last keys: diagonals end bottom right.",
        5, 261, causal=True,
    ),
    _case(
        "causal-shifted", "causal",
        "N_k - N_q is 67: blocks of keys start before key 0, so that diagonals fit into one.",
        200, 267, D=128, causal=True,
    ),
    _case(
        "causal-many-queries", "causal", "The first 100 of 232 queries see no key: o 0, lse -inf.",
        232, 132, causal=True,
    ),
    _case(
        "causal-three-consumers", "causal",
        "A tile's 192 rows end in different blocks: who sees fewer still hands slots back, and "
        "below the last query there is nothing to see.",
        2176, 512, causal=True,
    ),
    _case(
        "more-tiles-than-programs", "hostile",
        "134 tiles on 132 multiprocessors: two programs work on a second tile.",
        5, 3, B=67, H=2,
    ),
    _case(
        "grouped-heads", "hostile", "4 query heads share 2 key heads: head h reads h // 2.",
        20, 131, B=2, H=4, H_kv=2,
    ),
    _case(
        "packed", "hostile", "[B, N, H, D] in memory, k and v in one tensor, 3 heads share a key "
        "head, causal.",
        90, 150, B=2, H=3, H_kv=1, causal=True, layout="packed",
    ),
    _case(
        "shared", "hostile", "The batch shares k (stride 0) and the heads share v.",
        18, 140, B=2, H=2, layout="shared",
    ),
    _case(
        "bf16", "hostile", "bfloat16: 8 bits of mantissa, the range of fp32.",
        100, 261, D=128, causal=True, dtype="bfloat16",
    ),
    _case(
        "large-values", "hostile", "Sums of p v pass 65,504, where fp16 ends: acc must be fp32.",
        64, 384, values="large",
    ),
    _case(
        "scale-zero", "hostile", "sm_scale is 0: all keys that a query sees weigh the same.",
        40, 168, causal=True, sm_scale=0.0,
    ),
    _case("no-keys", "hostile", "No key at all: o 0, lse -inf.", 5, 0, D=128, trivial=NOTHING),
    _case("no-queries", "hostile", "No query: empty outputs.", 0, 5, trivial=NOTHING),
)  # fmt: skip

EXERCISE = Exercise(
    slug="flash3_forward",
    chapter="08",
    title="FlashAttention-3 forward in Gluon",
    kind="gluon",
    reference="flashlab.reference.described:flash3_forward",
    outputs=(Output("o"), Output("lse", "float32")),
    make_inputs=make_inputs,
    honest=flash2_forward.honest,
    cases=CASES,
    mistakes=MISTAKES,
    hints=(
        "You wrote this protocol in pipeline_schedule: a slot is filled, read by every consumer, "
        "handed back, filled again. Here full and empty are mbarriers. TMA's bytes end a phase of "
        "full; one arrival of every consumer ends a phase of empty. Follow one slot through two "
        "rounds with a pencil before you write a line.",
        "mbarrier.wait(bar, parity) blocks while the phase of that parity is under way. A reader "
        "waits at full for phase (0 in the first round). The producer waits at empty for phase ^ "
        "1, which passes at once in the first round. mbarrier.expect(full, bytes) is the "
        "producer's arrival and says how much TMA will bring; without it the phase never ends. A "
        "slot may be handed back only when warpgroup_mma_wait says that the product is done.",
        "Start two products before you wait: P V of this block, then Q K of the next one, which "
        "needs nothing of the first. While they run, the other warpgroup has its softmax. Rescale "
        "acc before P V is started, and give both slots back after the one wait. Under a causal "
        "mask an upper warpgroup of 192 rows sees fewer blocks; the ones it skips are in the ring "
        "all the same, so it waits for each and hands it back.",
        "Step 1: mbarrier.wait(k_full.index(stage), phase); s = start_qk(q, k_bufs.index(stage), "
        "D); s = warpgroup_mma_wait(0, deps=(s,)); mbarrier.arrive(k_empty.index(stage), "
        "count=1). Step 2: wait(empty.index(stage), phase ^ 1), expect(full.index(stage), "
        "desc.block_type.nbytes), tma_load(desc, [b, h, start, 0], full.index(stage), "
        "bufs.index(stage)). Step 5: ticket = gl.atomic_add(counter, 1, sem='relaxed'); tile = "
        "gl.num_programs(0) + ticket; before next_buf.store wait until next_empty's phase of the "
        "tile before is over: (t & 1) ^ 1.",
    ),
    steps=(
        "One warpgroup with TMA",
        "Producer and consumer",
        "Two consumers",
        "Overlap of softmax and products",
        "Persistent grid",
    ),
    budget=budget,
    archs=(90,),
    compiled=("one-block", "three-consumers", "causal-shifted", "causal-three-consumers"),
    needs=("wgmma", "tma", "mbarrier", "setmaxnreg"),
    minutes=120,
)
