"""What an author runs: weave, canonical notebooks, the quick gate, verify. Floor: front."""
