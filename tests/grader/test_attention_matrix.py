"""What is said of a learner's own attention matrix."""

import torch

from flashlab.grader.attention_matrix import describe


def test_attention_matrix_names_a_key_that_must_stay_hidden():
    right = torch.eye(4)
    leak = right.clone()
    leak[1, 1], leak[1, 3] = 0.5, 0.5
    assert describe(right, right) == []
    assert describe(leak, right) == ["Query 1 gives weight 0.50 to key 3, which it must not see."]
