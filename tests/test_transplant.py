"""One hole of a learner put into the solution, and the step that is not written yet."""

import pytest

from flashlab import sources
from tests.marked_sample import SAMPLE, filled

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
