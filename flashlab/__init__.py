"""flashlab: understand FlashAttention by writing it."""
