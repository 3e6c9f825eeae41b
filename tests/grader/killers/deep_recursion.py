# Calls itself without end. Status: crash


def vector_scale(x, a):
    return vector_scale(x, a)
