# Leaves a child with a session of its own, which holds the pipes open. Status: contract
import os
import time


def vector_scale(x, a):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(3600)
        os._exit(0)
    return None
