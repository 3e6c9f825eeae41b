"""``attention``: checks a call, takes its route, says whose kernels run."""

from typing import Any

import torch
from torch import Tensor

from flashlab.autograd import FlashAttention
from flashlab.reference.described import check_described
from flashlab.routes.contract import check, refuse_masks
from flashlab.routes.table import Call, Plan, plan

MANY_SCORES = 1 << 22  # about ten seconds of the interpreter


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *mask: Any,
    causal: bool = False,
    sm_scale: float | None = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
    **others: Any,
) -> Tensor:
    """Exact softmax attention with a gradient, by your kernels where they last passed their check.

    The course's solutions stand in for the others; the first call of each says so. On CPU tensors
    the kernels run in the course's interpreter: exact, and only for small sizes.

    Args:
        q: [B, H, N_q, D]; float16, bfloat16 or float32; D up to 256.
        k, v: [B, H_kv, N_k, D]; H_kv divides H. All three may be jagged nested tensors instead,
            each [B, H, N of its own, D] (``torch.nested``): forward pass only.
        causal: Query i sees the keys j <= i + N_k - N_q. That is bottom-right: torch's
            ``is_causal`` counts from the top left, which differs where N_q != N_k.
        sm_scale: Factor of the scores; None means 1/sqrt(D).
        dropout_p: Share of the weights that is dropped, 0 to below 1.
        seed: Which ones, 0 to 2**63 - 1; None draws one from torch's generator.

    Returns:
        o: [B, H, N_q, D], of the inputs' dtype; 0 in a row that sees no key.

    Raises:
        ValueError: an argument is not such a one, or there is a mask.
    """
    options = {"causal": causal, "sm_scale": sm_scale, "dropout_p": dropout_p, "seed": seed}
    return _attend(q, k, v, mask, others, **options)


def course_attention(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    """``attention`` by the course's solutions alone, whatever the workspace holds."""
    return _attend(q, k, v, (), {}, own=False, **options)


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: tuple,
    others: dict[str, Any],
    *,
    causal: bool = False,
    sm_scale: float | None = None,
    dropout_p: float = 0.0,
    seed: int | None = None,
    own: bool = True,
) -> Tensor:
    refuse_masks(mask, others)
    check(q, k, v, dropout_p)
    call = call_of(q, k, v, dropout_p)
    found = plan(call, own)
    if own:
        say_once(found)
        if q.device.type == "cpu" and not call.jagged:
            say_slow(q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2])
    options = {"causal": causal, "sm_scale": sm_scale}
    if found.route == "varlen":
        return _varlen(q, k, v, found, options)
    if found.route == "dropout":
        if call.grouped:  # autograd adds up the gradients of the repeated heads
            k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
        drawn = int(torch.randint(2**62, ())) if seed is None else seed
        options |= {"p": dropout_p, "seed": drawn}
    if found.route == "decode":  # one row sees all keys, causal or not
        parts = decode_splits(*k.shape[:3], q.device)
        return found.functions.forward(q, k, v, num_splits=parts, sm_scale=sm_scale)[0]
    if not call.gradient:
        return found.functions.forward(q, k, v, **options)[0]
    return FlashAttention.apply(q, k, v, found.functions, options)


def _varlen(q: Tensor, k: Tensor, v: Tensor, found: Plan, options: dict[str, Any]) -> Tensor:
    """Jagged [B, H, N, D]: their rows as they lie, [T, H, D], and where each sequence ends."""
    rows = [x.transpose(1, 2) for x in (q, k, v)]
    ends_q, ends_k = (x.offsets().to(torch.int32) for x in rows[:2])
    longest = int(ends_q.diff().max()) if len(ends_q) > 1 else 0
    packed = [x.values() for x in rows]
    o, _ = found.functions.forward(*packed, ends_q, ends_k, max_seqlen_q=longest, **options)
    return torch.nested.nested_tensor_from_jagged(o, rows[0].offsets()).transpose(1, 2)


def decode_splits(B: int, H_kv: int, N: int, device: torch.device) -> int:
    """Parts of the keys: enough programs for eight on each SM, none under 256 keys, 32 at most.

    The merge has one program a head: with more parts it is what takes the time.
    """
    sms = 1
    if device.type == "cuda":
        sms = torch.cuda.get_device_properties(device).multi_processor_count
    return max(1, min(8 * sms // max(1, B * H_kv), N // 256, 32))


def call_of(q: Tensor, k: Tensor, v: Tensor, dropout_p: float = 0.0) -> Call:
    """What decides the route of ``attention(q, k, v, dropout_p=dropout_p)``."""
    jagged = q.is_nested
    asked = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
    if jagged and (asked or dropout_p):
        raise ValueError(
            "jagged q, k, v have no backward pass and no dropout here: call attention under "
            "torch.no_grad() with dropout_p=0.0, or train on padded tensors"
        )
    hopper = q.is_cuda and torch.cuda.get_device_capability(q.device)[0] == 9
    hopper = hopper and not jagged and _described(q, k, v)
    grouped = k.shape[1] != q.shape[1]
    N_q = 0 if jagged else q.shape[2]
    return Call(N_q, q.shape[3], q.dtype, grouped, asked, dropout_p > 0, jagged, hopper)


def _described(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether TMA, which copies tiles on a Hopper GPU, can describe all three."""
    try:
        check_described(q=q, k=k, v=v)
    except ValueError:
        return False
    return True


_said: set[str] = set()


def say_once(found: Plan) -> None:
    """Print whose kernels run, each sentence once a process."""
    for sentence in found.whose:
        if sentence not in _said:
            _said.add(sentence)
            print(f"flashlab.attention ({found.route}): {sentence}")


def say_slow(pairs: int) -> None:
    """Say once that a call of so many scores is large for the interpreter that a CPU has."""
    sentence = (
        "flashlab.attention: CPU tensors run in the course's interpreter, which checks and counts "
        "every access. That is for small sizes; larger ones take minutes here and need a GPU."
    )
    if pairs > MANY_SCORES and sentence not in _said:
        _said.add(sentence)
        print(sentence)
