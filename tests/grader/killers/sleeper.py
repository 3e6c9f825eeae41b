# Waits without using the processor. Status: timeout
import time


def vector_scale(x, a):
    time.sleep(3600)
