"""Ranks in processes of this machine: what they return, how they fail, how a sequence is cut."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from flashlab import exercises, ring, sources, system
from flashlab.bench import ring_rank
from flashlab.exercises.ring_attention import make_inputs
from flashlab.grader import guard
from flashlab.grader import ring as harness
from flashlab.holes import without_markers
from flashlab.iocount import count_io
from flashlab.loading import load_module
from flashlab.reference import ring as reference
from flashlab.reference.attention import flash2_forward
from flashlab.ring import launch

SOLUTION = load_module(without_markers(sources.solution_text("ring_attention")), "ring.py")


def made(world, rows, dtype=torch.float64, **sizes):
    sizes = {"B": 2, "H": 4, "H_kv": 2, "N": world * rows, "D": 8, "world": world} | sizes
    return make_inputs(sizes, dtype, torch.Generator().manual_seed(0))


def started():
    """Processes that this one has started and that still run."""
    found = " ".join(path.read_text() for path in Path("/proc/self/task").glob("*/children"))
    return {
        pid for pid in found.split() if "server" not in Path(f"/proc/{pid}/cmdline").read_text()
    }


@pytest.fixture
def left_behind():
    """Processes started by now that did not run before the test; servers are other tests'."""
    before = started()
    return lambda: started() - before


@pytest.mark.parametrize("module", [SOLUTION, reference], ids=["solution", "reference"])
@pytest.mark.parametrize(
    ("world", "options"),
    [
        (1, {"causal": True, "zigzag": True}),
        (2, {}),
        (3, {"causal": True}),
        (4, {"causal": True, "zigzag": True, "sm_scale": -0.3}),
    ],
)
def test_a_ring_is_one_device_in_fp64_gradients_too(module, world, options, left_behind):
    call = made(world, 6, **options)
    expected = reference.whole_attention(**call)
    for name, x, want in zip(("o", "lse", "dq", "dk", "dv"), harness.run(module, **call), expected,
                             strict=True):  # fmt: skip
        torch.testing.assert_close(x, want, rtol=0, atol=2e-14, msg=name)
    assert not left_behind()


def test_the_reference_differentiates_what_it_computes():
    call = made(2, 5, causal=True)
    leaves = [call[name].requires_grad_() for name in "qkv"]
    o, _ = flash2_forward(*leaves, causal=True)
    grads = torch.autograd.grad(o, leaves, call["do"])
    with torch.no_grad():
        _, _, *found = reference.whole_attention(**call)
    for got, want in zip(found, grads, strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-13)


def test_shards_are_chunks_and_come_back_together():
    x = torch.arange(24.0).reshape(1, 1, 12, 2)
    for zigzag in (False, True):
        parts = [ring.shard(x, rank, 3, zigzag) for rank in range(3)]
        assert torch.equal(ring.gather(parts, zigzag), x)
    assert ring.shard(x, 1, 3)[0, 0, :, 0].tolist() == [8, 10, 12, 14]
    assert ring.shard(x, 1, 3, zigzag=True)[0, 0, :, 0].tolist() == [4, 6, 16, 18]
    with pytest.raises(ValueError, match=r"divisible by 2 \* world = 10, not 12"):
        ring.shard(x, 0, 5, zigzag=True)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"q": torch.zeros(2, 4, 6)}, "q must be a tensor"),
        ({"k": torch.zeros(2, 3, 6, 8)}, "H_kv a divisor of 4"),
        ({"k": torch.zeros(2, 2, 7, 8)}, r"k must have shape \[2, H_kv, 6, 8\]"),
        ({"v": torch.zeros(2, 2, 6, 4)}, "v must have shape"),
        ({"v": torch.zeros(2, 2, 6, 8).half()}, "move or cast it"),
        ({"q": torch.zeros(2, 4, 6, 8).int()}, "cast it"),
        (
            {"q": torch.zeros(2, 4, 5, 8), "k": torch.zeros(2, 2, 5, 8),
             "v": torch.zeros(2, 2, 5, 8), "zigzag": True},
            "even number of rows",
        ),
    ],
)  # fmt: skip
def test_a_bad_call_gets_the_same_sentence_from_reference_and_solution(change, says):
    good = {"q": torch.zeros(2, 4, 6, 8), "k": torch.zeros(2, 2, 6, 8),
            "v": torch.zeros(2, 2, 6, 8), "zigzag": False}  # fmt: skip
    said = []
    for module in (SOLUTION, reference):
        with pytest.raises(ValueError, match=says) as error:
            module.check_shards(**good | change)
        said.append(str(error.value))
    assert said[0] == said[1]


def test_a_rank_that_dies_ends_the_run_with_its_name(left_behind):
    def work(member):
        if member.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.recv(torch.zeros(1), group=member.group, group_src=1)

    start = time.monotonic()
    with pytest.raises(ring.RankError, match="rank 1 of 3 was ended by SIGKILL") as error:
        ring.run(3, work)
    assert error.value.kind == "crash" and error.value.rank == 1
    assert time.monotonic() - start < 10
    assert not left_behind()


def test_a_rank_that_leaves_is_told_from_one_that_raises():
    with pytest.raises(ring.RankError, match="rank 0 of 2 ended itself with code 7"):
        ring.run(2, lambda member: os._exit(7) if member.rank == 0 else time.sleep(60))
    with pytest.raises(ring.RankError, match="rank 1: KeyError: 'nothing'"):
        ring.run(2, lambda member: {0: "here"}.get(member.rank) or {}["nothing"])
    with pytest.raises(ring.RankError, match="rank 0: SystemExit"):
        ring.run(1, lambda member: exit("enough"))


def test_ranks_that_wait_for_one_another_are_stopped_and_their_lines_named():
    text = "def stuck(dist, block, member):\n    dist.recv(block, group=member.group)\n"
    module, block = load_module(text, "stuck.py"), torch.zeros(1)
    start = time.monotonic()
    with pytest.raises(ring.RankError) as error:
        ring.run(2, lambda member: module.stuck(dist, block, member), filename="stuck.py")
    assert time.monotonic() - start < (15 if system.LINUX else 40)  # elsewhere silence tells
    assert error.value.kind == "timeout" and (error.value.line, error.value.rank) == (2, 0)
    how = "wait for a message" if system.LINUX else "did not answer"
    assert f"rank 0 at line 2 and rank 1 at line 2 {how}" in str(error.value)
    assert error.value.source.startswith("dist.recv")


def test_a_slow_rank_is_named_after_its_time_but_not_while_it_says_that_it_goes_on():
    def slow(member):
        for _ in range(6):  # busy, so that it does not count as asleep
            end = time.monotonic() + 0.6
            while time.monotonic() < end:
                pass
            if member.rank == 0:
                member.beat()
        return member.rank

    assert ring.run(1, slow, seconds=3) == [0]
    with pytest.raises(ring.RankError, match=r"^rank 1 did not answer within 2\.5 s") as error:
        ring.run(2, slow, seconds=2.5)
    assert error.value.kind == "timeout"


def test_joining_and_working_have_the_time_each(monkeypatch):
    join = launch._join

    def work(seconds=2):  # at work, not asleep: sleeping ranks are taken for stuck
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass

    def slowly(*args):
        work()
        return join(*args)

    monkeypatch.setattr(launch, "_join", slowly)
    assert ring.run(2, lambda member: work() or member.rank, seconds=3.8) == [0, 1]
    with pytest.raises(ring.RankError, match="rank 1: KeyError: 'gone'"):
        ring.run(2, lambda member: {0: "here"}.get(member.rank) or {}["gone"], seconds=3.8)


def test_threads_of_the_caller_do_not_matter():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    torch.set_num_threads(2)
    torch.randn(400, 400) @ torch.randn(400, 400)
    try:
        work = lambda member: float((torch.ones(400, 400) @ torch.ones(400, 400)).sum())  # noqa: E731
        assert ring.run(2, work) == [400.0**3] * 2
    finally:
        stop.set()
        thread.join()


def test_ranks_beside_the_group_take_no_part():
    def work(member):
        return [member.rank, dist.get_rank(), dist.get_rank(member.group), dist.get_world_size()]

    assert ring.run(2, work, spare=1) == [[0, 1, 0, 3], [1, 2, 1, 3]]


def test_nccl_asks_for_a_gpu_each():
    if torch.cuda.device_count() < 9:
        with pytest.raises(ValueError, match="need as many GPUs"):
            ring.run(9, lambda member: None, backend="nccl")


def test_the_harness_leaves_the_watch_as_it_was_and_brings_breaches_home():
    text = (
        "import torch\n"
        "def ring_attention(q, k, v, group, *, causal=False, zigzag=False, sm_scale=None):\n"
        "    o = torch.nn.functional.scaled_dot_product_attention(q, k, v)\n"
        "    return o, o.sum(3).float()\n"
    )
    call = made(2, 4, torch.float32, H_kv=4)
    watch = guard.Watch("fast.py", True, (), lambda t: None)
    module = load_module(text, "fast.py")
    with watch:
        harness.run(module, **call)
        assert watch.armed
    assert {breach["rule"] for breach in watch.breaches} == {"attention"}
    assert len({breach["line"] for breach in watch.breaches}) == 1
    assert guard.active() is None


@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        ("return q", "contract", r"expected \(o, lse\)"),
        ("return q, q", "contract", "expected lse to be torch.float32"),
        ("return q.detach(), q[..., 0].float()", "contract", "o has no gradient"),
        ("return 1.0 * q, q[..., 0].float()", "contract", "dk is missing"),
        ("k.data.zero_(); return q + k + v, q[..., 0].float()", "contract", "input k was changed"),
        ("raise MemoryError('out of memory')", "oom", "rank 0: MemoryError"),
    ],
)
def test_what_a_rank_hands_back_is_held_to_the_contract(body, kind, says):
    text = f"def ring_attention(q, k, v, group, **options):\n    {body}\n"
    module = load_module(text, "unfit.py")
    with pytest.raises(ring.RankError, match=says) as error:
        harness.run(module, **made(1, 4, torch.float32, H_kv=4))
    assert error.value.kind == kind


def test_messages_that_nobody_waits_for_are_counted_with_their_line():
    text = without_markers(sources.solution_text("ring_attention"))
    text = text.replace("        request.wait()\n", "        pass\n")
    with pytest.raises(ring.RankError, match="2 messages were started and never waited for") as e:
        harness.run(load_module(text, "hasty.py"), **made(2, 4))
    assert e.value.kind == "race" and "in the forward pass" in str(e.value)


@pytest.mark.parametrize("world", [1, 2, 4])
def test_what_forward_kept_is_not_sent_again_and_serves_twice(world):
    def work(member):
        requests = ring.Requests("")
        leaves = [torch.randn(1, h, 6, 8).half().requires_grad_() for h in (4, 2, 2)]
        o, _ = SOLUTION.ring_attention(*leaves, member.group, causal=True, zigzag=True)
        forward = requests.bytes["send"]
        first = torch.autograd.grad(o.sum(), leaves, retain_graph=True)
        backward = requests.bytes["send"] - forward
        again = torch.autograd.grad(o.sum(), leaves)
        same = all(torch.equal(x, y) for x, y in zip(first, again, strict=True))
        return [forward, backward, same, requests.forgotten()]

    block, wide = 2 * 2 * 6 * 8 * 2, 1 if world < 3 else 2  # float16; sums of many in float32
    blocks, gradients = max(0, world - 2), (world - 1) * wide
    expected = [(world - 1) * block, (blocks + gradients) * block, True, ""]
    assert ring.run(world, work) == [expected] * world


def test_the_exercise_says_that_it_starts_processes():
    assert [s for s in exercises.SYLLABUS if exercises.get(s).ranks] == ["ring_attention"]
    worlds = {case.sizes({})["world"] for case in exercises.get("ring_attention").cases}
    assert worlds == {1, 2, 3, 4}


def test_a_rank_without_messages_computes_what_it_computes_in_a_ring(monkeypatch):
    for name, value in (("H", 4), ("H_KV", 2), ("D", 8), ("ROUNDS", 2), ("LEAST_S", 0.001)):
        monkeypatch.setattr(ring_rank, name, value)
    module = load_module(without_markers(sources.solution_text("ring_attention")), "ring.py")
    before = dict(vars(module))
    with count_io():  # it runs the one kernel
        (row,) = ring_rank.rows(module, (32,), "cpu", torch.float32)
    assert vars(module) == before, "put back as it was"
    names = list(ring_rank.versions(module))
    assert list(row["share"]) == names and "merge in one kernel" in ring_rank.line(row)
    for name in names:
        assert row["share"][name] == pytest.approx(row["ms"]["one GPU"] / 2 / row["ms"][name])

    call = made(2, 8, torch.float32, causal=True, zigzag=True)
    whole = reference.whole_attention(**call)
    parts = [[ring.shard(call[x], rank, 2, True) for x in "qkv"] for rank in range(2)]
    ready = {torch.float32: torch.stack(parts[1][1:])}
    for name, changes in ring_rank.versions(module).items():
        with ring_rank.rank_of(module, 0, ready, **changes), count_io():
            o, lse = module.ring_attention(*parts[0], None, causal=True, zigzag=True)
        for x, wanted in ((o, whole[0]), (lse, whole[1])):
            torch.testing.assert_close(x, ring.shard(wanted, 0, 2, True), msg=name)
