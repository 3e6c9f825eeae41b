"""Contracts and references of the exercises: torch, any dtype, no Triton. Floor: core."""
