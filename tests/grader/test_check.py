"""One check from text to report: stages, groups, tile sizes, points, steps."""

import dataclasses
import json

import pytest

from flashlab import exercises, sources
from flashlab.grader import points, pool, precision, steps
from flashlab.grader.cpu import Answer
from flashlab.grader.report import Report
from flashlab.grader.run import check
from tests.grader.conftest import quick

SLUG = "vector_scale"
EXERCISE = exercises.get(SLUG)


def change(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


@pytest.fixture(scope="module")
def passed(solution: str) -> Report:
    seen: list[tuple[int, int, str]] = []
    report = check(SLUG, solution, progress=lambda *step: seen.append(step), path="mine.py")
    report.seen = seen
    return report


def test_the_solution_gets_all_points(passed: Report) -> None:
    assert passed.passed
    assert passed.points == 100
    assert {s.name: s.status for s in passed.stages} == {
        "read": "pass",
        "cases": "pass",
        "compile": "pass",
    }
    assert {row["arch"] for row in passed.resources} == set(EXERCISE.archs)
    assert passed.own_tiles == {"BLOCK": 1024}
    assert any(case.own and case.tiles == {"BLOCK": 1024} for case in passed.cases)
    assert passed.not_run == ["compiled run: not run on tier cpu"]
    assert (passed.path, passed.text_hash) == (
        "mine.py",
        sources.text_hash(sources.solution_text(SLUG)),
    )


def test_cases_come_in_order_with_bytes_and_budget(passed: Report) -> None:
    groups = [case.group for case in passed.cases]
    order = ["core", "ragged", "causal", "hostile"]
    assert groups == sorted(groups, key=order.index)
    for case in passed.cases:
        assert case.budget == {n: v for n, v in case.budget.items() if v}
        assert sum(map(sum, case.io.values())) == sum(map(sum, case.budget.values()))


def test_progress_counts_every_run(passed: Report) -> None:
    assert [done for done, _, _ in passed.seen] == list(range(1, len(passed.cases) + 1))
    assert {total for _, total, _ in passed.seen} == {len(passed.cases)}


def test_a_report_survives_json(passed: Report) -> None:
    again = Report.from_json(passed.to_json())
    assert json.loads(again.to_json()) == json.loads(passed.to_json())


def test_a_stub_is_unfilled_and_runs_nothing() -> None:
    report = check(SLUG, sources.stub_text(SLUG))

    assert (report.status, report.step, report.points, report.cases) == ("unfilled", 1, 0, [])
    assert sources.step_sentence(SLUG, 1) in report.headline


def flash(*edits: tuple[str, str]) -> str:
    """The solution of flash_forward with some edits."""
    text = sources.without_markers(sources.solution_text("flash_forward"))
    for old, new in edits:
        text = change(text, old, new)
    return text


def unfinished(text: str, step: int) -> str:
    """``text`` of flash_forward whose steps from ``step`` on are those of the stub."""
    solution, stub = (f("flash_forward") for f in (sources.solution_text, sources.stub_text))
    mine, empty = sources.fillings(solution, text), sources.fillings(solution, stub)
    filled = {n: (mine if n < step else empty)[n - 1] for n in range(1, len(mine) + 1)}
    return sources.without_markers(sources.refill(solution, filled))


def test_steps_before_the_unwritten_one_are_tried_in_the_solution() -> None:
    report = quick(unfinished(flash(), 3), "flash_forward")
    assert (report.status, report.points, report.step) == ("unfilled", 0, 3)
    assert "steps 1 and 2 are right so far. Step 3 is not written yet" in report.headline
    assert not report.cases


def test_a_wrong_step_before_the_unwritten_one_is_named() -> None:
    text = flash(("offs_n[None, :] <= offs_m[:, None]", "offs_n[None, :] < offs_m[:, None]"))
    report = quick(unfinished(text, 4), "flash_forward")
    assert (report.status, report.points) == ("unfilled", 0)
    assert "step 2 is not right yet (case causal-square: " in report.headline
    assert "Step 4 is not written yet" in report.headline


def test_a_step_tried_alone_names_lines_of_the_answer_only() -> None:
    tried, answer = "a = 1\nb = solved()\nc = mine()", "a = 1\n\nraise Unwritten\nc = mine()"
    said = 'race at line 3: "c = mine()"; read of line 1 in time, line 2)'
    expected = 'race at line 4: "c = mine()"; read of line 1 in time)'
    assert steps.in_answer(said, tried, answer) == expected
    assert steps.in_answer('off at line 2: "b = solved()"', tried, answer) == "off"


def test_steps_that_fit_each_other_are_right_though_they_differ() -> None:
    text = flash(
        ("s = sm_scale * tl.dot(q,", "s = tl.dot(q,"),
        ("m_new = tl.maximum(m_i, tl.max(s, 1))",
         "s = s * sm_scale\n        m_new = tl.maximum(m_i, tl.max(s, 1))"),
    )  # fmt: skip
    names = ["one-tile", "two-tiles"]
    assert all(c.status == "pass" for c in quick(text, "flash_forward", cases=names).cases)
    exercise = dataclasses.replace(
        exercises.get("flash_forward"),
        cases=tuple(exercises.get("flash_forward").case(n) for n in names),
    )
    answer = Answer(unfinished(text, 4), "flash_forward.py")
    found = steps.so_far(exercise, answer, 4)
    assert found.right and found.said == "steps 1, 2 and 3 are right so far"
    alone = steps.so_far(exercise, Answer(unfinished(text, 3), "flash_forward.py"), 3)
    assert alone.wrong_step == 2


def test_steps_cannot_be_tried_where_given_lines_changed() -> None:
    text = unfinished(flash(), 3).replace("    # 5. Finish and store", "    # the end")
    found = steps.so_far(exercises.get("flash_forward"), Answer(text, "x.py"), 3)
    assert not found.right and "could not be tried alone" in found.said


# Adds up p @ v in fp16 and divides only at the end.
HALF_SUM = (
    ("acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)",
     "acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float16)"),
    ("acc *= (alpha * l_i)[:, None]", "acc = (acc * alpha[:, None]).to(tl.float16)"),
    ("acc = tl.dot(p.to(v.dtype), v, acc, input_precision=\"ieee\")",
     "acc += tl.dot(p.to(v.dtype), v, input_precision=\"ieee\").to(tl.float16)"),
    ("        acc *= (1.0 / l_safe)[:, None]  # one division a row, not one an element\n", ""),
    ("tl.store(o_ptrs, acc,",
     "tl.store(o_ptrs, acc / tl.where(l_i == 0.0, 1.0, l_i)[:, None],"),
)  # fmt: skip


def test_a_half_precision_sum_that_is_divided_at_the_end_is_caught() -> None:
    report = check("flash_forward", flash(*HALF_SUM), all_cases=True, budget_seconds=0.5)
    failing = {c.name for c in report.cases if c.status != "pass"}
    assert not report.passed and "large-values" in failing
    assert report.status in ("precision", "wrong", "nan")
    said = precision.causes(flash(*HALF_SUM), [])
    assert any("starts a sum in tl.float16" in s and "tl.float32" in s for s in said)
    assert any("`acc` is rounded to tl.float16 on its way" in s for s in said)


def test_a_traceback_ends_in_the_answers_own_line(solution: str) -> None:
    text = change(solution, "return", "torch.empty(3).view(2, 2)\n    return")
    [case, *_] = quick(text).cases
    lines = [x for x in case.traceback.splitlines() if x.lstrip().startswith("File ")]
    assert lines and all('"vector_scale.py"' in line for line in lines)
    assert case.traceback.splitlines()[-1].startswith("RuntimeError: ")
    assert "view(2, 2)" in case.traceback.splitlines()[-2] + case.traceback.splitlines()[-3]


def test_later_groups_wait_for_the_first_that_fails(solution: str) -> None:
    wrong = change(solution, "y = a * x ", "y = a * x + offs ")
    report, all_cases = quick(wrong), quick(wrong, all_cases=True)

    assert report.status == "wrong"
    assert {case.group for case in report.cases} == {"core"}
    assert "ragged cases: stopped, core failed" in report.not_run
    assert {case.group for case in all_cases.cases} == {"core", "ragged", "hostile"}
    assert report.points < 45


def test_the_first_wrong_step_is_named(solution: str) -> None:
    first = check(SLUG, change(solution, "mask = offs < N", "mask = offs <= N"))
    second = check(SLUG, change(solution, "y = a * x ", "y = a + x "))

    assert (first.status, first.step) == ("oob", 1)
    assert (second.status, second.step) == ("wrong", 2)


def test_tile_sizes_that_ignore_the_constant_are_seen(solution: str) -> None:
    stubborn = change(solution, "float(a), BLOCK=BLOCK)", "float(a), BLOCK=128)")
    stubborn = change(stubborn, "triton.cdiv(N, BLOCK)", "triton.cdiv(N, 128)")
    report = quick(stubborn)

    assert report.passed, report.headline
    assert all(case.tiles == {"BLOCK": 128} for case in report.cases)
    assert len(report.cases) == len(EXERCISE.cases)
    assert any("BLOCK = 128" in note for note in report.notes)


def test_what_the_compiler_refuses_is_compile(solution: str) -> None:
    refused = change(
        solution, "    y = a * x ", "    for _ in range(2):\n        break\n    y = a * x "
    )
    report = quick(refused)

    assert report.status == "compile"
    assert report.points == 0
    assert report.cases[0].line


def test_reading_twice_costs_io_points(solution: str) -> None:
    once = "    x = tl.load(x_ptr + offs * stride_x, mask=mask, other=0.0)"
    report = quick(change(solution, once, f"{once}\n{once}"))

    assert report.passed
    assert report.points_by_part["io"] == [0, EXERCISE.points()["io"]]
    assert any("x 64 bytes, budget 32; most of it on line" in note for note in report.notes)


def test_only_the_named_cases_run_without_points(solution: str) -> None:
    report = quick(solution, cases=["expanded"])

    assert [case.name for case in report.cases] == ["expanded"]
    assert report.points == 0
    with pytest.raises(KeyError, match="it has one-block"):
        quick(solution, cases=["unknown"])


def test_a_programs_order_may_not_matter(solution: str) -> None:
    racing = change(solution, "y_ptr + offs, y, mask=mask", "y_ptr + offs * 0, y, mask=mask")
    report = quick(racing)

    assert report.status == "race"
    assert report.first_failure.argument == "y_ptr"


def test_every_call_has_to_make_its_outputs(solution: str) -> None:
    """The next call may have other inputs while somebody still holds what this one gave."""
    made = "torch.empty(N, dtype=x.dtype, device=x.device)"
    text = change(solution, made, f"kept.setdefault(N, {made})") + "\n\nkept = {}\n"
    report = check(SLUG, text, diagnose=False)
    assert report.status == "forbidden"
    assert "returned the same tensor from two calls" in report.headline


def test_no_gpu_is_said_and_is_no_pass(solution: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    report = quick(solution, tier="gpu", cases=["one-block"])

    assert "compiled run: no NVIDIA GPU on this machine" in report.not_run
    assert all(case.tier == "cpu" for case in report.cases)


@pytest.mark.gpu
@pytest.mark.parametrize("slug", ["vector_scale", "flash_forward"])
def test_compiled_cases_pass_on_a_gpu(slug: str) -> None:
    report = check(slug, sources.solution_text(slug), tier="gpu", diagnose=False)

    assert report.passed, report.headline
    assert {case.tier for case in report.cases} == {"cpu", "gpu"}
    assert any(case.name.endswith(" bf16") for case in report.cases)


@pytest.mark.gpu
def test_an_illegal_access_on_a_gpu_gets_one_sentence() -> None:
    far = "x.stride(0) + (x.device.type == 'cuda') * 2**40"
    text = sources.solution_text("vector_scale").replace("x.stride(0), N", f"{far}, N")
    report = check("vector_scale", text, tier="gpu", diagnose=False)

    failed = [case for case in report.cases if case.status != "pass"]
    assert {case.tier for case in failed} == {"gpu"}
    assert all("illegal memory access" in case.detail for case in failed)
    assert "illegal memory access" in report.headline


def test_the_first_verdict_is_quick_when_warm(solution: str) -> None:
    quick(solution, cases=["one-block"])
    used = pool.default().cpu_seconds
    quick(solution, cases=["one-block"])

    assert pool.default().cpu_seconds - used < 0.5


def test_points_need_core() -> None:
    report = Report(SLUG, "cpu", "wrong", "")
    points.award(EXERCISE, report, [])

    assert report.points == 0
    assert [part for part, (_, of) in report.points_by_part.items() if of] == list(
        EXERCISE.points()
    )


@pytest.mark.parametrize("name", ["first-read-unmasked", "second-read-unmasked"])
def test_of_equal_mistakes_in_two_places_the_one_made_is_named(name: str) -> None:
    mistake = next(m for m in exercises.get("online_softmax").mistakes if m.slug == name)
    text = sources.mutant(sources.solution_text("online_softmax"), mistake)
    assert check("online_softmax", text, tier="cpu").mistake["slug"] == name


def test_a_gluon_name_that_the_model_does_not_know_is_no_pass() -> None:
    line = "    m_new = gl.maximum(m_log2, gl.max(s, 1) * scale)\n"
    text = sources.solution_text("flash3_forward")
    strange = text.replace(line, line + "    gl.umulhi(1, 2)\n")
    assert strange != text
    report = check("flash3_forward", strange, tier="cpu", diagnose=False)

    assert report.status == "grader_error" and report.points == 0 and not report.cases
    assert "umulhi is not known" in report.headline and "a Hopper GPU" in report.headline
