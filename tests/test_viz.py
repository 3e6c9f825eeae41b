"""The pictures' data: numbers that a reader sees are recomputed another way."""

import html
import itertools
import json
import re

import pytest
import torch

from flashlab.viz import loop_orders, palette, tile_walk
from flashlab.viz.player import Frame, Player


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("blocks", [(4, 4), (5, 3), (1, 12)], ids=lambda b: f"{b[0]}x{b[1]}")
def test_walk_ends_at_ordinary_attention(blocks, causal):
    w = tile_walk.walk(N=12, block_m=blocks[0], block_n=blocks[1], causal=causal, seed=3)
    finished = [step for step in w.steps if step.phase == "finish"]
    assert [step.row for step in finished] == [
        min((i + 1) * blocks[0], 12) - 1 for i in range(-(-12 // blocks[0]))
    ]
    for step in finished:
        assert step.o == pytest.approx(w.exact[step.row], abs=1e-12)


def test_walk_skips_tiles_above_the_diagonal():
    w = tile_walk.walk(N=12, block_m=4, block_n=4, causal=True)
    assert [(s.i, s.j) for s in w.steps if s.phase == "tile"] == [
        (i, j) for i in range(3) for j in range(i + 1)
    ]


def test_alpha_rescales_only_when_the_maximum_grows():
    for before, after in itertools.pairwise(tile_walk.walk(N=20).steps):
        if before.phase == after.phase == "tile":
            assert (after.alpha < 1) == (after.m > before.m)


def test_loop_orders_count_what_they_move():
    N, D, block, size = 100, 16, 32, 2
    keys, queries = loop_orders.visits(N, D, block, block, size)
    tiles, row = 4, N * D * size
    assert keys[-1].totals == {
        "load Q": tiles * row,
        "store O": tiles * row,
        "load O": (tiles - 1) * row,
        "load K, V": 2 * row,
        "store m, l": tiles * 8 * N,
        "load m, l": (tiles - 1) * 8 * N,
    }
    assert queries[-1].totals == {
        "load Q": row,
        "store O": row,
        "load K, V": tiles * 2 * row,
        "store lse": 4 * N,
    }
    for order in (keys, queries):
        assert sorted((v.i, v.j) for v in order) == [(i, j) for i in range(4) for j in range(4)]


@pytest.mark.parametrize(
    "player", [tile_walk.tile_walk(N=14, causal=True), loop_orders.loop_orders()], ids=repr
)
def test_player_is_one_page_that_asks_for_nothing(player):
    page = player.page()
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)
    data = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.S)
    assert len(json.loads(data[1])) == len(player.frames)
    for frame in player.frames:  # the words are there without the picture
        assert html.escape(frame.caption) in page
        assert 'role="img"' in frame.svg and "aria-label" in frame.svg


def test_player_escapes_what_it_shows():
    player = Player("<b>", [Frame("<svg></svg>", "</script><script>alert(1)</script>")])
    assert "<script>alert" not in player.page()
    assert "<b>" not in player.page()


def test_players_refuse_unreadable_sizes():
    with pytest.raises(ValueError, match="1 to 24"):
        tile_walk.tile_walk(N=25)
    with pytest.raises(ValueError, match="1 to 6"):
        loop_orders.loop_orders(N=1024, block=128)
    with pytest.raises(ValueError, match="at least one frame"):
        Player("empty", [])


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(torch.tensor(linear).dot(torch.tensor([0.2126, 0.7152, 0.0722])))


@pytest.mark.parametrize("colours", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
def test_text_has_contrast(colours):
    for ink in ("ink", "soft", "orange", "green", "blue"):  # a verdict's word is coloured
        for ground in ("paper", "panel"):
            pair = sorted(_luminance(colours[name]) for name in (ink, ground))
            assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5, (ink, ground)
