"""Chapter 03's kernels and pictures: accesses an element, the walk, the merge in any order."""

import json
import math
import re

import numpy as np
import pytest
import torch

from flashlab import sources
from flashlab.iocount import count_io
from flashlab.viz import merge_orders, online_walk
from flashlab.worked import softmax_passes


@pytest.mark.core
@pytest.mark.parametrize("shape", [(20, 300), (16, 128), (1, 1), (3, 129)])
@pytest.mark.parametrize(("name", "loads"), [("naive", 2), ("safe", 3)])
def test_each_pass_loads_every_element_once(name, loads, shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(shape[1]))
    with count_io() as tally:
        p = getattr(softmax_passes, f"{name}_softmax")(x)
    assert (p - torch.softmax(x, -1)).abs().max() < 1e-6
    assert tally.load_bytes("x_ptr") == loads * x.nbytes
    assert tally.store_bytes("p_ptr") == x.nbytes


def test_only_the_safe_kernel_survives_large_scores():
    x = 1000 + torch.randn(4, 200, generator=torch.Generator().manual_seed(0))
    with count_io():
        naive, safe = softmax_passes.naive_softmax(x), softmax_passes.safe_softmax(x)
    assert naive.isnan().all()
    torch.testing.assert_close(safe, torch.softmax(x, -1))


@pytest.mark.parametrize("tile", [1, 3, 5, 12])
def test_the_walk_ends_at_ordinary_softmax_and_rescaling_keeps_the_log_sum_exp(tile):
    scores = online_walk.row_of(12, seed=2)
    w = online_walk.walk(scores, tile)
    s = torch.tensor(scores, dtype=torch.float64)
    last = w.steps[-1]
    assert last.m == float(s.max()) and last.l == pytest.approx(sum(last.terms))
    assert last.m + math.log(last.l) == pytest.approx(float(torch.logsumexp(s, 0)), abs=1e-12)
    for before, step in zip(w.steps[2:], w.steps[3:], strict=False):
        if step.phase == "rescale":
            same = before.m + math.log(before.l)
            assert step.m + math.log(step.l) == pytest.approx(same, abs=1e-12)
            assert (step.alpha < 1) == (step.m > before.m)


def test_the_chapters_words_on_the_walk_are_true():
    (path,) = (sources.course_dir() / "chapters").glob("03_*.ipynb")
    cells = {c["id"]: "".join(c["source"]) for c in json.loads(path.read_text())["cells"]}
    n, tile, seed = map(int, re.findall(r"\d+", cells["walk"]))
    w = online_walk.walk(online_walk.row_of(n, seed), tile)
    grew = [s.j for s in w.steps if s.phase == "rescale" and s.j and s.alpha < 1]
    assert (
        f"tiles {' and '.join(map(str, grew))}, where the maximum grows" in cells["walk-explain"]
    )


def test_the_player_says_every_step_and_refuses_unreadable_sizes():
    player = online_walk.online_walk(n=5, tile=2)
    assert len(player.frames) == 1 + 2 * 3
    assert "differ" in player.frames[-1].caption
    with pytest.raises(ValueError, match="2 to 24"):
        online_walk.online_walk(n=25)


@pytest.mark.parametrize("parts", [2, 3, 5, 8])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_every_order_gives_one_answer_to_the_dtypes_rounding(dtype, parts):
    found = merge_orders.merged(parts, 1.0, dtype)
    s, v = (x.astype(np.float16).astype(np.float64) for x in merge_orders.inputs(1.0))
    p = np.exp(s - np.logaddexp.reduce(s))
    assert found.exact.o == pytest.approx(float(p @ v), abs=1e-12)
    for root in found.roots.values():
        assert abs(float(root.state.o) - float(p @ v)) < 8 * np.finfo(dtype).eps
        assert float(root.state.m) == s.max()


def test_the_plain_mean_is_wrong_and_depends_on_the_order():
    found = merge_orders.merged(5, 1.0, rule="plain mean")
    outputs = [float(root.state.o) for root in found.roots.values()]
    assert max(outputs) - min(outputs) > 0.01
    assert min(abs(o - found.exact.o) for o in outputs) > 0.01


def test_a_tree_holds_every_part_once_in_every_order():
    def leaves(node):
        return [node.x] if not node.children else [x for c in node.children for x in leaves(c)]

    for parts in (2, 5, 8):
        for root in merge_orders.merged(parts, 1.0).roots.values():
            assert sorted(leaves(root)) == list(map(float, range(parts)))


def test_random_cuts_and_orders_do_not_break_the_merge():
    for spread in (0.1, 3.0, 1000.0):
        assert merge_orders.worst_difference(trials=50, spread=spread, seed=7) < 1e-13


def test_the_merge_explorer_answers_at_every_place():
    explorer = merge_orders.merge_explorer()
    for control in explorer.controls:
        for value in control.values:
            picture = explorer.at(**{control.name: value})
            assert len(picture.rows) == 2 + len(merge_orders.ORDERS)
            assert "nan" not in picture.caption and "nan" not in picture.svg
