# Prints without end. Status: timeout


def vector_scale(x, a):
    while True:
        print("x" * 10_000)
