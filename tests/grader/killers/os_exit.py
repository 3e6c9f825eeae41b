# Ends the process with a code of its own. Status: crash
import os


def vector_scale(x, a):
    os._exit(3)
