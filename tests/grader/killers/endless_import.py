# A loop that never ends, at the top level. Status: timeout
while True:
    pass


def vector_scale(x, a):
    return x
