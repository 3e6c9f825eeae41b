"""What a model's attention is compared with: torch's SDPA, and standard attention."""

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from flashlab.worked.plain import plain_attention


def sdpa(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False) -> Tensor:
    """torch's attention; on a GPU its FlashAttention-2 kernel.

    Its causal mask counts from the top left: with more keys than queries only one query is right
    here, and it needs no mask.
    """
    causal = causal and q.shape[2] > 1
    if not q.is_cuda:
        return scaled_dot_product_attention(q, k, v, is_causal=causal)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return scaled_dot_product_attention(q, k, v, is_causal=causal)


def standard(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False) -> Tensor:
    """Matmul, mask, softmax, matmul as plain operators, all in the dtype of q.

    Autocast would do the softmax in fp32, which takes twice the memory and time.
    """
    with torch.autocast(q.device.type, enabled=False):
        return plain_attention(q, k, v, "causal" if causal else "plain")
