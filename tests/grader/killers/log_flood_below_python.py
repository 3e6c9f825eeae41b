# Writes to file descriptor 1 without end. Status: timeout, crash
import os


def vector_scale(x, a):
    while True:
        os.write(1, b"x" * 100_000)
