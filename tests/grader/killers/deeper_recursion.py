# Calls itself without end, with Python's limit raised. Status: crash, oom, timeout
import sys

sys.setrecursionlimit(1 << 30)


def vector_scale(x, a):
    return sorted([x], key=lambda y: vector_scale(y, a))
