"""Hidden seeds: fixed by the secret, bound by a commitment, and classes of cases that stay."""

import random

import pytest

from flashlab import exercises
from flashlab.classroom import seeds, seeds_draw
from flashlab.exercise import Exercise
from flashlab.grader import trials

SECRET = bytes(range(32))


def drawn(slug: str, student: str = "ann", attempt: int = 1) -> Exercise:
    exercise = exercises.get(slug)
    names = [case.name for case in exercise.cases]
    key = seeds.lab_key(SECRET, "lab04", attempt)
    return seeds_draw.hidden(exercise, seeds.case_seeds(key, student, slug, names))


def sizes(exercise: Exercise) -> list[dict]:
    return [dict(c.sizes(exercise.tiles(p))) for c in exercise.cases for p in c.pairs]


def test_a_seed_depends_on_secret_lab_attempt_student_exercise_and_case() -> None:
    def one(secret=SECRET, lab="lab04", attempt=1, student="ann", slug="triad", case="a"):
        return seeds.case_seed(seeds.lab_key(secret, lab, attempt), student, slug, case)

    changed = [one(secret=bytes(32)), one(lab="lab05"), one(attempt=2), one(student="bob"),
               one(slug="vector_scale"), one(case="b")]  # fmt: skip

    assert one() == one()
    assert len({one(), *changed}) == 7
    assert all(0 <= seed < 2**32 for seed in changed)


def test_parts_do_not_run_into_each_other() -> None:
    key = seeds.lab_key(SECRET, "lab04")

    assert seeds.case_seed(key, "ann", "b", "c") != seeds.case_seed(key, "an", "nb", "c")
    assert seeds.lab_key(SECRET, "lab1", 11) != seeds.lab_key(SECRET, "lab11", 1)


def test_the_commitment_is_of_one_lab_and_says_no_key() -> None:
    key, other = seeds.lab_key(SECRET, "lab04"), seeds.lab_key(SECRET, "lab05")

    assert seeds.commitment(key) == seeds.commitment(seeds.lab_key(SECRET, "lab04"))
    assert seeds.commitment(key) != seeds.commitment(other)
    assert key.hex() not in seeds.commitment(key)


def test_an_odd_name_has_a_seed() -> None:
    key = seeds.lab_key(SECRET, "lab04")

    assert seeds.case_seed(key, "\udcff <script>", "triad", "x") >= 0


def test_the_same_draw_gives_the_same_case_and_another_student_another() -> None:
    first, again, other = drawn("flash_forward"), drawn("flash_forward"), drawn(
        "flash_forward", "bob"
    )  # fmt: skip

    assert sizes(first) == sizes(again)
    assert sizes(first) != sizes(other)
    assert all(a.seed != b.seed for a, b in zip(first.cases, other.cases, strict=True))
    for case in first.cases[:2]:
        tiles = first.tiles(case.pairs[0])
        one, two = (trials.trial(e, e.case(case.name), tiles) for e in (first, again))
        assert all((one.arguments[n] == two.arguments[n]).all() for n in one.sent)


@pytest.mark.parametrize("slug", ["flash_forward", "tiled_matmul", "online_softmax", "triad"])
def test_drawn_sizes_stay_in_their_class(slug: str) -> None:
    public = exercises.get(slug)
    changed = 0
    for student in "abcdefgh":
        made = drawn(slug, student)
        for old_case, new_case in zip(public.cases, made.cases, strict=True):
            for pair in old_case.pairs:
                tiles = public.tiles(pair)
                old, new = dict(old_case.sizes(tiles)), dict(new_case.sizes(tiles))
                changed += old != new
                lengths = [n for n in seeds_draw.LENGTHS if n in old]
                for a in lengths:
                    blocks = [tiles[b] for b in seeds_draw.LENGTHS[a] if b in tiles][:1]
                    for block in blocks:
                        assert (old[a] % block == 0) == (new[a] % block == 0)
                        assert old[a] // block == new[a] // block
                    for b in lengths:
                        assert (old[a] < old[b]) == (new[a] < new[b])
                rest = old.keys() - set(lengths)
                assert {n: old[n] for n in rest} == {n: new[n] for n in rest}
    assert changed


def test_a_length_that_is_the_point_of_its_case_stays() -> None:
    """One key in the last tile, all but one, and how far queries and keys are apart."""
    public = exercises.get("flash2_forward")
    last, hidden_one = public.case("causal-last-key"), public.case("causal-one-hidden")
    tiles = public.tiles(last.pairs[0])
    assert last.sizes(tiles)["N_k"] % tiles["BLOCK_N"] == 1
    assert hidden_one.sizes(tiles)["N_k"] - hidden_one.sizes(tiles)["N_q"] > tiles["BLOCK_N"]
    for student in "abcdefghijkl":
        made = drawn("flash2_forward", student)
        for case in (last, hidden_one):
            assert dict(made.case(case.name).sizes(tiles)) == dict(case.sizes(tiles))
            assert made.case(case.name).seed != case.seed
    block = {"BLOCK": 64}
    for rest in (0, 1, 63):
        sizes = {"N": 128 + rest}
        draws = {seeds_draw._lengths(sizes, block, random.Random(n)).get("N") for n in range(20)}
        assert draws == {None}, rest
    draws = {seeds_draw._lengths({"N": 130}, block, random.Random(n))["N"] for n in range(20)}
    assert len(draws) > 5


@pytest.mark.parametrize("slug", list(seeds_draw.PLAIN))
def test_plain_exercises_ask_for_other_numbers(slug: str) -> None:
    assert sizes(drawn(slug)) != sizes(exercises.get(slug))


def test_trivial_answers_fail_in_drawn_cases() -> None:
    made = drawn("flash_forward_tiles")

    assert all(seeds_draw._valid(made, case) for case in made.cases)


LISTS = ("split_kv_decode", "varlen_forward", "paged_decode", "ring_attention", "hadamard",
         "block_sparse_forward")  # fmt: skip


def flat(value: object) -> list[int]:
    return [n for n in (value if isinstance(value, list) else [value]) if type(n) is int]


@pytest.mark.parametrize("slug", LISTS)
def test_lengths_that_belong_together_are_drawn_in_their_class(slug: str) -> None:
    public = exercises.get(slug)
    changed = set()
    for student in "abcdef":
        made = drawn(slug, student)
        for old_case, new_case in zip(public.cases, made.cases, strict=True):
            for pair in old_case.pairs:
                tiles = public.tiles(pair)
                old, new = dict(old_case.sizes(tiles)), dict(new_case.sizes(tiles))
                assert old.keys() == new.keys()
                changed |= {old_case.name} if old != new else set()
                for name in ("N", "N_q", "N_k", "lengths", "shape"):
                    block = tiles.get("BLOCK_M" if name in ("N_q", "shape") else "BLOCK_N")
                    for a, b in zip(flat(old.get(name)), flat(new.get(name)), strict=True):
                        if block and a != b:
                            assert a // block == b // block and a % block and b % block and b > 1
                        if "page" in old and name == "lengths":
                            assert -(-a // old["page"]) == -(-b // old["page"])
                if "lengths" in new and "N" in new:
                    assert max(new["lengths"], default=0) <= new["N"]
                if "world" in new:
                    assert new["N"] % (new["world"] * (1 + new.get("zigzag", False))) == 0
    assert len(changed) >= 4 or slug == "hadamard" and changed
