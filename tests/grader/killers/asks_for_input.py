# Asks the learner something. Status: forbidden


def vector_scale(x, a):
    return input("which factor?")
