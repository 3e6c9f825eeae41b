"""Correct in another style: a helper for a matrix product of any shape."""


def _product(m, n, k, dtype_bytes):
    return 2 * m * n * k, (m * k + k * n + m * n) * dtype_bytes


def attention_cost(B, H, N_q, N_k, D, *, dtype_bytes):
    heads = B * H
    softmax = (5 * N_q * N_k, 2 * N_q * N_k * dtype_bytes)
    steps = {
        "softmax": softmax,
        "pv": _product(N_q, D, N_k, dtype_bytes),
        "qk": _product(N_q, N_k, D, dtype_bytes),
    }
    return {name: tuple(heads * count for count in pair) for name, pair in steps.items()}
