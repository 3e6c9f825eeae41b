"""A GPT in one file: GPT-2's layers, with the attention that a call hands in."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Attend = Callable[..., Tensor]  # (q, k, v, *, causal) -> o, all [B, H, N, D]
Cache = list[tuple[Tensor, Tensor]]  # a layer's keys and values so far, [B, H, N, D] each


@dataclass(frozen=True)
class Size:
    """How large a model is.

    Args:
        vocabulary: Tokens there are.
        longest: Tokens of a sequence, at most.
        layers: Blocks one after the other.
        heads: Attention heads of a layer.
        width: Numbers that stand for a token; heads * D.
    """

    vocabulary: int
    longest: int
    layers: int
    heads: int
    width: int

    @property
    def D(self) -> int:
        """Numbers of one head."""
        return self.width // self.heads


# GPT-2 medium's shape (Radford et al. 2019), for sequences of up to 16,384 tokens. Its 50,257
# tokens are rounded up to a multiple of 128, which the matmuls of a GPU like.
GPT2_MEDIUM = Size(vocabulary=50304, longest=16384, layers=24, heads=16, width=1024)


class Attention(nn.Module):
    """Every token asks all earlier ones: the only place where tokens meet."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.qkv = nn.Linear(size.width, 3 * size.width)
        self.out = nn.Linear(size.width, size.width)

    def forward(
        self, x: Tensor, attend: Attend, past: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Returns the layer's output [B, N, width] and its keys and values, with those before."""
        B, N, width = x.shape
        heads = self.qkv(x).view(B, N, 3, self.heads, width // self.heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4)  # [B, H, N, D] each, as they lie: no copy
        if past is not None:
            k, v = (torch.cat(pair, dim=2) for pair in zip(past, (k, v), strict=True))
        o = attend(q, k, v, causal=True)  # bottom-right: the new rows are the last ones
        return self.out(o.transpose(1, 2).reshape(B, N, width)), (k, v)


class Block(nn.Module):
    """Attention, then two layers for each token alone; both are added to what came in."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(size.width)
        self.attention = Attention(size)
        self.before_mlp = nn.LayerNorm(size.width)
        self.up = nn.Linear(size.width, 4 * size.width)
        self.down = nn.Linear(4 * size.width, size.width)

    def forward(
        self, x: Tensor, attend: Attend, past: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """x [B, N, width] -> the same shape, and the layer's keys and values."""
        added, kept = self.attention(self.before_attention(x), attend, past)
        x = x + added
        return x + self.down(F.gelu(self.up(self.before_mlp(x)), approximate="tanh")), kept


class GPT(nn.Module):
    """Tokens in, a score for each possible next token out."""

    def __init__(self, size: Size, seed: int = 0) -> None:
        super().__init__()
        self.size = size
        self.token = nn.Embedding(size.vocabulary, size.width)
        self.position = nn.Embedding(size.longest, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.last = nn.LayerNorm(size.width)
        self.reset(seed)

    @torch.no_grad()
    def reset(self, seed: int) -> None:
        """GPT-2's start: small random weights, smaller where layers add up."""
        generator = torch.Generator().manual_seed(seed)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                adds = name.endswith(("out.weight", "down.weight"))
                std = 0.02 / (2 * self.size.layers) ** 0.5 if adds else 0.02
                weight.copy_(std * torch.randn(weight.shape, generator=generator))
            elif name.endswith("bias"):
                weight.zero_()

    def forward(
        self, tokens: Tensor, attend: Attend, past: Cache | None = None
    ) -> tuple[Tensor, Cache]:
        """Scores of the next token at every place.

        Args:
            tokens: [B, N], int64.
            attend: The attention to use.
            past: Keys and values of the tokens before these; None: there are none.

        Returns:
            scores: [B, N, vocabulary]; and the cache with these tokens in it.
        """
        start = past[0][0].shape[2] if past else 0
        places = torch.arange(start, start + tokens.shape[1], device=tokens.device)
        x = self.token(tokens) + self.position(places)
        kept: Cache = []
        for n, block in enumerate(self.blocks):
            x, pair = block(x, attend, past[n] if past else None)
            kept.append(pair)
        return F.linear(self.last(x), self.token.weight), kept  # one table for both ends

    def loss(self, tokens: Tensor, targets: Tensor, attend: Attend) -> Tensor:
        """Mean cross-entropy, in nats a token, of ``targets`` [B, N]."""
        scores, _ = self(tokens, attend)
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())

    @torch.no_grad()
    def write(self, tokens: Tensor, count: int, attend: Attend, seed: int = 0) -> Tensor:
        """``count`` more tokens, drawn one by one: a row of queries a step, and a cache.

        Args:
            tokens: [B, N], the beginning; N + count is at most ``size.longest``.
        """
        draw = torch.Generator(tokens.device).manual_seed(seed)
        scores, past = self(tokens, attend)
        for n in range(count):
            chances = torch.softmax(scores[:, -1].float(), -1)  # [B, vocabulary]
            following = torch.multinomial(chances, 1, generator=draw)  # [B, 1]
            tokens = torch.cat([tokens, following], dim=1)
            if n + 1 < count:
                scores, past = self(following, attend, past)
        return tokens
