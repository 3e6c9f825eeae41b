# Leaves a grandchild behind and ends at once. Status: crash
import os
import signal
import time


def vector_scale(x, a):
    if os.fork() == 0:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        while True:
            time.sleep(0.01)
    os._exit(0)
