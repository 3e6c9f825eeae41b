"""Solutions, and the texts cut from them: stub, mutant, transplant, the step not written yet."""

import pytest

from flashlab import sources
from flashlab.exercise import Mistake

SLUGS = [slug for slug in sources.slugs() if sources.solution_path(slug).is_file()]

SAMPLE = """\
import triton
import triton.language as tl

BLOCK = 64  # tile


@triton.jit
def twice_kernel(x_ptr, N, BLOCK: tl.constexpr):
    # 1. Indices
    ### BEGIN SOLUTION 1: define offs
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)

    mask = offs < N
    ### END SOLUTION

    for n in range(2):
        # 2. Loop
        ### BEGIN SOLUTION 2: load and store; define x
        x = tl.load(x_ptr + offs, mask=mask, other=0.0)
        if n == 0:
            tl.store(x_ptr + offs, 2 * x, mask=mask)
        ### END SOLUTION


def twice(x):
    # 3. Launch
    ### BEGIN SOLUTION 3: launch
    twice_kernel[(1,)](x, x.numel(), BLOCK=BLOCK)
    ### END SOLUTION
    return x
"""


def filled(solution: str, steps: set[int] | None = None) -> str:
    """The stub with the solution's lines put back into ``steps`` (default: all) by hand."""
    text = sources.derive_stub(solution)
    for hole in sources.holes(solution):
        if steps is None or hole.number in steps:
            text = text.replace("\n".join(hole.stub_lines()), "\n".join(hole.lines))
    return text


def test_sample_stub_says_what_to_do_and_where():
    stub = sources.derive_stub(SAMPLE)
    compile(stub, "stub", "exec")
    assert "SOLUTION" not in stub and "tl.load" not in stub
    assert (
        "        # Step 2: load and store; define x\n"
        '        tl.static_assert(False, "Step 2 is not written yet: load and store; define x")\n'
    ) in stub
    assert '    raise NotImplementedError("Step 3 is not written yet: launch")\n' in stub


def test_gluon_kernels_get_gluon_alarms():
    text = SAMPLE.replace("@triton.jit", "@gluon.jit(debug=True)")
    calls = [hole.call for hole in sources.holes(text)]
    assert calls == ["gl.static_assert", "gl.static_assert", "raise"]


def test_long_sentences_are_wrapped_in_the_comment_alone():
    sentence = "word " * 40
    stub = sources.derive_stub(SAMPLE.replace("define offs", sentence))
    comment = [line for line in stub.splitlines() if line.startswith("    # ")]
    assert max(len(line) for line in comment) <= 99
    assert f"Step 1 is not written yet: {sentence.rstrip()}" in stub


@pytest.mark.core
@pytest.mark.parametrize("slug", SLUGS)
class TestEverySolution:
    """The stub is the solution with holes, and nothing is lost on the way back."""

    def test_stub_parses_and_stops_at_step_1(self, slug):
        stub = sources.derive_stub(sources.solution_text(slug))
        compile(stub, slug, "exec")
        assert sources.alarm_step(stub) == 1
        assert sources.unfilled_step(slug, sources.stub_text(slug)) == 1
        assert sources.is_stub(slug, sources.stub_text(slug).replace("\n", "\r\n"))

    def test_refilled_stub_is_the_solution(self, slug):
        solution = sources.solution_text(slug)
        parts = sources.fillings(solution, filled(solution))
        assert sources.refill(solution, dict(enumerate(parts, 1))) == solution
        assert parts == ["\n".join(hole.lines) for hole in sources.holes(solution)]
        assert sources.fillings(solution, solution) == parts

    def test_steps_are_told_apart(self, slug):
        solution = sources.solution_text(slug)
        total = len(sources.holes(solution))
        for step in range(1, total + 1):
            others = set(range(1, total + 1)) - {step}
            assert sources.unfilled_step(slug, filled(solution, others)) == step
        assert sources.unfilled_step(slug, filled(solution)) is None
        assert sources.unfilled_step(slug, solution) is None

    def test_size_of_the_holes(self, slug):
        holes = sources.holes(sources.solution_text(slug))
        assert 2 <= len(holes) <= 5
        assert all(len(hole.lines) <= 15 for hole in holes)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("    ### END SOLUTION\n\n    for", "\n    for", "line 17: BEGIN SOLUTION inside a hole"),
        ("    ### END SOLUTION\n    return", "    return", "line 27: this hole is never closed"),
        ("    # 3. Launch", "    ### END SOLUTION", "line 26: END SOLUTION without BEGIN"),
        ("SOLUTION 2:", "SOLUTION 3:", "line 18: hole 3 should have number 2"),
        ("SOLUTION 1:", "SOLUTION 0:", "line 10: hole 0 should have number 1"),
        ("        # 2. Loop\n", "        # 1. Indices\n", None),
        ("SOLUTION 3: launch\n", "SOLUTION 3:\n", "line 27: misspelt marker"),
        ("### BEGIN SOLUTION 3", "## BEGIN SOLUTION 3", "line 27: misspelt marker"),
        ("SOLUTION 3: launch", 'SOLUTION 3: "launch"', "line 27: misspelt marker"),
        (
            "    twice_kernel[(1,)](x, x.numel(), BLOCK=BLOCK)\n",
            "",
            "line 27: hole 3 holds no line",
        ),
        (
            "    twice_kernel[(1,)](x,",
            "\n    twice_kernel[(1,)](x,",
            "line 27: hole 3 starts or ends",
        ),
        ("def twice(x):", "def twice(x:", "line 2[0-9]: not Python"),
    ],
)
def test_malformed_markers_are_refused_with_file_and_line(old, new, says):
    assert SAMPLE.count(old) == 1
    text = SAMPLE.replace(old, new)
    if says is None:
        assert len(sources.holes(text)) == 3
        return
    with pytest.raises(ValueError, match="sample.py, " + says):
        sources.holes(text, "sample.py")


def test_two_holes_need_a_unique_given_line_between_them():
    text = SAMPLE.replace(
        "    for n in range(2):\n        # 2. Loop\n", "    if N:\n        # 1. Indices\n"
    )
    text += "\n\ndef other(N):\n    if N:\n        # 1. Indices\n        return N\n"
    with pytest.raises(ValueError, match="line 18: no unique given line between holes 1 and 2"):
        sources.holes(text)


def test_a_hole_outside_any_function_is_refused():
    text = SAMPLE.replace(
        "BLOCK = 64  # tile", "### BEGIN SOLUTION 1: b\nBLOCK = 64\n### END SOLUTION"
    )
    with pytest.raises(ValueError, match="line 4: hole 1 must lie inside one function"):
        sources.holes(text)


def test_a_hole_that_ends_inside_a_block_is_refused():
    inside = "    ### END SOLUTION\n        pass\n    return x"
    text = SAMPLE.replace("    ### END SOLUTION\n    return x", inside)
    text = text.replace("    twice_kernel[", "    if True:\n        twice_kernel[")
    with pytest.raises(ValueError, match="line .*: the stub is not Python"):
        sources.derive_stub(text)


MINE = """
    # my own way
    lane = tl.arange(0, BLOCK)
    offs = lane + BLOCK * tl.program_id(0)
    mask = offs < N
"""


class TestTransplant:
    """One hole of a learner put into the solution."""

    def learner(self, body: str = MINE) -> str:
        hole = sources.holes(SAMPLE)[0]
        stub = sources.derive_stub(SAMPLE)
        return stub.replace("\n".join(hole.stub_lines()), body.strip("\n"))

    def test_puts_one_hole_into_the_solution(self):
        text = sources.transplant(SAMPLE, self.learner(), 1)
        assert MINE.strip("\n") in text
        assert "SOLUTION" not in text and "not written" not in text
        assert "tl.store(x_ptr + offs, 2 * x, mask=mask)" in text

    def test_alarms_elsewhere_do_not_matter_but_ones_own_does(self):
        assert sources.alarm_step(sources.transplant(SAMPLE, self.learner(), 2)) == 2

    def test_blank_lines_line_ends_and_tile_sizes_may_differ(self):
        text = (
            self.learner().replace("\n\n", "\n\n\n").replace("BLOCK = 64  # tile", "BLOCK = 128")
        )
        text = text.replace("\n", "  \r\n")
        assert sources.fillings(SAMPLE, text)[0] == MINE.strip("\n")
        assert "BLOCK = 64" in sources.transplant(SAMPLE, text, 1)

    @pytest.mark.parametrize(
        ("old", "new", "says"),
        [
            (
                "import triton\n",
                "import math\nimport triton\n",
                "'import triton'.*line 1 is 'import math'",
            ),
            (
                "    for n in range(2):",
                "    for n in range(3):",
                "'for n in range.2.:'.*line 1[0-9] is",
            ),
            ("        # 2. Loop\n", "", "'# 2. Loop' should stand where line"),
            ("    return x\n", "    return x, x\n", "'return x' is gone"),
            ("    return x\n", "    return x\n\n\nx = 1\n", "line .*'x = 1', was added"),
            ("    return x\n", "", "'return x' is gone"),
            ("        # 2. Loop\n", "        # 2. Loop\n" * 2, None),
        ],
    )
    def test_says_which_given_line_changed(self, old, new, says):
        text = self.learner().replace(old, new)
        if says is None:
            assert "# 2. Loop" in sources.fillings(SAMPLE, text)[1]
            return
        with pytest.raises(sources.TransplantError, match=says):
            sources.transplant(SAMPLE, text, 1)

    def test_a_given_block_standing_twice_is_refused(self):
        head = "    for n in range(2):\n        # 2. Loop\n"
        with pytest.raises(sources.TransplantError, match="stands twice"):
            sources.fillings(SAMPLE, self.learner().replace(head, head + "        pass\n" + head))

    def test_unknown_step(self):
        with pytest.raises(ValueError, match="step must be 1 to 3, not 4"):
            sources.transplant(SAMPLE, self.learner(), 4)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "\n\n",
        "    pass",
        "    ...",
        "    # later",
        '    "later"',
        "    # Step 2: x\n\n    pass",
    ],
)
def test_a_blank_hole_is_unfilled(body):
    slug = "vector_scale"
    solution = sources.solution_text(slug)
    hole = sources.holes(solution)[1]
    text = filled(solution).replace("\n".join(hole.lines), body)
    assert sources.unfilled_step(slug, text) == 2


@pytest.mark.parametrize(
    ("change", "step"),
    [
        (lambda text: text.replace("    tl.static_assert(", "    # tl.static_assert("), 1),
        (
            lambda text: text.replace(
                "tl.static_assert(False, ", "tl.static_assert(\n        False, "
            ),
            1,
        ),
        (lambda text: text.replace("import torch\n", "import torch\nimport math\n"), 1),
        (lambda text: "x = 1\n", None),
        (lambda text: "def (:\n", None),
        (lambda text: "", None),
    ],
    ids=[
        "commented out",
        "reformatted",
        "given line added",
        "other text",
        "syntax error",
        "empty",
    ],
)
def test_unfilled_in_an_edited_stub(change, step):
    assert sources.unfilled_step("vector_scale", change(sources.stub_text("vector_scale"))) == step


def mistake(old: str, new: str) -> Mistake:
    return Mistake("m", old, new, "case", "wrong", "It is wrong.")


def test_mutant_has_one_edit_and_no_markers():
    text = sources.mutant(SAMPLE, mistake("2 * x", "3 * x"))
    assert "3 * x" in text and "2 * x" not in text and "SOLUTION" not in text


@pytest.mark.parametrize(
    ("old", "says"),
    [
        ("4 * x", "not 0 times .lines without markers: none"),
        ("offs", "not 4 times .*: 10, 12, 16, 18"),
    ],
)
def test_mutant_needs_its_text_exactly_once(old, says):
    with pytest.raises(ValueError, match=f"mistake 'm': '.*' must stand exactly once.*{says}"):
        sources.mutant(SAMPLE, mistake(old, "x"))


def test_hash_ignores_line_ends_and_trailing_blanks_only():
    assert sources.normalise("\ufeffa \r\nb\t\rc\n\n\n") == "a\nb\nc\n"
    assert sources.text_hash("a\r\n") == sources.text_hash("a  ")
    assert sources.text_hash("a\n\nb") != sources.text_hash("a\nb")


def test_unknown_slugs_suggest_the_nearest():
    with pytest.raises(KeyError, match="did you mean vector_scale?"):
        sources.solution_text("vector_scal")
    with pytest.raises(KeyError, match="there are: .*vector_scale"):
        sources.stub_text("../released")
    assert sources.released_stubs("vector_scal") == frozenset()
    assert not sources.is_stub("vector_scal", sources.stub_text("vector_scale"))


class TestCourseDir:
    """Checkout, wheel, and a package that stands alone."""

    def place(self, monkeypatch, tmp_path, *folders):
        package = tmp_path / "site-packages" / "flashlab"
        for folder in ("labs", "chapters"):
            for where in folders:
                (package / where / folder).mkdir(parents=True)
        monkeypatch.setattr(sources, "_PACKAGE", package)
        return package

    def test_checkout(self, monkeypatch, tmp_path):
        package = self.place(monkeypatch, tmp_path, "..")
        assert sources.course_dir() == package.parent

    def test_wheel(self, monkeypatch, tmp_path):
        package = self.place(monkeypatch, tmp_path, "_course", "..")
        assert sources.course_dir() == package / "_course"

    def test_alone(self, monkeypatch, tmp_path):
        self.place(monkeypatch, tmp_path)
        with pytest.raises(FileNotFoundError, match="install flashlab-course again"):
            sources.course_dir()
