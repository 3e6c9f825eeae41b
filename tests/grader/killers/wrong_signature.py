# Takes other arguments. Status: contract


def vector_scale(x, factor):
    return x
