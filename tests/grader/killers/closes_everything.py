# Closes every file descriptor. Status: crash, forbidden
import os


def vector_scale(x, a):
    os.closerange(0, 4096)
