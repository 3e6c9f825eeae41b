"""Chapter 11: the ring player, who works when, messages against computing, the recorded ring."""

import json

import pytest
import torch

from flashlab import hardware, ring, sources
from flashlab.bench import records
from flashlab.holes import without_markers
from flashlab.loading import load_module
from flashlab.viz import ring_link, ring_player, ring_work


def chapter() -> dict[str, str]:
    (path,) = (sources.course_dir() / "chapters").glob("11_*.ipynb")
    return {c["id"]: "".join(c["source"]) for c in json.loads(path.read_text())["cells"]}


def run(capsys, *cells: str, **names) -> str:
    for cell in cells:
        exec(compile(chapter()[cell], cell, "exec"), names)
    return capsys.readouterr().out


def test_blocks_move_as_messages_to_the_right_would_move_them():
    """The same walk by real messages on three ranks."""

    def walk(member):
        block, seen = torch.tensor([float(member.rank)]), [member.rank]
        for _ in range(member.world - 1):
            came, right = torch.empty(1), (member.rank + 1) % member.world
            left = (member.rank - 1) % member.world
            for request in torch.distributed.batch_isend_irecv([
                torch.distributed.P2POp(torch.distributed.isend, block, group_peer=right),
                torch.distributed.P2POp(torch.distributed.irecv, came, group_peer=left),
            ]):  # fmt: skip
                request.wait()
            block = came
            seen.append(int(block))
        return seen

    shown = [state.here for state in ring_player.rounds(3) if not state.backward]
    assert [list(owners) for owners in zip(*shown, strict=True)] == ring.run(3, walk)
    back = [state.here for state in ring_player.rounds(3) if state.backward]
    assert back == [shown[2], shown[1], shown[0]], "from the block that came last to the own one"


def test_every_gradient_comes_home_with_a_share_from_each_rank():
    last = ring_player.rounds()[-1]
    assert last.here == (0, 1, 2, 3) and last.shares == (4, 4, 4, 4)
    for state in ring_player.rounds():
        if state.backward:
            assert set(state.shares) == {state.number}
    facts = dict(ring_player.frame(last).facts)
    assert facts["messages each has sent"] == str(3 + 2 + 3)  # blocks, blocks back, gradients
    assert "comes home" in ring_player.frame(last).caption


def test_the_player_sends_as_many_messages_as_the_solution():
    solution = load_module(without_markers(sources.solution_text("ring_attention")), "ring.py")
    passing, sent = solution.pass_on, []

    def counted(*what):
        sent.append(1)
        return passing(*what)

    def work(member):
        solution.pass_on = counted
        leaves = [torch.randn(1, 2, 4, 8, requires_grad=True) for _ in range(3)]
        o, _ = solution.ring_attention(*leaves, member.group)
        o.sum().backward()
        return len(sent)

    for world in (2, 3):
        assert ring.run(world, work) == [ring_player.rounds(world)[-1].sent] * world


@pytest.mark.parametrize("world", [2, 4, 8])
def test_in_order_reaches_half_of_the_ideal_and_zigzag_all_of_it(world):
    rows = 512
    in_order = ring_work.work("in order", world, rows=rows)
    assert in_order.share == pytest.approx(world / (2 * world - 1), rel=2 / rows)
    assert in_order.of[0][1:] == (0.0,) * (world - 1)
    zigzag = ring_work.work("zigzag", world, rows=rows)
    assert zigzag.share == 1.0
    assert {part for counts in zigzag.of for part in counts[1:]} == {0.5}
    assert all(masked[0] and not any(masked[1:]) for masked in zigzag.masked)
    striped = ring_work.work("striped", world, rows=rows)
    assert 0.99 < striped.share < 1 and all(map(all, striped.masked))
    total = {layout: ring_work.work(layout, world, rows=rows).even for layout in ring_work.LAYOUTS}
    assert len({round(even, 9) for even in total.values()}) == 1


@pytest.mark.parametrize("zigzag", [False, True])
def test_tokens_lie_where_shard_puts_them(zigzag):
    x = torch.arange(24).reshape(1, 1, 24)
    layout = "zigzag" if zigzag else "in order"
    for rank in range(3):
        places = ring_work.positions(layout, rank, 3, rows=8)
        assert places.tolist() == ring.shard(x, rank, 3, zigzag)[0, 0].tolist()


def test_a_message_is_as_long_as_computing_at_the_least_number_of_tokens():
    link = ring_link.LINKS["A100, NVLink"]
    found = ring_link.a_round(link, 1040)
    assert found.least == pytest.approx(312e12 / 300e9) and found.message == found.compute
    assert ring_link.a_round(link, 2000).exposed == 0.0 < ring_link.a_round(link, 500).exposed
    for change, factor in (
        ({"H_kv": 8}, 1 / 4),
        ({"mask": "causal zigzag"}, 2),
        ({"direction": "backward"}, 3 / 2.5),
        ({"reached": 0.5}, 1 / 2),
    ):
        assert ring_link.a_round(link, 1040, **change).least == pytest.approx(factor * found.least)
    assert all(link.gpu in hardware.GPUS and link.source for link in ring_link.LINKS.values())


def test_what_the_chapter_says_of_a_network():
    link = ring_link.LINKS["A100, InfiniBand"]
    some, many = (ring_link.a_round(link, tokens) for tokens in (4096, 65536))
    assert some.exposed > some.message / 2 and many.exposed == 0.0
    assert "exposes most of its messages at 4,096" in chapter()["link-explorer-explain"]


def test_measured_sentences_hold_for_the_record(capsys):
    record = records.load("ring_attention")
    rows = {row["N"]: row for row in record["rows"]}
    assert record["facts"]["GPUs"] == "2" and set(rows) >= {8192, 65536}
    shares = [rows[N]["share"]["ring"] for N in sorted(rows)]
    assert shares[0] < shares[1] < min(shares[2:]) and shares[-1] >= 0.92  # "close to the ideal"
    for row in rows.values():
        sizes = {name: row[name] for name in ("H", "H_kv", "D", "world", "causal")}
        assert sizes == {"H": 32, "H_kv": 8, "D": 128, "world": 2, "causal": True}
        ideal = row["ms"]["one GPU"] / 2
        assert row["share"]["ring"] == pytest.approx(ideal / row["ms"]["ring"])
        assert row["share"]["in order"] < 2 / 3 < row["share"]["ring"]
    for row in rows.values():  # "changes a few percent at most"
        assert row["ms"]["no overlap"] / row["ms"]["ring"] == pytest.approx(1, abs=0.05)
    said = run(capsys, "own", "own-messages", "weak", records=records)
    assert said.count("of ideal") == 3 * len(rows) and said.count("overlap saves") == len(rows)
    longer = [rows[2 * N]["ms"]["ring"] / rows[N]["ms"]["one GPU"] for N in rows if 2 * N in rows]
    assert longer == pytest.approx([2] * len(longer), abs=0.06)  # "about twice as long"
    alone = [rows[N]["ms"]["one GPU"] / N**2 for N in sorted(rows)]
    assert alone[-1] == min(alone), "a little less for each pair"
    assert said.count("times as long") == len(longer) and f"{longer[0]:.2f} times" in said


def test_what_is_said_of_a_rank_without_messages(capsys):
    alone, ring_of_two = records.load("ring_rank"), records.load("ring_attention")
    row = next(row for row in alone["rows"] if row["N"] == 8192)
    shares = list(row["share"].values())
    assert shares == sorted(shares) and shares[-1] < 1
    before, *_, after = list(row["ms"].values())[1:]
    (two,) = (r for r in ring_of_two["rows"] if r["N"] == 8192)
    messages = two["ms"]["ring"] - after
    assert before - after == pytest.approx(0.4, abs=0.05)  # "about 0.4 ms"
    assert messages / (before - after) == pytest.approx(0.5, abs=0.1)  # "about half of that"
    rates = {int(n): rate for n, rate in ring_of_two["link_gbs"].items()}
    block = 2 * 4096 * 8 * 128 * 2
    assert block == pytest.approx(17e6, rel=0.02) and two["sent_bytes"] == 2 * block
    long, short = (n / rates[n] / 1e6 for n in (1 << 24, 1 << 20))
    assert 0.17 < long < 0.2 and short > 0.75 * long, "most of it is the start"
    said = run(capsys, "rank", records=records, record=ring_of_two)
    assert said.count("at most") == len(shares) and f"{messages:.2f} ms more" in said
    for name, share in row["share"].items():
        assert f"{row['ms'][name]:.2f} ms: at most {share:.2f} of ideal" in said


def test_cells_say_what_is_not_recorded(capsys, monkeypatch):
    monkeypatch.setattr(records, "load", lambda name: None)
    cells = ("own", "own-messages", "rank", "weak")
    assert run(capsys, *cells, records=records).count("Not recorded yet") == 2
