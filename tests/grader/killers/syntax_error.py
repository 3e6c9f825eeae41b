# Is no Python. Status: contract


def vector_scale(x, a)
    return x
