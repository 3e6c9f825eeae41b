# A body that does nothing. Status: contract


def vector_scale(x, a):
    pass
