"""The only part of the recorder that touches Triton's private names."""
