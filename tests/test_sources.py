"""Solutions, and the texts cut from them: stub, mutant, transplant, the step not written yet."""

import pytest

from flashlab import sources
from flashlab.exercise import Mistake
from tests.marked_sample import SAMPLE, filled

SLUGS = [slug for slug in sources.slugs() if sources.solution_path(slug).is_file()]


def test_sample_stub_says_what_to_do_and_where():
    stub = sources.derive_stub(SAMPLE)
    compile(stub, "stub", "exec")
    assert "SOLUTION" not in stub and "tl.load" not in stub
    assert (
        "        # Step 2: load and store; define x\n"
        '        tl.static_assert(False, "Step 2 is not written yet")\n'
    ) in stub
    assert '    raise NotImplementedError("Step 3 is not written yet")\n' in stub


def test_gluon_kernels_get_gluon_alarms():
    text = SAMPLE.replace("@triton.jit", "@gluon.jit(debug=True)")
    calls = [hole.call for hole in sources.holes(text)]
    assert calls == ["gl.static_assert", "gl.static_assert", "raise"]


def test_long_sentences_are_wrapped_in_the_comment_alone():
    sentence = "word " * 40
    stub = sources.derive_stub(SAMPLE.replace("define offs", sentence))
    comment = [line for line in stub.splitlines() if line.startswith("    # ")]
    assert max(len(line) for line in comment) <= 99
    assert sentence.rstrip() in " ".join(line.strip(" #") for line in stub.splitlines())


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


def test_a_student_bundle_has_stubs_alone(monkeypatch, tmp_path):
    said = sources.step_sentence("flash_forward", 3)
    for folder in ("labs", "chapters"):
        (tmp_path / folder).mkdir()
    monkeypatch.setattr(sources, "course_dir", lambda: tmp_path)
    assert "vector_scale" in sources.slugs()
    assert sources.unfilled_step("vector_scale", sources.stub_text("vector_scale")) == 1
    assert sources.step_sentence("flash_forward", 3) == said
    with pytest.raises(KeyError, match="this copy of the course has no solution of vector_scale"):
        sources.solution_text("vector_scale")


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
