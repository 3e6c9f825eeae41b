# Forks until it is stopped. Status: crash, timeout, oom
import os
import time


def vector_scale(x, a):
    for _ in range(2000):
        if os.fork() == 0:
            time.sleep(3600)
    time.sleep(3600)
