# Raises an exception. Status: crash


def vector_scale(x, a):
    return {}["missing key"]
