# Reads address 0. Status: crash
import ctypes


def vector_scale(x, a):
    ctypes.string_at(0)
