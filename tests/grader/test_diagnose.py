"""From failing runs to a named mistake, two of them, or what the numbers show."""

import importlib.util
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from flashlab import sources
from flashlab.grader import bank, conditions, diagnose, wording
from flashlab.grader.report import CaseResult, Report

spec = importlib.util.spec_from_file_location(
    "tiny", Path(__file__).with_name("tiny_attention.py")
)
tiny = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tiny)

# A dense kernel in another style: exp2, one query tile, scale on q.
LEARNER = """
import math
import torch

BLOCK_M, BLOCK_N = 16, 16


def flash(q, k, v, causal=False, sm_scale=None):
    c = (q.shape[-1] ** -0.5 if sm_scale is None else sm_scale) * math.log2(math.e)
    g = q.shape[1] // k.shape[1]
    k, v = k.float().repeat_interleave(g, 1), v.float().repeat_interleave(g, 1)
    qs = q.float() * c
    m, l, acc = None, 0.0, 0.0
    n, off = k.shape[2], k.shape[2] - q.shape[2]
    for j in range(0, n, BLOCK_N):
        t = qs @ k[:, :, j : j + BLOCK_N].mT
        if causal:
            i, c = torch.arange(q.shape[2])[:, None], torch.arange(j, j + t.shape[3])
            t[:, :, ~(c <= i + off)] = -torch.inf
        new = t.amax(-1, True) if m is None else torch.maximum(m, t.amax(-1, True))
        ref = torch.where(new == -torch.inf, 0.0, new)
        a = 0.0 if m is None else torch.exp2(m - ref)
        w = torch.exp2(t - ref)
        l = l * a + w.sum(-1, True)
        acc = acc * a + w @ v[:, :, j : j + BLOCK_N]
        m = new
    o = acc / torch.where(l == 0, 1.0, l)
    lse = (m + torch.log2(l)) * math.log(2)
    return o.to(q.dtype), lse[..., 0].float()
"""


NO_BANK = replace(tiny.EXERCISE, mistakes=())


def broken(*edits):
    text = LEARNER
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


RESCALE = ("acc = acc * a + w", "acc = acc + w")
SCALE = ("sm_scale) * math.log2(math.e)", "sm_scale) * 0 + math.log2(math.e)")
BASE_2 = (" * math.log(2)", "")
TOP_LEFT = ("~(c <= i + off)", "~(c <= i)")
UNGUARDED = ("torch.where(new == -torch.inf, 0.0, new)", "new")
ENDLESS = ("    m, l, acc =", "    while True: pass\n    m, l, acc =")


def explain(text, exercise=tiny.EXERCISE, **options):
    runs = tiny.grade(text)
    options.setdefault("solution", tiny.SOLUTION)
    return diagnose.diagnose(exercise, runs, tiny.run_text, text=text, **options)


def test_the_style_itself_passes():
    assert {r.result.status for r in tiny.grade(LEARNER)} == {"pass"}
    assert explain(LEARNER) == diagnose.Diagnosis()


@pytest.mark.parametrize(
    "edit, slug",
    [
        (RESCALE, "no-rescale"),
        (SCALE, "no-scale"),
        (TOP_LEFT, "top-left"),
        (UNGUARDED, "unguarded"),
        (ENDLESS, "endless"),
    ],
)
def test_a_known_mistake_in_another_style_is_named(edit, slug):
    found = explain(broken(edit))
    assert found.mistake["slug"] == slug
    assert found.mistake["confidence"] in ("certain", "likely")


def test_every_mutant_is_named_as_itself_or_its_twin():
    for mistake in tiny.MISTAKES:
        found = explain(sources.mutant(tiny.SOLUTION, mistake))
        assert mistake.says.rstrip(".") in found.mistake["says"], mistake.slug


def test_two_mutants_with_equal_outputs_are_one_class():
    found = explain(broken(BASE_2))
    assert found.mistake["slug"] == "lse-base-2" and found.mistake["confidence"] == "likely"
    assert found.mistake["says"] == "lse is in base 2."
    assert found.notes == ["Another mistake gives the same results: lse is multiplied by log2(e)."]


def test_of_equal_mistakes_the_one_that_was_written_is_named():
    twins = {m.slug: m for m in tiny.MISTAKES if "lse is " in m.says}
    for slug in ("lse-base-2", *(s for s in twins if s != "lse-base-2")):
        found = explain(sources.mutant(tiny.SOLUTION, twins[slug]))
        assert found.mistake["slug"] == slug


def test_a_second_mistake_of_a_group_that_did_not_run_is_found(monkeypatch):
    """Causal cases did not run, so no mistake whose first case is causal is tried at first."""
    runs = tiny.grade(broken(RESCALE, SCALE))
    later = [m for m in tiny.MISTAKES if m.slug == "no-scale"]
    assert len(later) == 1
    moved = replace(later[0], breaks=next(c.name for c in tiny.CASES if c.group == "causal"))
    bank_of = tuple(moved if m.slug == "no-scale" else m for m in tiny.MISTAKES)
    exercise = replace(tiny.EXERCISE, mistakes=bank_of)
    core = [r for r in runs if r.case.group == "core"]
    found = diagnose.diagnose(
        exercise, core, tiny.run_text, text="", solution=tiny.SOLUTION, budget_seconds=60.0
    )
    assert set(found.mistake["slug"].split("+")) == {"no-rescale", "no-scale"}


def test_two_mistakes_at_once_are_both_named():
    found = explain(broken(RESCALE, TOP_LEFT), budget_seconds=60.0).mistake
    assert set(found["slug"].split("+")) == {"no-rescale", "top-left"}
    assert "; and also: " in found["says"] and found["confidence"] == "likely"


def test_runs_without_outputs_match_by_status_argument_and_message():
    for message, named in [("k 3", True), ("k 5", False)]:
        text = broken(("    m, l, acc =", f"    raise IndexError({message!r})\n    m, l, acc ="))
        found = explain(text).mistake
        assert (found is not None and found["slug"] == "raises") == named


def test_messages_are_compared_without_places():
    one = bank.Raw("oob", {}, "k_ptr", "", 'k_ptr: 7 lanes at line 51: "k = tl.load(p)".')
    same = bank.Raw("oob", {}, "k_ptr", "", 'k_ptr: 7 lanes at line 9: "kk = tl.load(q)".')
    other = bank.Raw("oob", {}, "k_ptr", "", 'k_ptr: 8 lanes at line 51: "k = tl.load(p)".')
    run = bank.Run(tiny.CASES[0], {}, CaseResult("c", "core", {}, {}, "oob"), one, {})
    assert bank.agree(run, same) and bank.agree(run, other)
    assert bank.same_detail(run, same) and not bank.same_detail(run, other)


def test_an_unknown_mistake_is_not_given_a_known_name():
    text = broken(("return o.to", "return (o * 0.7).to"))
    found = explain(text, budget_seconds=60.0)
    assert found.mistake is None
    assert found.structure[0] == "Every element of o is 0.7 times what it should be."
    assert found.structure[1] == "Only o is wrong: lse is right."


def test_a_factor_with_a_name_is_named():
    text = broken(("return o.to", "return (o * 4).to"))
    found = explain(text, exercise=NO_BANK)
    assert (
        found.structure[0] == "Every element of o is 4 times what it should be, which is sqrt(D)."
    )


def test_rows_with_factors_of_their_own_are_noticed():
    text = broken(("return o.to", "return (o * (1 + l.log() / 7)).to"))
    found = explain(text, exercise=NO_BANK)
    assert found.structure[0].startswith("Each row of o is off by a factor of its own (row 0: ")


def test_no_time_means_no_name_and_no_harm(monkeypatch):
    monkeypatch.setattr(bank.Bank, "_kept", OrderedDict())
    assert explain(broken(RESCALE), budget_seconds=-1.0).mistake is None


def test_a_bundle_without_solutions_still_describes():
    found = explain(broken(SCALE), solution=None)
    assert found.mistake is None
    assert found.structure[0] == (
        "The numbers are as if the scores were not multiplied by sm_scale."
    )


def test_mutant_runs_are_remembered():
    explain(broken(RESCALE))
    jobs = []

    def counted(many):
        jobs.extend(many)
        return [tiny.run_text(*job) for job in many]

    explain(broken(RESCALE), run_many=counted)
    assert jobs == []


def test_precision_becomes_wrong_where_the_mistake_says_so():
    report = Report("flash", "cpu", "precision", "")
    report.cases = [CaseResult("one-tile", "core", {"BLOCK_M": 16}, {}, "precision")]
    mistake = {"slug": "a", "says": "S is rounded.", "confidence": "likely", "expect": "wrong"}
    diagnose.apply(report, diagnose.Diagnosis(mistake=mistake))
    assert report.status == report.cases[0].status == "wrong"
    assert report.headline == "Very likely: S is rounded."
    assert report.mistake == {"slug": "a", "says": "S is rounded.", "confidence": "likely"}
    assert 'debug("flash", "one-tile", tiles={"BLOCK_M": 16})' in report.failing_call


FORMULAS = {
    "strict": (("~(c <= i + off)", "~(c < i + off)"), "one key too strict"),
    "loose": (("~(c <= i + off)", "~(c <= i + off + 1)"), "one key too loose"),
    "no causal": (("if causal:", "if False:"), "as if causal were ignored"),
    "no division": (
        ("o = acc / torch.where(l == 0, 1.0, l)", "o = acc"),
        "not divided by the row",
    ),
    "log l": (("(m + torch.log2(l))", "torch.log2(l)"), "lse lacks the row maximum m"),
    "m": (("(m + torch.log2(l))", "m"), "lse lacks log(l)"),
    "first tile": (("range(0, n, BLOCK_N)", "range(0, 1)"), "only the first tile of keys"),
    "dropped": (("range(0, n, BLOCK_N)", "range(0, n // 16 * 16, 16)"), "partly filled tile"),
    "exp2": ((" * math.log2(math.e)", ""), "without the factor log2(e)"),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_say_what_the_numbers_are(name):
    edit, words = FORMULAS[name]
    found = explain(broken(edit), exercise=NO_BANK)
    assert words in " ".join(found.structure), found.structure


def test_a_wrong_formula_is_in_the_headline():
    report = Report("flash", "cpu", "wrong", "")
    found = explain(broken(FORMULAS["no causal"][0]), exercise=NO_BANK)
    diagnose.apply(report, found)
    assert report.headline == "flash gives wrong numbers as if causal were ignored."


CONDITIONS = {
    "causal": (("w = torch.exp2(t - ref)", "w = torch.exp2(t - ref) * (0.9 if causal else 1)"),),
    "batch or head": (("return o.to", "o[1:] = 0\n    return o.to"),),
    "rows that see no key": (UNGUARDED,),
    "BLOCK_M equals BLOCK_N": (
        ("return o.to", "o = o * 1.5 if BLOCK_M > 16 else o\n    return o.to"),
    ),
}


@pytest.mark.parametrize("words", CONDITIONS)
def test_conditions_say_which_calls_fail(words):
    found = explain(broken(*CONDITIONS[words]), exercise=NO_BANK)
    assert words in " ".join(found.structure), found.structure


def test_places_name_heads_rows_and_columns():
    text = broken(("return o.to", "o[..., 16:, 8:] += 1\n    return o.to"))
    sentences = " ".join(explain(text, exercise=NO_BANK).structure)
    assert "Only o is wrong: lse is right." in sentences
    assert "rows 16 to 31" in sentences or "later row wrong" in sentences
    assert "Only columns 8 to 15 of 16 are wrong." in sentences


def test_places_count_all_heads_and_name_the_tokens_of_a_pack():
    from flashlab.grader import structure

    bad = torch.zeros(4, 8, 16, dtype=torch.bool)  # lse [B, H, N]
    bad.view(32, 16)[:16] = True
    assert "Only 16 of 32 heads are wrong: (b, h) = (0, 0)" in structure._heads(bad, 2)[0]
    bad.view(32, 16)[:20] = True
    assert "Only 20 of 32 heads are wrong" in structure._heads(bad, 2)[0]
    bad[:] = True
    bad[0, 0] = False
    assert "The first head is right" in structure._heads(bad, 2)[0]
    pack = torch.zeros(44, 2, 16, dtype=torch.bool)  # [T, H, D]
    pack[22:38] = True
    assert structure._tokens(pack) == ["Only 16 of 44 tokens of the pack are wrong: 22 to 37."]


def test_one_hot_v_shows_the_attention_matrix():
    text = broken(
        ("w = torch.exp2(t - ref)", "w = torch.exp2(t - ref) * (1 + j)"),
        ("l = l * a + w.sum(-1, True)", "l = l * a + w.sum(-1, True) / (1 + j)"),
    )
    found = explain(text, exercise=NO_BANK)
    matrix = torch.tensor(found.attention_matrix)
    assert matrix.shape == (24, 24)
    assert any("of your attention matrix sum to" in s and "not 1" in s for s in found.structure)


def test_smallest_failure_and_row_numbers():
    report = Report("flash", "cpu", "wrong", "")
    runs = [
        ("a", 1, "pass"),
        ("b", 64, "wrong"),
        ("b", 32, "nan"),
        ("b", 8, "pass"),
        ("c", 5, "nan"),
    ]
    report.cases = [
        CaseResult(name, "core", {}, {"N_q": n, "N_k": n}, status) for name, n, status in runs
    ]
    smallest = wording.smallest_failure(report)  # of the case that the report speaks of
    assert (smallest.name, smallest.sizes["N_q"]) == ("b", 32)
    assert wording.numbers([0, 1, 2, 3, 8, 9]) == "0 to 3, 8 and 9"
    assert wording.numbers([5]) == "5"


def test_failing_call_fits_a_screen_and_is_python():
    for name, tiles, lines in [
        ("a", {}, 2),
        ("a", {"BLOCK": 16}, 2),
        ("a" * 40, {"BLOCK": 16}, 3),
    ]:
        call = wording.failing_call("flash_forward", CaseResult(name, "core", tiles, {}, "wrong"))
        compile(call, "<call>", "exec")
        assert len(call.splitlines()) == lines and max(map(len, call.splitlines())) <= 80


def test_headline_of_a_fault_names_argument_and_line():
    report = Report("flash", "cpu", "oob", "")
    detail = "k is read at offset 336 outside its 336 elements"
    report.cases = [
        CaseResult("ragged", "ragged", {}, {}, "oob", detail=detail, line="line 31", argument="k")
    ]
    assert wording.headline(report) == (
        f"flash reaches outside a tensor in case ragged: {detail} at line 31."
    )


def test_condition_needs_passing_runs():
    assert conditions.condition([r for r in tiny.grade(broken(SCALE)) if r.failed]) == []
