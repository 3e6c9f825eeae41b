"""A producer and its consumers on one Hopper SM: who loads, computes and waits, and when."""


def place(tile, stages):
    """Where a tile of K or V lies, and the parity of the phase in which it comes there."""
    # 1. Slots are filled in a ring, round after round
    # Step 1: define slot of the tile, and phase: the parity of the rounds before it
    raise NotImplementedError("Step 1 is not written yet")
    return slot, phase


def producer(sm, n_tiles, stages):
    for tile in range(n_tiles):
        slot, phase = place(tile, stages)
        # 2. Load K and V, each as soon as its slot is empty
        # Step 2: wait until the slot is empty, load K; then the same for V
        raise NotImplementedError("Step 2 is not written yet")


def consumer(sm, w, n_tiles, stages):
    for tile in range(n_tiles + 1):  # one round more: the product with V is a tile behind
        slot, phase = place(tile, stages)
        last_slot, last_phase = place(tile - 1, stages)

        # 3. Wait for this warpgroup's turn; warpgroup 0 has the first one
        # Step 3: wait at sm.turn[w]; the very first wait of warpgroup 0 must pass
        raise NotImplementedError("Step 3 is not written yet")

        # 4. Start both products of the round
        # Step 4: when K is there, Q K of tile; when V is there, P V of tile - 1
        raise NotImplementedError("Step 4 is not written yet")

        # 5. When the scores are there, let the next warpgroup begin; when P V is, V goes back
        # Step 5: Q K is there: pass the turn, give K back, softmax; P V: give V back
        raise NotImplementedError("Step 5 is not written yet")

        # Given: nothing adds to the accumulator now, so it may be rescaled
        if tile < n_tiles:
            yield sm.rescale(tile)
