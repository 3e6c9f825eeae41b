# Defines another name. Status: contract


def vector_scales(x, a):
    return x
