"""The capstone: a small GPT trained on one's own kernels, and what it measures. Floor: course."""
