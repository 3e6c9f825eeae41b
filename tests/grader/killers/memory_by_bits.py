# Asks for memory bit by bit. Status: oom


def vector_scale(x, a):
    kept = []
    while True:
        kept.append(bytearray(1 << 24))
