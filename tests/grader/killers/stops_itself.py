# Stops its own process. Status: timeout
import os
import signal


def vector_scale(x, a):
    os.kill(os.getpid(), signal.SIGSTOP)
