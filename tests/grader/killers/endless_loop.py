# A loop that never ends. Status: timeout


def vector_scale(x, a):
    while True:
        pass
