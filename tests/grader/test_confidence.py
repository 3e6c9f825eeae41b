"""How sure a named mistake is, where there are no outputs to compare."""

from flashlab.grader import diagnose
from tests.grader import tiny_attention as tiny
from tests.grader.test_diagnose import ENDLESS, broken


def test_a_message_alone_names_no_more_than_a_possible_mistake():
    """Two endless loops say the same: where the text shows no trace of the known one, perhaps."""
    runs = tiny.grade(broken(ENDLESS))
    said = [
        diagnose.diagnose(
            tiny.EXERCISE, runs, tiny.run_text, text=text, solution=tiny.SOLUTION
        ).mistake
        for text in (broken(ENDLESS), tiny.SOLUTION)  # the second one holds what was replaced
    ]
    assert [found["slug"] for found in said] == ["endless", "endless"]
    assert [found["confidence"] for found in said] == ["likely", "possible"]
