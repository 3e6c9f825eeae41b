"""Kernels that chapters study, none of them an answer. Floor: core."""
