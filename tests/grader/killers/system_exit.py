# Ends the program politely. Status: crash
import sys


def vector_scale(x, a):
    sys.exit("done")
