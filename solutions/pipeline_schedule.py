"""A producer and its consumers on one Hopper SM: who loads, computes and waits, and when."""


def place(tile, stages):
    """Where a tile of K or V lies, and the parity of the phase in which it comes there."""
    # 1. Slots are filled in a ring, round after round
    ### BEGIN SOLUTION 1: define slot of the tile, and phase: the parity of the rounds before it
    slot = tile % stages
    phase = tile // stages & 1  # 0 in the first round, 1 in the second, 0 again ...
    ### END SOLUTION
    return slot, phase


def producer(sm, n_tiles, stages):
    for tile in range(n_tiles):
        slot, phase = place(tile, stages)
        # 2. Load K and V, each as soon as its slot is empty
        ### BEGIN SOLUTION 2: wait until the slot is empty, load K; then the same for V
        yield sm.wait(sm.k_empty[slot], phase ^ 1)  # parity 1 of a new barrier is complete
        yield sm.load_k(tile, slot)
        yield sm.wait(sm.v_empty[slot], phase ^ 1)
        yield sm.load_v(tile, slot)
        ### END SOLUTION


def consumer(sm, w, n_tiles, stages):
    for tile in range(n_tiles + 1):  # one round more: the product with V is a tile behind
        slot, phase = place(tile, stages)
        last_slot, last_phase = place(tile - 1, stages)

        # 3. Wait for this warpgroup's turn; warpgroup 0 has the first one
        ### BEGIN SOLUTION 3: wait at sm.turn[w]; the very first wait of warpgroup 0 must pass
        yield sm.wait(sm.turn[w], tile & 1 ^ (w == 0))  # parity 1 passes at first, 0 does not
        ### END SOLUTION

        # 4. Start both products of the round
        ### BEGIN SOLUTION 4: when K is there, Q K of tile; when V is there, P V of tile - 1
        if tile < n_tiles:
            yield sm.wait(sm.k_full[slot], phase)
            yield sm.qk(tile, slot)
        if tile > 0:
            yield sm.wait(sm.v_full[last_slot], last_phase)
            yield sm.pv(tile - 1, last_slot)
        ### END SOLUTION

        # 5. When the scores are there, let the next warpgroup begin; when P V is, V goes back
        ### BEGIN SOLUTION 5: Q K is there: pass the turn, give K back, softmax; P V: give V back
        if tile < n_tiles:
            yield sm.wait_products(1 if tile > 0 else 0)  # P V may still run
        yield sm.arrive(sm.turn[(w + 1) % sm.consumers])
        if tile < n_tiles:
            yield sm.arrive(sm.k_empty[slot])
            yield sm.softmax(tile)  # while the tensor cores multiply with V
        yield sm.wait_products(0)
        if tile > 0:
            yield sm.arrive(sm.v_empty[last_slot])
        ### END SOLUTION

        # Given: nothing adds to the accumulator now, so it may be rescaled
        if tile < n_tiles:
            yield sm.rescale(tile)
