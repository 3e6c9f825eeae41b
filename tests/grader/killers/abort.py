# Ends with SIGABRT. Status: crash
import os


def vector_scale(x, a):
    os.abort()
